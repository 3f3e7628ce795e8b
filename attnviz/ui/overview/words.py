"""Texts of the page Overview."""

from attnviz.ui.shared.words import OVER_A_CORPUS

ALL_HEADS, CONTRIBUTIONS, ROLLOUT = "All heads", "Contributions", "Rollout"
"""Links name them, too."""
TABS = (ALL_HEADS, CONTRIBUTIONS, OVER_A_CORPUS)
ATTENTION_ROLLOUT = "Attention rollout"

# All heads

FORM, FORMS = "Form", ("Maps", "Table")
SWITCH_OFF_TEST = "Switch-off test"

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
"""Effects of a head that is off, the most important first."""
OFF_IN_ORDER = {
    "divergence": "switch-off test",
    "output": "switch-off, output",
    "turned": "switch-off, vector",
}
OFF_TITLES = {"divergence": "Prediction change (nats)", "output": "Output change (%)", "turned": "Vector turn"}
"""Column titles of these effects."""
OFF_IN_LINKS = {
    "output": "Change of the output when off",
    "divergence": "Change of what it says when off (nats)",
    "turned": "Turn of the sentence's vector when off",
}
RANK = " ({brief}): rank {rank} of {count}"
SWITCH_EACH_OFF, HEADS = "Switch each head off in turn", "heads"
SHOW_MOST = "Show {head}"
NOT_MEASURED = "What a head changes cannot be measured here. {why}"
TIME = "About {seconds} on this machine."

# The table

LEADS = "{number}: {head} has the most, {value}."
ROWS = "Click a row to choose its head, the name of a column to sort by it."
LAYER_HEAD = "Head (layer.head)"
CHOSEN = "●"
MANY_WEIGHTS = "{weights:,} weights are too many to be measured unasked: about {seconds} on this machine."
MEASURE, WEIGHTS = "Measure all heads", "weights"
ROLE_MEANS = "What was measured of the head before; with a question mark, a guess by its weights on this text alone."
GUESS = "{role}?"
ALL_OF_THEM, DASH = "All {count} numbers", "–: no clear role, or nothing to measure there."
GUESSED = "?: a guess by the weights."
MEANS = "{means} From {range}. Source: {source}"
MEANING = "**{title}** &ensp; $\\displaystyle {formula}$\\\n{means}"
MEANING_OFF = "**{title}**\\\n{means}"
MEANING_WHERE = "**{title}** &ensp; $\\displaystyle {formula}$, {where}\\\n{means}"

# Contributions

ADDS_ASKS = "Which head adds the predicted word, and do others replace it when it is off?"
AFTER_TOKEN, WORD, MINUS, NO_WORD = "After", "Word", "Minus", "no other word"
ANY_WORD = "The most probable words; or type any token of the vocabulary. ␣ stands for a space."
EACH_HEAD, ALL_PARTS, EACH_OFF = "Heads", "Parts", "Switched off"
"""The pictures, as their exports are named."""
ADDS_IS = (
    "A part adds its vector, scaled as the last norm scaled the whole in this run, times the column of the word in the "
    "unembedding. A head's vector is its output times its part of W_O. All parts sum to the logit; the residual is "
    "rounding. A head that later layers use has an effect that is not counted here: the switch-off test shows both. "
    "Source: Elhage et al. 2021."
)

# Words

LENS, GRID = "Parts or words", "Words"
ADDS, THROUGH, WRITES = "Parts", "Words by layer", "Words of the head"
"""What the tab shows: parts of a logit, or a grid of words."""
THROUGH_ASKS = "What would the model predict if it ended after each layer?"
WRITES_ASKS = "Which words does this head push up and down after each token?"
CLICK_A_WORD = "Click a word to choose its layer and position."
PROBABILITIES = "Probabilities"
POSITIONS, EARLIER, LATER = "Positions {first} to {last} of {count}", "Earlier positions", "Later positions"
THROUGH_IS = (
    "Each row reads the residual stream after a layer through the last norm and the unembedding, as the model reads "
    "its end (logit lens, nostalgebraist 2020). Only the top row is what the model predicts. The last norm and the "
    "unembedding were trained for the end of the stream, so a lower row can miss what an earlier layer knows."
)
WRITES_IS = (
    "The head's output times its part of W_O, scaled as the last norm scaled the whole in this run, times the "
    "unembedding: what it adds to the logit of each word, directly. What later layers make of it is not counted."
)

# Over a corpus

ON_OTHERS = "What does each head do over many texts? One text can mislead."
MEASURE_ON, TEXTS = "Measure {count} texts", "texts"
OWN_TEXTS = "Own texts"
OWN_TEXTS_MEAN = "A text on each line. Without a file: fifty texts that ship with attnviz."
FILES, FOLDER, TEXT = ".txt files", "Or a folder of them", "Text"
NOT_READ = "{count} could not be read. Text {line}: {why}"
ATLAS, ATLAS_OF = "Atlas", "{name}: {texts:,} texts"
ABOUT = "Over {texts:,} texts, {tokens:,} tokens."
ROLES, ROLE_OF = "Known roles", "{role} *{head}*"
ANSWER, NO_ROLE = "{head} {does}.", "{head} has no measured role."
ROLE_BY_WEIGHTS = "{head} looks like this, by its weights: {role}."
LOOKS_LIKE = "Role by its weights alone: {role}."
NO_HEAD = "The atlas does not hold this head."
THE_TEXTS = "The {count} texts"

