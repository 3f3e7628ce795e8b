"""What the page Masks says, in one place."""

TABS = ("Compose", "Conventions", "Empty rows", "Leak test", "Check")
"""Links name them, too."""
ASKS = (
    "Hide words, and see how the weights change.",
    "Libraries write one mask in different, even opposite ways. Choose yours, and copy its code.",
    "Padding can leave a row nothing to look at; in some code every number then becomes NaN.",
    "Does an output depend on a hidden word? Each word is changed, and the model runs again.",
    "Is anything wrong with a mask or weights? Check this page's, a file, or pasted numbers.",
)
"""What each tab answers."""
WITH_SOS, SHIFT_RIGHT = "<sos>", "Begin with <sos>, so that each row predicts the next token."
TOO_LONG = "This is measured for up to {most} tokens. Shorten the text."

# Compose: the rules

CLEAR, HIDE_FAR = "Clear rules", "Hide far words"
FAR_MEANS = "Each row keeps itself and the two words before it. What is hidden can be changed."
KNOWN_MASK, ADD_RULE, RULE_MEANS = "Known masks", "Add a rule", "{rule}: {meaning}"
NO_RULE = "No rule yet. Choose a known mask, or add a rule."
CHANGES_NOTHING = "The built-in mask blocks all of this already: these rules change nothing here."
BLOCKS_NOTHING = "These rules block no cell here."
NOT_CROSS = "The rules do not act on cross-attention. The menu Mask has a switch for that."
READ_ONLY = "This model is read-only: the rules change the grid, not its weights."
BUILT_IN, BUILT_IN_IS = "Built-in mask.", "Built-in mask: {mask}."
RULES_ADD, RULE_ADDS = "These rules block more:", "A known mask or a rule blocks more."
MOVE_UP, MOVE_DOWN, REMOVE = "Move rule {number} up", "Move rule {number} down", "Remove rule {number}"
JOIN, NOT = "How it is joined to the rules above", "not"
PAINTED, CELL = "{cells} painted by hand", "cell"
WITH_COMMAS, THESE_LENGTHS = "Whole numbers with commas between them", "Use the lengths of these sentences"
MANY_NUMBERS = "There are {count} {label}; a rule takes up to {most}."
NOT_A_NUMBER = "'{typed}' is none of the {label}: each is a whole number from 0 to {most:,}."
CAUSAL, CAUSAL_PADDING, SLIDING = "causal", "causal + padding", "sliding window"
PREFIX_LM, PACKED = "prefix-LM", "packed documents"
LONGFORMER, BIG_BIRD = "Longformer: window + global", "BigBird: blocks + random"
STREAMING, SPARSE = "StreamingLLM: window + sinks", "Sparse Transformer: fixed"
NATTEN, FLAMINGO, DIFFUSION = "NATTEN: neighborhood", "Flamingo: media", "block diffusion"
LEFT_PADDING = "left padding with a causal mask"

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
    "A click blocks an open cell and opens a blocked one. A drag blocks cells; if all of them are, it opens them."
)
LENGTHS, OTHER_QUERIES, QUERIES = "Lengths", "Another number of queries", "Queries"
FOR_THE_GRID = "For the grid alone: as if a cache held the keys before, or none did."
FIRST_QUERY = "The first query stands"
FIRST_QUERY_MEANS = (
    "top-left: at the first key, as with is_causal in F.scaled_dot_product_attention. bottom-right: so that the last "
    "query stands at the last key, as with a cache."
)
ALIGNED = "{queries} queries, {keys} keys, aligned {alignment}. This changes the grid alone, not what the model runs."
CHECKBOXES, AS_CHECKBOXES = "Edit the mask with the keyboard", "The mask as checkboxes"
NO_ROOM = "The table has room for {most} tokens; this sentence has {tokens}."
MODELS_MASK = "the model's mask"
CHECKED = "Checked: the query of the row may look at the key of the column. Space toggles a checkbox."
QUERY, KEYS_LEFT = "query", "keys left"

# Compose: what the mask does

RULES_BLOCK = "The rules would block it: {rules}."
QUERY_HAS = "Row {query} may look at {left} of {keys} tokens."
THROUGH_LAYERS, LAYERS = "What a query sees through layers", "Layers"
NOT_IN_CROSS = "In cross-attention queries and keys are different sentences: what is seen does not grow with layers."
NOT_REACHED = "This is computed for up to {most:,} tokens, as many queries as keys."
SEES, LAYER = "{query} sees {inputs} of {keys} inputs after {layers}, itself included.", "layer"
SEEN, UNSEEN = "{token} ({position}): seen", "{token} ({position}): not seen"
COSTS = "What it costs in one layer"
COST_HERE, COST_OTHER, COST_FAR = "{queries} tokens", "{queries} × {keys} tokens", "128k tokens"
COST_MEANS = (
    "Cost if blocked cells are skipped, and of full attention beside it. Memory is that of the scores, if all are held "
    "at once."
)
COUNTED_FAR = "The numbers for 128k tokens are estimated from some rows."
COUNTED_BOTH = "All numbers are estimated from some rows."
OF_FULL = "{part} <small>of {full}</small>"
BLOCKED, CELLS, FLOPS, MEMORY = "blocked", "cells in one head", "FLOPs", "memory"

# Conventions

