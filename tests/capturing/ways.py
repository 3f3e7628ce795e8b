"""One attention, written in the ways in which people write it. Each takes q, k, v of (B, H, n, d) and what is added.

`mask` is True where a query may attend, (B, 1, Q, K); `bias` is added, (1, H, Q, K); None where there is none.
"""

import math

import torch
from torch.nn import functional as F

LOWEST = torch.finfo(torch.float32).min


def plus(scores, bias):
    return scores if bias is None else scores + bias


def hide(scores, mask, fill=-torch.inf):
    return scores if mask is None else scores.masked_fill(~mask, fill)


def annotated(q, k, v, mask, bias):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    p_attn = hide(plus(scores, bias), mask, -1e9).softmax(dim=-1)
    return torch.matmul(F.dropout(p_attn, 0.1, False), v)


def operators(q, k, v, mask, bias):
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = att if bias is None else bias + att
    return F.softmax(hide(att, mask), dim=-1) @ v


def query_first(q, k, v, mask, bias):
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.mT)
    scores = scores if bias is None else torch.add(scores, bias)
    scores = scores if mask is None else torch.where(mask, scores, torch.tensor(LOWEST))
    return torch.matmul(torch.softmax(scores, -1), v)


def in_place(q, k, v, mask, bias):
    """Attention on three axes that changes one tensor in place."""
    batch, heads, queries, width = q.shape
    scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
    scores.mul_(width**-0.5)
    scores = scores.view(batch, heads, queries, -1)
    if bias is not None:
        scores += bias
    if mask is not None:
        scores.masked_fill_(mask.logical_not(), -torch.inf)
    weights = scores.view(batch * heads, queries, -1).softmax(2)
    return torch.bmm(weights, v.flatten(0, 1)).view(batch, heads, queries, -1)


def added(q, k, v, mask, bias):
    """Attention by `baddbmm`, with mask and bias in one tensor."""
    batch, heads, queries, width = q.shape
    extra = torch.zeros(batch, heads, queries, k.shape[2])
    extra = extra if bias is None else extra + bias
    extra = extra if mask is None else extra + (1.0 - mask.float()) * LOWEST
    q, k = q.flatten(0, 1), k.flatten(0, 1)
    scores = torch.baddbmm(extra.flatten(0, 1), q, k.transpose(1, 2), beta=1.0, alpha=width**-0.5)
    weights = torch.nn.functional.softmax(scores.float(), dim=-1).to(v.dtype)
    return (weights @ v.flatten(0, 1)).unflatten(0, (batch, heads))


def einsum(q, k, v, mask, bias):
    """Attention whose axis of heads stands after that of positions."""
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])
    energy = hide(energy, mask, float("-1e20")) / q.shape[-1] ** 0.5
    attention = torch.softmax(plus(energy, bias), dim=3)
    return torch.einsum("nhql,nlhd->nqhd", [attention, v]).transpose(1, 2)


def dots(q, k, v, mask, bias):
    """Attention by einsum with "..." and blanks, which subtracts the largest score of a row."""
    sim = torch.einsum("... i d, ... j d -> ... i j", q, k) * q.shape[-1] ** -0.5
    sim = hide(plus(sim, bias), mask, -torch.finfo(q.dtype).max)
    sim = sim - sim.amax(dim=-1, keepdim=True).detach()
    attn = sim.softmax(dim=-1, dtype=torch.float32).type(v.dtype)
    return torch.einsum("... i j, ... j d -> ... i d", attn, v)


def turned(q, k, v, mask, bias):
    """Attention by keys times queries, with the softmax over the rows."""
    scores = torch.matmul(k, q.mT) / math.sqrt(q.shape[-1])
    scores = hide(plus(scores, None if bias is None else bias.mT), None if mask is None else mask.mT)
    return torch.matmul(v.mT, torch.softmax(scores, dim=-2)).mT


def heads_last(q, k, v, mask, bias):
    """Scores of (B, Q, K, H), as in Transformer-XL."""
    q, k, v = (one.permute(2, 0, 1, 3) for one in (q, k, v))
    scores = torch.einsum("ibnd,jbnd->ijbn", q, k)
    scores.mul_(1 / q.shape[-1] ** 0.5)
    bias, mask = (each if each is None else each.permute(2, 3, 0, 1) for each in (bias, mask))
    scores = hide(plus(scores, bias), mask)
    return torch.einsum("ijbn,jbnd->ibnd", F.softmax(scores, dim=1), v).permute(1, 2, 0, 3)


def multiplied(q, k, v, mask, bias):
    """The mask as a factor, as in GPT-1."""
    w = plus(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1) * q.size(-1) / v.size(-1)), bias)
    if mask is not None:
        b = mask.float()
        w = w * b - 1e4 * (1 - b)
    return torch.matmul(torch.nn.Softmax(dim=-1)(w), v)


def indexed(q, k, v, mask, bias):
    """Attention that writes its cells one by one."""
    scores = plus((q * q.shape[-1] ** -0.5) @ k.mT, bias)
    if mask is not None:
        scores[~mask.expand_as(scores)] = -torch.inf
    return scores.softmax(-1) @ v


def fused(q, k, v, mask, bias):
    """By PyTorch's function, with mask and bias in one tensor."""
    if mask is not None and bias is not None:
        mask = bias.masked_fill(~mask, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, bias if mask is None else mask)


WAYS = {way.__name__: way for way in (
    annotated, operators, query_first, in_place, added, einsum, dots, turned, heads_last, multiplied, indexed, fused
)}  # fmt: skip
