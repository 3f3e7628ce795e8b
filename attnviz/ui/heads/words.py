"""Texts of the page Heads."""

SHOWN_AS = "Shown as"

# Lines

ALSO_SHOW, HEAD = "Also show", "head {head}"
MINIMUM, NO_MINIMUM = "Minimum weight", "none"
CLEAR_TOKENS = "Clear tokens"
POINT_AT_TOKEN = "Point at a token to see its lines alone, click it to pick it. Click a line to read it in words."

# Text and picture

ATTENTION, ATTENTION_OF = "Attention", "Attention of the token"
OF_CLICKED_TOKEN, OF_CLICKED_PATCH = "the token that you click", "the patch that you click"
LESS, NEUTRAL = "Weights of patches", "Describe the picture."
LESS_NAMES = {"none": "weights", "sinks": "without sinks", "neutral": "minus a neutral question"}
LESS_MEANS = (
    "Without sinks: patches whose mean weight is above 10 times the median are set aside, and the others are parts of "
    f"their sum. Minus a neutral question: the weights of the last token of “{NEUTRAL}” are taken away."
)
PATCH, TOKEN = "Patch {patch}:", "Token {patch}:"
BLANK, GRAY, BLANK_NONE = "blank in the attention", "gray in the picture", "Blank none"
WITHOUT_GRAY = "Of the whole picture it says {label} {share}."
POINT_AT_PATCH = "Point at a patch to read its weight."

# The sentence beside a map

ARITHMETIC, WHY_NONE = "Show how this number is computed", "Show why this weight is 0"
ARITHMETIC_OF_FIRST = "Show how the first number is computed"
OF_HEAD = "Head {head}: {says}"
ALL_HEADS, THIS_HEAD = "all heads", "this head"

# Heads for two words, and for one prediction

LINKING, LINKED_HEAD = "Heads that link these two words", "{head}: {weight:.2f}"
MATTERING, MATTERS_HEAD = "Heads that matter for this prediction", "{head}: {change}"
SWITCH_EACH_OFF = "Switch each head off"
FROM_TO = "The weight from {query} to {key} in each head; click one to open it."
CHANGES_AT = "How much the prediction at {query} changes with each head off, in nats; click one to open it."
VECTOR_AT = "How much the vector of {query} changes with each head off, as a share of its length; click one to open it."

# The model writes

CONTINUE, WRITE_AGAIN, TAKE_AWAY, HOW_WRITTEN = "Continue", "Write again", "Remove the answer", "How"
CONTINUE_MEANS = "The model continues the text, with all changes of this page. All pages then show text and answer."
NEW_TOKENS, TEMPERATURE, TOP_P, SEED = "New tokens, at most", "Sampling temperature", "Top p", "Seed of what is drawn"
GREEDY = "0 takes the most probable token each time; with more, tokens are drawn."
TOKENS_WRITTEN = "tokens written"
PART, EARLIER, LATER = "Tokens {first:,} to {last:,} of {all:,}", "Earlier tokens", "Later tokens"
WRITTEN, BEFORE, ENDED = "Written answer", "Before (differs from token {token:,} on):", "(end)"
WRITTEN_FROM = "{token} was written from row {row}, the marked one, with probability {share}. Most probable there:"
INSTEAD, IT_IS = "Write this instead, and go on from it", "This was written"
CHAT, SYSTEM, NO_SYSTEM = "Chat", "System", "The system's turn, if any"
CHAT_MEANS = "The text is what a user says: its tokens are those of the model's own chat template."
