"""Texts of the page Masks."""

TABS = {"Compose": "Compose", "Check": "Check", "Conventions": "Conventions"}
"""The tabs, and what links call them."""
FORMER_TABS = ("Empty rows", "Leak test")
"""Tabs that links may still name."""
ASKS = (
    "Hide words, and see how the weights change.",
    "Does anything see what it must not? Choose what to check.",
    "Libraries write one mask in different, even opposite ways. Choose yours, and copy its code.",
)
"""Question of each tab."""
WITH_SOS, SHIFT_RIGHT = "<sos>", "Begin with <sos>, so that each row predicts the next token."

# Compose: the rules

ADD_RULE, RULE_MEANS, PRESET_IS = "Add a rule or preset", "{rule}: {meaning}", "Preset {preset} (replaces the rules)"
NO_RULE = "No rule yet. Add one, or paint cells."
CHANGES_NOTHING = "The built-in mask blocks all of this already: these rules change nothing here."
BLOCKS_NOTHING = "These rules block no cell here."
NOT_CROSS = "The rules do not act on cross-attention. The menu Mask has a switch for that."
READ_ONLY = "This model is read-only: the rules change the grid, not its weights."
BUILT_IN, BUILT_IN_IS = "Built-in mask.", "Built-in mask: {mask}."
RULES_ADD, RULE_ADDS = "These rules block more:", "A rule blocks more."
MOVE_UP, MOVE_DOWN, REMOVE = "Move rule {number} up", "Move rule {number} down", "Remove rule {number}"
JOIN, NOT = "How it is joined to the rules above", "not"
PAINTED, CELL = "{cells} painted by hand", "cell"
WITH_COMMAS, THESE_LENGTHS = "Whole numbers with commas between them", "Use the lengths of these sentences"
MANY_NUMBERS = "There are {count} {label}; a rule takes up to {most}."
NOT_A_NUMBER = "'{typed}' is none of the {label}: each is a whole number from 0 to {most:,}."
CAUSAL_PADDING, LEFT_PADDING = "causal + padding", "left padding with a causal mask"
PREFIX_LM, PACKED = "prefix-LM", "packed documents"
LONGFORMER, BIG_BIRD = "Longformer: window + global", "BigBird: blocks + random"
STREAMING = "StreamingLLM: window + sinks"

# Compose: bias beside the mask

BIAS, BIAS_ON = "Bias on scores", "Bias on scores: {count} on"
BIAS_MEANS = "Numbers added to the scores, or a bound of them. They block nothing: this is bias, not mask."
ALIBI, RELATIVE = "ALiBi: less for keys farther away", "Relative bias: a number for each distance"
SOFTCAP = "Softcap: scores stay below a bound"
SLOPE, SEED_OF_BIAS, BOUND = (
    "Head {head} loses {slope:.4g} for each position of distance.",
    "Seed of its numbers",
    "Bound",
)
BIAS_OF_HEAD = "Bias on the scores of this head"
BIAS_ADDED = (
    "It is added before the softmax. It blocks nothing: a key with less of it than others loses weight to them."
)
BIAS_PICTURE = "bias"

# Compose: the grid

PAINT, MASK, WEIGHTS = "Paint", "mask", "weights"
LEADS_TO = "weights under this mask"
PAINT_MEANS = (
    "A click, or Enter on the cell that the arrow keys lead to, blocks an open cell and opens a blocked one. "
    "A drag blocks cells; if all of them are, it opens them."
)
RULES_BLOCK = "The rules would block it: {rules}."
QUERY_HAS = "Row {query} may look at {left} of {keys} tokens."

# Conventions

TARGETS = {
    "sdpa": "SDPA",
    "attn_mask": "nn.MultiheadAttention",
    "flex_attention": "FlexAttention",
    "huggingface": "Hugging Face",
}
"""Libraries to write for, in links too."""
FORMER_TARGETS = {
    "SDPA, boolean": "sdpa",
    "SDPA, additive": "sdpa",
    "SDPA, is_causal": "sdpa",
    "mask == 0": "sdpa",
    "MultiheadAttention, attn_mask": "attn_mask",
    "MultiheadAttention, key_padding_mask": "attn_mask",
    "mask == True": "attn_mask",
}
"""Targets that links may still name, and the nearest of today."""
SAME_MASK, ALIGN = "The same mask for", "Queries are aligned"
FORMAT_SAYS, CODE = "{format}: {says}.", "Code to copy"
MASK_ALONE = "This is the mask alone. The bias is added to the scores as well: an additive mask can hold both."
FORMATS = "How libraries write a mask"
MEANS = {
    "zero": "{}. A fully masked row gets zeros.",
    "nan": "{}. A fully masked row gets NaN.",
    "uniform": "{}. A fully masked row gets equal weights.",
}

