"""Context of a page: model, texts, site, head, training step and cell, and how weights become colors.

In a link a site is ``c1`` (cross layer 1), a selected cell ``2.1`` (query 2, key 1), heads ``e0.1-e0.3`` (encoder layer
0 head 1, and 3), picked tokens ``q2-k5``, and a view ``words.hide.ab``: pieces merged, special tokens hidden, of a pair
only what text A sees of text B; or ``sentences``: their tokens merged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from weakref import WeakValueDictionary

import streamlit as st

from attnviz import analysis
from attnviz.analysis import views
from attnviz.analysis.views import SPECIAL, View
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.edits import BY_LETTER, Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence, Token
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.sources.estimate import Estimate
from attnviz.ui import cache
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import State, choice, coded, each, reader, session_setting, whole
from attnviz.ui.shared.state import control
from attnviz.ui.text import block_html, note

COMBINED = ("mean", "max", "min")
"""How all heads can be shown as one."""
DOMAINS = dict(zip(words.COLOR_RANGES, ("adapts", "log"), strict=True))
PAIRS = {"A to A": "aa", "A to B": "ab", "B to A": "ba", "B to B": "bb"}
"""How the link writes which text of a pair looks at which."""

_most_changed = cache.cached(analysis.most_changed)

Cell = tuple[int, int]
Pin = tuple[str, int]
"""A side ("query" or "key") and a position."""
Place = tuple[Site, int]
"""A site and a head of it."""


def site_text(site: Site) -> str:
    return f"{site.kind[0]}{site.layer}"


def place_text(place: Place) -> str:
    return f"{site_text(place[0])}.{place[1]}"


def place_of(match: Any) -> Place:
    """The head that three groups of a match name."""
    return Site(BY_LETTER[match[1]], int(match[2])), int(match[3])


def view_text(view: View) -> str:
    unit = f"parts{view.parts}" if view.parts else view.unit
    parts = (unit, view.special if view.special != SPECIAL[0] else "", PAIRS.get(view.pair, ""))
    return ".".join(filter(None, parts))


def _lacks_site(source: Source, site: Site | None) -> str:
    return "" if site in (None, *source.sites) else _what_there_is(source)


def lacks_head(source: Source, head: int | str | None) -> str:
    return _what_there_is(source) if isinstance(head, int) and head >= source.num_heads else ""


def lacks_place(source: Source, place: Place) -> str:
    return _lacks_site(source, place[0]) or lacks_head(source, place[1])


def _what_there_is(source: Source) -> str:
    sites = ", ".join(map(str, source.sites))
    return words.MODEL_HAS.format(sites=sites, heads=counted(source.num_heads, "head"))


def _lacks_step(source: Source, step: int | None) -> str:
    there = ", ".join(map(str, source.steps)) or "none"
    return "" if step in (None, *source.steps) else words.MODEL_KEPT.format(steps=there)


def _lacks_cell(sizes: tuple[int, int], cell: Cell | None) -> str:
    queries, keys = sizes
    there = cell is None or (cell[0] < queries and cell[1] < keys)
    return "" if there else words.PICTURE_HAS.format(queries=queries, keys=keys)


def _lacks_pin(sizes: tuple[int, int], pin: Pin) -> str:
    return _lacks_cell(sizes, (pin[1], 0) if pin[0] == "query" else (0, pin[1]))


def _view_of(match: Any) -> View:
    pair = next((pair for pair, letters in PAIRS.items() if letters == match[4]), "all")
    unit, special, parts = match[1], match[3] or SPECIAL[0], int(match[2] or 0)
    return View(unit == "words", special, pair, unit == "sentences", parts)


def _pin_of(match: Any) -> Pin:
    return {"q": "query", "k": "key"}[match[1]], int(match[2])


def _pins_text(pins: frozenset[Pin]) -> str:
    return "-".join(f"{end[0]}{position}" for end, position in sorted(pins, reverse=True))


PLACE = r"([edc])(\d{1,3})\.(\d{1,3})"
read_places = each(reader(PLACE, place_of, "e0.1-e0.3"), 2000)
_read_site = reader(r"([edc])(\d{1,3})", lambda m: Site(BY_LETTER[m[1]], int(m[2])), "e0, d1 or c1")
_read_head = reader(
    rf"\d{{1,3}}|{'|'.join(COMBINED)}",
    lambda m: int(m[0]) if m[0].isdigit() else m[0],
    words.NUMBER_OR.format(names=", ".join(COMBINED)),
)
_read_cell = reader(r"(\d{1,6})\.(\d{1,6})", lambda m: (int(m[1]), int(m[2])), "2.1")
_read_view = reader(
    rf"(words|sentences|parts(\d{{1,3}}))?\.?({'|'.join(SPECIAL[1:])})?\.?({'|'.join(PAIRS.values())})?",
    _view_of,
    "words.hide.ab",
    view_text,
)
_read_pins = each(reader(r"([qk])(\d{1,6})", _pin_of, "q2-k5"), 200)

SITE = coded("layer", None, site_text, _read_site, "model", lacks=_lacks_site, former=("site",))
SHOW = coded("head", None, str, _read_head, "model", lacks=lacks_head, former=("show",))
STEP = whole("step", None, 0, 999_999_999, "model", lacks=_lacks_step)
CELL = coded("cell", None, lambda cell: f"{cell[0]}.{cell[1]}", _read_cell, "text", lacks=_lacks_cell)
PINS = coded("pins", frozenset(), _pins_text, lambda text: frozenset(_read_pins(text)), "text", lacks=_lacks_pin)
QUERY = whole("query", None, 0, 999_999)
SENTENCE = whole("sentence", 1, 1, cache.MOST_SENTENCES)
ADAPTIVE = words.COLOR_RANGES[0]
COLORS = choice("colors", tuple(DOMAINS), ADAPTIVE, former={"0 to 1": ADAPTIVE, "0 to largest": ADAPTIVE})
VIEW = coded("view", View(), view_text, _read_view)
LEAST_PARTED = 100
"""Tokens from which a text can be seen in ten parts."""
MODULE = 14
"""Characters of a module's name in the choice of a layer."""
MOST_LISTED = 64
"""Tokens of a list to choose from: it is drawn anew at each click, closed, with all that is in it."""
REVS = session_setting("revs", {})
"""Clicks, by what was clicked."""


