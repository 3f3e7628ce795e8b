"""The tab of conventions: the mask in every dialect, and in the hands of the wrong reader."""

from collections.abc import Callable
from html import escape

import streamlit as st
from torch import Tensor

from attnviz import figures
from attnviz.charts import conventions as charts
from attnviz.charts.states import Grid
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.explain.words import ambiguous
from attnviz.core.explain.words import mistaken as mistaken_words
from attnviz.core.masks import ALIGNMENTS, Mask
from attnviz.core.record import Record
from attnviz.core.stack import Stack
from attnviz.dialects import Handed, dialect, handed_to
from attnviz.dialects.mistaken import meant, mistaken
from attnviz.ui.masks.base import Lab
from attnviz.ui.masks.choices import DIALECT, LABELS, READER
from attnviz.ui.masks.leaks import BEFORE, MEANT, PROMISE
from attnviz.ui.masks.tabs import TAB
from attnviz.ui.shared import cache, looking, masking, pictures, state
from attnviz.ui.shared.editing import OWN_MASK
from attnviz.ui.shared.masking import MASK
from attnviz.ui.shared.notes import heading, in_words, label, large, note, quiet
from attnviz.ui.shared.state import control

DIALECT_SHOWN = state.choice("dialect", {name: LABELS[name] for name in DIALECT}, DIALECT[0])
WRITTEN = state.choice("written", {name: LABELS[name] for name in READER})
READ_BY = state.choice("reader", {name: LABELS[name] for name in READER}, "attn_mask")
ALIGNMENT = state.choice("alignment", ALIGNMENTS, ALIGNMENTS[0])

MOST_HANDED = 256
"""So many queries and keys are handed to the wrong reader."""

MOST_ROWS = 4
"""So many rows are said in words before the rest is folded."""


def tab(lab: Lab) -> None:
    queries, keys = lab.tokens
    st.pills("The same mask for", DIALECT, **control(DIALECT_SHOWN), format_func=LABELS.get, required=True, wrap=True)
    name = state.get(DIALECT_SHOWN)
    mask = lab.mask if len(queries) == len(keys) else _aligned(lab.mask, len(queries), len(keys))
    _dialect(lab, mask, name)
    heading("Hand it to the wrong reader")
    if max(len(queries), len(keys)) > MOST_HANDED:
        quiet(f"This is shown for up to {MOST_HANDED} tokens. Shorten the text.")
    else:
        _wrong_reader(lab, mask)


def _aligned(mask: Mask, queries: int, keys: int) -> Mask:
    """With more keys than queries: where the first query stands."""
    st.segmented_control("Queries are aligned", ALIGNMENTS, **control(ALIGNMENT), required=True)
    return mask.aligned(queries, keys, state.get(ALIGNMENT))


def _dialect(lab: Lab, mask: Mask, name: str) -> None:
    """One dialect: what it says, its grid, its code and its tensor; or why it cannot say this mask."""
    known, (queries, keys) = dialect(name), lab.tokens
    large(f"{known.title}: {known.says}.")
    if why := known.refuses(mask, len(queries), len(keys)):
        note(f"{LABELS[name]} cannot say this mask. {why}", "notice")
        return
    grid = charts.convention(mask, known, queries, keys, sentence=lab.sentence)
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            _picture(lab, grid, "convention")
        with st.container(key="beside convention"):
            label(f"To copy: {known.call}")
            try:
                st.code(known.code(mask, len(queries), len(keys)), "python", wrap_lines=True)
            except AttnvizError as error:
                note(str(error), "notice")
            if lab.edits.bias:
                quiet(
                    "This is the mask alone. The bias is added to the scores as well: an additive mask can hold both."
                )
            if name != "is_causal":
                label("The same as a tensor")
                _printout(known.printout(mask, len(queries), len(keys)))


def _printout(text: str) -> None:
    """Numbers as PyTorch prints them, in a frame that scrolls, also by keyboard."""
    frame = '<pre class="printout" tabindex="0" role="region" aria-label="The mask as a printed tensor">'
    st.html(f"{frame}{escape(text)}</pre>")


def _picture(lab: Lab, grid: Grid, key: str) -> None:
    """A grid with the button that takes it away; where its cells are those of the page, a click selects one."""
    own = tuple(map(len, (grid.rows, grid.columns))) == tuple(map(len, lab.tokens)) and grid.titles == Grid.titles
    cell = looking.selected(lab.record, lab.site) if own else None
    figure = figures.states(grid, dark=lab.dark, selected=cell, rev=looking.rev("cell"))
    pictures.take_away(figure, key)
    clicks = {"select": "cell", "on_select": looking.select} if own else {}
    pictures.picture(figure, key, **clicks)


