"""The Compare page: predictions, maps and difference of two runs A and B, and activation patching.

A and B differ in one choice, such as the text. In the link, `b` holds the choices of B, and its `part` names the one
that differs: "text", "model", "head", "step", or "original", the model without edits. All other choices are A's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields

import streamlit as st
import torch

from attnviz import analysis, api, figures
from attnviz.analysis import sentences
from attnviz.analysis.align import SAME, AlignedPair, Side, beside, compare_in_tiles, first_changed, in_decoder
from attnviz.analysis.heads import farthest
from attnviz.charts.axes import size_beside
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence
from attnviz.figures import Figure
from attnviz.link import NAMES, Choices, head_text
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.ui import budget, cache, export_menu, inputs, model_loading, predictions, runs
from attnviz.ui.pages.compare import patching
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import control, now, put
from attnviz.ui.text import block, heading, in_words, note, quiet
from attnviz.ui.toolbar import Context, toolbar

KINDS = {
    "text": "another text",
    "head": "another head",
    "model": "another model",
    "step": "another training step",
    "original": "the model without changes",
}
"""Choices in which B may differ from A, by their names in the link."""
TEXTLESS = ("picture", "sound")
"""Kinds of input of models that read no text."""
LONGEST = 2_000
"""Maximum number of characters of B's text."""
SWAPS = (("it", "she"), ("she", "it"), ("he", "it"), ("cat", "dog"), ("dog", "cat"), ("black", "red"), ("red", "black"))
"""Replacements of one word of A's text, to make a first text of B."""


@dataclass(frozen=True)
class ComparedSide(Context):
    """One side of the comparison, A or B.

    Attributes:
        compared_position: position whose prediction is compared; None for the default position of the context.
        decoder_input: tokens that the decoder reads instead of its own output; empty for its own output.
        run_before: run of this side without patched activations; None if nothing is patched.
    """

    compared_position: int | None = None
    decoder_input: tuple[Sentence, ...] = ()
    run_before: Record | None = None

    @property
    def run(self) -> Record:
        """The cached run whose maps are compared."""
        if not self.decoder_input:
            return self.record
        source, texts, edits = self.source, self.record.sentences, self.edits
        cost = budget.cost(source, texts, edits)
        return cache.result_of(_run, source, texts, edits, self.decoder_input, cost=cost, runs_model=source)

    @property
    def before(self) -> Record | None:
        """The run without patched activations, whose prediction the sentence about this side names as "before"."""
        return self.run_before

    @property
    def position(self) -> int | None:
        """Position whose prediction is compared: `compared_position`, or the last token of a shorter text."""
        position = super().position
        if position is None or self.compared_position is None or analysis.fills_in(self.record):
            return position  # a model that fills in blanks (BERT) shows the prediction of its own blank
        return min(self.compared_position, self.record.read[self.sentence].length - 1)


def page(source: Source, request: Request) -> None:
    """Draw the page."""
    context = toolbar(source, request)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="b"):
        kind, choices_of_b = _choose_b(context)
        b = None
        try:
            b = _side(context, kind, choices_of_b)
        except AttnvizError as error:
            note(str(error))
    compared: dict[str, Figure] = {}
    if b is not None:
        with runs.part():
            compared = _comparison(context, b)
        if patching.is_possible(context, b):
            patching.panel(context, b)
    if compared or b is None:
        with runs.part():
            _different_heads(context)
    if compared:
        with context.export:
            export_menu.menu(context, compared, "compare")