def is_dark() -> bool:
    return st.context.theme.type == "dark"


@dataclass(frozen=True, eq=False)
class ViewContext:
    """Context of a page: the attention that it shows.

    Attributes:
        source: the model.
        request: what is asked: sentences, and everything that is changed.
        sentence: which of the sentences, counted from 0.
        site: the attention call.
        head: by number, or the name of an aggregation.
        dark: the color scheme.
    """

    source: Source
    request: Request
    sentence: int
    site: Site
    head: int | str
    dark: bool = field(default_factory=is_dark)
    _runs: WeakValueDictionary[str, Record] = field(default_factory=WeakValueDictionary, repr=False)

    @property
    def edits(self) -> Edits:
        return self.request.edits

    @property
    def record(self) -> Record:
        """The run with the edits, from the cache: what a session holds of a page holds no record."""
        return self._run("record", self.request)

    @property
    def untouched(self) -> Record:
        """The run without edits."""
        return self._run("untouched", self.request.unchanged)

    def _run(self, name: str, request: Request) -> Record:
        """A run, looked for once while it is there: to be asked for costs 0.1 ms, and a page asks 60 times."""
        record = self._runs.get(name)
        if record is None:
            record = self._runs[name] = cache.record(self.source, request)
        return record

    @property
    def before(self) -> Record | None:
        """The run without edits, where there are any."""
        return self.untouched if self.edits != Edits() else None

    @property
    def run(self) -> tuple[Source, Request]:
        """Source and request of the record."""
        return self.source, self.request

    @property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of the queries and of the keys."""
        return self.record.tokens(self.site, sentence=self.sentence)

    def cut(self, side: int) -> Sentence:
        """Sentence that the queries (side 0) or the keys (1) are cut from."""
        return self.record.texts(self.site, sentence=self.sentence)[side]

    @property
    def number(self) -> int:
        """The head, or the first one where all are combined."""
        return self.head if isinstance(self.head, int) else 0

    @cached_property
    def cell(self) -> Cell | None:
        """The selected cell, if the picture has it."""
        return selected(self.record, self.site)

    @property
    def position(self) -> int:
        """Token to ask for a word at: the query of the cell, else `opening`, else the last token."""
        opening = self.opening if self.cell is None else None
        cell = self.cell if opening is None else (opening, 0)
        return asked_at(self.record, self.site, cell, self.sentence)

    @cached_property
    def opening(self) -> int | None:
        """Token of interest: after a change where it moved the prediction most, else where the head has its role.

        None where no token stands out.
        """
        if not self._predicts_words:
            return None
        return self.roles[1] if self.before is None else self.moved_most

    @property
    def moved_most(self) -> int | None:
        """After which token a change moved the prediction most, or in place of which; None where no number moved."""
        return _most_changed(self.untouched, self.record, sentence=self.sentence)

    @cached_property
    def roles(self) -> tuple[tuple[Behavior, ...], int | None]:
        """Known behaviors of the head, first the one on this text; and after which token it has that, if it does.

        Of a model that is still in training nothing is known.
        """
        source, record = self.source, self.untouched
        behaviors = source.card.behaviors_of(self.site, self.head) if source.card and source.step is None else ()
        if not (behaviors and self._predicts_words):
            return behaviors, None
        length = record.read[self.sentence].length
        there = [behavior.acts_at(record.prediction, length, sentence=self.sentence) for behavior in behaviors]
        first = next((i for i, position in enumerate(there) if position is not None), 0)
        return (behaviors[first], *behaviors[:first], *behaviors[first + 1 :]), there[first]

    @property
    def _predicts_words(self) -> bool:
        """Whether each token has a prediction of its own."""
        prediction = self.record.prediction
        return self.record.labels is None and prediction is not None and not prediction.written

    @property
    def prediction_position(self) -> int | None:
        """The token of `position`, where the prediction is one word after it or in place of it."""
        if not self._predicts_words or (
            analysis.fills_in(self.record) and not self.record.prediction.blanks[self.sentence]
        ):
            return None
        return self.position

    def cost(self, maps: int = 1, **part: slice) -> Estimate:
        """Cost of going through so many maps of this call, or through a part of each."""
        step = self.record.step(self.site)
        spans = {
            axis: range(*interval.indices(n)) for (axis, interval), n in zip(part.items(), step.shape[2:], strict=False)
        }
        return estimate.of_maps(step, maps, **spans)

    @property
    def drawn(self) -> dict[str, Any]:
        """Options of a picture of cells."""
        return {"sentence": self.sentence, "selected": self.cell, "rev": rev("cell")} | self.styled

    @property
    def styled(self) -> dict[str, Any]:
        """Options of every picture."""
        return {"dark": self.dark}


def asked_at(record: Record, site: Site, cell: Cell | None, sentence: int) -> int:
    """After which token a word is asked for, or in place of which."""
    looks = cell is not None and not (site.kind == "encoder" and record.targets)
    chosen = cell[0] if looks and cell[0] < len(record.read[sentence].tokens) else record.read[sentence].length - 1
    blanks = record.prediction.blanks[sentence] if analysis.fills_in(record) else ()
    return blanks[0] if blanks and chosen not in blanks else chosen


def opening_site(source: Source) -> Site:
    """First site to show: the one that the model's card opens with, else the first."""
    opens = source.card.opens[0] if source.card else None
    return opens if opens in source.sites else source.sites[0]


