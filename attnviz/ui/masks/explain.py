"""The mask in words: which rule blocks the selected cell, what its query sees after some layers, and what it costs."""

from functools import partial

import streamlit as st

from attnviz.core.amounts import counted, percent, short
from attnviz.core.cost import Amount, cost
from attnviz.core.display import shown
from attnviz.core.reach import reach
from attnviz.core.tokens import Token
from attnviz.ui.masks import words
from attnviz.ui.masks.built_in import BuiltIn
from attnviz.ui.masks.lab import MOST_LAYERS, Lab
from attnviz.ui.shared import cache, state
from attnviz.ui.shared.look import Cell
from attnviz.ui.shared.setting import kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import Markup, heading, plain, quiet, table
from attnviz.words import quoted_token

LAYERS = kept("layers reached", 0)
"""0 for as many as the model has."""

MOST_REACHED = 1024
"""Tokens up to which the receptive field is computed."""
MOST_SQUARES = 48
"""Tokens up to which the inputs that are seen are drawn; more are counted."""

FAR = 128 * 1024
"""Tokens of a long text."""
COUNTED = 2**19
"""Cells counted at most: random keys take longest, a sixth of a second."""

cost_of, reach_of = cache.kept(cost), cache.kept(reach)


def explained(lab: Lab, told: Cell | None) -> None:
    """What follows from the mask: how far the query of the outlined cell sees, and what it costs."""
    with st.container(horizontal=True, gap="large"):
        for title, key, draw in (
            (words.THROUGH_LAYERS, "reached", partial(_reached, lab, told)),
            (words.COSTS, "costs", partial(_costs, lab)),
        ):
            with st.container(key=f"half {key}"):
                heading(title)
                draw()


def left(lab: Lab, cell: Cell) -> str:
    """How many keys the query of a cell has left; of a read-only model also what the rules would block there."""
    query, key = cell
    count = int(lab.mask.keys_left(*lab.lengths, sentence=lab.sentence, rows=slice(query, query + 1)))
    token = quoted_token(lab.tokens[0][query].text, query)
    has = words.QUERY_HAS.format(query=token, left=count, keys=lab.lengths[1])
    rules = lab.mask.blocked_by(query, key, sentence=lab.masked) if lab.source.read_only else ()
    return f"{words.RULES_BLOCK.format(rules=' and '.join(rules))} {has}" if rules else has


def _reached(lab: Lab, told: Cell | None) -> None:
    """Which inputs one query sees after 1, 2, ... layers under the mask."""
    size, keys = lab.lengths
    if lab.site.kind == "cross":
        quiet(words.NOT_IN_CROSS)
        return
    if size > MOST_REACHED or size != keys:
        quiet(words.NOT_REACHED.format(most=MOST_REACHED))
        return
    query, tokens = told[0] if told else size - 1, lab.tokens[0]
    depth = min(lab.depth, MOST_LAYERS)
    layers = control(st.slider, words.LAYERS, LAYERS, 1, MOST_LAYERS, shown=state.get(LAYERS) or depth, width=280)
    seen = reach_of(lab.mask, size, layers, sentence=lab.sentence)[:, query]
    token = quoted_token(tokens[query].text, query)
    through = counted(layers, words.LAYER)
    quiet(words.SEES.format(query=token, inputs=int(seen[-1].sum()), keys=keys, layers=through))
    rows = [(f"{words.LAYER} {i}", _squares(row.tolist(), tokens), str(int(row.sum()))) for i, row in enumerate(seen)]
    table(rows, css="reach", numbers=(2,), rows_named=True)


def _squares(seen: list[bool], tokens: tuple[Token, ...]) -> Markup:
    if len(seen) > MOST_SQUARES:
        return Markup("")
    squares = []
    for i, (is_seen, token) in enumerate(zip(seen, tokens, strict=True)):
        title = plain((words.SEEN if is_seen else words.UNSEEN).format(token=shown(token.text), position=i))
        squares.append(f'<i class="{"seen" if is_seen else "unseen-input"}" title="{title}"></i>')
    return Markup("".join(squares))


def _costs(lab: Lab) -> None:
    """How much of full attention the mask leaves, for this text and for a long one."""
    queries, keys = lab.lengths
    heads, step = lab.source.num_heads, lab.record.step(lab.site)
    d_k = lab.source.d_model // heads if lab.record.read_only else step.query.shape[-1]
    asked = {"sentence": lab.sentence, "counted": COUNTED, "heads": heads, "d_k": d_k}
    known = isinstance(lab.mask, BuiltIn)  # for the cells of this text alone
    sizes = [(queries, keys)] if known else [(queries, keys), (FAR, FAR)]
    found = [cost_of(lab.mask, *size, **asked) for size in sizes]
    now, here = found[0], (words.COST_HERE if queries == keys else words.COST_OTHER).format(queries=queries, keys=keys)
    rows = [(name, *map(number, found)) for name, number in ROWS]
    head = ("", here, words.COST_FAR)[: len(found) + 1]
    table(rows, head, css="facts costs", numbers=range(1, len(head)), rows_named=True)
    quiet(
        words.COST_MEANS
        if known
        else f"{words.COST_MEANS} {words.COUNTED_BOTH if now.estimated else words.COUNTED_FAR}"
    )


def _flops(amount: Amount) -> float:
    return amount.flops_scores + amount.flops_output


def _of(part: str, full: str) -> Markup:
    return Markup(words.OF_FULL.format(part=part, full=full))


ROWS = (
    (words.BLOCKED, lambda cost: percent(cost.sparsity)),
    (words.CELLS, lambda cost: _of(short(cost.masked.cells), short(cost.full.cells))),
    (words.FLOPS, lambda cost: _of(short(_flops(cost.masked)), short(_flops(cost.full)))),
    (words.MEMORY, lambda cost: _of(short(cost.masked.bytes_scores, "B"), short(cost.full.bytes_scores, "B"))),
)
"""What is said of a cost, under which name."""