DIALECTS = {
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
"""What each dialect is called in the link and, if nothing else is said, on a button."""
BUTTONS = DIALECTS | {
    "sdpa": "SDPA, bool",
    "zero_is_masked": "masked_fill(mask == 0)",
    "true_is_masked": "masked_fill(mask)",
}
"""What each dialect is called on a button: by the code in which a reader meets it."""
SAME_MASK, ALIGN = "The same mask for", "Queries are aligned"
DIALECT_SAYS, CANNOT_SAY = "{dialect}: {says}.", "{dialect} cannot express this mask. {why} Choose another one above."
FIRST_TOKENS = "The grid and the printed tensor are of the first {most} tokens; the code is for any number."
CODE = "Code to copy"
PRINTED = "The mask as a printed tensor"
MASK_ALONE = "This is the mask alone. The bias is added to the scores as well: an additive mask can hold both."
AS_TENSOR = "The same as a tensor"

WRONG_CONVENTION = "Use the mask with the wrong convention"
TOO_LONG_TO_HAND = "This is shown for up to {most} tokens. Shorten the text."
WRITTEN_FOR, READ_BY = "The mask is written for", "and read by"
STOPS = "{error} It stops at once, so this mistake cannot go unseen."
WEIGHTS_OF = "The weights are of the queries and keys of {head}."
CHECK_SAYS, NOTHING_LOST = "The check says of the mask alone: {finding}", "Nothing is lost: it is read as it was meant."
ALL_ROWS, USE_MISTAKE = "All {count} rows in words", "Use this mistaken mask"
MISTAKE_MEANS = "The page takes the mask that the reader saw, and the leak test shows what follows."

# Empty rows

USE_EXAMPLE = "Use the example's mask"
MASKED_ROWS = "{count} of {queries} rows have no key left."
NONE_MASKED = "The mask of this page leaves every row a key."
EXAMPLE = "Below is an example with another mask, {mask}: {says}"
NONE_ALONE = "With a single token there is none."
POLICIES_HEAD = ("weights", "what follows")
POLICIES = {
    "zero": "All weights are 0: the row adds nothing, and its token goes on as it is. "
    "The default here and in F.scaled_dot_product_attention.",
    "nan": "Its weights are not numbers (NaN), and NaN spreads to other rows. "
    "A softmax of −inf alone, as in nn.MultiheadAttention.",
    "uniform": "The same weight for every key, though all of them are masked. Code that fills in −1e9 instead of −inf.",
    "error": "Nothing is computed; the error names the row.",
}
NOTHING_TO_COMPUTE = "This model does not show its queries and keys, so there is nothing to compute."
TWO_TEXTS = "Queries and keys are of different texts here: NaN does not spread from one to the other."
PADDED = "<pad>"
ROW_PICTURE, NAN_PICTURE = "fully masked row", "how NaN spreads"
FILLS, FILLS_TABLE, FILL, FILLED = "Fills and types, measured", "Fills and types", "fill", "{fill}, {how}"
NOTHING_TO_MEASURE = "This model does not show its scores, so there is nothing to measure."
FILLS_MEAN = (
    "On the scores of {head}: rows with a key left and, under them, rows without one. Replaced: the fill takes the "
    "place of a score. Added: it is added to it. Multiplied: (1 - mask) times the fill is added."
)
NO_KEY = "no key: {result}"

# Leak test

TESTED, TEST_WHOLE, TEST_LAYER, TEST_BUG = "Tested", "the whole model", "this layer", "an example leak"
EXPECTED, AS_MEANT, THIS_MASK, NO_FUTURE = "Expected", "what was meant", "this mask", "no future"
"""Links name them, too."""
APPLIED = "The mask is applied"
NO_LEAK = "No leak: no output moves with a word that is hidden from it. Tried: {pairs}."
PAIR, TRIED_AS = "pair", ("changed word", "outputs that must not move", "of them moved", "largest allowed effect")
TRIED_MORE = "And {count} more: all pairs are in Numbers."
NONE_MOVED, MOVED_BY = "none", "{query} by {far}"
LEAKING = "{count}: outputs move with words that are hidden from them."
HOW_MEASURED = "How this is measured"
HOW = "A row whose output moves when the word of a column is changed has seen that word, in whatever way."
MISTAKE, UNDO_MISTAKE = "The mask of this page is a mistake on purpose.", "Undo the mistake"
TAKES_LONG = "Each of {tokens} tokens is changed and the model run again: that takes a while here."
BECAME_NAN = "not a number"
MOVED_MOST, MOVED_AS = "Outputs that another word moved most", ("output at", "when this changed", "moved by", "verdict")
TEST, TOKENS_CHANGED = "Test for leaks", "tokens changed"

# Check

CHECK = "What to check"
OF_HEAD, OF_PAGE, OF_FILE, PASTED = "this head's weights", "this mask", "a file", "pasted numbers"
GUESSED, YES, NO = "auto-detect", "yes", "no"
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
MEANT_MEANS = "A kind with any numbers and any padding, or this page's mask cell by cell. What differs is an error."
FUTURE_BLOCKED = "The future must be blocked"
FITS, FITS_MEANS = "for the scores of this page", "How it broadcasts to (B, H, Q, K) = {shape} is then explained."
FINDING, FIX, EVIDENCE = "{severity}: {says}", "Fix: {fix}", "The cells"
RULE_IS, WHERE = "Rule: {rule}.", "Rule: {rule}. Where: {places}."
REPORT, AS_TEXT, CHECKED_ARRAY = "The report", "TXT", "What was checked"
IN_SHELL = "The same check in the shell: exit status 1 if there is an error"
