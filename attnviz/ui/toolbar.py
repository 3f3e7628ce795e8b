"""The second row of every page: layer, head, mask and undo, with a chip for each edit; and the `Context` of a page."""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import analysis, link
from attnviz.analysis import views
from attnviz.analysis.sentences import quoted
from attnviz.analysis.views import View
from attnviz.core.amounts import counted, percent
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, TooLong
from attnviz.core.masks import composable, initial_mask
from attnviz.core.masks.text import Entry, Stack, stack_from_text
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Token
from attnviz.link import COMBINED, Choices
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.sources.estimate import Estimate
from attnviz.tokenizers.vocabulary import UNKNOWN
from attnviz.ui import cache, edits
from attnviz.ui.request import control, now, put, redo, session, show_link_errors, undo
from attnviz.ui.text import note

RULES = {rule.keyword: rule for rule in composable()}
"""Every mask rule by its keyword in the text of masks."""
USUAL = ("causal", "window", "prefix")
"""Rules that the menu offers as pills; every other rule can be typed."""
ROW = {"horizontal": True, "vertical_alignment": "center", "gap": "xsmall"}
CLASS_TOKEN = "[CLS]"
"""First token of models that classify a text or a picture by the vector of this token."""
EXAMPLE = re.compile(r" \(“[^)]*”\)")
"""Pattern of an example in the description of a head; its words may be missing from the text of the page."""
DOMAINS = {"adaptive": "adapts", "log": "log"}
"""Names of color ranges in figures, by their names in the link."""


