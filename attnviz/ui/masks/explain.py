"""The mask in words: which rule blocks the selected cell, what its query sees after some layers, and what it costs."""

from html import escape

import streamlit as st

from attnviz.core import reach
from attnviz.core.amounts import percent, short
from attnviz.core.cost import Amount, cost
from attnviz.core.display import shown
from attnviz.core.masks import Mask
from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import cache, state
from attnviz.ui.shared.notes import clean, heading, quiet
from attnviz.ui.shared.state import control
from attnviz.words import quoted_token

LAYERS = state.kept("layers reached", 3)

MOST_LAYERS = 8
MOST_REACHED = 1024
"""Of longer texts the receptive field takes too long for a page."""
MOST_SQUARES = 48
"""Of so many tokens the inputs that are seen are drawn; of more they are counted."""

FAR = 128 * 1024
"""How long a long text is."""
COUNTED = 2**19
"""So many cells are counted at most: random keys take longest, a sixth of a second."""

cost_of = cache.kept(cost)


def explained(lab: Lab, cell: tuple[int, int] | None) -> None:
    """Everything below the pictures."""
    if cell is not None:
        quiet(blamed(lab, cell))
    left, right = st.columns(2, gap="large")
    with left:
        _reached(lab, cell)
    with right:
        _costs(lab)


def blamed(lab: Lab, cell: tuple[int, int]) -> str:
    """Which rules block a cell, by their names and places in the list, and how many keys its query has left."""
    query, key = cell
    queries, keys = lab.tokens
    left = int(lab.mask.keys_left(len(queries), len(keys), sentence=lab.sentence, rows=slice(query, query + 1)))
    count = f"Query {quoted_token(queries[query].text, query)} has {left} of {len(keys)} keys left."
    found = lab.stack.blame(query, key, sentence=lab.sentence)
    rules = [f"rule {i + 1}: {'not ' * lab.stack.entries[i].negated}{lab.stack.entries[i].mask}" for i in found]
    if rules:
        said = f"Blocked by {'; '.join(rules)}."
    elif lab.mask.blocked_by(query, key, sentence=lab.sentence):
        said = "No rule blocks it: the model's own mask does."
    else:
        said = "No rule blocks it."
    return f"{said} {count}"


def _reached(lab: Lab, cell: tuple[int, int] | None) -> None:
    """Which inputs one query sees after 1, 2, ... layers under the mask."""
    queries, keys = lab.tokens
    heading("What a query sees through layers")
    if lab.site.kind == "cross":
        quiet("In cross-attention queries and keys are different sentences: what is seen does not grow with layers.")
        return
    if len(queries) > MOST_REACHED or len(queries) != len(keys):
        quiet(f"This is computed for up to {MOST_REACHED:,} tokens, as many queries as keys.")
        return
    query = len(queries) - 1 if cell is None else cell[0]
    layers = st.slider("Layers", 1, MOST_LAYERS, **control(LAYERS), width=280)
    seen = _seen(lab.mask, len(queries), layers, lab.sentence)[:, query]
    rows = "".join(_layer(i + 1, row.tolist(), queries) for i, row in enumerate(seen))
    token = quoted_token(queries[query].text, query)
    after = "" if layers == 1 else "s"
    quiet(f"{token} sees {int(seen[-1].sum())} of {len(keys)} inputs after {layers} layer{after}, itself included.")
    st.html(f'<table class="reach">{rows}</table>')


@cache.kept
def _seen(mask: Mask, size: int, layers: int, sentence: int):
    return reach.reach(mask, size, layers, sentence=sentence)


def _layer(layer: int, seen: list[bool], tokens) -> str:
    squares = ""
    if len(seen) <= MOST_SQUARES:
        squares = "".join(_square(i, seen[i], token.text) for i, token in enumerate(tokens))
    return f'<tr><th scope="row">{layer}</th><td>{squares}</td><td class="number">{sum(seen)}</td></tr>'


def _square(i: int, is_seen: bool, text: str) -> str:
    title = escape(clean(f"{shown(text)} ({i}): {'seen' if is_seen else 'not seen'}"))
    return f'<i class="{"seen" if is_seen else "unseen-input"}" title="{title}"></i>'


def _costs(lab: Lab) -> None:
    """How much of full attention the mask leaves, for this text and for a long one."""
    queries, keys = (len(tokens) for tokens in lab.tokens)
    asked = {"sentence": lab.sentence, "counted": COUNTED, **_sizes(lab)}
    now, far = (cost_of(lab.mask, *n, **asked) for n in ((queries, keys), (FAR, FAR)))
    rows = "".join(_row(name, said(now), said(far)) for name, said in ROWS)
    heading("What it costs in one layer")
    here = f"{queries} tokens" if queries == keys else f"{queries} × {keys} tokens"
    heads = "".join(f'<th scope="col" class="number">{name}</th>' for name in (here, "128k tokens"))
    st.html(f'<table class="facts costs"><tr><td></td>{heads}</tr>{rows}</table>')
    quiet(
        "Of full attention: what a kernel does that skips every blocked cell. One that skips none does it all. "
        "Memory is of the scores, if they are held. "
        f"{'Of both' if now.estimated else 'For 128k'} the keys of some rows are counted."
    )


def _row(title: str, *numbers: str) -> str:
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    return f'<tr><th scope="row">{title}</th>{cells}</tr>'


def _sizes(lab: Lab) -> dict[str, int]:
    heads, step = lab.source.num_heads, lab.record.step(lab.site)
    d_k = lab.source.d_model // heads if lab.record.read_only else step.query.shape[-1]
    return {"heads": heads, "d_k": d_k}


def _flops(amount: Amount) -> float:
    return amount.flops_scores + amount.flops_output


def _of(part: str, full: str) -> str:
    return f"{part} <small>of {full}</small>"


ROWS = (
    ("blocked", lambda cost: percent(cost.sparsity)),
    ("cells in one head", lambda cost: _of(short(cost.masked.cells), short(cost.full.cells))),
    ("FLOPs", lambda cost: _of(short(_flops(cost.masked)), short(_flops(cost.full)))),
    ("memory", lambda cost: _of(short(cost.masked.bytes_scores, "B"), short(cost.full.bytes_scores, "B"))),
)
"""What is said of a cost, under which name."""