def opening_head(source: Source) -> int:
    """First head to show: the one that the model's card opens with, else the first."""
    head = source.card.opens[1] if source.card else 0
    return head if head < source.num_heads else 0


def site(source: Source, default: Site | None = None) -> Site:
    """The attention call to look at."""
    current = state.get(SITE)
    chosen = current if current in source.sites else default or opening_site(source)
    if current is None and (state.get(CELL) or state.get(PINS)):  # a cell is of a site, and each page begins at its own
        state.put(SITE, chosen)

    names = {option: _short(source.site_name(option)) for option in source.sites}
    options = {"format_func": names.__getitem__, "width": 160 if max(map(len, names.values())) < 18 else 208}
    step = partial(moved, chosen)
    control(st.selectbox, words.LAYER, SITE, source.sites, shown=chosen, lead="", step=step, **options)
    return chosen


def moved(chosen: Site, now: State, site: Site) -> State:
    """From one site to another: what was selected stands for other tokens at another kind of attention."""
    return (now if site.kind == chosen.kind else now.without("text")).put(SITE, site)


def _short(name: str) -> str:
    """The name of a site with as much of its module's as there is room for, from the end."""
    site, dot, module = name.partition(" · ")
    if not dot:
        return site
    parts = module.split(".")
    while len(".".join(parts)) > MODULE and len(parts) > 1:
        parts = parts[1:]
    end = ".".join(parts)
    return f"{site.replace(' layer ', ' ')}{dot}{'' if end == module else '…'}{end}"


