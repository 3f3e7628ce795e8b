"""Words of the panel *About this model*; what is known of a model is on its card."""

ABOUT = "About this model"

NOT_SHOWN = "Not shown: {what}."
FINDINGS, CANNOT, NO_OTHER_TEXT = "What the check found", "What it cannot do", "It reads no other text."
OPEN_IN_MODEL, CLOSE = "Open in its model", "Close this file"
PRETRAINED = "A pretrained model of Hugging Face. What its heads do was not measured here."
HEADS_DO, HOW_WELL = "What its heads do", "How well it does"
WHEN = "Measured before it shipped{unseen}: these numbers do not follow your text."
UNSEEN = ", on texts that training never used"
AGAIN = "Commands that measure and train it again, in a folder of the source"
AGAIN_UNTRAINED = "Command that measures it again, in a folder of the source"
MEASURED = ("What was measured", "Share")
HOW_LEARNED, TRAINED_ON, SIZES = "How it learned", "What it was trained on", "Sizes"
NAMED = "{name} · {title}"
CURVE = (
    "The held-out score is the share of {of}. It went from {first:.1%}, untrained, to {score:.1%} in {steps:,} steps. "
    "The dots are the steps whose weights were kept: Compare and Learn show the model at them."
)
LOSS = (
    "The training loss is the mean surprise at a next word, in nats (cross-entropy), over the steps since the point "
    "before: at step 0 there are none."
)
REACHED, NOT_REACHED = "goal {goal}: reached", "goal {goal}: not reached"

# The table of heads

OFTEN, WEIGHT, CHANCE, ACCURACY = "Looks there", "Weight there", "By chance", "Right, head on → off"
COLUMNS = (OFTEN, WEIGHT, CHANCE, ACCURACY)
MEANING = {
    OFTEN: "Looks there: in how many of the rows the head's largest weight is where its role says.",
    WEIGHT: "Weight there: the share of the head's weight that is where its role says.",
    CHANCE: "By chance: the same for a head that looks anywhere.",
    ACCURACY: "Right, head on → off: how much the model gets right with all heads on, and with this one off. The end "
    "of the bar, in another color, is what is lost.",
}
MOST_LOST = "The role whose head costs most when it is off comes first."
CLICK_A_HEAD = "Click a head to open it on the page Heads."

# Circuits of the weights

CIRCUITS = "Circuits of the weights"
CIRCUITS_ARE = (
    "What heads can read from each other and write, by the weights alone: no text is run (Elhage et al. 2021)."
)
WEIGHTS_ALONE = (
    "Weights show what a head can do, not that it does it on a text: test that by switching it off. Norms count with "
    "their gains, not with what they divide by. Biases and feed-forward layers are left out."
)
SEARCHES = "searches for projections"
MEASURE_CIRCUITS = "Measure circuits"
CIRCUIT = {
    "copying": (
        "Copying",
        "OV circuit: sum of the eigenvalues / sum of their sizes. 1: a token that is attended to becomes more probable "
        "itself; -1: less probable.",
    ),
    "eigenvalue": ("Largest eigenvalue", "OV circuit: real part of the eigenvalue with the largest size."),
    "previous_token": (
        "Previous token",
        "QK circuit: mean weight on the position before, of the learned vectors of positions alone.",
    ),
    "induction": (
        "Induction",
        "QK circuit through an earlier head: sum of the eigenvalues / sum of their sizes. 1: it looks for its own "
        "token where the earlier head looked. An induction head if the earlier head looks at the previous token.",
    ),
}
"""Title of a number of a head, and its meaning."""
PLACE, THROUGH, THROUGH_MEANS = "Head (layer.head)", "Through", "Earlier head with which its keys compose most."
COMPOSITION = "Composition"
COMPOSITIONS = {"K: keys": "k", "Q: queries": "q", "V: values": "v"}
ROWS_WRITE = "Rows: earlier heads, which write. Columns: later heads, which read it. 0: nothing is written, or read."
CROSS_LEFT_OUT = "Heads of cross-attention are left out: their keys are words of another text."
CSV_OF = {"heads": "Heads", "eigenvalues": "Eigenvalues", "composition": "Composition"}
