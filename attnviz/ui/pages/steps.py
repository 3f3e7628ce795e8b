"""The Steps page: the computation of one head, stage by stage, from tokens to the output of its layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis import steps
from attnviz.analysis.sentences import quoted_token
from attnviz.analysis.steps import KEYS, Matrix, Row, Stage
from attnviz.core.amounts import digits, in_cell
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.stream import Origin
from attnviz.figures import Figure
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui import cache, export_menu
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import change, control, now, put, session
from attnviz.ui.text import block, in_words, literal, quiet
from attnviz.ui.toolbar import ROW, Context, drop_outside, toolbar

WHY = {
    "embedding": "Each token is looked up in a table, E. The same word gets the same vector wherever it stands.",
    "position": "Positions, P, encode the order of the words, which attention itself ignores.",
    "input": "Attention reads X, the output of the layers below. In the first layer X is the embedded tokens, in many "
    "models normalized.",
    "project": "Three matrices, d_model × H·dₖ, turn each token into its query, key and value for all heads.",
    "split": "The vectors are split into heads. Splitting only renames columns: (B, n, H·dₖ) becomes (B, H, n, dₖ).",
    "adjust": "Queries and keys are adjusted before their product. Some models normalize them; many rotate pairs of "
    "numbers by an angle that grows with the position (rotary embedding), so that a product depends on the distance.",
    "products": "Each cell is one number: how well a query and a key agree.",
    "scale": "Dividing by √dₖ keeps scores small for vectors of any size. q · k is a sum of dₖ products: if they are "
    "independent with variance 1, the sum has variance dₖ, and 1 after the division by √dₖ.",
    "softcap": "Some models squash scores so that they stay within a bound.",
    "bias": "A bias that depends on the positions is added to the scores. It changes weights, but blocks none.",
    "temperature": "Below 1 the largest weight grows, above 1 weights become more alike.",
    "mask": "Blocked scores become −∞, so that their weights are 0: e^−∞ = 0, and the other keys share the whole row.",
    "softmax": "Each row becomes weights that sum to 1: e^score, divided by the sum over the row.",
    "values": "Each query gets the mean of all values, weighted by its row.",
    "concat": "The outputs of all heads are concatenated. Up to here, each head was computed separately.",
    "output": "The output weights mix the heads and project to the size of the input, to which the result is added.",
}
"""Purpose of each stage; the first sentence is shown above the tables of the stage."""
LINEAR_WHY = {
    "softmax": "Each row tells how much of each value a token takes. The weights come from queries, keys and gates; "
    "they may be negative, and their sum need not be 1.",
    "values": "Each query gets the sum of all values, each times its mixing weight.",
}
"""Purpose of a stage of linear attention, if it differs."""
MOST_LISTED = 64
"""Maximum number of tokens for which the row is chosen from a list; with more tokens, its index is typed."""
SCORE_STAGES = KEYS[KEYS.index("products") : KEYS.index("softmax") + 1]
"""Stages that change the number of a single cell."""
SIGNS = "Equal signs of q and k in a dimension raise the score, opposite signs lower it; a row of q ∘ k sums to q · k."
INFLUENCE = "A weight is not an influence: what a key adds is its weight times its value."


class CachedOrigin(NamedTuple):
    """Stand-in for a source in `steps.chain`, which needs only its method `origin`; here its results are cached."""

    source: Source

    def origin(self, record: Record, site: Site) -> Origin | None:
        """Return the input from which an attention call projects Q, K and V; the calls before it run again."""
        return cache.call_origin(self.source, record, site)


@dataclass(frozen=True, eq=False)
class HeadCall:
    """The head and the cell whose computation is shown.

    Attributes:
        record: the run with the edits, or the original run.
        head: index of the head.
        query, key: positions of the selected cell.
    """

    context: Context
    record: Record
    head: int
    query: int
    key: int

    @property
    def place(self) -> tuple[Record, Site, int]:
        """Record, site and head, the first arguments of many functions."""
        return self.record, self.context.site, self.head

    @property
    def has_scores(self) -> bool:
        """Whether the scores and each number of the softmax are known."""
        return self.record.has_scores(self.context.site)

    def why(self, stage: Stage) -> tuple[str, str]:
        """Purpose of a stage in this call: the first sentence, and the rest of the text."""
        is_linear = self.record.step(self.context.site).linear
        text = LINEAR_WHY[stage.key] if is_linear and stage.key in LINEAR_WHY else WHY[stage.key]
        purpose, _, explanation = text.partition(". ")
        return f"{purpose.removesuffix('.')}.", explanation

    @cached_property
    def row(self) -> Row:
        """All intermediate results of the query's row."""
        keys = self.windows["keys"]
        return steps.row(*self.place, self.query, sentence=self.context.sentence, keys=keys)

    @property
    def index(self) -> int:
        """Index of the selected key in the row."""
        return self.row.keys.index(self.key)

    @property
    def windows(self) -> dict[str, slice]:
        """Slices of the queries and keys in the tables: at most `steps.MOST_TOKENS` around the selected cell."""
        queries, keys = map(len, self.context.tokens)
        return {"queries": _window(self.query, queries), "keys": _window(self.key, keys)}

    @property
    def names(self) -> tuple[str, str]:
        """Quoted tokens of the query and the key."""
        queries, keys = self.context.tokens
        return quoted_token(queries[self.query].text, self.query), quoted_token(keys[self.key].text, self.key)

    def figure(self, stage: Stage, matrices: Sequence[Matrix]) -> Figure:
        """Make the figure of a stage's tables, with the selected cell outlined."""
        options = {"selected": (self.query, self.key), "dark": self.context.dark, "sentence": self.context.sentence}
        return figures.stage(*self.place, stage, tuple(matrices), **options)


