"""What the page Overview says, in one place."""

TABS = ("All heads", "Switch-off test", "Table", "Over many texts", "Rollout")
"""Links name them, too."""

# All heads

EACH_MAP = "Each map is one head: where each row's token looks. Click one."
TO_THE_TEST = "Which of these heads matter?"
ORDER, ORDER_IS, BY_LAYER = "Order", "Order: {number}", "by layer"
KINDS, ANY_ROLE = "Kinds", "Any role"
INTERACTIVE = "Interactive page"
INTERACTIVE_MEANS = "HTML: every head as map, lines and text, in any browser and without a network"

# The chosen head

OPEN_HEAD = "Open this head"
ON_PHRASE, PHRASE, NOWHERE = "Attention on a phrase", "phrase", "It is nowhere in the text."
BY_DISTANCE = "Attention by distance"

# Switched off

OFF = {
    "divergence": "Prediction change when off (nats)",
    "output": "Output change when off",
    "turned": "Vector turn when off",
}
"""What changes when a head is off; what matters first."""
OFF_SHORT = {"divergence": "Prediction change", "output": "Output change", "turned": "Vector turn"}
OFF_TITLES = {"divergence": "Prediction change (nats)", "output": "Output change (%)", "turned": "Vector turn"}
OFF_IN_SHORT = {"divergence": "Change (nats)", "output": "Output (%)", "turned": "Turn"}
"""What the same is called over a column."""
OFF_IN_LINKS = {
    "output": "Change of the output when off",
    "divergence": "Change of what it says when off (nats)",
    "turned": "Turn of the sentence's vector when off",
}
IN_TURN = "Which head matters most? Weights do not show it: each head is switched off in turn, to see what changes."
RANK = " ({brief}): rank {rank} of {count}"
SWITCH_EACH_OFF, HEADS = "Switch each head off in turn", "heads"
SHOW_MOST = "Show {head}"
NOT_MEASURED = "What a head changes cannot be measured here. {why}"
TIME = "About {seconds} on this machine."

# The table

LEADS = "{number}: {head} has the most, {value}. {means}"
LEADS_OFF = {
    "divergence": "Switched off, {head} changes the predictions most: {value} nats, as if a sure word fell to {sure}.",
    "output": "Switched off, {head} changes the output most: by {value} of its length.",
    "turned": "Switched off, {head} turns the sentence's vector most: by {value} (1 − cosine).",
}
"""What the table shows first, of a number and of what changes when a head is off."""
ROWS = "Click a row to choose its head, the name of a column to sort by it."
LAYER_HEAD = "Head (layer.head)"
CHOSEN = "●"
MARKED = "● {brief} is {head}: row {row} of {rows}."
MANY_WEIGHTS = "{weights:,} weights are too many to be measured unasked: about {seconds} on this machine."
MEASURE, WEIGHTS = "Measure all heads", "weights"
COUNT = "Number of heads"
ROLE_MEANS = "What was measured of the head before; with a question mark, a guess by its weights on this text alone."
GUESS = "{role}?"
ALL_OF_THEM, DASH = "All {count} numbers", "–: no clear role, or nothing to measure there."
GUESSED = "?: a guess by the weights."
MEANS = "{means} From {range}. Source: {source}"
MEANING = "**{title}** &ensp; $\\displaystyle {formula}$\\\n{means}"
MEANING_OFF = "**{title}**\\\n{means}"
MEANING_WHERE = "**{title}** &ensp; $\\displaystyle {formula}$, {where}\\\n{means}"

# Over many texts

ON_OTHERS = "Is this text typical of how the heads look? One text can mislead."
MEASURE_ON, TEXTS = "Measure on {count} texts", "texts"
OWN_TEXTS = "Use my own texts"
OWN_TEXTS_MEAN = "A .txt file with a text on each line. Without it: fifty texts that ship with attnviz."
UPLOAD, NUMBER, ALL_NUMBERS = "Texts", "Number", "CSV of all numbers"
ALL_NUMBERS_MEAN = "Every head with every number that was measured of it, also with it switched off"
COLUMNS = {"here": "Here", "typical": "Compared", "mean": "Mean", "spread": "Std. dev.", "texts": "Texts"}
NOT_KNOWN = "{head}: {number} is not known of this head, or of one text alone."
NUMBER_MEANS = "{number}: {means}"
HEAD_NAMES = "decoder 1.0 is head 0 of decoder layer 1."
ALL_ALIKE = "{number}: all {heads} heads are as usual on this text, compared with {count} texts."
SOME_UNLIKE = "{number}: {unlike} of {heads} heads are unusual on this text, compared with {count} texts."
LIKE, UNLIKE = "usual", "unusual"
THE_TEXTS = "The {count} texts"
HERE_AND_THERE = (
    "{head}: {number} is {here:.2f} on this text. Over {count} texts its mean is {mean:.2f} and its standard deviation "
    "{spread:.2f}."
)
LIKE_MOST = "This text is like most."
UNUSUAL = "This text is unusual: do not judge the head by it alone."
ON_THIS, OVER_TEXTS = "{number} on this text", "{number} over {count} texts"

# Rollout

ROLLOUT = "What is each position mixed from, through all layers? Click a row to follow it."
ROLLOUT_SHOWS = "Rollout shows where content can go, not what is used."
ROLLOUT_IS = (
    "Attention rollout: in each layer a position keeps half of itself (the residual connection). The other half comes "
    "from where its heads look: the mean of all, also of those that are off. Values and feed-forward networks are "
    "ignored. Source: Abnar and Zuidema 2020."
)
DECODER_ALONE = "Within the decoder alone, {says}"
STACK, AFTER_LAYER = "Stack and layer", "{0.kind} after layer {0.layer}"
POSITION, THIS_POSITION = "Position", "this position"
ONE_POSITION = "The table of all positions is too large, so one of them is followed. It goes through {cost}."
FOLLOW, FOLLOW_ALL = "Follow this position", "Follow all layers"
ADD_FLOW, SEEKING_FLOW = "Add the largest flow from each token", "Looking for the largest flow to each token…"
FLOW = (
    "The flow is the most that can come through all paths from one token, if each layer lets as much pass as it mixes "
    "in. Each token is asked alone, so together they may be more than 100%."
)
