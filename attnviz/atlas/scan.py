"""The exact search: a model reads the texts of a corpus again, and every weight between two tokens is looked at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnviz import texts
from attnviz.atlas import corpus
from attnviz.atlas.building import OnProgress, Progress
from attnviz.atlas.measure import may_pair
from attnviz.atlas.plan import Plan
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence, Token
from attnviz.metrics import batch
from attnviz.metrics.batch import Block

COLUMNS = ("site", "head", "weight", "query_token", "key_token", "file", "line", "query", "key")


@dataclass(frozen=True)
class Sought:
    """Which pairs are looked for: tokens as they stand in the text, but for capital letters and blanks around them.

    Attributes:
        site, head: None for all.
    """

    query_token: str | None = None
    key_token: str | None = None
    min_weight: float = 0.0
    site: str | None = None
    head: int | None = None

    def may_hold(self, sentence: Sentence) -> bool:
        """Whether both tokens are there, or one is not asked for."""
        there = {_plain(token.text) for token in sentence.tokens}
        return all(token is None or _plain(token) in there for token in (self.query_token, self.key_token))

    def pairs(self, record: Record, step: Step, block: Block) -> Tensor:
        """Where these pairs are, (B, H or 1, R, K)."""
        found = may_pair(block, torch.arange(step.shape[3]).expand(1, 1, 1, -1))
        each = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])[block.texts]]
        if self.query_token is not None:
            found = found & _are(self.query_token, [looks[block.rows] for looks, _ in each])[:, None, :, None]
        if self.key_token is not None:
            found = found & _are(self.key_token, [seen for _, seen in each])[:, None, None]
        if self.head is not None:
            found = found & (torch.arange(step.num_heads) == self.head)[:, None, None]
        return found


def _plain(text: str) -> str:
    return text.strip().lower()


def _are(token: str, each: list[tuple[Token, ...]]) -> Tensor:
    return torch.tensor([[_plain(one.text) == _plain(token) for one in tokens] for tokens in each])


def scan(made: Plan, folder: Path, sought: Sought, k: int, report: OnProgress) -> pd.DataFrame:
    """The k pairs with most weight, the largest first, with `COLUMNS`.

    Raises:
        InputError: if the corpus or the weights of the model are not what they were.
    """
    source, done, best = made.model.source(), 0, []
    writes = any(site.kind == "cross" for site in source.sites)
    for shard in made.shards:
        usable = [one for one in corpus.texts(folder / made.corpus, shard) if not one.error]
        sentences = texts.cut(source, [one.text for one in usable])[0] if usable else []
        asked = [one if one and (writes or sought.may_hold(one)) else None for one in sentences]
        for some, record in texts.runs(source, asked, failed=lambda i, error: None):
            lines = [usable[i].line for i in some]
            for step in record.steps:
                best += _rows(record, step, sought, k, shard.file, lines)
            best = sorted(best, key=_rank)[:k]
        done += shard.lines
        report(Progress(done, made.lines))
    return pd.DataFrame(best, columns=COLUMNS)


def _rank(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The largest weight first; of equal ones those that come first in the corpus."""
    site, head, weight, _, _, *place = row
    return -weight, *place, site, head


def _rows(record: Record, step: Step, sought: Sought, k: int, file: str, lines: list[int]) -> list[tuple[Any, ...]]:
    """Of a step the k pairs with most weight, as rows of the answer."""
    if sought.site not in (None, str(step.site)):
        return []
    found = []
    for block in batch.blocks(step, batch.sides_of(record, step)):
        weights = block.weights.where(sought.pairs(record, step, block) & block.counted[..., None], 0)
        values, at = weights.flatten().topk(min(k, weights.numel()))
        at = at[(values > 0) & (values >= sought.min_weight)]
        for b, head, row, key in torch.stack(torch.unravel_index(at, weights.shape), 1).tolist():
            text, query = block.texts.start + b, block.rows.start + row
            looks, seen = record.tokens(step.site, sentence=text)
            what = str(step.site), head, float(weights[b, head, row, key]), looks[query].text, seen[key].text
            found.append((*what, file, lines[text], query, key))
    return found
