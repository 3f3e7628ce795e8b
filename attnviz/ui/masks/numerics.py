"""The tab of empty rows and dtypes: what becomes of a fully masked row, and of a fill in each type of number."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz import figures, numerics
from attnviz.core.edits import Site
from attnviz.core.masks import Mask, Padding
from attnviz.core.record import Record
from attnviz.core.stack import Stack
from attnviz.core.tokens import Token
from attnviz.figures import numerics as charts
from attnviz.numerics import Outcome, Policy
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import MOST_LAYERS, Lab
from attnviz.ui.masks.presets import LEFT_PADDING, PRESETS
from attnviz.ui.masks.rulelist import shorter, sizes
from attnviz.ui.shared import cache, everything, mask, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.text import Markup, label, plain, quiet, table, verdict
from attnviz.ui.shared.toolbar import Bar

MOST = 128
"""Queries and keys that are measured at most."""

FEW, SIDE = 24, 360
"""Tokens up to which a picture is so many pixels wide: what its rows mean is then seen under it on a large screen."""


def tab(lab: Lab, bar: Bar) -> None:
    keys = lab.lengths[1]
    drawn = {}
    if max(lab.lengths) > MOST:
        quiet(words.TOO_LONG.format(most=MOST))
    else:
        own = _empty(lab.mask, lab)
        stack = lab.stack if own else PRESETS[LEFT_PADDING](keys, (shorter(keys),))
        shown = lab.mask if own else stack.mask()
        drawn = _pictures(lab, shown, own, [_padded(stack, part, lab) for part in lab.tokens])
        with pictures.folded(words.FILLS, "fills") as is_open:
            if is_open:
                _types(lab, shown)
    with bar.export:
        if drawn:
            made = tuple(figure for figure, _ in drawn.values())
            pictures.take_one(drawn, "empty rows", more=partial(everything.button, lab, made))
        else:
            everything.menu(lab)


def _padded(stack: Stack, tokens: Sequence[Token], lab: Lab) -> tuple[Token, ...]:
    """The tokens, by the name of padding those that a rule takes for it."""
    rules = [one.mask for one in stack.entries if one.on and not one.negated and isinstance(one.mask, Padding)]
    kept = [rule.grid(1, len(tokens), sentence=_of_sentence(rule, lab.sentence))[0].tolist() for rule in rules]
    kept = map(all, zip(*kept, strict=True)) if kept else [True] * len(tokens)
    named = {"text": words.PADDED, "special": True, "joined": False}
    return tuple(one if keeps else replace(one, **named) for one, keeps in zip(tokens, kept, strict=True))


def _pictures(
    lab: Lab, shown: Mask, own: list[int], tokens: Sequence[Sequence[Token]]
) -> dict[str, tuple[figures.Figure, str]]:
    """What follows from a mask, said first, and both pictures; gives them by their names, as `take_one` takes them."""
    (queries, keys), empty = lab.lengths, own or _empty(shown, lab)
    found = _spread(shown, queries, layers=min(lab.depth, MOST_LAYERS)) if queries == keys else None
    says = found.says if found else words.MASKED_ROWS.format(count=len(empty), queries=queries)
    verdict(says if own else words.NONE_MASKED, "notice" if own else "right")
    if not own:
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            label(words.EXAMPLE.format(mask=LEFT_PADDING, says=says))
            options = {"on_click": state.change, "args": (mask.put, PRESETS[LEFT_PADDING](*sizes(lab)))}
            options |= {"icon": ":material/format_align_right:", "disabled": bool(lab.source.read_only)}
            st.button(words.USE_EXAMPLE, key="left padding", **options)
    left, right = st.columns(2, gap="large")
    with left:
        row = _rows(lab, shown, empty, tokens[1])
    with right:
        spread = _layers(lab, found, tokens[0])
    if row is not None:
        rows = [(charts.NAMES[name], says) for name, says in words.POLICIES.items()]
        table(rows, words.POLICIES_HEAD, rows_named=True)
    drawn = {words.ROW_PICTURE: (row, "policies"), words.NAN_PICTURE: (spread, "spread")}
    return {name: one for name, one in drawn.items() if one[0] is not None}


def _of_sentence(mask: Mask, sentence: int) -> int:
    """The sentence of a mask that may hold one for all."""
    return sentence if mask.batch_size != 1 else 0


def _empty(mask: Mask, lab: Lab) -> list[int]:
    """The queries of the sentence that have no key left."""
    left = mask.keys_left(*lab.lengths, sentence=_of_sentence(mask, lab.sentence))
    return (left == 0).nonzero().flatten().tolist()


def _rows(lab: Lab, mask: Mask, empty: list[int], keys: Sequence[Token]) -> figures.Figure | None:
    """A fully masked row, under each policy."""
    if not empty or lab.record.read_only:
        quiet(words.NOTHING_TO_COMPUTE if empty else words.NONE_ALONE)
        return None
    found = {one.name: one.weights for one in _policies(lab.record, lab.site, lab.number, lab.sentence, mask)}
    figure = figures.states(charts.policies(found, empty[0], keys), **_styled(lab))
    pictures.picture(figure, "policies")
    return figure


def _layers(lab: Lab, found: numerics.Spread | None, tokens: Sequence[Token]) -> figures.Figure | None:
    """How NaN spreads, where queries and keys are of one text."""
    if found is None:
        quiet(words.TWO_TEXTS)
        return None
    grid = charts.spread(found.empty, found.layers, tokens, sentence=lab.sentence)
    figure = figures.states(grid, **_styled(lab))
    pictures.picture(figure, "spread")
    return figure


def _styled(lab: Lab) -> dict[str, object]:
    return lab.styled | ({"side": SIDE} if max(lab.lengths) <= FEW else {})


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
