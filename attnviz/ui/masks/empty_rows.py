"""Fully masked rows of the mask: what becomes of their weights, and how far NaN spreads from them."""

import streamlit as st

from attnviz import figures, numerics
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import Record
from attnviz.figures import numerics as charts
from attnviz.numerics import Policy
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import MOST_LAYERS, Lab
from attnviz.ui.shared import cache, pictures
from attnviz.ui.shared.text import quiet, table, verdict

MOST = 128
"""Queries and keys that are measured at most."""

FEW, SIDE = 24, 360
"""Tokens up to which a picture is so many pixels wide: the meaning of its rows stands under it on a large screen."""


def explain(lab: Lab) -> None:
    """The consequences of fully masked rows, folded; nothing where every row has a key."""
    left = lab.mask.keys_left(*lab.lengths, sentence=lab.sentence)
    empty = (left == 0).nonzero().flatten().tolist()
    if not empty:
        return
    with pictures.folded(words.EMPTY_ROWS, "empty rows") as is_open:
        if not is_open:
            return
        if max(lab.lengths) > MOST:
            quiet(words.TOO_LONG.format(most=MOST))
        else:
            _consequences(lab, empty)


def _consequences(lab: Lab, empty: list[int]) -> None:
    """How far NaN spreads, in words first, and both pictures."""
    queries, keys = lab.lengths
    style = lab.styled | ({"side": SIDE} if max(lab.lengths) <= FEW else {})
    spread = _spread(lab.mask, queries, layers=min(lab.depth, MOST_LAYERS)) if queries == keys else None
    verdict(spread.says if spread else words.TWO_TEXTS, "notice")
    left, right = st.columns(2, gap="large")
    with left:
        if lab.record.read_only:
            quiet(words.NOTHING_TO_COMPUTE)
        else:
            policies = _policies(lab.record, lab.site, lab.number, lab.sentence, lab.mask)
            weights = {policy.name: policy.weights for policy in policies}
            pictures.show(figures.states(charts.policies(weights, empty[0], lab.tokens[1]), **style), "policies")
            rows = [(charts.NAMES[name], meaning) for name, meaning in words.POLICIES.items()]
            table(rows, words.POLICIES_HEAD, rows_named=True)
    with right:
        if spread is not None:
            grid = charts.spread(spread.empty, spread.layers, lab.tokens[0], sentence=lab.sentence)
            pictures.show(figures.states(grid, **style), "spread")


_spread = cache.cached(numerics.spread)


@cache.cached
def _policies(record: Record, site: Site, head: int, sentence: int, mask: Mask) -> tuple[Policy, ...]:
    step = record.step(site)
    batch, heads = slice(sentence, sentence + 1), slice(head, head + 1)
    query, key, value = (part[batch, heads] for part in (step.query, step.key, step.value))
    grid = mask.grid(query.shape[2], key.shape[2], sentence=sentence)
    return numerics.policies(query, key, value, grid)
