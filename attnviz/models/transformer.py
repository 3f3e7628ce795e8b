"""A stack of attention layers, on a tap."""

from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.tap import Tap
from attnviz.models.multihead import MultiHeadAttention


class AttentionStack(nn.Module):
    """Layers of multi-head self-attention, each x + attention(norm(x)), and nothing else: no feed-forward layers."""

    def __init__(self, d_model: int, num_heads: int, num_layers: int, *, bias: bool = True):
        super().__init__()
        self.layers = nn.ModuleList(MultiHeadAttention(d_model, num_heads, bias=bias) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(num_layers))

    def forward(self, x: Tensor, mask: Tensor | Mask | None = None, *, tap: Tap | None = None) -> Tensor:
        """(B, n, d_model) -> (B, n, d_model)."""
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            y = norm(x)
            x = x + layer(y, y, y, mask, tap=tap, site=Site("encoder", i))
        return x