def _window(position: int, size: int) -> slice:
    """Return a slice of at most `steps.MOST_TOKENS` of `size` positions, with the position near its middle."""
    first = max(0, min(position - steps.MOST_TOKENS // 2, size - steps.MOST_TOKENS))
    return slice(first, min(size, first + steps.MOST_TOKENS))


def page(source: Source, request: Request) -> None:
    """Draw the page."""
    context = toolbar(source, request)
    drop_outside(context)
    with st.container(**ROW):
        call = _call(context)
        _question(call)
    options = {"sentence": context.sentence} | call.windows
    cached_chain = cache.cached(steps.chain)
    all_stages = cached_chain(call.record, CachedOrigin(context.source), context.site, call.head, **options)
    stages = tuple(stage for stage in all_stages if stage.is_used)  # without those that have no effect in this call
    index = _stage_index(call, stages)
    stage = stages[index]
    with st.container(horizontal=True, gap="medium"):  # on a phone the stage comes first
        left, middle, right = st.container(width=344), st.container(width=640, key="first"), st.container(width=316)
    with left:
        rail = _rail(call, stages, stage)
    with middle:
        _stage_buttons(stages, index)
        figure = _stage(call, stage)
    with right:
        _result(call, stage)
        st.latex(stage.equation)
        _, explanation = call.why(stage)
        quiet(*filter(None, (explanation, stage.changed)))
    exports = ({} if figure is None else {"This step": figure}) | {"All steps": rail} | _row(call)
    with context.export:
        export_menu.menu(context, exports, "steps")
    if figure is not None:
        numbers(figure, "stage")


def _call(context: Context) -> HeadCall:
    """Draw the choices of the row and of the run, with or without the edits; return the head and the cell to show."""
    head = context.head if isinstance(context.head, int) else 0
    query, key = context.outlined or (0, 0)
    queries = context.tokens[0]

    def with_row(choices: Choices, row: int) -> Choices:
        """Select the cell with the largest weight of a row."""
        step, rows = context.record.step(context.site), slice(row, row + 1)
        _, keys = analysis.strongest(step, head, sentence=context.sentence, rows=rows)
        return choices.put(cell=(row, int(keys[0])))

    if len(queries) > MOST_LISTED:
        options = {"value": query, "apply": with_row, "visible": False, "width": 130}
        control(st.number_input, "Row", "cell", 0, len(queries) - 1, **options)
    else:
        rows = {i: f"Row {visible_text(token.text, 30)} ({i})" for i, token in enumerate(queries)}
        options = {"value": query, "apply": with_row, "visible": False, "format_func": rows.get, "width": 190}
        control(st.selectbox, "Row", "cell", [*rows], **options)
    record, memory = context.record, session().memory
    if context.before is not None:
        default = memory.get("run", "With the changes")
        options = {"default": default, "required": True, "label_visibility": "collapsed"}
        memory["run"] = st.segmented_control("Run", ("With the changes", "Original model"), key="run", **options)
        record = context.before if memory["run"] == "Original model" else context.record
    if not isinstance(context.head, int):
        quiet("This page shows one head at a time: head 0.")
    return HeadCall(context, record, head, query, key)


def _stage_index(call: HeadCall, stages: tuple[Stage, ...]) -> int:
    """Return the index of the stage to show: the chosen one, else the softmax, else the first with known numbers."""
    keys, name = [stage.key for stage in stages], now()["stage"]
    if name in keys:
        return keys.index(name)
    if name is not None:
        reason = "is not a stage" if name not in KEYS else "has no effect in this call"
        quiet(f"“{visible_text(name[:40])}” {reason}; the stages are {', '.join(keys)}.")
    computed = [stage.key for stage in stages if stage.matrices] or keys
    return keys.index("softmax" if "softmax" in computed else computed[0])


def _question(call: HeadCall) -> None:
    """Draw the title: how the selected cell gets its weight, and how the edits change the row."""
    if call.context.source.read_only:
        quiet(call.context.source.read_only)
        return
    query, key = call.names
    if not call.has_scores:
        rows, columns = slice(call.query, call.query + 1), slice(call.key, call.key + 1)
        step = call.record.step(call.context.site)
        weight = digits(step.weights(call.head, rows, columns, sentence=call.context.sentence)[0, 0])
        block(f"How {query} takes {key} with the mixing weight {weight}, step by step", "large")
        quiet(steps.LINEAR)
        return
    weight = float(call.row.weights[call.index])
    share = f"{weight:.2g}" if 0 < weight < 0.0995 else in_cell(weight)  # a cell shows 0.08 where the title has 0.078
    block(f"How {query} gives {share} of its attention to {key}, step by step", "large")
    if call.context.before is not None:
        before, site, text = call.context.before, call.context.site, call.context.sentence
        _, _, effect = steps.compare(before, call.context.record, site, call.head, call.query, sentence=text)
        quiet(effect)


def _rail(call: HeadCall, stages: tuple[Stage, ...], current: Stage) -> Figure:
    """Draw all stages as thumbnails; a click opens a stage."""
    options = {"selected": (call.query, call.key), "dark": call.context.dark, "sentence": call.context.sentence}
    figure = figures.chain(*call.place, stages, current=current.key, **options)
    keys = [stage.key for stage in stages]

    def open_stage(point: dict) -> None:
        put(stage=keys[int(point["position"])])

    picture(figure, "rail", select="stage", on_click=open_stage)
    return figure


def _stage_buttons(stages: tuple[Stage, ...], index: int) -> None:
    """Draw buttons for the previous and the next stage, and a list of all stages."""
    names = {stage.key: f"{i} · {stage.title}" for i, stage in enumerate(stages, 1)}
    keys = [*names]

    def stage_button(label: str, target: int, **options: Any) -> None:
        action = {"on_click": change, "args": (lambda choices: choices.put(stage=keys[target]),)}
        st.button(label, disabled=not 0 <= target < len(keys), **action, **options)

    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        stage_button("Back", index - 1, key="stage before", icon=":material/chevron_left:")
        options = {"value": keys[index], "visible": False, "format_func": names.get, "width": 190, "part": "list"}
        control(st.selectbox, "Step", "stage", keys, **options)
        title = f"Next: {names[keys[index + 1]]}" if index + 1 < len(keys) else "Next"
        stage_button(title, index + 1, key="next stage", icon=":material/chevron_right:", icon_position="right")


def _stage(call: HeadCall, stage: Stage) -> Figure | None:
    """Draw one stage: a sentence about its purpose, and its tables."""
    purpose, _ = call.why(stage)
    block(purpose, "large")
    if stage.missing:
        quiet(stage.missing)
    if not stage.matrices:
        return None
    matrices = {matrix.key: matrix for matrix in stage.matrices}
    if stage.key == "project":
        options = {"default": "Q", "required": True, "key": "projection"}
        letter = st.segmented_control("Projection", tuple("QKV"), label_visibility="collapsed", **options).lower()
        tables = [matrices[key] for key in (f"{letter}_all", f"w_{letter}", f"b_{letter}") if key in matrices]
    else:
        tables = stage.matrices[:1] if stage.key == "mask" else stage.matrices
    figure = call.figure(stage, tables)
    _picture(call, figure, "stage")
    return figure


def _picture(call: HeadCall, figure: Figure, key: str) -> None:
    """Draw tables; a click selects a query, a key, or both."""
    old_query, old_key = call.query, call.key  # not `call` below: the callback would keep its record in memory

    def select_cell(point: dict) -> None:
        query, key = int(point["query"]), int(point["key"])  # -1 if the table has no queries or no keys
        put(cell=(query if query >= 0 else old_query, key if key >= 0 else old_key))

    picture(figure, key, select="cell", on_click=select_cell)


def _result(call: HeadCall, stage: Stage) -> None:
    """Draw the arithmetic of the stage for the selected cell or, if the stage has no scores, the query's vector."""
    if call.context.source.read_only:
        return
    query, key = call.names
    if stage.key == "values" and call.has_scores:
        from_key = float(call.row.weighted_values[call.index][0])
        total = float(call.row.output[0])
        sum_text = f"{digits(from_key)} from {key}\n+ {digits(total - from_key)} from the others\n= {digits(total)}"
        in_words(f"The first number of {query}:\n{sum_text}")
    elif stage.key in SCORE_STAGES and call.has_scores:
        stages_so_far = SCORE_STAGES[: SCORE_STAGES.index(stage.key) + 1]
        lines = [line for stage_key, line in arithmetic(call) if stage_key in stages_so_far]
        in_words("\n".join([f"{query} and {key}:", *lines]))
    else:
        for matrix in stage.matrices:
            if matrix.axes[0] == "query" and call.query in matrix.rows:
                vector = matrix.values[call.query - matrix.rows.start]
                first = ", ".join(map(digits, vector[:3].tolist()))
                in_words(f"{query} is {matrix.shape[1]} numbers here: {first}, …")
                break


def arithmetic(call: HeadCall) -> list[tuple[str, str]]:
    """Write the calculation from q · k to the weight of the selected cell, as pairs of a stage's key and a line.

    A stage before the softmax that does not change the number has no line.
    """
    step = call.record.step(call.context.site)
    row, i, scoring = call.row, call.index, step.scoring
    products, bias = row.products[i].tolist(), float(row.biased[i] - row.capped[i])
    terms = [digits(products[0])]
    terms += [f"{'−' if product < 0 else '+'} {digits(abs(product))}" for product in products[1:3]]
    terms += ["+ …"] if len(products) > 3 else []
    lines = [("products", f"q · k = {' '.join(terms)} = {digits(row.sums[i])}")]
    operations = {
        "scale": (steps.stages.scale_text(step), row.scaled[i]),
        "softcap": (f"softcap {scoring.softcap or 0:g}", row.capped[i]),
        "bias": (f"{'−' if bias < 0 else '+'} bias {digits(abs(bias))}", row.biased[i]),
        "temperature": (f"÷ {scoring.temperature:g} (temperature)", row.scores[i]),
    }
    number = row.sums[i]
    for key, (operation, result) in operations.items():
        if digits(number) != digits(result):
            lines.append((key, f"{operation} → {digits(result)}"))
        number = result
    if row.rules[i]:
        lines.append(("mask", f"{row.rules[i]} blocks it → −∞"))
    weight = digits(row.weights[i])
    if row.state == "empty row":
        return [*lines, ("softmax", f"no key is left in this row, so its weight is {weight}")]
    shifted = f"− row's largest ({digits(row.maximum)}) → {digits(row.shifted[i])}"
    shares = f"exp → {digits(row.exps[i])}", f"÷ row's sum ({digits(row.sum_exps)}) → {weight}"
    return [*lines, *(("softmax", line) for line in (shifted, *shares))]


def _row(call: HeadCall) -> dict[str, Figure]:
    """Draw the row as a table with a line per key, and its vectors in expanders; return figures by name."""
    context = call.context
    if context.source.read_only or not call.has_scores:
        return {}
    row, keys = call.row, context.tokens[1]
    stage = steps.row_stage(row, call.record.step(context.site))
    table = {"key": [f"{visible_text(keys[i].text, 30)} ({i})" for i in row.keys]}
    for matrix in stage.matrices:  # of shape (keys, 1)
        table[matrix.name] = [digits(number) for number in matrix.values[:, 0].tolist()]
    if any(row.rules):
        table["blocked by"] = row.rules
    original = context.original
    has_same_tokens = original.tokens(context.site, sentence=context.sentence) == context.tokens
    if call.record is not original and has_same_tokens:
        options = {"sentence": context.sentence, "keys": call.windows["keys"]}
        before = steps.row(original, context.site, call.head, call.query, **options)
        table["weight before"] = [digits(weight) for weight in before.weights.tolist()]
    st.subheader(literal(f"How {call.names[0]} shares its attention"), anchor=False)
    st.dataframe(pd.DataFrame(table), hide_index=True, key="row", width="content")
    how = "Weight = exp / sum of exp; the largest score is subtracted first, so that no exp overflows."
    notes = [stage.changed, how]
    if len(row.keys) < len(keys):
        notes.append(f"Keys {row.keys.start} to {row.keys.stop - 1} of {len(keys):,}; the sums are over all keys.")
    quiet(*notes, row.digits)
    exports = {"This row": call.figure(stage, stage.matrices)}
    details = {
        "q · k, element by element": (SIGNS, steps.products_stage(row, len(keys))),
        "Weighted values": (INFLUENCE, steps.values_stage(row, len(keys))),
    }
    for title, (about, details_stage) in details.items():
        fold = st.expander(title, on_change="rerun", key=f"fold {details_stage.key}")
        if fold.open:
            with fold:
                quiet(about)
                exports[title] = call.figure(details_stage, details_stage.matrices)
                _picture(call, exports[title], details_stage.key)
    return exports
