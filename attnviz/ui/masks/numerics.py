"""The tab of empty rows and dtypes: what becomes of a row without a key, and of a fill in each type of number."""

from html import escape

import streamlit as st

from attnviz import figures, numerics
from attnviz.charts import numerics as charts
from attnviz.charts.states import Grid
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import Record
from attnviz.numerics import Outcome, Policy, Spread
from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import cache, masking, pictures, state
from attnviz.ui.shared.notes import heading, in_words, quiet
from attnviz.ui.shared.rules import PRESETS

PRESET = "left padding with a causal mask"

MOST = 128
"""So many queries and keys are measured."""

SHOWN = 2
"""So many positions are padding in the preset where the sentences have none."""

POLICIES = {
    "zero": "zeros: the row gives nothing, and the residual connection carries the token on. The default here, and "
    "what F.scaled_dot_product_attention does.",
    "nan": "NaN: what a softmax of -inf alone gives, as in nn.MultiheadAttention.",
    "uniform": "uniform: the mean of all keys, though every one of them is masked. What -1e9 gives.",
    "error": "an error: nothing is computed, and the row is named.",
}


def tab(lab: Lab) -> None:
    queries, keys = lab.tokens
    if max(len(queries), len(keys)) > MOST:
        quiet(f"This is measured for up to {MOST} tokens. Shorten the text.")
        return
    mask, empty = lab.mask, _empty(lab.mask, lab)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        options = {"on_click": _start, "args": (lab,), "disabled": bool(lab.source.read_only)}
        st.button(PRESET, key="left padding", icon=":material/format_align_right:", **options)
        if empty:
            rows = ", ".join(map(str, empty[:8])) + ("…" if len(empty) > 8 else "")
            quiet(f"This mask leaves {len(empty)} of {len(queries)} queries without a key: {rows}.")
        else:
            mask = _preset(len(queries), len(keys))
            empty = _empty(mask, lab)
            quiet(f"Every query of this mask has a key left. Below stands {PRESET}, as an example.")
    _rows(lab, mask, empty)
    _layers(lab, mask)
    _types(lab, mask)


def _start(lab: Lab) -> None:
    """The preset as the mask of the page, padded where the sentences are, and else as an example."""
    keys, lengths = len(lab.tokens[1]), tuple(sentence.length for sentence in lab.seen)
    if min(lengths) >= keys:
        lengths = (_shorter(keys),) * len(lengths)
    state.change(masking.put, PRESETS[PRESET](keys, lengths))


def _shorter(keys: int) -> int:
    return max(1, keys - SHOWN)


def _preset(queries: int, keys: int) -> Mask:
    return PRESETS[PRESET](keys, (_shorter(keys),)).mask()


def _empty(mask: Mask, lab: Lab) -> list[int]:
    """The queries of the sentence that have no key left."""
    left = mask.keys_left(*map(len, lab.tokens), sentence=lab.sentence if mask.batch_size != 1 else 0)
    return (left == 0).nonzero().flatten().tolist()


def _rows(lab: Lab, mask: Mask, empty: list[int]) -> None:
    """One row without a key, under each policy."""
    heading("What a row without a key can get")
    if not empty:
        quiet("With a single token there is none.")
        return
    if lab.record.read_only:
        quiet("This model does not show its queries and keys, so there is nothing to compute.")
        return
    head = lab.head if isinstance(lab.head, int) else 0
    found = {one.name: one.weights for one in _policies(lab.record, lab.site, head, lab.sentence, mask)}
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            _picture(lab, charts.policies(found, empty[0], lab.tokens[1]), "policies")
        with st.container(key="beside policies"):
            for name in found:
                quiet(POLICIES[name])


def _layers(lab: Lab, mask: Mask) -> None:
    """How NaN spreads, where queries and keys are of one text."""
    queries, keys = lab.tokens
    if len(queries) != len(keys):
        return
    heading("How one NaN row spreads to the next layers")
    found = _spread(mask, len(queries))
    in_words(found.says)
    _picture(lab, charts.spread(found.empty, found.layers, queries, sentence=lab.sentence), "spread")


def _types(lab: Lab, mask: Mask) -> None:
    """What each fill does in each type, measured on the scores of this head."""
    heading("Fills and types, measured")
    if lab.record.read_only:
        quiet("This model does not show its scores, so there is nothing to measure.")
        return
    head = lab.head if isinstance(lab.head, int) else 0
    quiet(
        f"On the scores of {lab.site} head {head}: rows with a key left and, under them, rows without one. Replaced: "
        "the fill takes the place of a score. Added: it is added to it. Multiplied: (1 - mask) times the fill is added."
    )
    found = _outcomes(lab.record, lab.site, head, lab.sentence, mask)
    st.html(_table(found))
    folded = st.expander("Numbers", on_change="rerun", key="numbers fills")
    if folded.open:
        folded.dataframe([one.row() for one in found], hide_index=True, key="table fills")


def _table(found: tuple[Outcome, ...]) -> str:
    types = [str(dtype).removeprefix("torch.") for dtype in numerics.DTYPES]
    by = {(one.fill, one.how, one.dtype): one for one in found}
    head = "".join(f"<th>{escape(name)}</th>" for name in ("fill", *types))
    rows = "".join(
        f"<tr><th scope='row'>{escape(f'{fill}, {how}')}</th>"
        + "".join(_cell(by[fill, how, dtype]) for dtype in numerics.DTYPES)
        + "</tr>"
        for how in numerics.HOWS
        for fill in numerics.FILLS
    )
    table = f'<table class="facts fills"><tr>{head}</tr>{rows}</table>'
    return f'<div class="scrolls" tabindex="0" role="region" aria-label="Fills and types">{table}</div>'


def _cell(one: Outcome) -> str:
    """What became of the rows with a key left and, under it, of those without."""
    title = f' title="{escape(one.error, quote=True)}"' if one.error else ""
    odd = "" if one.kept in ("", numerics.RIGHT) else ' class="odd"'
    without = f'<br><span class="quiet">no key: {escape(one.empty)}</span>' if one.empty else ""
    return f"<td{title}><span{odd}>{escape(one.kept)}</span>{without}</td>"


def _picture(lab: Lab, grid: Grid, key: str) -> None:
    figure = figures.states(grid, dark=lab.dark)
    pictures.take_away(figure, key)
    pictures.picture(figure, key)


@cache.kept
def _spread(mask: Mask, n: int) -> Spread:
    return numerics.spread(mask, n)


@cache.kept
def _policies(record: Record, site: Site, head: int, sentence: int, mask: Mask) -> tuple[Policy, ...]:
    step = record.step(site)
    one, at = slice(sentence, sentence + 1), slice(head, head + 1)
    query, key, value = (part[one, at] for part in (step.query, step.key, step.value))
    grid = mask.grid(query.shape[2], key.shape[2], sentence=sentence if mask.batch_size != 1 else 0)
    return numerics.policies(query, key, value, grid)


@cache.kept
def _outcomes(record: Record, site: Site, head: int, sentence: int, mask: Mask) -> tuple[Outcome, ...]:
    scores = record.step(site).scores(head, sentence=sentence)
    grid = mask.grid(*scores.shape, sentence=sentence if mask.batch_size != 1 else 0)
    return numerics.table(scores, grid)
