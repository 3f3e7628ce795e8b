"""Why there is each step, and what tutorials get wrong. Ours, short, and exact."""

WHY = {
    "embedding": "Each token is looked up in a table. The same word gets the same vector wherever it stands.",
    "position": "Positions tell the order of the words: attention has none of its own. Without positions, and without "
    "a mask or a bias that looks at the order, words in another order give the same outputs in that order.",
    "input": "Attention reads what the layers below made of the tokens. In the first layer these are the tokens "
    "themselves, in many models normalized.",
    "project": "Each token becomes a query, a key and a value. First project, then split: each W is one "
    "d_model × H·d_k matrix for all heads. Equal to one narrow matrix per head, side by side.",
    "split": "The vectors are split into heads: no head sees another head's columns. Splitting only renames columns: "
    "(B, n, H·d_k) becomes (B, H, n, d_k).",
    "products": "Each cell is one number: how well a query and a key agree. The table is (B, H, Q, K): one square per "
    "head.",
    "scale": "Dividing by √d_k keeps scores small, however wide the vectors are. q·k adds up d_k products. If they are "
    "independent with variance 1, the sum has variance d_k: with wider vectors scores grow, the softmax gives one key "
    "everything, and its gradient vanishes. Divided by √d_k, the variance is 1 again, whatever d_k is.",
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
    "output": "W_O mixes the heads and leads back to d_model numbers. They are added to what came in.",
}
"""By the key of a stage; its first sentence says what the step does."""

SCALE = (
    "Dividing by √d_k keeps the variance of scores at 1 for every d_k. q·k is a sum of d_k products. The product of "
    "two independent numbers of mean 0 and variance 1 has variance 1; if the products are independent, too, the sum "
    "has variance d_k: scores spread as √d_k. Unscaled, in wide vectors the largest score leads by so much that the "
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
    "With W_Q = W_K (as when one layer is cloned) scores are symmetric, and most tokens prefer themselves: that is why "
    "all projections begin as independent random numbers. Try it under “Try changes” with the model 'scratch'."
)
