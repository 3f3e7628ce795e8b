"""The tab of conventions: the mask in every dialect, and in the hands of the wrong reader."""

from collections.abc import Callable
from typing import Any

import streamlit as st
from torch import Tensor

from attnviz import figures
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.explain.words import ambiguous
from attnviz.core.explain.words import mistaken as mistaken_words
from attnviz.core.masks import ALIGNMENTS, Mask
from attnviz.core.record import Record
from attnviz.core.stack import Stack
from attnviz.dialects import Dialect, Handed, dialect, handed_to
from attnviz.dialects.mistaken import meant, mistaken
from attnviz.figures import conventions as charts
from attnviz.figures.states import States
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import CHECKED, MODEL, TAB, WITH_WORDS, WRONG, Lab
from attnviz.ui.masks.leaks import BEFORE, MEANT, PROMISE, WAS_MEANT
from attnviz.ui.shared import cache, everything, look, mask, pictures, state
from attnviz.ui.shared.edits import OWN_MASK
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.setting import State, choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import block, in_words, label, large, literal, note, quiet
from attnviz.ui.shared.toolbar import Toolbar

DIALECT_SHOWN = choice("dialect", words.DIALECTS, "sdpa", former=words.FORMER_DIALECTS)
WRITTEN = choice("written", words.DIALECTS, former=words.FORMER_DIALECTS)
READ_BY = choice("reader", words.DIALECTS, "attn_mask", former=words.FORMER_DIALECTS)
ALIGNMENT = choice("alignment", ALIGNMENTS, ALIGNMENTS[0])

MOST_HANDED = 256
"""Queries and keys that are handed to the wrong reader at most."""

MOST_DRAWN = 512
"""Queries and keys of the grid and of the printed tensor at most."""

MOST_ROWS = 4
"""Rows that are said in words; of more the rest is folded."""


def tab(lab: Lab, bar: Toolbar) -> None:
    queries, keys = lab.lengths
    name = control(st.pills, words.SAME_MASK, DIALECT_SHOWN, words.DIALECTS, format_func=words.DIALECTS.get, lead="")
    aligned = lab.mask
    if queries != keys:  # with more keys than queries: where the first query stands
        alignment = control(st.segmented_control, words.ALIGN, ALIGNMENT, ALIGNMENTS)
        aligned = lab.mask.aligned(queries, keys, alignment)
    _dialect(lab, aligned, name, bar)
    chosen = any(state.get(setting) != setting.default for setting in (WRITTEN, READ_BY))
    with pictures.folded(words.WRONG_CONVENTION, "wrong convention", chosen) as is_open:
        if max(queries, keys) > MOST_HANDED:
            quiet(words.TOO_LONG_TO_HAND.format(most=MOST_HANDED))
        elif is_open:
            _wrong_reader(lab, aligned)


def _dialect(lab: Lab, mask: Mask, name: str, bar: Toolbar) -> None:
    """One dialect: what it says, its grid, its code and its tensor; or why it cannot say this mask."""
    convention, tokens = dialect(name), tuple(part[:MOST_DRAWN] for part in lab.tokens)
    lengths = tuple(map(len, tokens))
    large(words.DIALECT_SAYS.format(dialect=convention.title, says=convention.says))
    if lengths != lab.lengths:
        quiet(words.FIRST_TOKENS.format(most=MOST_DRAWN))
    if why := convention.refuses(mask, *lengths):
        note(words.CANNOT_SAY.format(dialect=words.DIALECTS[name], why=why), "notice")
        with bar.export:
            everything.menu(lab)
        return
    grid = charts.convention(mask, convention, *tokens, sentence=lab.sentence)
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            everything.above(lab, _picture(lab, grid, "convention", **WITH_WORDS), "convention", bar.export)
        with st.container(key="beside convention"):
            _code(lab, mask, convention)
            label(words.AS_TENSOR)
            named = {"role": "region", "tabindex": "0", "aria-label": words.PRINTED}
            block(convention.printout(mask, *lengths).replace("  # ", "\n# "), "code", "pre", **named)