def _choose_b(context: Context) -> tuple[str, Choices]:
    """Draw the choice of what differs between A and B, one of `KINDS`; return its name and B's choices."""
    kinds, b = _kinds(context), now()["b"]
    kind = None if b is None else _kind_of(b, kinds)
    if kind is not None and kind not in kinds:
        reason = "nothing is changed" if kind == "original" else f"{context.source.name} has no other"
        note(f"B cannot be {KINDS.get(kind, quoted(kind))}: {reason}. B is {KINDS[_default_kind(context)]}.", "notice")
    if kind not in kinds:
        kind = _default_kind(context)
        b = _first_b(context, kind)

    def with_kind(choices: Choices, kind: str) -> Choices:
        return choices.put(b=_first_b(context, kind))

    options = {"value": kind, "apply": with_kind, "format_func": lambda kind: f"B: {KINDS[kind]}", "width": 250}
    return control(st.selectbox, "Compare with", "b", kinds, part="kind", visible=False, **options), b


def _kind_of(b: Choices, kinds: list[str]) -> str:
    """Return the kind of difference that B's choices name; else the first of `KINDS` that B sets, or a default."""
    if b["part"]:
        return b["part"]
    default = "original" if "original" in kinds else "model"  # B sets nothing: links omit the default model
    return next((name for name in KINDS if name in b.chosen), default)


def _kinds(context: Context) -> list[str]:
    """Return the kinds of difference that are possible for this model and these choices."""
    impossible = {
        "text": bool(context.source.one_run) or context.source.reads not in ("text", "both"),
        "step": len(context.source.steps) < 2,
        "original": context.edits == Edits(),
        "model": not _other_models(context),
    }
    return [kind for kind in KINDS if not impossible.get(kind)]


def _default_kind(context: Context) -> str:
    """Return the default kind of difference, the most informative one for this model."""
    kinds = _kinds(context)
    if "original" in kinds:
        return "original"
    if "step" in kinds:
        return "step"
    return "text" if "text" in kinds and _swapped_text(context) != _text(context) else "head"


def _first_b(context: Context, kind: str) -> Choices:
    """Return B's initial choices for a kind of difference.

    B's text is A's text; at the first visit with one word replaced, so that there is a difference to see. B's head is
    A's next head or, if a layer has one head, the head of another layer.
    """
    source, values, steps = context.source, {}, context.source.steps
    if kind == "text":
        is_first_visit = now()["b"] is None and kind == _default_kind(context)
        values["text"] = _swapped_text(context) if is_first_visit else _text(context)
    elif kind == "head":
        next_head = (context.head + 1) % source.num_heads if isinstance(context.head, int) else 0
        other_sites = [site for site in source.sites if site != context.site]
        values["layer"] = other_sites[0] if source.num_heads == 1 and other_sites else context.site
        values["head"] = next_head
    elif kind == "model":
        values["model"] = _other_models(context)[0]
    elif kind == "step":
        values["step"] = steps[-1] if source.step == steps[0] else steps[0]
    return Choices({"part": kind, **values})


def _text(context: Context) -> str:
    """Return A's text, cut to the maximum length of B's text."""
    return context.request.texts[context.sentence][:LONGEST]


def _swapped_text(context: Context) -> str:
    """Return A's text with one word replaced as in `SWAPS`; unchanged if no replacement is possible."""
    for word, other in SWAPS:
        changed, count = re.subn(rf"\b{word}\b", other, _text(context), count=1)
        if count and not cache.unknown(context.source, (other,)):
            return changed
    return _text(context)


def _other_models(context: Context) -> list[str]:
    """Return the names of all available models with the same kind of input as A's model, except A's model."""
    is_textless = context.source.reads in TEXTLESS
    names = [name for name, kind in api.SOURCES.items() if (kind.reads in TEXTLESS) == is_textless]
    return [name for name in (*api.OFFERED, *names, *model_loading.listed_names()) if name != now()["model"]]


def _b_control(widget: Callable, label: str, name: str, *args, value: object, apply: Callable | None = None, **options):
    """Draw the control for a setting in which B differs from A; `apply` maps the user's value to settings of B."""
    kind = "head" if name == "layer" else name

    def report(choices: Choices, reported: object) -> Choices:
        values = apply(reported) if apply else {name: reported}
        return choices.put(b=Choices({"part": kind, **values}))

    return control(widget, label, "b", *args, value=value, apply=report, part=name, visible=False, **options)


