"""Keys that stand before those of the tokens have names, and the tokens keep theirs."""

import pytest
import torch
from handmade import HEADS, D, shown
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Site
from attnviz.core.errors import InputError

N, MEMORY = 5, 3


class Remembering(nn.Module):
    """Self-attention with learned keys and values before its own."""

    def __init__(self):
        super().__init__()
        self.num_heads, self.qkv = HEADS, nn.Linear(D, 3 * D)
        self.memory = nn.Parameter(torch.randn(2, 1, HEADS, MEMORY, D // HEADS))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        k, v = (
            torch.cat([one.expand(len(x), -1, -1, -1), own], 2) for one, own in zip(self.memory, (k, v), strict=True)
        )
        self.parts = q.detach(), k.detach()
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def test_prefix_keys_have_names_and_stand_behind_the_tokens():
    """It is self-attention; without their names the error says how to give them."""
    model = Remembering()
    with attnviz.capture(model) as seen:
        model(torch.randn(2, N, D))
    assert list(seen.sites) == [Site("encoder", 0)]
    with pytest.raises(InputError, match=r"3 learned keys stand before .* record\(..., prefix="):
        seen.record([[*"abcde"]] * 2)

    record = seen.record([[*"abcde"]] * 2, prefix=["m0", "m1", "m2"])
    queries, keys = record.tokens(Site("encoder", 0))
    assert [token.text for token in queries] == [*"abcde"]
    assert [token.text for token in keys] == [*"abcde", "m0", "m1", "m2"]
    q, k = model.parts
    own = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
    assert_close(shown(record.steps[0]), torch.cat([own[..., MEMORY:], own[..., :MEMORY]], -1), atol=1e-6, rtol=1e-5)
    assert_close(record.steps[0].output(1), seen.steps[0].output(1))
    assert len(attnviz.figures.head(record, Site("encoder", 0), 1).table) == N * (N + MEMORY)
