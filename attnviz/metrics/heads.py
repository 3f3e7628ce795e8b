"""What each head of a record does, in numbers: each with its formula, its range, its source and what it means.

    table = head_metrics(record)            # one row per head
    METRICS                                 # what the columns are

Rows of padding, rows with no key left and rows that are no numbers are left out; where nothing is left to measure a
number is missing (`pandas.NA`), never NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.core.record import ALL, Record, Step
from attnviz.metrics import measures
from attnviz.metrics.measures import RowBlock, Sums

SELF = ("encoder", "decoder")


@dataclass(frozen=True)
class Metric:
    """A number that says something of a head on a text.

    Attributes:
        name: of the column.
        title: for people.
        formula: of one row i, or of all pairs, in LaTeX; a head has the mean over its rows.
        where: what else its letters mean, and of which rows it is; "" for nothing. LaTeX stands between $.
        range: in words, LaTeX between $; `low` and `high` are its ends, `high` None where it depends on the text or has
            no end.
        source: where it was first used so, or that it is defined here.
        means: what it says, in one sentence.
        kinds: of which sites it can be had.
        needs: "weights", or what a record that is read only has not: "scores" or "values".
        measure: a quotient of two sums in a block of rows.
    """

    name: str
    title: str
    formula: str
    where: str
    range: str
    low: float
    high: float | None
    source: str
    means: str
    measure: Callable[[RowBlock], Sums]
    kinds: tuple[str, ...] = KINDS
    needs: str = "weights"

    def applies(self, record: Record, site: Site) -> bool:
        """Whether it can be measured at a site of a record at all."""
        return site.kind in self.kinds and (self.needs == "weights" or not record.read_only)


CLARK = "Clark et al. 2019, What Does BERT Look At?"
VOITA = "Voita et al. 2019, Analyzing Multi-Head Self-Attention"
KOBAYASHI = "Kobayashi et al. 2020, Attention is Not Only a Weight"
ROWS = "$w_{ij}$ is the weight of row $i$ on key $j$; a head has the mean over its rows."
"""How the formulas are read."""

METRICS: tuple[Metric, ...] = (
    Metric(
        "entropy",
        "Entropy (nats)",
        r"-\sum_j w_{ij}\,\ln w_{ij}",
        "",
        "0 (one key takes everything) to ln K (all K keys alike)",
        0.0,
        None,
        CLARK,
        "How widely a query spreads its attention: low is pointed, high is even.",
        measures.entropy,
    ),
    Metric(
        "effective_keys",
        "Effective number of keys",
        r"\exp\bigl(-\sum_j w_{ij}\,\ln w_{ij}\bigr)",
        "",
        "1 to K, the number of keys",
        1.0,
        None,
        "Hill 1973, Diversity and Evenness (the exponential of the entropy)",
        "Among how many keys, were they all alike, a query would spread its attention as widely.",
        measures.effective_keys,
    ),
    Metric(
        "evenness",
        "Evenness",
        r"\frac{\sum_i H_i}{\sum_i \ln m_i}",
        "$H_i$ is the entropy of row $i$, $m_i$ the number of keys that it may attend to",
        "0 (one key takes everything) to 1 (all keys alike)",
        0.0,
        1.0,
        "Pielou 1966, The Measurement of Diversity",
        "The entropy as a share of what it could be, so that texts of different lengths can be compared.",
        measures.evenness,
    ),
    Metric(
        "confidence",
        "Confidence",
        r"\max_j w_{ij}",
        "",
        "1 / K to 1",
        0.0,
        1.0,
        VOITA,
        "How much weight a query puts on the key it looks at most.",
        measures.confidence,
    ),
    Metric(
        "distance",
        "Mean distance (tokens)",
        r"\frac{\sum_j w_{ij}\,|i-j|}{\sum_j w_{ij}}",
        "",
        "0 to n - 1, for n tokens",
        0.0,
        None,
        "Vig and Belinkov 2019, Analyzing the Structure of Attention",
        "How many tokens away from itself a query looks on average.",
        measures.distance,
        SELF,
    ),
    Metric(
        "self",
        "Itself",
        r"w_{ii}",
        "",
        "0 to 1",
        0.0,
        1.0,
        CLARK,
        "How much weight a token gives to itself.",
        measures.itself,
        SELF,
    ),
    Metric(
        "previous",
        "Previous token",
        r"w_{i,i-1}",
        "of rows that have a token before",
        "0 to 1",
        0.0,
        1.0,
        CLARK,
        "How much weight a token gives to the one just before it.",
        measures.previous,
        SELF,
    ),
    Metric(
        "next",
        "Next token",
        r"w_{i,i+1}",
        "of rows that have a token after",
        "0 to 1; 0 where the future is masked",
        0.0,
        1.0,
        CLARK,
        "How much weight a token gives to the one just after it.",
        measures.following,
        SELF,
    ),
    Metric(
        "first",
        "First token (sink)",
        r"w_{i0}",
        "in self-attention of rows $i > 0$",
        "0 to 1",
        0.0,
        1.0,
        "Xiao et al. 2024, Efficient Streaming Language Models with Attention Sinks",
        "How much weight goes to the first token, where many heads leave what they have no use for.",
        measures.first,
    ),
    Metric(
        "special",
        "Special tokens",
        r"\sum_{j\ \mathrm{special}} w_{ij}",
        "where there are any",
        "0 to 1",
        0.0,
        1.0,
        CLARK,
        "How much weight goes to tokens that nobody typed, such as [CLS], [SEP], <sos> or <eos>.",
        measures.special,
    ),
    Metric(
        "duplicate",
        "Same token elsewhere",
        r"\sum_{j \ne i,\ t_j = t_i} w_{ij}",
        "$t_i$ is the token at $i$; in a decoder $j < i$; of rows that have such a $j$",
        "0 to 1",
        0.0,
        1.0,
        "Wang et al. 2023, Interpretability in the Wild (duplicate token heads)",
        "How much weight a token gives to other occurrences of itself.",
        measures.duplicate,
        SELF,
    ),
    Metric(
        "induction",
        "Induction",
        r"\sum_{j - 1 \ne i,\ t_{j-1} = t_i} w_{ij}",
        "$t_i$ is the token at $i$; in a decoder $j - 1 < i$; of rows that have such a $j$",
        "0 to 1",
        0.0,
        1.0,
        "Olsson et al. 2022, In-context Learning and Induction Heads (prefix matching)",
        "How much weight a token gives to what came right after another occurrence of itself.",
        measures.induction,
        SELF,
    ),
    Metric(
        "asymmetry",
        "Query-key asymmetry",
        r"\frac{\sum_{ij}(s_{ij}-s_{ji})^2}{4\sum_{ij}s_{ij}^2}",
        "$s_{ij}$ is the score of query $i$ and key $j$ before the mask",
        "0 ($s_{ij} = s_{ji}$) to 1 ($s_{ij} = -s_{ji}$); ½ if one says nothing of the other",
        0.0,
        1.0,
        "after Saponati et al. 2025, The underlying structures of self-attention, who take the antisymmetric share of "
        "W_Q W_Kᵀ; here of the scores of this text",
        "Whether i scores j as j scores i: what queries ask for is not what keys offer where this is high.",
        measures.asymmetry,
        SELF,
        "scores",
    ),
    Metric(
        "value_weighted",
        "Length of weighted values",
        r"\sum_j \lVert w_{ij}\,v_j \rVert",
        "$v_j$ is the value of key $j$",
        "0 and up, in units of the values",
        0.0,
        None,
        f"{KOBAYASHI}; here before W_O",
        "How much a query takes in: a large weight on a short value moves nothing.",
        measures.value_weighted,
        needs="values",
    ),
    Metric(
        "output_share",
        "Share of output",
        r"\frac{\lVert o_i^{(h)} \rVert}{\sum_{h'} \lVert o_i^{(h')} \rVert}",
        r"$o_i^{(h)} = \sum_j w_{ij}^{(h)} v_j$ is what head $h$ hands on",
        "0 to 1; the heads of a site share 1",
        0.0,
        1.0,
        f"after {KOBAYASHI}; here before W_O",
        "How much of what all heads of a site hand on, by length, is this head's.",
        measures.output_share,
        needs="values",
    ),
)


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        InputError: names those that there are.
    """
    for one in METRICS:
        if one.name == name:
            return one
    raise InputError(f"There is no metric {name!r}; there are {', '.join(one.name for one in METRICS)}.")