def look_at(site: Site, head: int) -> None:
    """Show a site, and one head of it."""
    state.put(SITE, site)
    state.put(SHOW, head)


def sentence(lines: tuple[str, ...]) -> int:
    """The sentence of the batch to look at, counted from 0."""
    if state.get(SENTENCE) > len(lines):
        state.put(SENTENCE, 1)
    if len(lines) > 1:
        options = {"format_func": lambda number: words.SENTENCE_NUMBER.format(number=number), "width": 130, "lead": ""}
        control(st.selectbox, words.WHICH_SENTENCE, SENTENCE, range(1, len(lines) + 1), **options)
    return state.get(SENTENCE) - 1


def focus(source: Source, *, combined: bool = True) -> int | str:
    """The head to look at, by number, or where that can be chosen the name of an aggregation."""
    options = [*range(source.num_heads), *(COMBINED if combined else ())]
    chosen = state.one_of(SHOW, options, opening_head(source))

    def named(head: int | str) -> str:
        return words.ALL_COMBINED.format(how=head) if head in COMBINED else words.HEAD_NUMBER.format(head=head)

    control(st.selectbox, words.HEAD, SHOW, options, shown=chosen, lead="", format_func=named, width=130)
    return chosen


def at_step(source: Source) -> Source:
    """The same model as it was after the training step that is chosen; as it is where no steps were kept."""
    chosen = state.get(STEP)
    if chosen not in source.steps or chosen == source.steps[-1]:
        return source
    try:
        return cache.source(source.id, chosen)
    except AttnvizError as error:
        note(words.AS_TRAINED.format(why=error))
        return source


def step_in_words(step: int, last: int) -> str:
    """A step of the training, and whether it is the first or the last: "4,500 (final)"."""
    if step == last:
        return words.FINAL.format(step=step)
    return (words.STEP_NUMBER if step else words.UNTRAINED).format(step=step)


def query(
    title: str, tokens: tuple[Token, ...], cell: Cell | None = None, *, opening: int | None = None, **behavior: Any
) -> int:
    """The token whose row is shown: that of a cell, else the chosen one, else `opening`, else the last one typed."""
    typed = [i for i, token in enumerate(tokens) if not token.special]
    if opening is None:
        opening = typed[-1] if typed else 0
    chosen = cell[0] if cell else state.one_of(QUERY, range(len(tokens)), opening)
    names = [f"{i} · {visible_text(token.text)}" for i, token in enumerate(tokens)]
    behavior = {"lead": title} | behavior | {"shown": chosen}
    if len(tokens) <= MOST_LISTED:
        control(st.selectbox, title, QUERY, range(len(tokens)), format_func=names.__getitem__, width=170, **behavior)
    else:
        control(st.number_input, title, QUERY, 0, len(tokens) - 1, required=True, width=130, **behavior)
        st.html(block_html(visible_text(tokens[chosen].text), "quiet"), width="content")
    return chosen


def display(context: ViewContext) -> None:
    """The controls of how weights become colors, and of what of the map is seen."""
    control(st.segmented_control, words.COLORS, COLORS, DOMAINS)
    _choose_view(context)


def shown_as(context: ViewContext) -> dict[str, object]:
    """How weights become colors, and what of the map is seen."""
    return {"domain": DOMAINS[state.get(COLORS)], "view": _view(context)}


def _choose_view(context: ViewContext) -> None:
    """The controls of what is seen: those alone that mean something for these tokens."""
    if len(units := _units(context)) > 1:
        _choose_unit(units)
    if _has_special(context):
        special = VIEW.part("special")
        options = {"shown": state.get(special) == SPECIAL[0], "read": lambda is_shown: SPECIAL[not is_shown]}
        control(st.toggle, words.SPECIAL_TOKENS, special, **options)
    if _is_pair(context):
        control(st.segmented_control, words.PAIR, VIEW.part("pair"), tuple(views.PAIRS))


