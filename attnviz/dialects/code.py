"""The same mask as code in every dialect: a few lines of plain PyTorch that build it and hand it to the right call.

The lines read `query`, `key` and `value` that the person has, and for `nn.MultiheadAttention` their `attention`. They
leave the mask in `mask` (`block_mask` for FlexAttention) and the result in `output`, where the call gives them also the
weights in `weights`.
"""

from attnviz.core.masks import And, Mask, Subsequent
from attnviz.core.masks.pen import GRID, PREDICATE, ROW, Expression
from attnviz.core.masks.writing import MaskWriter, in_rows

TORCH = "import torch\n"
FUNCTIONAL = "import torch\nimport torch.nn.functional as F\n"
SIZES = "queries, keys = query.shape[-2], key.shape[-2]"
HEADED = f"# query: (B, H, Q, d), key and value: (B, H, K, d)\n{SIZES}"
MODULE = f"# attention: nn.MultiheadAttention(d_model, num_heads, batch_first=True); query: (B, Q, d_model)\n{SIZES}"
BOOLEANS = "dtype=torch.bool, device=query.device"
FLOATS = "dtype=query.dtype, device=query.device"
LOWEST = "torch.finfo(query.dtype).min"
SCORES = "scores = query @ key.mT / query.shape[-1] ** 0.5"
OUTPUT = "output = weights @ value"
PER_HEAD = "average_attn_weights=False"


CALL = "output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)"


def sdpa(mask: Mask, queries: int, keys: int) -> str:
    lines, may_attend = _grid(mask, queries, keys)
    return _code(FUNCTIONAL, HEADED, *lines, f"# True = may attend\nmask = {may_attend.text}", CALL)


def sdpa_additive(mask: Mask, queries: int, keys: int) -> str:
    return _code(FUNCTIONAL, HEADED, *_floats(mask, queries, keys, 'float("-inf")', "-inf"), CALL)


def is_causal(mask: Mask, queries: int, keys: int) -> str:
    call = "output = F.scaled_dot_product_attention(query, key, value, is_causal=True)  # aligned top-left"
    return _code(FUNCTIONAL.removeprefix("import torch\n"), HEADED.partition("\n")[0], call)


def multihead(mask: Mask, queries: int, keys: int) -> str:
    """Padding that stands beside other rules goes into the argument that is made for it."""
    beside, lines, arguments = _padding_beside(mask, queries, keys), [], "attn_mask=mask"
    if beside is not None:
        mask, padding = beside
        lines, real = _row(padding, queries, keys)
        lines.append(f"key_padding_mask = {real.denied}  # True = padding")
        arguments += ", key_padding_mask=key_padding_mask"
    more, blocked = _blocked(mask, queries, keys)
    lines += [*more, f"# True = blocked\nmask = {blocked.text}"]
    if mask.batch_size:
        lines.append("mask = mask.expand(-1, -1, queries, keys)[:, 0].repeat_interleave(attention.num_heads, 0)")
    return _code(TORCH, MODULE, *lines, f"output, weights = attention(query, key, value, {arguments}, {PER_HEAD})")


def key_padding_mask(mask: Mask, queries: int, keys: int) -> str:
    lines, real = _row(mask, queries, keys)
    call = f"output, weights = attention(query, key, value, key_padding_mask=mask, {PER_HEAD})"
    return _code(TORCH, MODULE, *lines, f"# True = padding\nmask = {real.denied}", call)


def flex(mask: Mask, queries: int, keys: int) -> str:
    writer = MaskWriter(queries, keys, PREDICATE)
    may_attend = writer.write(mask).text
    batch = "len(query)" if mask.batch_size else "None"
    imports = f"{TORCH}from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n"
    mask_mod = f"\n\ndef mask_mod(b, h, q_idx, kv_idx):  # True = may attend\n    return {may_attend}\n\n"
    build = f"block_mask = create_block_mask(mask_mod, {batch}, None, queries, keys, device=query.device)"
    call = "output = flex_attention(query, key, value, block_mask=block_mask)  # fast inside torch.compile"
    return _code(imports, HEADED, *writer.lines, mask_mod, build, call)


def huggingface(mask: Mask, queries: int, keys: int) -> str:
    """0 and 1 where the mask is the same for every query, and floats with four axes otherwise."""
    if padding_only(mask, queries, keys):
        lines, real = _row(mask, queries, keys)
        lines.append(f"mask = {real.called}.long()  # 1 = token, 0 = padding")
        added = f"torch.zeros_like(scores).masked_fill(mask[:, None, None] == 0, {LOWEST})"
    else:
        lines = _floats(mask, queries, keys, LOWEST, "the lowest number")
        lines.append("mask = mask.expand(len(query), 1, queries, keys)  # with four axes it is taken as it is")
        added = "mask"
    lines.append("# model(input_ids, attention_mask=mask); an eager layer of it computes:")
    return _code(TORCH, HEADED, *lines, SCORES, f"weights = (scores + {added}).softmax(-1)", OUTPUT)