def head_metrics(record: Record, sentence: int = 0) -> pd.DataFrame:
    """One row per head: site, kind, layer, head, a column for each of `METRICS`, rows, left_out.

    `rows` is how many rows of tokens were measured, `left_out` how many had no key left or were no numbers. A number is
    missing where it cannot be measured: at another kind of site, of a model that is read only, on a text without such
    a token.
    """
    parts = [_columns(record, step, sentence) for step in record.steps]
    together = {name: [value for part in parts for value in part[name]] for name in parts[0]} if parts else {}
    return pd.DataFrame(together).astype({one.name: "Float64" for one in METRICS})


def _columns(record: Record, step: Step, sentence: int) -> dict[str, list[Any]]:
    """The rows of one site, by the names of the columns."""
    site, heads = step.site, step.num_heads
    applying = [one for one in METRICS if one.applies(record, site)]
    sums = {one.name: torch.zeros(2, heads, dtype=torch.float64) for one in METRICS}
    rows, left_out = torch.zeros(2, heads, dtype=torch.long)
    for block in measures.blocks(record, step, sentence=sentence):
        rows, left_out = rows + block.counted.sum(1), left_out + block.left_out
        for one in applying:
            if one.kinds != SELF or block.one_text:
                sums[one.name] += torch.stack(one.measure(block))
    where = {"site": [str(site)] * heads, "kind": [site.kind] * heads, "layer": [site.layer] * heads}
    found = {name: [a / b if b else None for a, b in zip(*both.tolist(), strict=True)] for name, both in sums.items()}
    return where | {"head": list(range(heads))} | found | {"rows": rows.tolist(), "left_out": left_out.tolist()}


def value_weighted(
    record: Record, site: Site, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> Tensor:
    """‖w_ij v_j‖ of each cell of a window of one head, (rows, columns), in units of the values (before W_O).

    Source: Kobayashi et al. 2020, Attention is Not Only a Weight; a cell with a large weight may be small here.

    Raises:
        InputError: if the record is read only, so that no values are known.
    """
    if record.read_only:
        raise InputError(f"The values of '{record.source}' are not known, only its weights.")
    step = record.step(site)
    weights = step.weights(head, rows, columns, sentence=sentence)
    return weights * step.value[sentence, head, columns].to(weights.dtype).norm(dim=-1)