def _has_special(context: ViewContext) -> bool:
    return any(token.special for part in context.tokens for token in part)


def _is_pair(context: ViewContext) -> bool:
    return all(any(token.segment for token in part) for part in context.tokens)


def _view(context: ViewContext) -> View:
    """The chosen view, as far as it means something for these tokens."""
    chosen = state.get(VIEW)
    unit = UNITS[_unit(units)] if len(units := _units(context)) > 1 else {}
    special = {"special": chosen.special} if _has_special(context) else {}
    pair = {"pair": chosen.pair} if _is_pair(context) else {}
    try:
        view = View(**unit, **special, **pair)
        views.see(context.record, context.site, sentence=context.sentence, view=view)
    except InputError as error:  # a text of special tokens alone
        note(str(error), "notice")
        return View()
    return view


_NO_UNIT: dict[str, Any] = {"words": False, "sentences": False, "parts": 0}
UNITS = {
    words.TOKENS: _NO_UNIT,
    words.WORDS: _NO_UNIT | {"words": True},
    words.SENTENCES: _NO_UNIT | {"sentences": True},
    words.TEN_PARTS: _NO_UNIT | {"parts": 10},
}
"""Units of a row and a column, and how a view says them."""


def _units(context: ViewContext) -> list[str]:
    """Units that these tokens have for a row or a column."""
    joined = any(token.joined for part in context.tokens for token in part)
    several = any(context.cut(side).is_several for side in (0, 1))
    parts = min(map(len, context.tokens)) >= LEAST_PARTED
    there = {words.TOKENS: True, words.WORDS: joined, words.SENTENCES: several, words.TEN_PARTS: parts}
    return [unit for unit, is_there in there.items() if is_there]


def _unit(there: list[str]) -> str:
    """The chosen unit, where these tokens have it."""
    view, chosen = state.get(VIEW), words.TOKENS
    if view.parts:
        chosen = words.TEN_PARTS
    elif view.sentences:
        chosen = words.SENTENCES
    elif view.words:
        chosen = words.WORDS
    return chosen if chosen in there else words.TOKENS


def _choose_unit(there: list[str]) -> None:
    def step(now: State, unit: str) -> State:
        return now.put(VIEW, replace(now[VIEW], **UNITS[unit]))

    options = {"shown": _unit(there), "step": step, "help": words.MERGED}
    control(st.segmented_control, words.ROWS_AND_COLUMNS, VIEW.part("words"), there, **options)


def clicks(
    what: str, step: Callable[[dict], None], gone: Callable[[], None] = lambda: None
) -> Callable[[dict | None], None]:
    """Actions of a click on a picture, once, and of Escape."""

    def clicked(point: dict | None) -> None:
        if point is None:
            gone()
        elif int(point.get("rev", -1)) == rev(what):  # else it is an older one that the browser repeats
            state.put(REVS, state.get(REVS) | {what: rev(what) + 1})
            step(point)

    return clicked


def rev(what: str) -> int:
    """How many clicks there were: carried in a picture's data, so that the same place can be clicked again."""
    return state.get(REVS).get(what, 0)


def toggle_cell(cell: Cell | None) -> None:
    """Select a cell; the selected one is let go."""
    state.put(CELL, None if cell == state.get(CELL) else cell)


def cell_of(point: dict) -> Cell:
    return int(point["query"]), int(point["key"])


def let_go() -> None:
    state.put(CELL, None)


select = clicks("cell", lambda point: toggle_cell(cell_of(point)), let_go)
"""Select the cell that was clicked; a second click, or Escape, clears it."""

select_head = clicks("head", lambda point: state.put(SHOW, int(point["head"])))
"""Show the head that was clicked."""


def selected(record: Record, site: Site) -> Cell | None:
    """The selected cell, if the picture has it."""
    queries, keys = record.step(site).shape[2:]
    if state.drop_missing("text", (queries, keys)):
        st.rerun()
    cell = state.get(CELL)
    return cell if cell and cell[0] < queries and cell[1] < keys else None
