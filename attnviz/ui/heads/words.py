"""What the page Heads says, in one place."""

SHOWN_AS = "Shown as"

# Lines

ALSO_SHOW = "Also show heads"
MINIMUM, STRONGEST = "Minimum weight", "the strongest"
CLEAR_TOKENS = "Clear tokens"
LINE_SELECTED = "Selected line outlined; Esc to clear."
POINT_AT_TOKEN = "Point at a token to see its lines alone, click it to pick it. Click a line to read it in words."

# Text and picture

ATTENTION, ATTENTION_OF = "Attention", "Attention of the token"
OF_CLICKED = {"text": "the token that you click", "picture": "the patch that you click"}
CLICK = {
    "text": "Click a token to see its attention; point at one to read its weight.",
    "picture": "Click a patch to see its attention; point at one to read its weight.",
}

# The sentence beside a map

ARITHMETIC = "Show how this number is computed"
ALL_HEADS, THIS_HEAD = "all heads", "this head"