# Check: the model

TEST_OTHERWISE, TESTED, TEST_WHOLE, TEST_LAYER = "Test something else", "Tested", "the whole model", "this layer"
EXAMPLE_LEAKS = ("an example leak", "an exhibit")
"""Tests that links may still name."""
EXPECTED, THIS_MASK, NO_FUTURE = "Expected", "this mask", "no future"
TWO_WAY = "two-way"
"""Links name them, too."""
ASSUMED = "{assumed} If that is not so, choose what is expected under “Test something else”."
NOTHING_WRONG, IN_CALLS = "Nothing wrong was found.", "In {calls}."
NO_LEAK = "No leak: no output moves with a word that is hidden from it. Tried: {pairs}."
NONE_HIDDEN = "No output moves with a word that its mask hides; the errors above come first. Tried: {pairs}."
NO_VERDICT = "The model was {reason}."
PAIR, TRIED_AS = "pair", ("changed word", "outputs that must not move", "of them moved", "largest allowed effect")
TRIED_MORE = "And {count} more: all pairs are in Numbers."
NONE_MOVED, MOVED_BY = "none", "{query} by {far}"
LEAKING = "{count}: outputs move with words that are hidden from them."
HOW_MEASURED = "How this is measured"
HOW = "A row whose output moves when the word of a column is changed has seen that word, in whatever way."
TAKES_LONG = "Each of {tokens} tokens is changed and the model run again: that takes a while here."
BECAME_NAN = "not a number"
MOVED_MOST, MOVED_AS = "Outputs that another word moved most", ("output at", "when this changed", "moved by", "verdict")
TEST, TOKENS_CHANGED = "Test for leaks", "tokens changed"

# Check: an array

CHECK, OF_MODEL = "What to check", "this model"
OF_PAGE, OF_HEAD, OF_FILE, PASTED = "this mask", "this head's weights", "a file", "pasted numbers"
"""Links name them, too."""
GUESSED = "auto-detect"
TOO_MANY_CELLS = (
    "The map has {queries:,} × {keys:,} cells; at most {most:,} cells are checked at once. Shorten the text, or check "
    "a part of it from Python."
)
NO_FILE = "Press Upload, or drop a file on it: it is checked at once."
UPLOAD, TYPE_NUMBERS = "A mask, weights or scores", "Rows, nested lists or a printed tensor"
CHECK_NUMBERS, RULES = "Check", "All {count} rules of the check"
WHICH_ARRAY = "Which array"
SHAPE = "{sentences}, {heads}, {queries:,} queries × {keys:,} keys."
READ_IN = "It is read as '{convention}' ({meaning})."
SAY_OTHERWISE, TYPE, CONVENTION = "Wrong type detected? Set it", "Type", "Convention of a mask"
MEANT, MEANT_PAGE, MEANT_IS = "Meant to be", "the mask of this page", "{mask}: {meaning}"
MEANT_MEANS = "A kind with any padding, or this page's mask cell by cell. The mistakes that give the mask are named."
TAKEN_FOR = "Assumed: {mask}."
MEANT_ASKED = "What is the mask meant to be? It is none of the usual ones; say it below, under Meant to be."
FITS, FITS_MEANS = "for the scores of this page", "How it broadcasts to (B, H, Q, K) = {shape} is then explained."
FINDING, FIX, EVIDENCE = "{severity}: {says}", "Fix: {fix}", "The cells"
RULE_IS, WHERE = "Rule: {rule}.", "Rule: {rule}. Where: {places}."
REPORT, AS_TEXT, CHECKED_ARRAY = "Report, shell command and rules", "TXT", "What was checked"
IN_SHELL = "The same check in the shell: exit status 1 if there is an error"
MODELS_MASK = "the model's mask"
ZERO_WEIGHTS = "a weight of exactly 0"