@dataclass(frozen=True, eq=False)
class Context:
    """Model, text, layer and head that a page shows.

    Attributes:
        source: the model.
        request: the texts with their targets, pictures and answer, and the edits of the model.
        sentence: index of the text, from 0.
        site: the layer.
        head: index of a head, or one of `COMBINED`, such as "mean", for all heads together.
        view: which tokens are merged or hidden.
        dark: whether the page has the dark theme.
        export: container at the end of the row for the export menu.
        _runs: runs that other objects still use, by request; an open page must not keep a run in memory.
    """

    source: Source
    request: Request
    sentence: int
    site: Site
    head: int | str
    view: View
    dark: bool
    export: DeltaGenerator
    _runs: WeakValueDictionary[Request, Record] = field(default_factory=WeakValueDictionary, init=False, repr=False)

    @property
    def record(self) -> Record:
        """The run with the edits, from the cache of records."""
        return self._run(self.request)

    @property
    def before(self) -> Record | None:
        """The run without edits; None if nothing is edited."""
        return self._run(self.request.unchanged) if self.edits != Edits() else None

    @property
    def original(self) -> Record:
        """The run without edits, even if nothing is edited."""
        return self.record if self.before is None else self.before

    def _run(self, request: Request) -> Record:
        """Return the run of the model on a request: the run that is still in use, else the one in the cache."""
        record = self._runs.get(request)
        if record is None:
            record = self._runs[request] = cache.record(self.source, request)
        return record

    @property
    def edits(self) -> Edits:
        """Edits of the model."""
        return self.request.edits

    @property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Tokens of the queries and of the keys."""
        return self.record.tokens(self.site, sentence=self.sentence)

    @property
    def cell(self) -> tuple[int, int] | None:
        """The selected (query, key); None if no cell is selected or it is outside of the map."""
        queries, keys = map(len, self.tokens)
        cell = now()["cell"]
        return cell if cell and cell[0] < queries and cell[1] < keys else None

    @cached_property
    def behaviors(self) -> tuple[Behavior, ...]:
        """Measured behaviors of the head, first those visible on this text; empty for an earlier training step."""
        if self.source.card is None or self.source.step is not None:
            return ()
        behaviors = self.source.card.behaviors_of(self.site, self.head)
        visible = tuple(behavior for behavior in behaviors if self.example_position(behavior) is not None)
        return visible + tuple(behavior for behavior in behaviors if behavior not in visible)

    @cached_property
    def knows_words(self) -> bool:
        """Whether the model knows at least one word of the text; if not, its prediction means nothing."""
        tokens = self.record.read[self.sentence].tokens
        words = [token.text for token in tokens if not token.special and not token.box]  # a box: a patch of a picture
        return not words or not all(word.endswith(UNKNOWN) for word in words)

    @cached_property
    def role(self) -> str:
        """Sentence with the head's measured behavior, its rate and an example in this text; empty if not measured."""
        if not self.behaviors:
            return ""
        behavior, facts = self.behaviors[0], []
        if behavior.rates:
            rate = behavior.rates[behavior.heads.index(self.head)]
            facts.append(f"{percent(rate)} of cases")
        if (position := self.example_position(behavior)) is not None:
            view = views.see(self.original, self.site, sentence=self.sentence)
            _, key = view.strongest_cell(self.head, position)
            facts.append(f"here {quoted(self.tokens[1][key].text)}")
        evidence = f" ({'; '.join(facts)})" if facts else ""
        model = "" if self.before is None else ", in the original model"
        return f"This head {without_example(behavior)}{evidence}{model}."

    def example_position(self, behavior: Behavior) -> int | None:
        """Position of the text at which a behavior is most visible; None if it is not visible on this text.

        A behavior is visible where the original model predicts one of the words `behavior.next`, and most visible where
        this prediction is most probable.
        """
        if not self._predicts_words:
            return None
        prediction, sentence = self.original.prediction, self.sentence
        words = prediction.words(sentence=sentence)[: self.original.read[sentence].length]
        probabilities = {}
        for position, word in enumerate(words):
            if word in behavior.next:
                _, probabilities[position] = prediction.most_probable(position, 1, sentence=sentence)[0]
        return max(probabilities, key=probabilities.get, default=None)

    @cached_property
    def most_changed_position(self) -> int | None:
        """Position where the edits changed the prediction most; None if nothing is edited or nothing changed."""
        if self.before is None or not self._predicts_words:
            return None
        return analysis.most_changed(self.before, self.record, sentence=self.sentence)

    @cached_property
    def position(self) -> int | None:
        """The position whose prediction is shown; None if the model predicts no words.

        It is the query of the selected cell; without a cell, the position where the edits changed the prediction most
        or, without edits, where the head's known behavior is visible; else the last token. If the model fills in
        blanks, it is a blank.
        """
        if not self._predicts_words:
            return None
        text_read, position = self.record.read[self.sentence], None
        rows_predict = self.site.kind != "encoder" or not self.record.targets
        if self.cell and rows_predict:
            position, _ = self.cell
        elif self.before is not None:
            position = self.most_changed_position
        elif self.behaviors:
            position = self.example_position(self.behaviors[0])
        if position is None or position >= len(text_read.tokens):
            position = text_read.length - 1
        if analysis.fills_in(self.record):
            blanks = self.record.prediction.blanks[self.sentence]
            return position if position in blanks else next(iter(blanks), None)
        return position

    @property
    def _predicts_words(self) -> bool:
        """Whether the model predicts a word at each position."""
        prediction = self.record.prediction
        return self.record.labels is None and prediction is not None and not prediction.written

    @cached_property
    def outlined(self) -> tuple[int, int] | None:
        """The selected cell, else the strongest cell of the predicting row or of the map; None if the map is hidden."""
        if self.cell is not None:
            return self.cell
        view = views.see(self.record, self.site, sentence=self.sentence, view=self.view, **self.window)
        if not len(view.queries) or not len(view.keys):
            return None
        rows_predict = self.site.kind != "encoder" or not self.record.targets
        row = self.position if rows_predict else None
        if row is None and self.record.labels is not None and self.tokens[0][0].text == CLASS_TOKEN:
            row = 0  # the label of the text is predicted at the class token
        return view.strongest_cell(self.head, row)

    @property
    def window(self) -> dict[str, slice]:
        """Slices of the rows and columns of the zoomed part; empty for the whole map."""
        queries, keys = map(len, self.tokens)
        if not now()["zoom"]:
            return {}
        top, bottom, left, right = now()["zoom"][-1]
        if top >= queries or left >= keys:
            return {}
        return {"rows": slice(top, min(bottom, queries - 1) + 1), "columns": slice(left, min(right, keys - 1) + 1)}

    def cost(self, maps: int = 1, **part: slice) -> Estimate:
        """Estimated cost of computing this many maps of the layer, or of each only the part of `rows` and `columns`."""
        step = self.record.step(self.site)
        _, _, queries, keys = step.shape
        sizes = {"rows": queries, "columns": keys}
        ranges = {axis: range(*positions.indices(sizes[axis])) for axis, positions in part.items()}
        return estimate.of_maps(step, maps, **ranges)

    @property
    def options(self) -> dict:
        """Arguments that every figure of this head takes."""
        return {"sentence": self.sentence, "dark": self.dark, "view": self.view, "domain": DOMAINS[now()["colors"]]}