def _wrong_reader(lab: Lab, mask: Mask) -> None:
    """Two choices, and what becomes of the mask between them."""
    queries, keys = lab.tokens
    writers = [name for name in READER if not dialect(name).refuses(mask, len(queries), len(keys))]
    written = state.get(WRITTEN) if state.get(WRITTEN) in writers else writers[0]
    read_as, options = state.get(READ_BY), {"format_func": LABELS.get, "width": 300}
    with st.container(horizontal=True, gap="medium"):
        st.selectbox("The mask is written for", writers, **control(WRITTEN, written), **options)
        st.selectbox("and read by", READER, **control(READ_BY), **options)
    head = lab.head if isinstance(lab.head, int) else 0
    try:
        read = _handed(mask, len(queries), len(keys), written, read_as, lab.record, lab.site, head)
    except AttnvizError as error:
        note(str(error), "notice")
        return
    if read.error:
        note(f"{read.error} Nobody wastes a week on that: it stops at once.", "notice")
        return
    _said(read, lambda: _use(lab, mask, read))
    with st.container(horizontal=True, gap="large"):
        for grid, key in (
            (charts.handed(read, queries, keys, sentence=lab.sentence), "handed"),
            (charts.weights_read(read, queries, keys, sentence=lab.sentence), "handed weights"),
        ):
            with st.container(width="content"):
                _picture(lab, grid, key)
    if _ends(lab.record, lab.site, head)[0] is not None:
        quiet(f"The weights are of the queries and keys of {lab.site} head {head}.")


def _said(read: Handed, use: Callable[[], None]) -> None:
    """The name of the mistake first, what comes out row by row, and after that what can be done with it."""
    found = mistaken_words(read.judgement, read.seen[0]) or ambiguous(read.judgement)
    if found and not read.seen.equal(read.meant_grid):
        note(f"The check says of the mask alone: {found}")
    whole = [one.words for one in read.notes if one.query is None]
    rows = [one.words for one in read.notes if one.query is not None]
    if not rows and not found and not whole:
        whole = ["Nothing is lost: it is read as it was meant."]
    ends = rows if len(rows) <= MOST_ROWS else [*rows[: MOST_ROWS - 1], rows[-1]]
    in_words(" ".join([*whole, *ends]))
    use()
    if len(rows) > len(ends):
        with st.expander(f"All {len(rows)} rows in words"):
            for words in rows:
                quiet(words)


def _use(lab: Lab, mask: Mask, read: Handed) -> None:
    """The button that puts the mistake on the page."""
    if read.seen is None or read.seen.equal(read.meant_grid):
        return
    fixed = bool(lab.source.read_only)
    said = lab.source.read_only or "The page takes the mask that the reader saw, and the leak test shows what follows."
    arguments = (meant(mask, *map(len, lab.tokens)), mistaken(mask, read, sentence=lab.sentence))
    options = {"icon": ":material/bug_report:", "help": said, "disabled": fixed, "on_click": _take, "args": arguments}
    st.button("Use this mistaken mask", key="mistake", **options)


def _take(right: Stack, wrong: Stack) -> None:
    """The mistaken mask alone, and on to the leak test; what was meant, and what there was, is kept beside it."""
    before = state.get(MASK), state.get(OWN_MASK)
    state.change(masking.put, wrong)
    for setting, value in (
        (BEFORE, before),
        (MEANT, right),
        (OWN_MASK, False),
        (PROMISE, "what was meant"),
        (TAB, "Leak test"),
    ):
        state.put(setting, value)


@cache.kept
def _handed(
    mask: Mask, queries: int, keys: int, written: str, read_as: str, record: Record, site: Site, head: int
) -> Handed:
    query, key = _ends(record, site, head)
    return handed_to(mask, queries, keys, meant=written, read_as=read_as, query=query, key=key)


def _ends(record: Record, site: Site, head: int) -> tuple[Tensor | None, Tensor | None]:
    """Queries and keys of one head, (B, 1, n, d_k); none of a model that does not show them."""
    step = record.step(site)
    if record.read_only or step.has_sink:
        return None, None
    return step.query[:, head : head + 1].float(), step.key[:, head : head + 1].float()