def _side(context: Context, kind: str, b: Choices) -> ComparedSide | None:
    """Draw the control for the one setting in which B differs from A, and return B; None while B's model is loading.

    Raises:
        AttnvizError: if B's text is empty, or B's model cannot be opened or compared.
    """
    fields = {entry.name: getattr(context, entry.name) for entry in dataclass_fields(Context) if entry.init}
    side = ComparedSide(**fields)
    if kind == "text":
        typed = b["text"] or ""
        widget, options = (st.text_area, {"height": "content"}) if "\n" in typed else (st.text_input, {})
        _b_control(widget, "Text of B", "text", value=typed, max_chars=LONGEST, **options)
        if not typed.strip():
            raise InputError("B has no text yet: type one.")
        texts = cache.texts(typed, by_line=False)
        request = replace(context.request, texts=texts, targets=(), answer=(), edits=replace(context.edits, taken=()))
        return replace(side, request=request, sentence=0)
    if kind == "head":
        heads = [(site, head) for site in context.source.sites for head in range(context.source.num_heads)]
        chosen = b["layer"] or context.site, b["head"] or 0
        if chosen not in heads:
            note(f"There is no head {head_text(chosen)}: B is {head_text(heads[0])}.", "notice")
            chosen = heads[0]
        by_text = {head_text(head): head for head in heads}
        titles = {head_text((site, head)): site.brief(head) for site, head in heads}

        def with_head(text: str) -> dict[str, object]:
            layer, head = by_text[text]
            return {"layer": layer, "head": head}

        options = {"value": head_text(chosen), "apply": with_head, "format_func": titles.get, "width": 190}
        _b_control(st.selectbox, "Head of B", "layer", [*by_text], **options)
        return replace(side, site=chosen[0], head=chosen[1])
    if kind == "step":
        steps = context.source.steps
        step = b["step"] if b["step"] in steps else steps[0]
        if b["step"] not in steps:
            note(f"Step {b['step']} is not available. The steps are {', '.join(map(str, steps))}.", "notice")
        _b_control(st.selectbox, "Training step of B", "step", steps, value=step, format_func="{:,}".format, width=160)
        side, targets = replace(side, source=cache.source(context.source.id, step)), context.record.targets
        if targets and side.record.targets != targets:
            quiet("B's decoder reads the words that A wrote, so that the rows of both maps are the same words.")
            return replace(side, decoder_input=targets)
        return side
    if kind == "model":
        return _other_model(context, side, b["model"])
    return replace(side, request=context.request.unchanged)


def _other_model(context: Context, side: ComparedSide, name: str) -> ComparedSide | None:
    """Make B with another model, at A's layer and head or, if B has none, similar ones; None while the model loads."""
    names = [*dict.fromkeys([name, *_other_models(context)])]
    about = "A model from the list, or the name or folder of any other: gpt2, org/name, org/name@revision."
    step = {"value": name, "apply": lambda name: {"model": name or NAMES["model"].default}}
    options = {"accept_new_options": True, "format_func": inputs.model_title, "help": about, "width": 260}
    _b_control(st.selectbox, "Model of B", "model", names, **step, **options)
    if (source := inputs.open_model(name)) is None:
        return None
    if (source.reads in TEXTLESS) != (context.source.reads in TEXTLESS):
        reads = source.reads if source.reads in TEXTLESS else context.source.reads
        raise InputError(f"Only one of {source.name} and {context.source.name} reads a {reads}: choose another model.")
    texts = source.one_run or (context.request.texts[context.sentence],)
    edits = Edits() if source.read_only else replace(context.edits, taken=(), heads_off=frozenset())
    request = Request(texts, pictures=context.request.pictures[:1], edits=edits)
    record = cache.record(source, request)
    same_texts = [site for site in record.sites if in_decoder(record, site) == in_decoder(context.record, context.site)]
    same_kind = [site for site in same_texts if site.kind == context.site.kind]
    comparable_sites = same_kind or same_texts or [*record.sites]  # the first list that is not empty
    site = context.site if context.site in comparable_sites else comparable_sites[-1]
    head = context.head if isinstance(context.head, str) else min(context.head, source.num_heads - 1)
    if (site, head) != (context.site, context.head):
        quiet(f"{source.name} has other layers or heads: B is {site.head(head)}.")
    return replace(side, source=source, request=request, site=site, head=head, sentence=0)