def without_example(behavior: Behavior) -> str:
    """Return the description of a behavior, such as "looks at the previous token", without its example words."""
    return EXAMPLE.sub("", behavior.does.rstrip(". "))


def toolbar(source: Source, request: Request) -> Context:
    """Draw the row of controls and the chips of the edits; return the model, text, layer and head for the page."""
    request = drop_missing(source, request)
    with st.container(**ROW, key="toolbar"):
        _layer(source)
        _head(source)
        if (count := len(request.texts)) > 1:
            options = {"visible": False, "format_func": "Text {}".format, "width": 110}
            control(st.selectbox, "Which text", "sentence", range(1, count + 1), **options)
        _mask_menu(source, _site_and_head(source)[0])
        _more_menu(source)
        options = {"type": "tertiary", "icon": ":material/undo:", "help": "Undo (Ctrl+Z)"}
        st.button("", key="Undo", on_click=undo, disabled=not session().past, **options)
        options = {"type": "tertiary", "icon": ":material/redo:", "help": "Redo (Ctrl+Shift+Z)"}
        st.button("", key="Redo", on_click=redo, disabled=not session().future, **options)
        _link_menu()
        export = st.container(width="content", key="export")
    with st.container(**ROW, key="changes"):
        edits.chips(source)
    show_link_errors()
    return context_of(source, request, export)


def context_of(source: Source, request: Request, export: DeltaGenerator) -> Context:
    """Make the context of the chosen model, text, layer and head; edits that are not possible are left out."""
    try:
        chosen_edits = edits.of(source)
    except AttnvizError as error:
        note(str(error))
        chosen_edits = Edits()
    request = replace(request, edits=chosen_edits)
    site, head = _site_and_head(source)
    sentence, is_dark = now()["sentence"] - 1, st.context.theme.type == "dark"
    return Context(source, request, sentence, site, head, now()["view"], is_dark, export)


def drop_missing(source: Source, request: Request) -> Request:
    """Clear choices that are not possible for the model or the text, such as a missing layer, each with a message.

    Returns:
        The request, without its answer if that is not possible.
    """
    current, choices, messages = session(), now(), []
    heads, layers = range(source.num_heads), ", ".join(map(str, source.sites))
    available = f"{source.title or source.id} has {layers}, each with {source.num_heads} heads."
    if choices["layer"] not in (None, *source.sites):
        messages.append(f"The link asks for {choices['layer']}: {available}")
        choices = choices.put(layer=None)
    if isinstance(choices["head"], int) and choices["head"] not in heads:
        messages.append(f"The link asks for head {choices['head']}: {available}")
        choices = choices.put(head=None)
    heads_off = {(site, head) for site, head in choices["heads_off"] if site in source.sites and head in heads}
    if missing := choices["heads_off"] - heads_off:
        names = ", ".join(site.head(head) for site, head in sorted(missing))
        messages.append(f"The link asks for {names} switched off: {available}")
        choices = choices.put(heads_off=frozenset(heads_off))
    if missing := [head for head in choices["also"] if head not in heads]:
        messages.append(f"The link asks for head {missing[0]}: {available}")
        choices = choices.put(also=tuple(head for head in choices["also"] if head in heads))
    if choices["sentence"] > (count := len(request.texts)):
        if current.choices_from_link.get("sentence") == choices["sentence"]:  # else a text was removed since
            messages.append(f"The link asks for text {choices['sentence']}: the page has {counted(count, 'text')}.")
        choices = choices.put(sentence=1)
    if request.answer:
        try:
            cache.sentences(source, request)
        except TooLong:  # the page says so itself
            pass
        except InputError as error:
            messages.append(f"The answer in the link was left out: {error}")
            choices, request = choices.put(answer=()), replace(request, answer=())
    current.choices, current.link_errors = choices, (*current.link_errors, *messages)
    return request