def _code(lab: Lab, mask: Mask, convention: Dialect) -> None:
    """The code to copy; first on a phone."""
    label(words.CODE)
    try:
        st.code(convention.code(mask, *lab.lengths), "python", wrap_lines=True)
    except AttnvizError as error:
        note(str(error), "notice")
    if lab.edits.bias:
        quiet(words.MASK_ALONE)


def _picture(lab: Lab, grid: States, key: str, **options: Any) -> figures.Figure:
    """A grid; where its cells are those of the page, a click selects one."""
    own = (len(grid.rows), len(grid.columns)) == lab.lengths and grid.titles == States.titles
    figure = figures.states(grid, selected=lab.cell if own else None, rev=look.rev("cell"), **lab.styled, **options)
    clicks = {"select": "cell", "on_select": look.select} if own else {}
    pictures.picture(figure, key, **clicks)
    return figure


def _wrong_reader(lab: Lab, mask: Mask) -> None:
    """Two choices, and what becomes of the mask between them."""
    writers = [name for name in words.DIALECTS if not dialect(name).refuses(mask, *lab.lengths)]
    options = {"format_func": words.DIALECTS.get, "width": 300}
    with st.container(horizontal=True, gap="medium"):
        written = state.one_of(WRITTEN, writers)
        control(st.selectbox, words.WRITTEN_FOR, WRITTEN, writers, shown=written, **options)
        read_as = control(st.selectbox, words.READ_BY, READ_BY, words.DIALECTS, **options)
    try:
        read = _handed(mask, *lab.lengths, written, read_as, lab.record, lab.site, lab.number)
    except AttnvizError as error:
        note(str(error), "notice")
        return
    if read.error:
        note(words.STOPS.format(error=read.error), "notice")
        return
    _mistake(read, lambda: _use(lab, mask, read))
    with st.container(horizontal=True, gap="large"):
        for make, key in ((charts.handed, "handed"), (charts.weights_read, "handed weights")):
            with st.container(width="content"):
                pictures.take_away(_picture(lab, make(read, *lab.tokens, sentence=lab.sentence), key), key)
    if _ends(lab.record, lab.site, lab.number)[0] is not None:
        quiet(words.WEIGHTS_OF.format(head=lab.site.head(lab.number)))


def _mistake(read: Handed, use: Callable[[], None]) -> None:
    """The name of the mistake first, what comes out row by row, and after that what can be done with it."""
    finding = mistaken_words(read.judgement, read.seen[0]) or ambiguous(read.judgement)
    if finding and not read.seen.equal(read.meant_grid):
        note(words.CHECK_SAYS.format(finding=finding), "notice")
    whole = [remark.words for remark in read.notes if remark.query is None]
    rows = [remark.words for remark in read.notes if remark.query is not None]
    if not rows and not finding and not whole:
        whole = [words.NOTHING_LOST]
    ends = rows if len(rows) <= MOST_ROWS else [*rows[: MOST_ROWS - 1], rows[-1]]
    in_words(" ".join([*whole, *ends]))
    use()
    if len(rows) > len(ends):
        with st.expander(words.ALL_ROWS.format(count=len(rows))):
            for row in rows:
                quiet(row)


def _use(lab: Lab, mask: Mask, read: Handed) -> None:
    """The button that puts the mistake on the page."""
    if read.seen is None or read.seen.equal(read.meant_grid):
        return
    fixed = bool(lab.source.read_only)
    help_text = lab.source.read_only or words.MISTAKE_MEANS
    arguments = (meant(mask, *lab.lengths), mistaken(mask, read, sentence=lab.sentence))
    options = {"icon": ":material/bug_report:", "help": literal(help_text), "disabled": fixed}
    st.button(words.USE_MISTAKE, key="mistake", on_click=state.change, args=(_take, *arguments), **options)


def _take(now: State, right: Stack, wrong: Stack) -> State:
    """The mistaken mask alone, and on to the leak test; what was meant, and what there was, is kept beside it."""
    before = now[MASK], now[OWN_MASK]
    now = mask.put(now, wrong).put(BEFORE, before).put(MEANT, right)
    return now.put(OWN_MASK, False).put(PROMISE, WAS_MEANT).put(TAB, WRONG).put(CHECKED, MODEL)


@cache.cached
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
