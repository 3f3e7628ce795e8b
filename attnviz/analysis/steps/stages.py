"""Stages of one attention call, from tokens to the output of its layer, each with tables of numbers and a sentence."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnviz.analysis.steps.row import FIRST, MOST_WIDTH, Row, until, window_positions
from attnviz.core.amounts import counted, digits
from attnviz.core.edits import Site
from attnviz.core.record import Record, Step
from attnviz.core.scoring import ORDER
from attnviz.core.stream import Origin

READ_ONLY = "The model computes attention in its own code: only its weights are known."
LINEAR = "Linear attention has no scores and no softmax: its weights are made from queries, keys and gates."
NOT_USED = {
    "adjust": "Queries and keys are what their projections give.",
    "softcap": "This call has no softcap: its scores are not bounded.",
    "bias": "This call has no bias: nothing is added to its scores.",
    "temperature": "The temperature is 1: nothing is divided.",
    "mask": "This call has no mask: every query may attend to every key.",
}
"""Sentences for stages that a call does not have."""
NOT_TAKEN_APART = "The numbers of this model are known only from the queries, keys and values on."
_VECTORS, _CELLS = "B Q d_model", "B H Q K"
DECAYING_STATE = r"m_{ij} = \beta_j\, q_i \cdot k_j \prod_{l=j+1}^{i} \alpha_l"
DELTA_RULE = (
    r"M = (Q K^\top \odot D)\,(I + \beta\,(K K^\top \odot D)_{j<i})^{-1}\,\beta,"
    r"\enspace d_{ij} = \prod_{l=j+1}^{i} \alpha_l"
)
"""Mixing weights of linear attention, with the gates α and β: of a state that decays, and of the gated delta rule."""
STAGES = {
    "embedding": ("Embedding", _VECTORS, r"E[\text{tokens}]"),
    "position": ("Position", _VECTORS, r"X_0 = E[\text{tokens}] + P"),
    "input": ("Input of this layer", _VECTORS, r"X_0 \to X"),
    "project": ("Project to Q, K, V", "B Q H·d_k", r"X W_Q,\enspace X W_K,\enspace X W_V"),
    "split": ("Split into heads", "B H Q d_k", r"[\,Q_0 \;\dots\; Q_{H-1}\,] = X W_Q"),
    "adjust": ("Adjust Q and K", "B H Q d_k", r"Q \leftarrow f(Q),\enspace K \leftarrow f(K)"),
    "products": ("Dot products", _CELLS, r"Q K^\top"),
    "scale": ("Scale", _CELLS, r"S = \frac{Q K^\top}{\sqrt{d_k}}"),
    "softcap": ("Softcap", _CELLS, r"S \leftarrow c \tanh(S / c)"),
    "bias": ("Bias", _CELLS, r"S \leftarrow S + B"),
    "temperature": ("Temperature", _CELLS, r"S \leftarrow S / T"),
    "mask": ("Mask", _CELLS, r"s_{ij} \leftarrow -\infty \text{ where blocked}"),
    "softmax": ("Softmax", _CELLS, r"w_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}"),
    "values": ("Weighted values", "B H Q d_v", "O = W V"),
    "concat": ("Concatenate", "B Q H·d_v", r"[\,O_0 \;\dots\; O_{H-1}\,]"),
    "output": ("Output projection", _VECTORS, r"Y = [\,O_0 \;\dots\; O_{H-1}\,]\, W_O"),
}
"""Title, axes and equation of each stage by its key, in order. Every model with known modules has twelve of them; some
models also adjust queries and keys, cap scores, add a bias to scores, or divide scores by a temperature."""
KEYS = tuple(STAGES)
"""Keys of the stages, as used in links."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """A table of numbers for one sentence and head, complete or limited to a window.

    Attributes:
        key, name: "x", "w_q", "q_all", ..., the same in every run; and the title of the table: X, Q, ...
        axes: meaning of the rows and columns: "query" and "key" are positions of tokens, "d_k" dimensions, ...
        shape: shape of the complete table.
        rows, columns, values: positions, and their numbers, (rows, columns), in the precision of the model.
        blocked: cells that are masked and have weight 0, (rows, columns); None if unknown.
    """

    key: str
    name: str
    axes: tuple[str, str]
    shape: tuple[int, int]
    rows: range
    columns: range
    values: Tensor
    blocked: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of an attention call.

    Attributes:
        key, title, equation: one of `KEYS`, title for readers, and LaTeX.
        letters, shape: axes of the whole tensor, ("B", "H", "Q", "K"), and their sizes; empty if a size is unknown.
        matrices: tables for one sentence and head; empty if the numbers are unknown.
        changed: sentence with numbers about the change since the stage before.
        missing: reason why the call lacks the stage, or why its numbers are unknown; None if they are known.
    """

    key: str
    title: str
    equation: str
    letters: tuple[str, ...]
    shape: tuple[int, ...]
    matrices: tuple[Matrix, ...] = ()
    changed: str = ""
    missing: str | None = None

    @property
    def is_used(self) -> bool:
        """Whether the call has this stage, even if its numbers are unknown."""
        return self.missing in (None, READ_ONLY, NOT_TAKEN_APART)

    def matrix(self, key: str) -> Matrix:
        """Look up a table of the stage by its key."""
        return {matrix.key: matrix for matrix in self.matrices}[key]