def zero_is_masked(mask: Mask, queries: int, keys: int) -> str:
    lines, may_attend = _grid(mask, queries, keys)
    lines += ["# 0 = masked", f"mask = {may_attend.called}.long()"]
    return _code(TORCH, HEADED, *lines, SCORES, "weights = scores.masked_fill(mask == 0, -1e9).softmax(-1)", OUTPUT)


def true_is_masked(mask: Mask, queries: int, keys: int) -> str:
    lines, blocked = _blocked(mask, queries, keys)
    weights = 'weights = scores.masked_fill(mask, float("-inf")).softmax(-1)'
    return _code(TORCH, HEADED, *lines, f"# True = masked\nmask = {blocked.text}", SCORES, weights, OUTPUT)


def padding_only(mask: Mask, queries: int, keys: int) -> bool:
    """Whether every query of a sentence sees the same keys."""
    grid = mask.tensor(queries, keys)
    return bool((grid == grid[:, :, :1]).all())


def _grid(mask: Mask, queries: int, keys: int) -> tuple[list[str], Expression]:
    """Lines, and an expression that is True where a query may attend; (Q, K), (B, 1, 1, K) or (B, 1, Q, K)."""
    writer = MaskWriter(queries, keys, GRID)
    part = writer.write(mask)
    return writer.lines, part


def _blocked(mask: Mask, queries: int, keys: int) -> tuple[list[str], Expression]:
    """Lines, and an expression that is True where a query may not attend; shaped as in `_grid`."""
    if isinstance(mask, Subsequent):
        return [], Expression(
            f"torch.ones(queries, keys, {BOOLEANS}).triu({_above(mask, queries, keys)})", frozenset("QK")
        )
    lines, part = _grid(mask, queries, keys)
    return lines, Expression(part.denied, part.axes)


def _row(mask: Mask, queries: int, keys: int) -> tuple[list[str], Expression]:
    """Lines, and an expression that is True for tokens, (B, K), of a mask in which every query sees the same keys."""
    if in_rows(mask, queries, keys):
        writer = MaskWriter(queries, keys, ROW)
        lines, part = writer.lines, writer.write(mask)
    else:
        lines, grid = _grid(mask, queries, keys)
        lines.append(f"may_attend = {grid.text}  # every query sees the same keys, so the first says it all")
        part = Expression(f"may_attend{'[:, 0, 0]' if mask.batch_size else '[0]'}", grid.axes)
    if mask.batch_size:
        return lines, part
    return lines, Expression(f"{part.called}.expand(len(query), keys)", part.axes)


def _floats(mask: Mask, queries: int, keys: int, fill: str, words: str) -> list[str]:
    """Lines that make `mask`: 0 where a query may attend and the fill elsewhere."""
    comment = f"# added to the scores: 0 = may attend, {words} = blocked"
    if isinstance(mask, Subsequent):
        return [comment, f"mask = torch.full((queries, keys), {fill}, {FLOATS}).triu({_above(mask, queries, keys)})"]
    lines, blocked = _blocked(mask, queries, keys)
    filled = f"torch.zeros(blocked.shape, {FLOATS}).masked_fill(blocked, {fill})"
    return [*lines, f"blocked = {blocked.text}", comment, f"mask = {filled}"]


def _above(mask: Subsequent, queries: int, keys: int) -> str:
    """The first diagonal of the future, by the lengths if it is their difference."""
    bottom_right = mask.offset and mask.offset == keys - queries
    return "keys - queries + 1" if bottom_right else str(mask.offset + 1)


def _padding_beside(mask: Mask, queries: int, keys: int) -> tuple[Mask, Mask] | None:
    """A mask in two: what is the same for all sentences, and the padding beside it; None if it does not part so."""
    if not isinstance(mask, And):
        return None
    padding = tuple(part for part in mask.masks if part.batch_size and in_rows(part, queries, keys))
    rest = tuple(part for part in mask.masks if part not in padding)
    if not padding or not rest or any(part.batch_size for part in rest):
        return None
    return And(rest) if len(rest) > 1 else rest[0], And(padding) if len(padding) > 1 else padding[0]


def _code(*lines: str) -> str:
    return "\n".join(lines) + "\n"
