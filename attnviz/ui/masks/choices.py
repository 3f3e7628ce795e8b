"""What can be chosen in the tabs of the lab, as the link writes it. Nothing heavy is imported for it."""

from attnviz.dialects import DIALECTS
from attnviz.dialects.readers import READERS

DIALECT = tuple(known.name for known in DIALECTS)
READER = tuple(READERS)

LABELS = {
    "sdpa": "SDPA, boolean",
    "sdpa_additive": "SDPA, additive",
    "is_causal": "SDPA, is_causal",
    "attn_mask": "MultiheadAttention, attn_mask",
    "key_padding_mask": "MultiheadAttention, key_padding_mask",
    "flex_attention": "FlexAttention",
    "huggingface": "Hugging Face",
    "zero_is_masked": "mask == 0",
    "true_is_masked": "mask == True",
}
"""What each dialect is called on a button, and so in the link."""

WHOLE, LAYER, EXHIBIT = TESTED = ("the whole model", "this layer", "an exhibit")
"""What the leak test tests."""

WAS_MEANT, SAID, FUTURE = PROMISES = ("what was meant", "this mask", "no future")
"""What is held against what moved."""

WEIGHTS, MASK, FILE, PASTED = CHECKED = ("this head's weights", "this mask", "a file", "pasted numbers")
"""What can be checked."""
