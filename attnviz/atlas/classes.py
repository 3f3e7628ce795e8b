"""Classes of tokens: to which of them a head gives its attention, beside what an even spread would give."""

from functools import lru_cache

import torch
from torch import Tensor

from attnviz.analysis.batch import HeadBlock, is_token, token_counts
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token

CLASSES = ("special", "first", "punctuation", "digit", "repeated", "same word")
"""Classes of a key: nobody typed it; it stands first; it has no letter and no digit; it has a digit; its token stood
in the text before; it is another piece of the query's word. A key may be of several classes."""

OF_KEYS = len(CLASSES) - 1


@lru_cache(maxsize=2**16)
def _signs(text: str) -> tuple[bool, bool]:
    """Whether a typed token is punctuation, and whether it holds a digit."""
    return bool(text.strip()) and not any(map(str.isalnum, text)), any(map(str.isdigit, text))


def columns(record: Record, step: Step) -> Tensor:
    """Which keys are of each class but the last, (B, K, 5); padding is of none."""
    counts = torch.tensor([token_counts(record, step, b)[1] for b in range(step.shape[0])])
    texts = [_classes(record.tokens(step.site, sentence=b)[1]) for b in range(step.shape[0])]
    return torch.tensor(texts) & is_token(step, counts)[..., None]


def _classes(tokens: tuple[Token, ...]) -> list[tuple[bool, ...]]:
    ids, rows = set(), []
    for i, token in enumerate(tokens):
        signs = (False, False) if token.special else _signs(token.text)
        rows.append((token.special, i == 0, *signs, not token.special and token.id in ids))
        ids.add(token.id)
    return rows


def words(record: Record, step: Step) -> Tensor | None:
    """The word that each token is a piece of, by its number, (B, n); -1 for special ones. None if none has two."""
    texts = [record.tokens(step.site, sentence=b)[1] for b in range(step.shape[0])]
    if not any(token.joined for tokens in texts for token in tokens):
        return None
    return torch.tensor([_numbered(tokens) for tokens in texts])


def _numbered(tokens: tuple[Token, ...]) -> list[int]:
    numbers, word = [], -1
    for token in tokens:
        word += not token.joined
        numbers.append(-1 if token.special else word)
    return numbers


def shares(block: HeadBlock, words: Tensor | None) -> Tensor:
    """The weights of all rows on each class, and what an even spread over the open keys would give: (2, B, H, 6)."""
    totals = torch.zeros(2, *block.counted.shape[:2], len(CLASSES), dtype=torch.float64)
    rows = block.counted[..., None]
    totals[0, ..., :OF_KEYS] = block.on_columns.double().masked_fill(~rows, 0).sum(2)
    even = _even(block) * rows
    totals[1, ..., :OF_KEYS] = even.sum(2)
    if words is not None and block.one_text:
        pieces = words[block.texts]
        alike = (pieces[:, block.rows, None] == pieces[:, None]) & (pieces[:, None] >= 0)
        alike &= block.position[:, None] != torch.arange(pieces.shape[1])
        text, row, key = alike.nonzero(as_tuple=True)
        each = torch.stack([block.weights[text, :, row, key].double(), _open_share(block, text, row, key)])
        totals[..., -1].index_add_(1, text, each)
    return totals


def _open_share(block: HeadBlock, text: Tensor, row: Tensor, key: Tensor) -> Tensor:
    """The weight of some cells if their rows spread it evenly over what they may attend to, (cells, H), float64."""
    share = (block.counted / block.open_keys.clamp(min=1).double())[text, :, row]
    if block.open is None:
        return share
    return share * block.open.expand(*block.counted.shape, block.step.shape[3])[text, :, row, key]


def _even(block: HeadBlock) -> Tensor:
    """The share of the open keys of each row that is of each class, broadcasting to (B, H, R, 5)."""
    columns = block.sides.columns[block.texts, None].float()
    if block.open is None:
        return (columns.sum(-2, keepdim=True) / block.step.shape[3]).double()
    is_open = block.open.expand(*block.open.shape[:-1], block.step.shape[3]).to(columns.dtype)
    return ((is_open @ columns) / block.open_keys.clamp(min=1)[..., None]).double()
