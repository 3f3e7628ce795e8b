"""A tap that leaves the weights in autograd's graph, so that a logit can be differentiated by each of them."""

from torch import Tensor

from attnviz.core.attention import attention_weights
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.progress import tell
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap


class GradientTap(Tap):
    """Applies edits as `Tap` does; keeps the weights of each call, and no steps. Nothing is dropped out.

    Attributes:
        attention: (B, H, Q, K) of each site, in autograd's graph; also those of heads that are off.
    """

    def __init__(self, edits: Edits = Edits()):
        if edits.taken:
            what = "Parts of this run are taken from another text, through which its tokens have no gradient"
            raise InputError(f"{what}; remove what is taken.")
        super().__init__(edits, keep=False)
        self.attention: dict[Site, Tensor] = {}

    def _output(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | Mask | None,
        scoring: Scoring,
        *,
        site: Site,
        dropout_p: float,
    ) -> Tensor:
        weights = attention_weights(query, key, mask, scoring).to(value.dtype)
        self.attention[site] = weights if weights.requires_grad else weights.requires_grad_()
        tell(1.0)
        return weights @ value
