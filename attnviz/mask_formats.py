"""Convert masks to the formats of other libraries: to and from their tensors, and as code to paste.

The code is plain PyTorch. It uses the variables `query`, `key` and `value`, and `attention` for
`nn.MultiheadAttention`. It assigns the mask to `mask` (`block_mask` for FlexAttention), the result to `output`, and the
weights to `weights` if the call returns them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attnviz.core.conventions import (
    from_additive,
    from_true_is_masked,
    from_zero_is_masked,
    to_additive,
    to_true_is_masked,
    to_zero_is_masked,
)
from attnviz.core.errors import MaskError, quoted
from attnviz.core.masks import And, Mask, Subsequent
from attnviz.core.masks.writing import ATOM, GRID, PREDICATE, ROW, MaskWriter, Symbol

TORCH, FUNCTIONAL = "import torch\n", "import torch.nn.functional as F\n"
FLEX = "from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n"
HEADS = "\n# query: (B, H, Q, d), key and value: (B, H, K, d)\n"
MODULE = "\n# attention: nn.MultiheadAttention(d_model, num_heads, batch_first=True); query: (B, Q, d_model)\n"
SIZES = "queries, keys = query.shape[-2], key.shape[-2]\n"
SCORES, OUTPUT = "scores = query @ key.mT / query.shape[-1] ** 0.5", "output = weights @ value"
CALL = "output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)"
CALL_MODULE = "output, weights = attention(query, key, value, {}, average_attn_weights=False)"
FLOATS, LOWEST = "dtype=query.dtype, device=query.device", "torch.finfo(query.dtype).min"


@dataclass(frozen=True)
class MaskFormat:
    """A mask format of a library.

    Attributes:
        name: name of the format in `mask_format`.
        title: function or library that uses the format.
        meaning: meaning of the values.
        empty_rows: weights of a query without keys: "zero", "nan" or "uniform", as in `attnviz.core.attention`.
        to, of: functions that convert a tensor with True = may attend to the values of the format, and back.
        opening: first lines of the code: imports, shapes and sizes.
        lines: function of a mask and the counts of queries and keys that writes the other lines of the code.
    """

    name: str
    title: str
    meaning: str
    empty_rows: str
    to: Callable[[Tensor], Tensor]
    of: Callable[[Tensor], Tensor]
    opening: str
    lines: Callable[[Mask, int, int], list[str]]

    def refuses(self, mask: Mask, queries: int, keys: int) -> str:
        """Explain in one sentence why the format cannot express a mask; "" if it can."""
        if self.name not in ("is_causal", "key_padding_mask"):
            return ""
        may_attend = mask.tensor(queries, keys)
        meaning, expected = "has the same keys for every query", may_attend[:, :, :1]
        if self.name == "is_causal":
            meaning = "blocks the future aligned top-left, and nothing else"
            expected = Subsequent().tensor(queries, keys)
        different_cells = (may_attend != expected).nonzero().tolist()
        if not different_cells:
            return ""
        sentence, _, query, key = different_cells[0]
        verb = "opens" if may_attend[sentence, 0, query, key] else "blocks"
        suffix = f" of sentence {sentence}" if mask.batch_size else ""
        return f"{self.name} {meaning}; this mask {verb} key {key} for query {query}{suffix}."

    def to_tensor(self, mask: Mask, queries: int, keys: int, *, heads: int = 1) -> Tensor | None:
        """Convert a mask to a tensor in this format; None if the format cannot express it.

        Args:
            heads: number of heads, used only for `attn_mask` of `nn.MultiheadAttention`.

        Returns:
            (Q, K), or (B, 1, Q, K) if it differs between sentences; (B · heads, Q, K) for `attn_mask` of
            `nn.MultiheadAttention`; (B, K) for padding, with B = 1 if all sentences are equal.
        """
        if self.refuses(mask, queries, keys):
            return None
        may_attend = mask.tensor(queries, keys)
        if self.name == "huggingface":
            ignores_query = _ignores_query(mask, queries, keys)
            return to_zero_is_masked(may_attend[:, 0, 0]) if ignores_query else self.to(may_attend)
        if self.name == "key_padding_mask":
            return self.to(may_attend[:, 0, 0])
        if self.name == "attn_mask" and mask.batch_size:
            return self.to(may_attend.expand(-1, heads, -1, -1).flatten(0, 1))
        return self.to(may_attend if mask.batch_size else may_attend[0, 0])

    def from_tensor(self, tensor: Tensor, *, heads: int = 1) -> Tensor:
        """Convert a tensor in this format back to a boolean mask with four axes, True = may attend.

        Raises:
            MaskError: if the tensor holds values that the format does not have.
        """
        is_padding = self.name == "huggingface" and tensor.dim() == 2
        may_attend = from_zero_is_masked(tensor) if is_padding else self.of(tensor)
        if is_padding or self.name == "key_padding_mask":  # (B, K)
            return may_attend[:, None, None]
        if self.name == "attn_mask" and may_attend.dim() == 3:
            return may_attend.unflatten(0, (-1, heads))[:, :1]
        return may_attend if may_attend.dim() == 4 else may_attend[None, None]

    def code(self, mask: Mask, queries: int, keys: int) -> str:
        """Write code that builds a mask and passes it to the library; "" if the format cannot express the mask.

        The code is correct for the given lengths, and for other lengths if none of its numbers depends on them.

        Raises:
            MaskError: if a rule has neither a formula nor a text.
        """
        if self.refuses(mask, queries, keys):
            return ""
        return self.opening + "\n".join([*self.lines(mask, queries, keys), ""])


def _sdpa(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for `F.scaled_dot_product_attention` with a boolean mask."""
    lines, may_attend = _grid(mask, queries, keys)
    return [*lines, "# True = may attend", f"mask = {may_attend.text}", CALL]