def _run(source: Source, lines: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...]) -> Record:
    return source.run(lines, edits, targets)


def _comparison(context: Context, b: ComparedSide) -> dict[str, Figure]:
    """Draw both predictions, then the maps A and B with their difference, or side by side if they cannot be aligned."""
    sides = _sides(context, b)
    try:
        pair, cost = beside(*sides, _cached_comparison), None
        if pair.tile > 1:  # the maps are too large to be held in memory
            cost = estimate.of_maps(pair.a.step, 2)
            cache.result_of(compare_in_tiles, *pair.measure_arguments(), cost=cost)
    except InputError as error:
        _predictions(context, b, None)
        note(f"{error} They are shown side by side.", "notice")
        return _side_by_side(context, *sides)
    _predictions(context, b, pair)
    cell = _grid_cell(pair, context.cell)
    if pair.most_changed_cell is None:
        _explain_no_change(context, b, pair)
    figure = figures.difference(pair, selected=cell, dark=context.dark, cost=cost)

    rows, columns = pair.rows, pair.columns
    tile = size_beside(len(rows), len(columns)).tile

    def select_cell(point: dict) -> None:
        """Select the clicked cell of A; this makes the pair again, as a callback must not keep records in memory."""
        row, column = int(point["query"]), int(point["key"])
        if tile > 1:  # the clicked square shows many cells: select the one with the largest difference
            clicked_pair = beside(*_sides(context, b), _cached_comparison)
            row, column = clicked_pair.largest_in(row // tile, column // tile, tile)
        (query, _), (key, _) = rows[row], columns[column]  # positions in A and B; None: not in this text
        cell_of_a = query, key
        if None not in cell_of_a:
            put(cell=None if now()["cell"] == cell_of_a else cell_of_a)

    picture(figure, "difference", select="cell", on_click=select_cell, on_escape=lambda: put(cell=None))
    if cell is not None:
        in_words(sentences.compared_cell(pair, *cell))
    elif pair.most_changed_cell is not None:
        in_words(f"Largest difference: {sentences.compared_cell(pair, *pair.most_changed_cell)}")
    if pair.most_changed_cell is not None:
        quiet(sentences.compared(pair, with_cell=cell is not None))
    numbers(figure, "difference")
    return {"A, B and their difference": figure}


def _sides(context: Context, b: ComparedSide) -> list[Side]:
    """Return the two maps to compare."""
    side_of_a = Side(context.record, context.site, context.head, context.sentence)
    return [side_of_a, Side(b.run, b.site, b.head, b.sentence)]


_cached_comparison = cache.cached(compare_in_tiles)


def _grid_cell(pair: AlignedPair, cell: tuple[int, int] | None) -> tuple[int, int] | None:
    """Convert a cell of A to its row and column in the common grid; None if the grid does not have the cell."""
    if cell is None:
        return None
    rows = {in_a: row for row, (in_a, _) in enumerate(pair.rows)}
    columns = {in_a: column for column, (in_a, _) in enumerate(pair.columns)}
    query, key = cell
    return (rows[query], columns[key]) if query in rows and key in columns else None


def _side_by_side(context: Context, *sides: Side) -> dict[str, Figure]:
    """Draw the maps of A and B in two columns; return the figures by name."""
    maps: dict[str, Figure] = {}
    for column, name, side in zip(st.columns(2), "AB", sides, strict=True):
        cost = estimate.of_maps(side.step)
        options = {"sentence": side.sentence, "dark": context.dark, "cost": cost}
        maps[name] = figures.head(side.record, side.site, side.head, **options)
        with column:
            heading(name)
            picture(maps[name], f"map {name}")
    return maps


def _predictions(context: Context, b: ComparedSide, pair: AlignedPair | None) -> None:
    """Draw the predictions of A and B at the same token."""
    fields = {entry.name: getattr(context, entry.name) for entry in dataclass_fields(Context) if entry.init}
    unpatched = replace(context.request, edits=replace(context.edits, taken=()))
    run_before = cache.record(context.source, unpatched) if context.edits.taken else None
    a = ComparedSide(**fields, compared_position=context.position, run_before=run_before)
    if a.record is b.record:
        if text := predictions.sentence(a):
            block(f"A and B are the same run. {text}", "says", role="status")
        return
    vectors_a, vectors_b = a.record.vectors, b.record.vectors
    if vectors_a is not None and vectors_b is not None and vectors_a.shape[-1] == vectors_b.shape[-1]:
        cosine = torch.cosine_similarity(vectors_a[a.sentence].double(), vectors_b[b.sentence].double(), dim=0)
        distance = max(0.0, 1 - float(cosine))
        block(f"Distance of the vectors of A and B: {distance:.3f} (1 − cosine).", "says", role="status")
        return
    position = a.compared_position
    if pair is not None and position is not None and a.record.read[a.sentence].tokens == pair.a.tokens[0]:
        position = dict(pair.rows).get(position)  # a row of the common grid is (position in A, position in B)
    with st.container(horizontal=True, gap="large", key="predictions"):
        for name, side in (("A", a), ("B", replace(b, compared_position=position))):
            if text := predictions.sentence(side):
                with st.container(width="content"):
                    block(f"{name}: {text}", "says", role="status")


def _explain_no_change(context: Context, b: ComparedSide, pair: AlignedPair) -> None:
    """Say why the edits change no weight of this map, with a button for the first head whose weights they change."""
    in_words(sentences.compared(pair))
    if context.edits == b.edits or context.before is None or b.source is not context.source:
        return
    cost = estimate.of_all_maps(context.record)
    records = context.before, context.record
    changed_head = cache.result_of(first_changed, *records, sentence=context.sentence, least=SAME, cost=cost)
    why = f"The edits do not change the weights of {context.site}."
    if context.edits.off(context.site):
        why = "Switching a head off does not change its weights; only its output is set to zero."
    if changed_head is None:
        quiet(f"{why} No weight of any layer changes.")
        return
    site, head = changed_head
    quiet(f"{why} The first weights that change are those of {site}.")
    action = {"on_click": put, "kwargs": {"layer": site, "head": head}}
    st.button(f"Compare {site.head(head)}", key="see moved", icon=":material/arrow_forward:", **action)


def _different_heads(context: Context) -> None:
    """Draw buttons for the heads that differ most from A's head; a click chooses the head as B."""
    if not isinstance(context.head, int):
        return
    cost = estimate.of_all_maps(context.record)
    heads = cache.result_of(farthest, context.record, context.site, context.head, sentence=context.sentence, cost=cost)
    if not heads:
        return
    heading(f"Heads that differ most from {context.site.head(context.head)}")
    with st.container(horizontal=True, gap="small", key="different heads"):
        for i, (site, head, divergence) in enumerate(heads):
            action = {"on_click": put, "kwargs": {"b": Choices({"part": "head", "layer": site, "head": head})}}
            st.button(f"{site.head(head).capitalize()}: {divergence:.2f}", key=f"different head {i}", **action)
    quiet(
        "Mean Jensen-Shannon divergence of the rows on this text, from 0 (same weights) to 0.69 (no key in common). "
        "Click a head to compare it."
    )
