"""What the page Steps says, in one place."""

# The steps, and the one that is large

SMALL_STEPS = "all steps"
THIS_STEP, THIS_QUERY = "this step", "this query"
HOW = "How {query} gives {share} of its attention to {key}, step by step"
HOW_HERE = "How this head shares its attention, step by step"
STEP, PROJECTION, MORE = "Step", "Projection", "More about this step"
SHAPE_OF_ALL = "Shape in code: {shape}. {letters}."
LETTERS = {
    "B": "sentences",
    "H": "heads",
    "Q": "queries",
    "K": "keys",
    "d_model": "numbers of a token",
    "d_k": "numbers of a query or a key",
    "d_v": "numbers of a value",
    "H·d_k": "those of all heads",
    "H·d_v": "those of all heads",
}
"""What the axes of a step are."""

# Tabs under the steps

CLOSER = "Look closer"
TABS = {
    "Query": "Query in full",
    "Elements": "Element by element",
    "Scale": "Why the scale",
    "Word order": "Word order",
    "Edit numbers": "Edit numbers",
    "PyTorch": "PyTorch and cost",
}
"""What each tab is called on the page, and in a link."""
ABOUT_SCALE = TABS["Scale"]
GIVES, CELL = "{query} gives {share} of its attention to {key}:", "{query} and {key}:"
MIXED = "The first number of {query}:\n{part} from {key}\n+ {rest} from the others\n= {total}"
VECTOR = "{query} is {count} numbers here: {numbers}, …"
RANDOM_WEIGHTS = "Open this text with random weights"
TABLE_OF = "Table of {columns}"

SHARES = "How the query {query} ({position}) shares its attention"
WITHOUT_CHANGES = "Computed without these changes: {changes}."
KEYS_SHOWN = "Keys {first} to {last} of {all:,}. The sums are over all keys."
FULLY_MASKED = "This row is fully masked; it gets: {policy}."
NOT_NUMBERS = "The weights of this row are not numbers."
PRODUCTS, PRODUCTS_SUM = "The products of one cell: query {query}, key {key}", "Their sum is q · k = {total}."
VALUES = "Weighted values and their sum"
HEAD_OFF = "This head is off: zeros are handed on instead."

BY_DIMENSION = "The query {query} ({position}), dimension by dimension"
SIGNS = (
    "A dimension in which q and k have the same sign raises the score; opposite signs lower it. "
    "The sum of a row of q ∘ k is q · k."
)

WIDTH, WIDTH_HERE = "dₖ", "dₖ (of this model: {own})"
RANDOM_QUERIES, UNSCALED, SCALED = "500 random queries, dₖ = {d_k}", "q·k as it is", "q·k / √dₖ"
VARIANCE, LARGEST, ENTROPY, GRADIENT = "variance of the scores", "largest weight", "entropy (nats)", "softmax gradient"
LARGEST_OF_ROW = "Largest weight of a row, the mean over 500 queries:"
IN_THEORY = "In theory the variance of q·k is dₖ = {d_k}, and of q·k / √dₖ it is 1."

REORDER = "Put the words in another order. Does each word get another output, or the same one in another place?"
TOO_LONG_TO_REORDER = "This sentence has {length:,} tokens; words are permuted for up to {most}."
WORDS_BEFORE, WORDS_AFTER = "In order: {words}", "Last to first: {words}"
INSTEAD = "{why} With random weights it is seen:"
POSITIONS_NEEDED = "Positions can be switched off only in random weights: a trained model was trained with its own."
POSITIONS_HEAD = ("positions", "largest difference", "output kept")
ON, OFF, YES, NO = "on", "off", "yes", "no"
CAUSAL_ORDER = "A causal mask looks at the order, too: with it the output changes even without positions."
EDITED_ORDER = "Numbers set by hand in Q, K or V stay at their places, so they also tell places apart."

MATRICES = {"w_q": "weights of Q", "w_k": "weights of K", "w_v": "weights of V", "w_o": "output weights"}
MATRIX, RESET_NUMBERS, EDITED_NUMBER = "Matrix", "Reset {numbers}", "edited number"
TYPE_A_NUMBER = "Type another number: every step after it is computed again. The link keeps what was typed."
RANDOM_ONLY = (
    "Read-only: a trained model keeps its numbers. With random weights you can type others, and every step follows."
)
SCROLL_NUMBERS = "{columns} columns: scroll the table sideways to see all."
TOO_MANY_NUMBERS = "{most} numbers can be set by hand in a link; let go of some first."

CHECK = "Check against PyTorch"
SAME_AS_PYTORCH = "PyTorch computes the same: only rounding differs."
CHECK_MEANS = (
    "All heads of this call, on the same tensors. Rounding alone makes about 1e−7 of numbers near 1, and more of "
    "larger ones."
)
COST = "Cost of this call, one sentence"
COST_HEAD = ("tokens", "FLOPs of Q Kᵀ", "FLOPs of weights V", "bytes of scores")
COST_MEANS = (
    "Operations (FLOPs) and bytes grow with the square of the tokens: ten times as many cost a hundred times as much. "
    "All scores must be computed, but need not be kept: kernels such as FlashAttention work through them in blocks."
)

