"""Attribution to tokens: attention rollout, gradient times weight, attention relevance, integrated gradients."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attnviz import analysis
from attnviz.analysis import sentences, tables
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.relevance import IntegratedGradients, Relevance, WordLogit
from attnviz.analysis.rollout import MixingMatrices
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.analysis.views import groups
from attnviz.charts.bars import Bars, Column
from attnviz.charts.marks import scale_of
from attnviz.charts.pixels import Number, Squares
from attnviz.charts.signs import CellState
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import FigureFacts, edits_in_name, figure, number_arrays, text_array
from attnviz.figures.forms import BarChart, Map, token_sides

MAP, MOST_BARS = 440, 40
"""Side in pixels of a map beside bars, and the maximum number of tokens with a bar; the table has all tokens."""
ROW, WIDE_ROW, SHORT, LONG = 150, 480, 180, 260
"""Length of the longest bar in pixels: rollout in a file and on a page; relevance; integrated gradients in a file."""
ROLLOUT = "rollout: ½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
CUT, SIGNED = "max(gradient × weight, 0)", "gradient × weight"
NOTHING = "according to the gradient, no weight of this head raises the logit"
OWN_TOKEN = "its own token begins with 1 (the residual)"
SMALL_GAP = 0.05
"""Share of the change of a logit up to which the completeness gap is small."""
LARGE_GAP = "So the tokens do not account for the whole change: take more steps."


@dataclass(frozen=True, eq=False)
class Traced:
    """Attention rollout through the first layers of a stack.

    Attributes:
        record: run whose attention is rolled out.
        mixed: mixing matrices of the layers.
        layer: index of the last layer.
        shares: (n, n) float64, share of token j in position i after these layers; for a long text, a dictionary of some
            of these rows by position.
    """

    record: Record
    mixed: MixingMatrices
    layer: int
    shares: np.ndarray | Mapping[int, np.ndarray]

    @property
    def texts(self) -> list[str]:
        return [token.text for token in self.mixed.tokens]

    def facts(self, what: str, subject: str, shares: np.ndarray, **facts: Any) -> FigureFacts:
        """Build the facts of a figure of `shares`, with lines on the attention that the rollout does not include."""
        num_rows, kind = self.mixed.left_out, self.mixed.kind
        layer, end = f"{kind} after layer {self.layer}", edits_in_name(self.record.edits)
        left_out = f"{num_rows} rows had no weights and pass through unchanged" if num_rows else ""
        return FigureFacts(
            what=f"{what} · {kind}, after layer {self.layer}",
            name=file_stem(self.record.source, layer, subject, " ".join(self.texts), end=end),
            arrays={"rollout": shares, "tokens": text_array(self.texts)},
            lines=[(self.mixed.note or "").rstrip("."), left_out],
            **facts,
        )


@figure
def rollout(traced: Traced, **style: Any) -> Map:
    """Draw attention rollout as a map: the share of each token in each position after a layer; `selected` is a row."""
    shares, texts, tokens = traced.shares, traced.texts, groups(traced.mixed.tokens)
    table = partial(tables.numbers_table, shares, "share", texts, texts)
    words = partial(sentences.reaches, shares, texts)
    facts = traced.facts("Attention rollout", "rollout", shares, more=[ROLLOUT], table=table, words=words)
    ramp = scale_of("share", shares)

    def squares(tile: int) -> Squares:
        """Compute the squares of the map, with `tile` cells per side."""
        tile_shares = largest_in_size(shares, tile)
        return Squares(
            states=np.where(tile_shares == 0, 1, 0),
            kinds=[CellState("arrives", "ramp", legend=""), CellState("no path", "blocked", "hatch")],
            numbers=[Number("share", tile_shares, ".4f")],
            ramp=ramp,
        )

    sides = token_sides(tokens, tokens, (f"Position after layer {traced.layer}", "Token"))
    facts = replace(facts, notes=[ROLLOUT, *facts.lines])
    return Map(facts=facts, **sides, squares=squares, longest=MAP, record=traced.record, **style)


@figure
def rollout_row(traced: Traced, position: int, **style: Any) -> BarChart:
    """Draw bars of the share that attention rollout gives each token in one position, after a layer."""
    shares, texts = traced.shares[position], traced.texts
    names = [f"{visible_text(text)} ({i})" for i, text in enumerate(texts)]
    indices, lines = most_of(shares)
    what = f"Mixed into {names[position]}"
    facts = traced.facts(
        what,
        f"reaches {position}",
        shares,
        on_page=what,
        table=partial(tables.reached_table, {"rollout": shares}, texts),
        words=partial(sentences.reached, shares, texts, position),
    )
    if not isinstance(traced.shares, Mapping):  # on a page, a map of all rows is beside the bars, with the lines
        facts = replace(facts, lines=(), more=facts.lines, origin="file")
    column = Column(values=shares[indices].tolist(), name="share by rollout")
    bars = Bars(lines=lines, names=[names[i] for i in indices], columns=[column], length=ROW)
    return BarChart(facts=facts, bars=bars, wide=WIDE_ROW, record=traced.record, **style)


def most_of(values: np.ndarray) -> tuple[list[int], list[str]]:
    """Return the ascending indices of the MOST_BARS largest absolute values, and a note if values are left out."""
    indices = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]).tolist()
    return indices, [f"the {MOST_BARS} largest of {len(values)} tokens"] if len(values) > MOST_BARS else []


def of_word(word: WordLogit) -> str:
    """Name the logit whose gradients are shown: `logit of “mats” at “the” (5)`."""
    token = [*word.texts.values()][-1][word.position]  # the last text is the one that predicts words
    return f"logit of {in_quotes(word.token)} at {quoted_token(token.text, word.position)}"


@figure
def relevance(
    record: Record, word: Relevance, site: Site, head: int | str = "mean", signed: bool = False, **style: Any
) -> Map:
    """Map gradient times weight for a head, or the mean of all heads: how much each weight raises a word's logit.

    Args:
        word: gradients of the word's logit, with the word and its position.
        signed: whether negative products are drawn, too; otherwise they count as 0.
    """
    products = word.head(site, head, signed=signed).double().numpy()
    step, sentence, name = record.step(site), word.sentence, "gradient_times_weight"
    num_queries, num_keys = products.shape  # without padding
    queries, keys = record.tokens(site, sentence=sentence)
    tokens = queries[:num_queries], keys[:num_keys]
    if step.has_sink:  # the sink is the last key, after the padding
        tokens = queries[:num_queries], (*keys[: num_keys - 1], keys[-1])
    texts = [[token.text for token in side] for side in tokens]
    facts = FigureFacts(
        what=f"Gradient times weight · {site}, {'mean of all heads' if head == 'mean' else f'head {head}'}",
        notes=[of_word(word)],
        lines=[of_word(word), "" if products.any() else NOTHING],
        explains_rows=True,
        subject=(site, head, "signed relevance" if signed else "relevance", word.token),
        table=partial(tables.numbers_table, products, name, *texts),
        arrays={name: products, "queries": text_array(texts[0]), "keys": text_array(texts[1])},
    )

    def squares(tile: int) -> Squares:
        """Compute the squares of the map, with `tile` cells per side."""
        tile_products = largest_in_size(products, tile)
        may_attend = analysis.may_attend(step, head, slice(num_queries), slice(num_keys), sentence=sentence)
        return Squares(
            states=np.where(largest_in_size(may_attend.double().numpy(), tile) == 0, 1, 0),
            kinds=[CellState("raises the logit", "ramp", legend=""), CellState("blocked", "blocked", "hatch")],
            numbers=[Number("share", tile_products, ".5f")],
            ramp=scale_of(SIGNED if signed else CUT, tile_products, signed=signed),
        )

    sides = token_sides(*map(groups, tokens))
    return Map(facts=facts, **sides, squares=squares, longest=MAP, record=record, sentence=sentence, **style)


@figure
def relevance_bars(record: Record, word: Relevance, layer: int, **style: Any) -> BarChart:
    """Draw bars of the attention relevance of each token for a word's logit, after a layer.

    The relevance starts with 1 at the position of the word; the bars do not include this 1.

    Args:
        word: gradients of the word's logit, with the word and its position.
    """
    values = np.concatenate([word.layers[layer][kind].numpy() for kind in word.texts])
    *texts_before, _ = word.texts.values()  # the word is predicted by the last text
    start = sum(map(len, texts_before)) + word.position  # index of its position in all texts
    values[start] -= 1
    texts = [*map(digits, values)]
    texts[start] = f"1 + {texts[start]}"
    names, (indices, lines) = _token_names(word), most_of(values)
    facts = FigureFacts(
        what=f"Attention relevance · after layer {layer}",
        notes=[of_word(word)],
        more=[of_word(word)],
        origin="file",  # on a page, the map beside the bars has the other lines
        subject=(f"relevance {word.token} after {layer}",),
        table=word.table.query("layer == @layer").reset_index(drop=True),
    )
    bars = Bars(
        lines=[OWN_TOKEN, *lines],
        names=[names[i] for i in indices],
        columns=[Column([texts[i] for i in indices], values[indices].tolist(), name="relevance")],
        chosen=[row for row, i in enumerate(indices) if i == start],
        length=SHORT,
    )
    return BarChart(facts=facts, bars=bars, record=record, sentence=word.sentence, **style)


@figure
def integrated_gradients(record: Record, word: IntegratedGradients, **style: Any) -> BarChart:
    """Draw bars of integrated gradients: how much the embedding of each token raises or lowers the logit of a word.

    Args:
        word: attributions of the word's logit, with the word and its position.
    """
    values = np.concatenate([word.attributions[kind].numpy() for kind in word.texts])
    names, (indices, lines) = _token_names(word), most_of(values)
    table, gap = word.table, gap_in_words(word)
    scalars = {name: np.array(getattr(word, name)) for name in ("logit", "baseline", "gap")}
    facts = FigureFacts(
        what=f"Integrated gradients · {word.steps} steps",
        notes=[of_word(word)],
        lines=[of_word(word)],
        more=[gap],
        subject=(f"integrated gradients {word.token}",),
        table=table,
        arrays=number_arrays(table) | {"tokens": text_array(table["token"])} | scalars,
        remark=gap,
    )
    column = Column([digits(values[i]) for i in indices], values[indices].tolist(), begins=[0.0] * len(indices))
    bars = Bars(lines=lines, names=[names[i] for i in indices], columns=[column], length=LONG)
    return BarChart(facts=facts, bars=bars, wide=SHORT, record=record, sentence=word.sentence, **style)


def _token_names(word: WordLogit) -> list[str]:
    """Name each token of all texts: "mats (3)", or "mats (3, decoder)" if there are two texts."""
    names = []
    for kind, tokens in word.texts.items():
        stack = ", decoder" if len(word.texts) > 1 and kind == "decoder" else ""
        names += [f"{visible_text(token.text)} ({i}{stack})" for i, token in enumerate(tokens)]
    return names


def gap_in_words(word: IntegratedGradients) -> str:
    """Describe the completeness gap: the change of the logit less the sum of all attributions, with its numbers."""
    rise = word.logit - word.baseline
    total = rise + word.gap
    ends = f"from {digits(word.baseline)} with zero vectors to {digits(word.logit)}"
    sums = f"all tokens sum to {digits(total)}: a gap of {digits(word.gap)}"
    gap = f"The logit changes by {digits(rise)}, {ends}; {sums}."
    return gap if abs(word.gap) <= SMALL_GAP * abs(rise) else f"{gap} {LARGE_GAP}"
