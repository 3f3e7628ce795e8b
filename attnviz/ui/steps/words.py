"""Texts of the page Steps."""

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
"""Meanings of the axes of a step."""

# The selected cell, and its query in full

CELL = "{query} and {key}:"
MIXED = "The first number of {query}:\n{part} from {key}\n+ {rest} from the others\n= {total}"
VECTOR = "{query} is {count} numbers here: {numbers}, …"
TABLE_OF = "Table of {columns}"

SHARES = "How the query {query} ({position}) shares its attention"
KEYS_SHOWN = "Keys {first} to {last} of {all:,}. The sums are over all keys."
FULLY_MASKED = "This row is fully masked; it gets: {policy}."
NOT_NUMBERS = "The weights of this row are not numbers."
SOFTMAX = (
    "The largest score is subtracted so that no exp overflows; it cancels in the division and changes no weight. "
    "Weight = exp / sum of exp."
)
ELEMENTS, VALUES = "Scores, element by element", "Weighted values"
SIGNS = (
    "A dimension in which q and k have the same sign raises the score; opposite signs lower it. "
    "The sum of a row of q ∘ k is q · k."
)
INFLUENCE = (
    "A weight is not an influence: what a key adds is weight times value. A large weight on a short value adds little, "
    "and only switching something off shows what the model does without it."
)
HEAD_OFF = "This head is off: zeros are handed on instead."

IN_PYTORCH = "Python: this call step by step, and with PyTorch's attention"

# Temperature and scale

SCORES = "Temperature and scale"
LARGEST, ENTROPY, GRADIENT = "largest weight", "entropy (nats)", "softmax gradient"
DIVIDE, TEMPERATURE = "Divide by √dₖ (the model's own scale)", "Temperature"
ROW, BEFORE, NOW = "row of {query} ({position})", "before", "now"

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
    "adjust": "Queries and keys are adjusted before they meet. Some models normalize each, so that no score grows "
    "beyond a bound. Many turn each pair of numbers by an angle that grows with the position (R, rotary position "
    "embedding): then the product of a query and a key depends on how far apart they stand.",
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
    "values": "Each query gets the mean of all values, weighted by its row.",
    "concat": "The outputs of the heads stand side by side. Heads have not met until here.",
    "output": "The output weights mix the heads and lead back to as many numbers as came in. They are added to these.",
}
"""By the key of a stage; its first sentence says what the step does."""