@dataclass(frozen=True, eq=False)
class _CallView:
    """One head of an attention call, with the queries and keys to show; it makes the tables of the stages."""

    record: Record
    step: Step
    origin: Origin | None
    head: int
    sentence: int
    queries: range
    keys: range

    @property
    def window(self) -> tuple[slice, slice]:
        """Slices of the rows and columns of a table of queries and keys."""
        return slice(self.queries.start, self.queries.stop), slice(self.keys.start, self.keys.stop)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Size of every axis, by letter."""
        batch, heads, queries, keys = self.step.shape
        d_k, d_v = self.step.query.shape[-1], self.step.value.shape[-1]
        sizes = {"B": batch, "H": heads, "Q": queries, "K": keys, "query": queries, "key": keys, "d_k": d_k, "d_v": d_v}
        return sizes | {"H·d_k": heads * d_k, "H·d_v": heads * d_v, "d_model": self.record.output.shape[-1]}

    def stage(self, key: str, changed: str = "", *matrices: Matrix, missing: str | None = None) -> Stage:
        """Make a stage with its tables, or with the reason it has none."""
        title, letters, equation = STAGES[key]
        is_known = letters == _CELLS or not self.record.read_only  # a read-only record has no head sizes
        shape = tuple(self.sizes[letter] for letter in letters.split()) if is_known else ()
        return Stage(key, title, equation, tuple(letters.split()), shape, matrices, changed, missing)

    def table(self, key: str, name: str, axes: tuple[str, str], values: Tensor) -> Matrix:
        """Make a table limited to the window of queries and keys; `values` may contain only the window already."""
        windows = {"query": self.queries, "key": self.keys}
        shape, positions = [], []
        for dim, axis in enumerate(axes):
            size = values.shape[dim]
            window = windows.get(axis, range(min(size, MOST_WIDTH)))
            shape.append(self.sizes[axis] if axis in windows else size)
            positions.append(window)
            if size != len(window):
                values = values.narrow(dim, window.start, len(window))
        return Matrix(key, name, axes, (shape[0], shape[1]), positions[0], positions[1], values)

    def cell_stage(self, stage: str, changed: str, **tables: Tensor) -> Stage:
        """Make a stage with tables of queries x keys; `tables` are their values, (Q, K), by the key of the table."""
        matrices = (self.table(key, key.replace("_", " "), ("query", "key"), values) for key, values in tables.items())
        if (len(self.queries), len(self.keys)) != self.step.shape[2:]:
            changed = f"In the window of {len(self.queries)} queries and {len(self.keys)} keys: {changed}"
        return self.stage(stage, changed, *matrices)

    def projected(self, letter: str) -> Tensor:
        """Compute the queries ("q"), keys ("k") or values ("v") of all heads from the input of the call, (n, H · d)."""
        vectors = self.origin.query_input if letter == "q" else self.origin.key_input
        return getattr(self.origin, f"w_{letter}")(vectors)[self.sentence]


def span(values: Tensor) -> str:
    """Write the smallest and largest finite number of a tensor: "-1.2 to 3.4"."""
    finite = values[values.isfinite()]
    return f"{digits(finite.min())} to {digits(finite.max())}" if finite.numel() else "no finite number"


def deviation(values: Tensor) -> str:
    """Write the standard deviation of the finite numbers of a tensor."""
    finite = values[values.isfinite()].double()
    return digits(finite.std(correction=0)) if finite.numel() else "NaN"


def length(vectors: Tensor) -> str:
    """Write the mean length of vectors."""
    return digits(vectors.norm(dim=-1).mean())


def _tokens(call: _CallView) -> Iterator[Stage]:
    """Make the stages from tokens to projections; keys have tables of their own if they are not the queries."""
    origin, b, site = call.origin, call.sentence, call.step.site
    words, positions, x = origin.query_tokens.words[b], origin.query_tokens.positions, origin.query_input[b]
    sides = {"query": origin.query_tokens}
    inputs = [call.table("x", "X", ("query", "d_model"), x)]
    if origin.key_input is not origin.query_input or call.keys != call.queries:
        sides["key"] = origin.key_tokens
        inputs.append(call.table("x_keys", "X of the keys", ("key", "d_model"), origin.key_input[b]))
    token_tables, sum_tables = [], []
    for axis, side in sides.items():
        axes = (axis, "d_model")
        token_tables.append(call.table(f"words_{axis}", f"{axis} tokens", axes, side.words[b]))
        if positions is not None:
            total = side.words[b] + side.positions
            sum_tables.append(call.table(f"positions_{axis}", "P", axes, side.positions))
            sum_tables.append(call.table(f"embedded_{axis}", f"{axis} tokens + positions", axes, total))
    vectors = f"{counted(len(words), 'vector')} of {counted(words.shape[1], 'number')}"
    yield call.stage("embedding", f"{counted(len(words), 'token')} became {vectors}.", *token_tables)
    embedded = words if positions is None else words + positions
    if positions is None:
        yield call.stage("position", missing=origin.query_tokens.note)
    else:
        token_vectors = f"vectors of length {length(words)} (on average)"
        changed = f"Positions of length {length(positions)} were added to {token_vectors}."
        yield call.stage("position", changed, *sum_tables)
    causes = [counted(site.layer, "layer")] if site.layer > 0 else []
    causes += ["the self-attention of this layer"] if site.kind == "cross" else []
    causes += ["a normalization"] if origin.is_normalized else []
    changed = f"Vectors of length {length(embedded)} on average became vectors of length {length(x)}"
    changed += f" by {', '.join(causes)}." if causes else "."
    if torch.equal(x, embedded):
        changed = "No number changed: the first layer reads the vectors as they are."
    yield call.stage("input", changed, *inputs)
    heads, sizes = call.step.num_heads, call.sizes
    tables = []
    for letter, axis, width in (("q", "query", "d_k"), ("k", "key", "d_k"), ("v", "key", "d_v")):
        name, bias = letter.upper(), getattr(origin, f"w_{letter}").bias
        weight = origin.head_weight(f"w_{letter}", call.head, heads)
        tables.append(call.table(f"w_{letter}", f"weights of {name}, head {call.head}", ("d_model", width), weight))
        if bias is not None:
            row = bias.chunk(heads)[call.head].unsqueeze(0)
            tables.append(call.table(f"b_{letter}", f"bias of {name}, head {call.head}", ("1", width), row))
        tables.append(call.table(f"{letter}_all", f"{name} of all heads", (axis, f"H·{width}"), call.projected(letter)))
    matrices = f"three matrices of {sizes['d_model']} x {sizes['H·d_k']}: Q, K and V of all heads at once"
    bias = "No bias was added." if origin.w_q.bias is None else "A bias was added."
    yield call.stage("project", f"Vectors were multiplied by {matrices}. {bias}", *tables)


def _heads(call: _CallView) -> Iterator[Stage]:
    """Make the stages "split", the projected vectors of one head, and "adjust", if the call then changes them."""
    step, origin, index, d_k = call.step, call.origin, (call.sentence, call.head), call.sizes["d_k"]
    is_adjusted = origin is not None and origin.is_adjusted
    query, key = q, k = step.query[index], step.key[index]
    if is_adjusted:  # before the adjustment
        q, k = (call.projected(letter).chunk(step.num_heads, -1)[call.head] for letter in "qk")
    tables = [
        call.table("q", "Q", ("query", "d_k"), q),
        call.table("k", "K", ("key", "d_k"), k),
        call.table("v", "V", ("key", "d_v"), step.value[index]),
    ]
    heads, first = f"{counted(step.num_heads, 'head')} of {counted(d_k, 'number')}", call.head * d_k
    columns = f"columns {first} to {first + d_k - 1} of {step.num_heads * d_k}"
    changed = f"Attention is given {heads}; this is head {call.head}"
    changed += "." if origin is None else f": {columns}."
    yield call.stage("split", changed, *tables)
    if not is_adjusted:
        return
    tables = [
        call.table("q_adjusted", "Q adjusted", ("query", "d_k"), query),
        call.table("k_adjusted", "K adjusted", ("key", "d_k"), key),
    ]
    normalized = f"Queries of length {length(q)} on average were normalized to length {length(query)}. "
    turned = "Pairs of numbers were turned by an angle that grows with the position, which changes no length. "
    changed = (normalized if origin.normalizes_heads else "") + (turned if origin.is_rotary else "")
    yield call.stage("adjust", f"{changed}Values stay as they are.", *tables)


def _scores(call: _CallView) -> Iterator[Stage]:
    """Make the stages from dot products to scores of the window, in the order of `scoring.ORDER`."""
    step, scoring, d_k = call.step, call.step.scoring, call.sizes["d_k"]
    products, scaled, capped, biased, scores = (
        until(step, stage).scores(call.head, *call.window, sentence=call.sentence) for stage in ORDER
    )
    pairs, terms = counted(products.numel(), "dot product"), counted(d_k, "product")
    changed = f"{pairs} of {terms} each: {span(products)}, standard deviation {deviation(products)}."
    yield call.cell_stage("products", changed, products=products)
    is_root = math.isclose(scoring.scale, d_k**-0.5)
    factor = f"{digits(scoring.scale)} ({'' if is_root else 'not '}1/√{d_k})"
    spread = f"the standard deviation went from {deviation(products)} to {deviation(scaled)}"
    stage = call.cell_stage("scale", f"Every product was multiplied by {factor}: {spread}.", scaled=scaled)
    yield stage if is_root else replace(stage, equation=rf"S = {scoring.scale:.4g} \, Q K^\top")
    if scoring.softcap is not None:
        changed = f"Scores stay within ±{digits(scoring.softcap)}: {span(scaled)} became {span(capped)}."
        yield call.cell_stage("softcap", changed, capped=capped)
    if scoring.bias:
        bias_alone = replace(until(step, "bias"), query=torch.zeros_like(step.query))  # all products are 0
        added = bias_alone.scores(call.head, *call.window, sentence=call.sentence)
        cells = f"{int((added != 0).sum())} of {counted(added.numel(), 'score')}"
        changed = f"{span(added)} was added; {cells} changed."
        yield call.cell_stage("bias", changed, biased=biased, added=added)
    if scoring.temperature != 1:
        changed = f"Scores were divided by {digits(scoring.temperature)}: {span(biased)} became {span(scores)}."
        yield call.cell_stage("temperature", changed, tempered=scores)


def _weights(call: _CallView) -> Iterator[Stage]:
    """Make the stages with the mask and the weights, which are known for every model."""
    step, rows, text = call.step, call.window[0], {"sentence": call.sentence}
    allowed = step.may_attend(call.head, *call.window, **text)
    if step.mask is not None and step.mixing == "softmax":
        masked = step.masked_scores(call.head, *call.window, **text)
        cells = f"{int((~allowed).sum())} of {counted(allowed.numel(), 'cell')} were replaced by −∞"
        changed = f"{cells}; {int(allowed.sum())} stay as they are."
        yield call.cell_stage("mask", changed, masked=masked, may_attend=allowed)
    weights = step.weights(call.head, rows, **text)
    num_empty = int(step.empty_queries(call.head, **text)[rows].sum())
    empty = f" {counted(num_empty, 'row')} with no key left: '{step.scoring.empty_rows}'." if num_empty else ""
    largest = digits(weights.nan_to_num().max()) if weights.numel() else "0"
    changed = f"Each row became weights between 0 and 1 that sum to 1; the largest is {largest}.{empty}"
    table = call.table("weights", "weights", ("query", "key"), weights)
    if step.linear:
        changed = f"{step.linear.rule}: the weights go from {span(weights)}.{empty} {step.linear.before}".rstrip()
        table = call.table("mixing", "mixing weights", ("query", "key"), weights)
    blocked = None if step.mask is None else ~allowed & (table.values == 0)  # rows without an open key may have weights
    stage = call.stage("softmax", f"{changed[:1].upper()}{changed[1:]}", replace(table, blocked=blocked))
    if step.linear:
        stage = replace(stage, title="Mixing weights", equation=DELTA_RULE if step.linear.is_delta else DECAYING_STATE)
    yield stage


def _outputs(call: _CallView) -> Iterator[Stage]:
    """Make the stages with the output of the head, of all heads concatenated and, if known, of the layer."""
    step, sizes, value = call.step, call.sizes, call.step.value[call.sentence, call.head]
    output = step.weights(call.head, call.window[0], sentence=call.sentence).to(value.dtype) @ value
    is_patched = step.taken is not None and not bool(step.taken[call.sentence, call.head].isnan().all())
    patched = " The run then replaced this output by the output for another text." if is_patched else ""
    values = f"{counted(sizes['K'], 'value')} of {counted(sizes['d_v'], 'number')}"
    changed = f"For each query, {values} were multiplied by the query's weights and added: {span(output)}.{patched}"
    yield call.stage("values", changed, call.table("output", f"O of head {call.head}", ("query", "d_v"), output))
    off = [str(head) for head in range(step.num_heads) if step.is_off(head, sentence=call.sentence)]
    zeros = f" Heads that are off give zeros: {', '.join(off)}." if off else ""
    count = f"{counted(step.num_heads, 'output')} of {counted(sizes['d_v'], 'number')}"
    changed = f"{count} were concatenated: {sizes['H·d_v']} for each query.{zeros}"
    outputs = [step.output(head, call.window[0], sentence=call.sentence) for head in range(step.num_heads)]
    joined = torch.cat(outputs, -1)
    yield call.stage("concat", changed, call.table("concat", "Concat(O)", ("query", "H·d_v"), joined))
    if call.origin is None:
        return
    w_o, weight = call.origin.w_o, call.origin.head_weight("w_o", call.head, step.num_heads)
    tables = [call.table("w_o", f"output weights, head {call.head}", ("d_v", "d_model"), weight)]
    if w_o.bias is not None:
        tables.append(call.table("b_o", "output bias", ("1", "d_model"), w_o.bias.unsqueeze(0)))
    y, y_of_head = w_o(joined), joined.chunk(step.num_heads, -1)[call.head].to(weight.dtype) @ weight
    changed = f"{sizes['H·d_v']} numbers of all heads became {sizes['d_model']} for each query"
    lengths = f"a vector of length {length(y)} on average; head {call.head} alone would give length {length(y_of_head)}"
    yield call.stage("output", f"{changed}: {lengths}.", *tables, call.table("y", "Y", ("query", "d_model"), y))


def chain(
    record: Record,
    source: Any,
    site: Site,
    head: int,
    *,
    sentence: int = 0,
    queries: slice = FIRST,
    keys: slice = FIRST,
) -> tuple[Stage, ...]:
    """Compute one head of one attention call stage by stage, with the numbers of its run.

    Args:
        record: a run of `source`.
        source: source whose `origin` returns the input and projections of the call; None if unknown.
        queries, keys: tokens to show in the tables, at most 64 of each.

    Returns:
        All stages, always the same ones. A stage that the model does not have or show has the reason in `missing`.
    """
    step = record.step(site)
    step.empty_queries(head, sentence=sentence)  # raises if there is no such head or sentence
    has_scores = record.has_scores(site)
    origin = source.origin(record, site) if source is not None and has_scores else None
    windows = window_positions(queries, step.shape[2], "queries"), window_positions(keys, step.shape[3], "keys")
    call = _CallView(record, step, origin, head, sentence, *windows)
    makers = [_weights]
    if not record.read_only:
        makers += [_heads, _outputs]
    if has_scores:
        makers.append(_scores)
    if origin is not None:
        makers.append(_tokens)
    stages = {stage.key: stage for make_stages in makers for stage in make_stages(call)}
    unknown, not_used = NOT_TAKEN_APART, NOT_USED
    if record.read_only:
        unknown, not_used = READ_ONLY, {"mask": NOT_USED["mask"]}
    elif step.linear:
        not_used = dict.fromkeys(("adjust", *KEYS[KEYS.index("products") : KEYS.index("softmax")]), LINEAR)
    return tuple(stages.get(key) or call.stage(key, missing=not_used.get(key, unknown)) for key in KEYS)


def values_stage(row: Row, num_keys: int) -> Stage:
    """Make a stage of the weighted values of one query and their sum."""
    values = _key_table("weighted values (w ∘ V)", row.weighted_values, row, num_keys, "d_v")
    total = _line("o, their sum over all keys", "d_v", row.output)
    return Stage("weighted", "Weighted values", r"o = \sum_j w_j v_j", (), (), (values, total))


def products_stage(row: Row, num_keys: int) -> Stage:
    """Make a stage of one query, element by element: q, k and q ∘ k for every key and dimension."""
    tables = [
        _line("q", "d_k", row.query_vector),
        _key_table("k", row.key_vectors, row, num_keys, "d_k"),
        _key_table("q ∘ k", row.products, row, num_keys, "d_k"),
        _key_table("q · k", row.sums, row, num_keys),
        _key_table("weight", row.weights, row, num_keys),
    ]
    return Stage("neurons", "Element by element", r"q \cdot k = \sum_i q_i k_i", (), (), tuple(tables))


def row_stage(worked: Row, step: Step) -> Stage:
    """Make a stage of one query, from scores to weights: for each step, a table with a number for each key."""
    scoring = step.scoring
    steps = {
        "q · k": worked.sums,
        scale_text(step): worked.scaled,
        "softcap": None if scoring.softcap is None else worked.capped,
        "+ bias": worked.biased if scoring.bias else None,
        f"/ {scoring.temperature:g}": None if scoring.temperature == 1 else worked.scores,
        "mask": None if step.mask is None else worked.masked,
        "− max": worked.shifted,
        "exp": worked.exps,
        "weight": worked.weights,
    }
    tables = [_key_table(name, part, worked, step.shape[3]) for name, part in steps.items() if part is not None]
    totals = {"largest score": worked.maximum, "sum of exp": worked.sum_exps, "sum of weights": worked.row_sum}
    changed = " · ".join(f"{name} {digits(value)}" for name, value in totals.items())
    return Stage(f"query-{worked.query}", f"Query {worked.query} in full", "", (), (), tuple(tables), changed)


def _key_table(name: str, numbers: Tensor, row: Row, num_keys: int, axis: str = "1") -> Matrix:
    """Make a table with a row for each key shown, from `numbers` (keys,) or (keys, width); `axis` names the columns."""
    width = 1 if numbers.dim() == 1 else numbers.shape[1]
    return Matrix(name, name, ("key", axis), (num_keys, width), row.keys, range(width), numbers.reshape(-1, width))


def _line(name: str, axis: str, numbers: Tensor) -> Matrix:
    """Make a table of a single row."""
    return Matrix(name, name, ("1", axis), (1, len(numbers)), range(1), range(len(numbers)), numbers.unsqueeze(0))


def scale_text(step: Step) -> str:
    """Format the factor of q · k: "÷ √…" for 1/√d_k, otherwise the number."""
    scale, d_k = step.scoring.scale, step.query.shape[-1]
    return f"÷ √{d_k}" if math.isclose(scale, d_k**-0.5) else f"· {scale:.4g}"
