"""Texts of the page Compare."""

# In what B differs

A_IS, COMPARE_WITH, B_WITH = "A: {model}", "Compare with", "B: {other}"
OTHERS = {
    "sentence": "another sentence",
    "head": "another head",
    "model": "another model",
    "step": "another training step",
    "untouched": "original model",
}
"""By what of B differs from A."""
ANOTHER = {"picture": "another picture", "sound": "another sound"}
NOTHING_CHANGED = "original model (nothing is changed yet)"
SENTENCE, PICTURE = "The sentence of B", "The picture of B"
HEAD, MODEL, STEP = "The head of B", "The model of B", "The training step of B"

MISSING = {
    "step": "{model} has no other training steps. B is {other}.",
    "sentence": "{model} is one run and reads no other sentence. B is {other}.",
    "model": "No other model is here that reads what {model} reads. B is {other}.",
    "untouched": "Nothing is changed yet: switch off a head on the page Heads, or choose a mask. B is {other}.",
}
"""By what cannot be chosen here, why, and what B is instead."""
NO_HEAD = "There is no {missing}, so B is {instead}."
NO_MODEL = "B cannot be the model {missing} here, so it is {instead}."
NO_STEP = "Step {missing} was not kept; there are {kept}. B is step {instead}."
READING = "{model} is being read."
NOT_LOADED = "{model} is not here yet. Choose it once as the model above."
OTHER_TEXT = "B is {instead}, which reads this text; {site} of {model} reads what it writes."
LACKS_HEAD = "{model} has no {head}: B is its {instead}."

# What differs

SAME_WORDS = "B reads the words that A wrote, so that each row is of the same word. What B writes by itself is below."
MATCHED = "{measure} The same tokens of A and B are matched in their order."
LARGEST, LARGEST_OF = "Largest difference: {cell}", "Largest difference in {head}: {cell}"
SAME_MAPS = "The maps of A and B, which are the same"
SIDE_BY_SIDE = "{why} Here they stand beside each other."
MAP = "map {side}"

OWN_LAYER = "A head that is off looks where it looked before, but what it finds is not passed on."
UNMOVED = "The change leaves the weights of {site} as they are."
BLOCKS_NOTHING = "{why} No weight of any layer moves. It blocks nothing that is not blocked already."
NO_WEIGHT_MOVES = "{why} No weight of any layer moves: only what the model predicts."
BARS = "Hollow bars: B, the original model. Filled bars: A, {changes}."
EXPORT_BARS = "Export predictions"
SAME_PREDICTIONS = "A and B predict the same."
MOVED_AT, COMPARE_HEAD = "{why} The first weights that move are those of {site}.", "Compare {head}"

PREDICTIONS = "Predictions"
ONE_VECTOR = "A and B are the same run, so the sentence has one vector."
SIDE = "{side} ({what})"
ONE_RUN, A_AND_B = "A and B are the same run, so there is one prediction.", "A and B"
OTHER_LENGTHS = "Sentence embeddings of different lengths cannot be compared."

# The heads that differ most

DIFFERENT_HEADS = "Heads that differ most from {head}"
DIFFERENT_HEAD = "{head}: {divergence:.2f}"
DIVERGENCE = (
    "Mean Jensen-Shannon divergence of the rows on this text, from 0 (same weights) to 0.69 (no key in common). "
    "Click a head to compare it."
)

# Take from B (activation patching)

TAKE_FROM_B, TAKE = "Take from B", "Take"
SCOPES = {"head": "this head", "layer": "all heads", "input": "input of layer"}
PARTS = {"output": "output", "pattern": "pattern (weights)", "values": "values"}
ALL_POSITIONS, ONE_POSITION = "all positions", "one position"
SCOPE_TITLE, PART_TITLE, WHERE_TITLE, POSITION_A, POSITION_B = "Of", "Part", "Which positions", "At", "from B's"
OTHER_COUNT = "A has {a}, B {b}: take one position from another."
NO_PATTERN = "A has {a}, B {b}, and a pattern has a weight for each: take the output or the values."
BEFORE, AFTER = "A before", "A after"
CARRIED = "How much of the way from A to B each head carries"
CARRIED_IS = (
    "Each head alone takes this part from B. A number is (after - A) / (B - A) of the logit difference: 0 is A before "
    "anything is taken, 1 is B; below 0 the head leads away from B. Click a head to look at it."
)
MEASURE_EACH_HEAD, HEADS = "Take each head from B", "heads"
