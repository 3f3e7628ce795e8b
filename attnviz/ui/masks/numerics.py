"""The tab of empty rows and dtypes: what becomes of a fully masked row, and of a fill in each type of number."""

import streamlit as st

from attnviz import figures, numerics
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import Record
from attnviz.figures import numerics as charts
from attnviz.numerics import Outcome, Policy
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import MOST_LAYERS, Lab
from attnviz.ui.masks.presets import LEFT_PADDING, PRESETS
from attnviz.ui.masks.rulelist import shorter, sizes
from attnviz.ui.shared import cache, mask, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.text import Markup, block_html, details_html, heading, in_words, plain, quiet, table, table_html

MOST = 128
"""Queries and keys that are measured at most."""


def tab(lab: Lab) -> None:
    queries, keys = lab.lengths
    if max(queries, keys) > MOST:
        quiet(words.TOO_LONG.format(most=MOST))
        return
    shown, empty = lab.mask, _empty(lab.mask, lab)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        options = {"on_click": state.change, "args": (mask.put, PRESETS[LEFT_PADDING](*sizes(lab)))}
        options |= {"icon": ":material/format_align_right:", "disabled": bool(lab.source.read_only)}
        st.button(words.USE_PRESET.format(mask=LEFT_PADDING), key="left padding", **options)
        if empty:
            rows = ", ".join(map(str, empty[:8])) + ("…" if len(empty) > 8 else "")
            quiet(words.MASKED_ROWS.format(count=len(empty), queries=queries, rows=rows))
        else:
            shown = PRESETS[LEFT_PADDING](keys, (shorter(keys),)).mask()
            empty = _empty(shown, lab)
            quiet(words.NO_MASKED_ROW.format(mask=LEFT_PADDING))
    left, right = st.columns(2, gap="large")
    with left:
        heading(words.MASKED_ROW_GETS)
        _rows(lab, shown, empty)
    with right, pictures.part(words.SPREADS, "nan layers") as is_open:
        if is_open:
            _layers(lab, shown)
    with pictures.folded(words.FILLS, "fills") as is_open:
        if is_open:
            _types(lab, shown)


def _of_sentence(mask: Mask, sentence: int) -> int:
    """The sentence of a mask that may hold one for all."""
    return sentence if mask.batch_size != 1 else 0


def _empty(mask: Mask, lab: Lab) -> list[int]:
    """The queries of the sentence that have no key left."""
    left = mask.keys_left(*lab.lengths, sentence=_of_sentence(mask, lab.sentence))
    return (left == 0).nonzero().flatten().tolist()


def _rows(lab: Lab, mask: Mask, empty: list[int]) -> None:
    """A fully masked row, under each policy."""
    if not empty:
        quiet(words.NONE_ALONE)
        return
    if lab.record.read_only:
        quiet(words.NOTHING_TO_COMPUTE)
        return
    found = {one.name: one.weights for one in _policies(lab.record, lab.site, lab.number, lab.sentence, mask)}
    pictures.show(figures.states(charts.policies(found, empty[0], lab.tokens[1]), **lab.styled), "policies")
    said = table_html([(name, words.POLICIES[name]) for name in found], rows_named=True)
    code = "".join(block_html(one, "quiet") for one in words.IN_CODE)
    st.html(said + details_html(words.WHERE_IN_CODE, code))


def _layers(lab: Lab, mask: Mask) -> None:
    """How NaN spreads, where queries and keys are of one text."""
    queries, keys = lab.lengths
    if queries != keys:
        quiet(words.TWO_TEXTS)
        return
    found = _spread(mask, queries, layers=min(lab.depth, MOST_LAYERS))
    grid = charts.spread(found.empty, found.layers, lab.tokens[0], sentence=lab.sentence)
    figure = figures.states(grid, **lab.styled)
    pictures.picture(figure, "spread")
    in_words(found.says if mask is lab.mask else words.IN_EXAMPLE.format(says=found.says))
    pictures.take_away(figure, "spread")


def _types(lab: Lab, mask: Mask) -> None:
    """What each fill does in each type, measured on the scores of this head."""
    if lab.record.read_only:
        quiet(words.NOTHING_TO_MEASURE)
        return
    quiet(words.FILLS_MEAN.format(head=lab.site.head(lab.number)))
    found = _outcomes(lab.record, lab.site, lab.number, lab.sentence, mask)
    _table(found)
    with pictures.folded(common.NUMBERS, "numbers fills") as is_open:
        if is_open:
            st.dataframe([one.row() for one in found], hide_index=True, key="table fills")


def _table(found: tuple[Outcome, ...]) -> None:
    types = [str(dtype).removeprefix("torch.") for dtype in numerics.DTYPES]
    by = {(one.fill, one.how, one.dtype): one for one in found}
    rows = [
        (words.FILLED.format(fill=fill, how=how), *(_cell(by[fill, how, dtype]) for dtype in numerics.DTYPES))
        for how in numerics.HOWS
        for fill in numerics.FILLS
    ]
    table(rows, (words.FILL, *types), css="facts fills", named=words.FILLS_TABLE, rows_named=True)


def _cell(one: Outcome) -> Markup:
    """What became of the rows with a key left and, under it, of those without."""
    title = f' title="{plain(one.error)}"' if one.error else ""
    odd = "" if one.kept in ("", numerics.RIGHT) else ' class="odd"'
    without = f'<br><span class="quiet">{plain(words.NO_KEY.format(result=one.empty))}</span>' if one.empty else ""
    return Markup(f"<span{title}><span{odd}>{plain(one.kept)}</span>{without}</span>")


_spread = cache.kept(numerics.spread)


@cache.kept
def _policies(record: Record, site: Site, head: int, sentence: int, mask: Mask) -> tuple[Policy, ...]:
    step = record.step(site)
    one, at = slice(sentence, sentence + 1), slice(head, head + 1)
    query, key, value = (part[one, at] for part in (step.query, step.key, step.value))
    grid = mask.grid(query.shape[2], key.shape[2], sentence=_of_sentence(mask, sentence))
    return numerics.policies(query, key, value, grid)


@cache.kept
def _outcomes(record: Record, site: Site, head: int, sentence: int, mask: Mask) -> tuple[Outcome, ...]:
    scores = record.step(site).scores(head, sentence=sentence)
    grid = mask.grid(*scores.shape, sentence=_of_sentence(mask, sentence))
    return numerics.table(scores, grid)