def drop_outside(context: Context) -> None:
    """Clear a selected cell, words and zoomed parts that are outside of the map, with a message if a link set them."""
    current, choices = session(), now()
    queries, keys = map(len, context.tokens)
    sizes = {"query": queries, "key": keys}
    inside = {
        "cell": context.cell,
        "pins": frozenset((side, position) for side, position in choices["pins"] if position < sizes[side]),
        "zoom": tuple(part for part in choices["zoom"] if part[0] < queries and part[2] < keys),  # first row and column
    }
    titles = {"cell": "a cell", "pins": "a word", "zoom": "a part"}
    for name, value in inside.items():
        is_from_link = current.choices_from_link.get(name) == choices[name]
        if choices[name] != value and is_from_link:
            size = f"{counted(queries, 'row')} and {counted(keys, 'column')}, counted from 0"
            with current.notices or st.container():
                note(f"The link asks for {titles[name]} outside of this map, which has {size}.", "notice")
    current.choices = choices.put(**inside)


def _site_and_head(source: Source) -> tuple[Site, int | str]:
    """Return the chosen site and head; by default those that the model's card names, else the first ones."""
    site, head = source.card.opens if source.card else (source.sites[0], 0)
    if site not in source.sites:
        site = source.sites[0]
    head = min(head, source.num_heads - 1) if now()["head"] is None else now()["head"]
    return now()["layer"] or site, head


def _layer(source: Source) -> None:
    """Draw the choice of a layer; another kind of attention clears the selection, as its tokens differ."""
    current, _ = _site_and_head(source)
    longest = max(len(source.site_name(site)) for site in source.sites)
    text_width = 60 + 8 * longest  # in pixels: 60 for the frame of the box, and 8 for each character

    def with_layer(choices: Choices, site: Site) -> Choices:
        if site.kind != current.kind:
            choices = choices.put(cell=None, pins=frozenset(), zoom=())
        return choices.put(layer=site)

    options = {"value": current, "apply": with_layer, "visible": False, "format_func": source.site_name}
    control(st.selectbox, "Layer", "layer", source.sites, width=min(max(190, text_width), 420), **options)


def _head(source: Source) -> None:
    """Draw the choice of a head, or of a way to combine all heads, such as their mean."""
    _, current = _site_and_head(source)
    names = {head: f"Head {head}" for head in range(source.num_heads)}
    names |= {way: f"All heads: {way}" for way in COMBINED}
    control(st.selectbox, "Head", "head", [*names], value=current, visible=False, format_func=names.get, width=130)


def _link_menu() -> None:
    """Draw the menu with the link to the current choices, to copy."""
    popover = st.popover("Link", icon=":material/link:", on_change="rerun", key="link menu")
    if not popover.open:
        return
    with popover:
        address = f"{st.context.url or ''}?{urlencode(link.write(now()))}"
        st.code(address, None, wrap_lines=True, width=480)
        if names := link.too_long(now()):
            note(f"Too long for a link, and left out of it: {', '.join(names)}.", "notice")


