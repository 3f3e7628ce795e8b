"""Multi-head attention, section 3.2.2 of Vaswani et al. 2017: project, split into heads, attend, join, project."""

from torch import Tensor, nn

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, ShapeError
from attnviz.core.masks import Mask
from attnviz.core.stream import PROJECTIONS, Embedded, Linear, Origin
from attnviz.core.tap import Tap


def linear_of(linear: nn.Linear) -> Linear:
    """Copy the weight and bias of a linear layer, without gradients."""
    return Linear(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


class InputTap(Tap):
    """A tap that also keeps, for each call, the attention layer and the inputs of its query and key projections."""

    def __init__(self, edits: Edits = Edits()):
        super().__init__(edits)
        self.calls: dict[Site, tuple[MultiHeadAttention, Tensor, Tensor]] = {}

    def origin(self, site: Site, query_tokens: Embedded, key_tokens: Embedded) -> Origin:
        """Collect the inputs and projections of the call at a site; the embedded tokens are passed through."""
        layer, query, key = self.calls[site]
        projections = {name: linear_of(getattr(layer, name)) for name in PROJECTIONS}
        return Origin(query, key, query_tokens=query_tokens, key_tokens=key_tokens, **projections)


class MultiHeadAttention(nn.Module):
    """Four d_model x d_model linear layers around scaled dot-product attention.

    The projections are initialized independently (Xavier uniform, biases zero). Weights are not stored in the module;
    they are captured through the tap.

    Args:
        d_model: width of the inputs and of the output.
        num_heads: number of heads, a divisor of d_model; each head has d_k = d_v = d_model / num_heads.
        bias: whether the four linear layers have biases.

    Raises:
        AttnvizError: if num_heads does not divide d_model; the message has both.
    """

    def __init__(self, d_model: int, num_heads: int, *, bias: bool = True):
        super().__init__()
        if num_heads < 1 or d_model < 1 or d_model % num_heads:
            raise AttnvizError(f"d_model is {d_model} and num_heads is {num_heads}; num_heads must divide d_model.")
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        for linear in (self.w_q, self.w_k, self.w_v, self.w_o):
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | Mask | None = None,
        *,
        tap: Tap | None = None,
        site: Site = Site("encoder", 0),
    ) -> Tensor:
        """Attend from `query`, (B, Q, d_model), to `key` and `value`, (B, K, d_model); return (B, Q, d_model).

        Args:
            mask: True = may attend; (Q, K), (B, 1, Q, K), (B, H, Q, K) or a named mask.
            tap: tap that applies edits and captures queries, keys and values.
            site: name of this call in the record.
        """
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor.dim() != 3 or tensor.shape[-1] != self.w_q.in_features:
                expected = f"(B, n, d_model) with d_model = {self.w_q.in_features}"
                raise ShapeError(f"The {name} has shape {tuple(tensor.shape)}; it must be {expected}.")
        tap = Tap(keep=False) if tap is None else tap
        if isinstance(tap, InputTap):
            tap.calls[site] = self, query, key
        q, k, v = self._split(self.w_q(query)), self._split(self.w_k(key)), self._split(self.w_v(value))
        heads = tap.attend(q, k, v, site=site, mask=mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))

    def _split(self, projected: Tensor) -> Tensor:
        """Split projections into heads, (B, n, d_model) -> (B, H, n, d_k)."""
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
