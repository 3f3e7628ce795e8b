"""The exact search: a model reads the texts of a corpus again, and every weight between two tokens is looked at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis import batch
from attnviz.analysis.batch import HeadBlock
from attnviz.atlas import corpus
from attnviz.atlas.building import AtlasProgress, OnProgress
from attnviz.atlas.measure import may_pair
from attnviz.atlas.plan import Plan
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence, Token
from attnviz.studies import texts

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

    def pairs(self, record: Record, step: Step, block: HeadBlock) -> Tensor:
        """Cells of these pairs, boolean (B, H or 1, R, K)."""
        is_match = may_pair(block, torch.arange(step.shape[3]).expand(1, 1, 1, -1))
        each = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])[block.texts]]
        if self.query_token is not None:
            is_match = is_match & _are(self.query_token, [queries[block.rows] for queries, _ in each])[:, None, :, None]
        if self.key_token is not None:
            is_match = is_match & _are(self.key_token, [keys for _, keys in each])[:, None, None]
        if self.head is not None:
            is_match = is_match & (torch.arange(step.num_heads) == self.head)[:, None, None]
        return is_match


def _plain(text: str) -> str:
    return text.strip().lower()


def _are(token: str, each: list[tuple[Token, ...]]) -> Tensor:
    return torch.tensor([[_plain(candidate.text) == _plain(token) for candidate in tokens] for tokens in each])


def scan(plan: Plan, folder: Path, sought: Sought, k: int, report: OnProgress) -> pd.DataFrame:
    """The k pairs with most weight, the largest first, with `COLUMNS`.

    Raises:
        InputError: if the corpus or the weights of the model are not what they were.
    """
    source, done, best = plan.model.source(), 0, []
    writes = any(site.kind == "cross" for site in source.sites)
    for shard in plan.shards:
        usable = [text for text in corpus.texts(folder / plan.corpus, shard) if not text.error]
        sentences = texts.cut(source, [text.text for text in usable])[0] if usable else []
        candidates = [
            sentence if sentence and (writes or sought.may_hold(sentence)) else None for sentence in sentences
        ]
        for some, record in texts.runs(source, candidates, failed=lambda i, error: None):
            lines = [usable[i].line for i in some]
            for step in record.steps:
                best += _rows(record, step, sought, k, shard.file, lines)
            best = sorted(best, key=_rank)[:k]
        done += shard.lines
        report(AtlasProgress(done, plan.lines))
    return pd.DataFrame(best, columns=COLUMNS)


def _rank(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The largest weight first; of equal ones those that come first in the corpus."""
    site, head, weight, _, _, *place = row
    return -weight, *place, site, head


def _rows(record: Record, step: Step, sought: Sought, k: int, file: str, lines: list[int]) -> list[tuple[Any, ...]]:
    """Pairs of a step with most weight, at most k, as rows of the answer."""
    if sought.site not in (None, str(step.site)):
        return []
    rows = []
    for block in batch.blocks(step, batch.sides_of(record, step)):
        weights = block.weights.where(sought.pairs(record, step, block) & block.counted[..., None], 0)
        values, indices = weights.flatten().topk(min(k, weights.numel()))
        indices = indices[(values > 0) & (values >= sought.min_weight)]
        for b, head, row, key in torch.stack(torch.unravel_index(indices, weights.shape), 1).tolist():
            text, query = block.texts.start + b, block.rows.start + row
            queries, keys = record.tokens(step.site, sentence=text)
            what = str(step.site), head, float(weights[b, head, row, key]), queries[query].text, keys[key].text
            rows.append((*what, file, lines[text], query, key))
    return rows
