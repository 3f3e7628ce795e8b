"""What the page Heads says, in one place."""

SHOWN_AS = "Shown as"

# Lines

ALSO_SHOW, HEAD = "Also show", "head {head}"
MINIMUM, NO_MINIMUM = "Minimum weight", "none"
CLEAR_TOKENS = "Clear tokens"
POINT_AT_TOKEN = "Point at a token to see its lines alone, click it to pick it. Click a line to read it in words."

# Text and picture

ATTENTION, ATTENTION_OF = "Attention", "Attention of the token"
OF_CLICKED = {"text": "the token that you click", "picture": "the patch that you click"}
POINT_AT_PATCH = "Point at a patch to read its weight."

# The sentence beside a map

ARITHMETIC, WHY_NONE = "Show how this number is computed", "Show why this weight is 0"
ARITHMETIC_OF_FIRST = "Show how the first number is computed"
OF_HEAD = "Head {head}: {says}"
ALL_HEADS, THIS_HEAD = "all heads", "this head"