# Try changes

TRY = "Try changes"
DIVIDE, TEMPERATURE = "Divide by √dₖ (the model's own scale)", "Temperature"
MASK_AFTER, NO_MASK = "Mask after the softmax (wrong)", "This call has no mask. Set one above."
MASKING, FILLS = "Masking", {"replace": "replace with −∞", "add": "add −1e9"}
DROPOUT, SEED = "Dropout", "Seed"
WAYS = {"positions": "Positions", "bias": "Biases", "cloned": "Same weights for Q, K, V and the output"}
"""By settings of a model, how its weights are made in another way."""
ROW, ROW_SUM = "row of {query} ({position})", "row sum"
BEFORE, NOW, AFTER, ORIGINAL = "before", "now", "after", "as it begins"
CHANGED, FIRST_CHANGED = "that changed", "first that changed"

# The handout

HANDOUT_HOLDS = "Every step, the query in full, the scale and the cost: an HTML file to read, hand out or print as PDF."
HANDOUT_TITLE = "Attention, step by step"
OF_HEAD, CHANGES = "{model}: {head}.", "Changed: {changes}."
SHAPE, QUERY_IN_FULL, WHAT_IT_COSTS = "Shape: {shape}.", "Query {position}, {query}, in full", "What it costs"

# Why there is each step, and what tutorials get wrong

WHY = {
    "embedding": "Each token is looked up in a table, E. The same word gets the same vector wherever it stands.",
    "position": "Positions, P, tell the order of the words: attention has none of its own. Without positions, and "
    "without a mask or a bias that looks at the order, words in another order give the same outputs in that order.",
    "input": "Attention reads X: what the layers before it made of the tokens. In the first layer these are the tokens "
    "themselves, in many models normalized.",
    "project": "Each token becomes a query, a key and a value. First project, then split: the weights of each are one "
    "d_model × H·dₖ matrix for all heads. Equal to one narrow matrix per head, side by side.",
    "split": "The vectors are split into heads: no head sees another head's columns. Splitting only renames columns: "
    "(B, n, H·dₖ) becomes (B, H, n, dₖ).",
    "products": "Each cell is one number: how well a query and a key agree. The table is (B, H, Q, K): one square per "
    "head.",
    "scale": "Dividing by √dₖ keeps scores small, however wide the vectors are. q·k adds up dₖ products. If they are "
    "independent with variance 1, the sum has variance dₖ: with wider vectors scores grow, the softmax gives one key "
    "everything, and its gradient vanishes. Divided by √dₖ, the variance is 1 again, whatever dₖ is.",
    "softcap": "Some models bend scores so that they never leave a bound.",
    "bias": "A bias is added to scores by where tokens stand. It is no mask: it makes cells weaker or "
    "stronger, not impossible.",
    "temperature": "Below 1 the largest weight grows, above 1 weights become more alike.",
    "mask": "Blocked scores become −∞, so that their weights are 0. Before the softmax, that is: e^−∞ = 0, and the "
    "others share all. Under a causal mask query 12 sees keys 0 to 12: itself, too.",
    "softmax": "Each row becomes weights that sum to 1. Each is e to the score, over the sum of these in its row. A "
    "weight says how much of a value is taken, not how much the output depends on it: a large weight on a short value "
    "does little.",
    "dropout": "In training some weights are set to 0 and the others raised. Rows then do not sum to 1.",
    "values": "Each query gets the mean of all values, weighted by its row.",
    "concat": "The outputs of the heads stand side by side. Heads have not met until here.",
    "output": "The output weights mix the heads and lead back to as many numbers as came in. They are added to these.",
}
"""By the key of a stage; its first sentence says what the step does."""

WHY_SCALE = (
    "Dividing by √dₖ keeps the variance of scores at 1 for every dₖ. q·k is a sum of dₖ products. The product of "
    "two independent numbers of mean 0 and variance 1 has variance 1; if the products are independent, too, the sum "
    "has variance dₖ: scores spread as √dₖ. Unscaled, in wide vectors the largest score leads by so much that the "
    "softmax gives it nearly everything; then no small change of a score moves a weight, the gradient is nearly 0, and "
    "nothing is learned."
)
SOFTMAX = (
    "The largest score is subtracted so that no exp overflows; it cancels in the division and changes no weight. "
    "Weight = exp / sum of exp."
)
INFLUENCE = (
    "A weight is not an influence: what a key adds is weight times value. A large weight on a short value adds little, "
    "and only switching something off shows what the model does without it."
)
CLONES = (
    "With the same weights for Q and K (as when one layer is cloned) scores are symmetric, and most tokens prefer "
    "themselves: that is why all projections begin as independent random numbers. Try it under “Try changes” with the "
    "model 'scratch'."
)