def _mask_menu(source: Source, site: Site) -> None:
    """Draw the menu of the mask and of the score settings, which apply to the layer `site` or to every layer."""
    stack = now()["mask"] or Stack()
    popover = st.popover("Mask", on_change="rerun", key="mask menu", disabled=bool(source.read_only))
    if not popover.open:
        return
    with popover:
        _rules(source, stack)
        text = stack.text if stack.entries else ""
        control(st.text_input, "As text", "mask", value=text, apply=_set_mask, part="text")
        if refused := session().memory.pop("mask refused", ""):
            note(refused)
        control(st.toggle, "Built-in mask", "own_mask")
        if stack.entries and any(site.kind == "cross" for site in source.sites):
            control(st.toggle, "Also on cross-attention", "cross", value=edits.of(source).mask_cross)
        _scores(site)


def _scores(site: Site) -> None:
    """Draw the controls of temperature and scale, for the layers with an earlier change, else for the layer `site`."""
    is_changed = now()["temperature"] != 1 or not now()["scaled"]
    changed_site = now()["scored"]  # None: in every layer if `is_changed`, else in none
    in_every_layer = is_changed and changed_site is None
    target = None if in_every_layer else (changed_site or site)

    def with_score_setting(name: str, choices: Choices, value: float | bool) -> Choices:
        return choices.put(scored=target, **{name: value})

    where = "every layer" if target is None else str(target)
    with_temperature = partial(with_score_setting, "temperature")
    control(st.slider, f"Temperature in {where}", "temperature", 0.1, 5.0, apply=with_temperature)
    control(st.toggle, f"Divide by √dₖ in {where}", "scaled", apply=partial(with_score_setting, "scaled"))
    if is_changed:
        options = {"value": in_every_layer, "apply": lambda choices, on: choices.put(scored=None if on else site)}
        control(st.toggle, "In every layer", "scored", part="everywhere", **options)


def _rules(source: Source, stack: Stack) -> None:
    """Draw the common rules as pills; a pill adds or removes its rule."""
    active = [entry.mask.keyword for entry in stack.entries if entry.on]

    def with_chosen_rules(choices: Choices, chosen: list[str]) -> Choices:
        """Remove rules of `USUAL` that are not chosen, add those that are newly chosen, and keep all other rules."""
        removed = {*USUAL} - {*chosen}
        entries = [entry for entry in stack.entries if entry.mask.keyword not in removed]
        for name in chosen:
            if name not in active:
                rule = initial_mask(RULES[name], 0, ())
                entries.append(Entry(rule, rule.join))
        return choices.put(mask=Stack(tuple(entries)) if entries else None)

    options = {"value": [name for name in USUAL if name in active], "apply": with_chosen_rules, "wrap": True}
    control(st.pills, "Rules", "mask", USUAL, part="rules", selection_mode="multi", **options)


def _set_mask(choices: Choices, text: str) -> Choices:
    """Return the choices with the mask written in `text`; if that is invalid, the old ones, and the menu says why."""
    try:
        return choices.put(mask=stack_from_text(text) if text.strip() else None)
    except AttnvizError as error:
        session().memory["mask refused"] = str(error)
        return choices


def _more_menu(source: Source) -> None:
    """Draw the menu of rarely used settings: colors, training step, tokens or words."""
    popover = st.popover("More", on_change="rerun", key="more")
    if not popover.open:
        return
    with popover:
        control(st.segmented_control, "Colors", "colors", ("adaptive", "log"), required=True)
        training_step(source)
        units = {"tokens": View(), "words": View(words=True)}
        unit = "words" if now()["view"].words else "tokens"
        options = {"value": unit, "apply": lambda choices, name: choices.put(view=units[name]), "required": True}
        control(st.segmented_control, "Rows and columns", "view", [*units], **options)


def training_step(source: Source) -> None:
    """Draw the choice of a training step if the model has several; the last step is the finished model."""
    if len(source.steps) < 2:
        return
    last = source.steps[-1]
    value = now()["step"] if now()["step"] in source.steps else last
    options = {"value": value, "apply": lambda choices, step: choices.put(step=None if step == last else step)}
    control(st.select_slider, "Training step", "step", source.steps, **options)


def select(point: dict) -> None:
    """Select the clicked cell, or clear the selection if the cell was selected."""
    cell = int(point["query"]), int(point["key"])
    put(cell=None if now()["cell"] == cell else cell)
