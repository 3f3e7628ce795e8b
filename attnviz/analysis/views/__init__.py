"""Views: what is seen of a map: pieces merged into words or sentences, special tokens left out, a pair taken apart.

Of a record a view changes nothing: the weights that are seen are made of its own, row block by row block.
"""

from attnviz.analysis.views.groups import PAIRS, SPECIAL, Groups, View, as_tokens, groups
from attnviz.analysis.views.masks import HIDDEN_MASK, MERGED_MASK, SeenMask, see_mask
from attnviz.analysis.views.seen import HIDDEN, MERGED, READ_ONLY, RENORMALIZED, AttentionView, see