def _sdpa_additive(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for `F.scaled_dot_product_attention` with a mask of floats."""
    return [*_floats(mask, queries, keys, 'float("-inf")', "-inf"), CALL]


def _is_causal(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for `F.scaled_dot_product_attention` with is_causal; the mask is known to be causal."""
    return [f"{CALL.replace('attn_mask=mask', 'is_causal=True')}  # aligned top-left"]


def _multihead(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for `nn.MultiheadAttention`; padding that is joined with other rules becomes key_padding_mask."""
    mask, padding = _split_padding(mask, queries, keys)
    lines, arguments = [], "attn_mask=mask"
    if padding is not None:
        lines, tokens = _row(padding, queries, keys)
        lines.append(f"key_padding_mask = {(~tokens).text}  # True = padding")
        arguments += ", key_padding_mask=key_padding_mask"
    mask_lines, blocked = _blocked_cells(mask, queries, keys)
    lines += [*mask_lines, "# True = blocked", f"mask = {blocked}"]
    if mask.batch_size:
        lines.append("mask = mask.expand(-1, -1, queries, keys)[:, 0].repeat_interleave(attention.num_heads, 0)")
    return [*lines, CALL_MODULE.format(arguments)]


def _key_padding(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for `nn.MultiheadAttention` with key_padding_mask."""
    lines, tokens = _row(mask, queries, keys)
    return [*lines, "# True = padding", f"mask = {(~tokens).text}", CALL_MODULE.format("key_padding_mask=mask")]


def _flex(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for FlexAttention: a mask function and its block mask."""
    lines, may_attend = _grid(mask, queries, keys, PREDICATE)
    batch = "len(query)" if mask.batch_size else "None"
    return [
        *lines,
        f"\n\ndef mask_mod(b, h, q_idx, kv_idx):  # True = may attend\n    return {may_attend.text}\n\n",
        f"block_mask = create_block_mask(mask_mod, {batch}, None, queries, keys, device=query.device)",
        "output = flex_attention(query, key, value, block_mask=block_mask)  # fast inside torch.compile",
    ]


def _huggingface(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write code for transformers: 0 and 1 if the mask is the same for every query, else floats with four axes."""
    if _ignores_query(mask, queries, keys):
        lines, tokens = _row(mask, queries, keys)
        lines.append(f"mask = {tokens.operand(ATOM)}.long()  # 1 = token, 0 = padding")
        added = f"torch.zeros_like(scores).masked_fill(mask[:, None, None] == 0, {LOWEST})"
    else:
        lines = _floats(mask, queries, keys, LOWEST, "the lowest number")
        lines.append("mask = mask.expand(len(query), 1, queries, keys)  # a mask with four axes is used unchanged")
        added = "mask"
    lines.append("# model(input_ids, attention_mask=mask); its layers then compute, in eager mode:")
    return [*lines, SCORES, f"weights = (scores + {added}).softmax(-1)", OUTPUT]


def _zero_is_masked(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write attention with masked_fill where the mask is 0."""
    lines, may_attend = _grid(mask, queries, keys)
    lines += ["# 0 = masked", f"mask = {may_attend.operand(ATOM)}.long()", SCORES]
    return [*lines, "weights = scores.masked_fill(mask == 0, -1e9).softmax(-1)", OUTPUT]


def _true_is_masked(mask: Mask, queries: int, keys: int) -> list[str]:
    """Write attention with masked_fill where the mask is True."""
    lines, blocked = _blocked_cells(mask, queries, keys)
    lines += ["# True = masked", f"mask = {blocked}", SCORES]
    return [*lines, 'weights = scores.masked_fill(mask, float("-inf")).softmax(-1)', OUTPUT]


def _ignores_query(mask: Mask, queries: int, keys: int) -> bool:
    """Whether every query of a sentence sees the same keys."""
    grid = mask.tensor(queries, keys)
    return bool((grid == grid[:, :, :1]).all())


def _grid(mask: Mask, queries: int, keys: int, style: str = GRID) -> tuple[list[str], Symbol]:
    """Write lines of code, and an expression, True = may attend, (Q, K), (B, 1, 1, K) or (B, 1, Q, K)."""
    writer = MaskWriter(queries, keys, style)
    may_attend = writer.write(mask)
    return writer.lines, may_attend


def _blocked_cells(mask: Mask, queries: int, keys: int) -> tuple[list[str], str]:
    """Write lines of code, and an expression, True = blocked, that uses them; shapes as in `_grid`."""
    lines, may_attend = _grid(mask, queries, keys)
    return lines, (~may_attend).text


def _row(mask: Mask, queries: int, keys: int) -> tuple[list[str], Symbol]:
    """Write lines of code, and an expression, True = token, (B, K), for a mask that is the same for every query."""
    lines, tokens = _grid(mask, queries, keys, ROW)
    if "Q" in tokens.axes:
        lines, grid = _grid(mask, queries, keys)
        lines.append(f"may_attend = {grid.text}  # every query sees the same keys, so the first row is enough")
        tokens = grid.derive("may_attend[:, 0, 0]" if mask.batch_size else "may_attend[0]")
    if not mask.batch_size:
        tokens = tokens.derive(f"{tokens.operand(ATOM)}.expand(len(query), keys)")
    return lines, tokens


def _floats(mask: Mask, queries: int, keys: int, fill: str, fill_words: str) -> list[str]:
    """Write lines that define an additive `mask`: 0 where a query may attend, `fill` elsewhere."""
    comment = f"# added to the scores: 0 = may attend, {fill_words} = blocked"
    lines, blocked = _blocked_cells(mask, queries, keys)
    filled = f"torch.zeros(blocked.shape, {FLOATS}).masked_fill(blocked, {fill})"
    return [*lines, f"blocked = {blocked}", comment, f"mask = {filled}"]


def _split_padding(mask: Mask, queries: int, keys: int) -> tuple[Mask, Mask | None]:
    """Split a mask into rules that are the same for all sentences, and padding; if it cannot be split: mask, None."""
    rules = mask.masks if isinstance(mask, And) else ()
    padding = [rule for rule in rules if rule.batch_size and "Q" not in _grid(rule, queries, keys)[1].axes]
    shared = [rule for rule in rules if rule not in padding]
    if not padding or not shared or any(rule.batch_size for rule in shared):
        return mask, None
    shared_mask, padding_mask = (And(tuple(rules)) if len(rules) > 1 else rules[0] for rules in (shared, padding))
    return shared_mask, padding_mask


TRUE_OPEN, TRUE_BLOCKED = (torch.clone, torch.clone), (to_true_is_masked, from_true_is_masked)
ZERO_BLOCKED = to_zero_is_masked, from_zero_is_masked
LOWEST_BLOCKED = partial(to_additive, fill=torch.finfo(torch.float32).min), from_additive
"""Pairs of functions `to` and `of`, named after the value of a blocked or open key."""
SDPA, MULTIHEAD = "F.scaled_dot_product_attention", "nn.MultiheadAttention"
ADDED = "0 = may attend, -inf = blocked; added to the scores"
CAUSAL = "is_causal: the future is blocked, aligned top-left"
TOKENS = (
    "1 = token, 0 = padding (a decoder blocks the future by itself); with four axes 0 = may attend, the lowest "
    "number = blocked, added to the scores"
)
PADDING = "key_padding_mask: True = padding, for every query"
TUTORIAL, OTHERS = "mask == 0, as in The Annotated Transformer", "mask == True, as in other tutorials"
ZERO = "0 = masked, 1 = may attend"
FOR_SDPA, FOR_MODULE, FOR_SCORES = TORCH + FUNCTIONAL + HEADS + SIZES, TORCH + MODULE + SIZES, TORCH + HEADS + SIZES
FOR_FLEX, FOR_FLAG = TORCH + FLEX + HEADS + SIZES, FUNCTIONAL + HEADS
"""First lines of the code of each format."""

FORMATS = (
    MaskFormat("sdpa", SDPA, "True = may attend", "zero", *TRUE_OPEN, FOR_SDPA, _sdpa),
    MaskFormat("sdpa_additive", SDPA, ADDED, "zero", to_additive, from_additive, FOR_SDPA, _sdpa_additive),
    MaskFormat("is_causal", SDPA, CAUSAL, "zero", *TRUE_OPEN, FOR_FLAG, _is_causal),
    MaskFormat("attn_mask", MULTIHEAD, "True = blocked", "nan", *TRUE_BLOCKED, FOR_MODULE, _multihead),
    MaskFormat("key_padding_mask", MULTIHEAD, PADDING, "nan", *TRUE_BLOCKED, FOR_MODULE, _key_padding),
    MaskFormat("flex_attention", "FlexAttention", "mask_mod: True = may attend", "zero", *TRUE_OPEN, FOR_FLEX, _flex),
    MaskFormat("huggingface", "Hugging Face", TOKENS, "uniform", *LOWEST_BLOCKED, FOR_SCORES, _huggingface),
    MaskFormat("zero_is_masked", TUTORIAL, ZERO, "uniform", *ZERO_BLOCKED, FOR_SCORES, _zero_is_masked),
    MaskFormat("true_is_masked", OTHERS, "True = masked", "nan", *TRUE_BLOCKED, FOR_SCORES, _true_is_masked),
)
"""All formats, in the order in which they are shown."""


def mask_format(name: str) -> MaskFormat:
    """Look up a format by its name; raise MaskError, which lists all names, if there is none."""
    formats = {convention.name: convention for convention in FORMATS}
    if name not in formats:
        raise MaskError(f"There is no mask format {quoted(name)}. Available formats: {', '.join(formats)}.")
    return formats[name]