NUMBER, ALL_NUMBERS = "Number", "CSV of all numbers"
ALL_NUMBERS_MEAN = "Every head with every number that was measured of it, also with it switched off"
COLUMNS = {"here": "Here", "typical": "Compared", "mean": "Mean", "spread": "Std. dev.", "texts": "Texts"}
HEAD_NAMES = "decoder 1.0 is head 0 of decoder layer 1."
ALL_ALIKE = "{number}: all {heads} heads are as usual on this text, compared with {count} texts."
SOME_UNLIKE = "{number}: {unusual} of {heads} heads are unusual on this text, compared with {count} texts."
LIKE, UNLIKE = "usual", "unusual"

HEAD = ("", "Mean ± 95% interval", "This text", "Std. dev.", "Middle half")
MEAN, MIDDLE = "{mean:.2f} ± {half:.2f}", "{low:.2f} to {high:.2f}"
COUNTED_THE_SAME = "Each text counts the same. The interval is where the mean of all such texts lies, 19 times in 20."
SPREAD = (
    "Std. dev.: how far texts are from their mean. Middle half: a quarter of the texts is below it, a quarter above."
)
MORE_NUMBERS = "{count} more numbers"
ALIKE, OTHER_HEAD, APART = "Heads like this one, in other models too", "{model} · head {head} of {site}", "Apart"
APART_MEANS = "Apart: how far their means over texts differ, in all shares from 0 to 1; 0 is the same."

LARGEST, OPEN, EXAMPLE_NUMBER = "Ten texts with the largest", "Open", "{name} {number:.2f}"
PAIRS, PAIRS_IN_LINKS = "Weight between two words", "strongest pairs of tokens"
NO_NUMBER = "The atlas has none: the head has no such number."
WHATEVER = "Ordered by weight alone: some may not show its role."
SHADED = "The underlined word looks at the shaded ones"
SHADED_CROSS = "The word before the arrow looks at the shaded ones"
FROM_WORD = "Pairs from “{word}” come first: that is its role."
PAIR, LIKELY = "“{query}” → “{key}” {weight}", "“{word}” {share}"
STRONGER = ": the stronger, the more."
DARKEST = ". The darkest gets {least}% or more of its attention."
PREDICTS, MORE_TEXTS, ABOUT_TEXTS = "predicts {words}", "{count} more texts", "About these texts"
END = "end of the text"
MARKS = {"<sos>": "<sos>: start of a text.", "<eos>": "<eos>: end of a text."}
FULL_STOP_PREDICTS = "At an underlined full stop the model predicts how the next sentence begins."
FULL_STOP = "A full stop is a token, too: it attends as words do."
NO_CAPITALS = "The model reads and predicts without capitals: {word} is {typed}."
COMPLETE = "Each pair of words is listed once. Below {weight:.2f} some may be missing."

# Rollout

ROLLOUT_ASKS = "What is each position mixed from, through all layers? Click a row to follow it."
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
ADD_FLOW, SEEKING_FLOW = "Largest flow from each token", "Looking for the largest flow to each token…"
FLOW = (
    "The flow is the most that can come through all paths from one token, if each layer lets as much pass as it mixes "
    "in. Each token is asked alone, so together they may be more than 100%."
)

# Gradients, beside rollout

METHOD, METHODS = "Method", ("Rollout", "Gradient × weight", "Integrated gradients")
LOGIT_OF, COUNT_OF_STEPS, OF_LAYER = "logit of “{}”", "{} steps", "after layer {layer}"
GRADIENT_ASKS = "Which weights, and through them which tokens, does the chosen word's logit depend on?"
INTEGRATED_ASKS = "What does the embedding of each token add to the chosen word's logit?"
COMPUTE = "Compute gradients"
MANY_RUNS = "{runs} through the model and back, {size} of memory."
NEGATIVE, STEPS_OF_INTEGRAL, STEPS_UNIT = "Also negative", "Steps", "steps"
NO_GRADIENTS = "'{source}' predicts no words, so there is no logit to differentiate."
RELEVANCE_SHOWS = (
    "A gradient tells what a small change does. Where the model is sure it can be near zero (saturation), although the "
    "weight matters. Negative products are left out of relevance."
)
RELEVANCE_IS = (
    "The gradient of the logit by each weight, times the weight; negative ones are set to 0, and heads are averaged. "
    "From layer to layer each position adds what the positions have that it looks at: R ← R + Ā R, from 1 for itself. "
    "Source: Chefer, Gur and Wolf 2021; of an encoder-decoder with their rule for cross-attention."
)
INTEGRATED_SHOWS = (
    "The tokens sum to the change of the logit, but for the gap: more steps make it smaller. Another baseline than "
    "zero vectors gives other numbers. Positions are not scaled."
)
INTEGRATED_IS = (
    "Each embedding times the mean gradient of the logit on the straight way from a vector of zeros to it, at the "
    "middles of equal steps. Source: Sundararajan, Taly and Yan 2017."
)
