"""What the page Atlas says, in one place."""

ATLAS, ATLAS_OF = "Atlas", "{name}: {texts:,} texts"
NO_ATLAS = "There is no atlas of {model} here: what each head does over many texts."
BUILD, BUILD_COMMAND = "Build one: {command}", "attnviz atlas build {model} texts.txt -o atlas/"
THEN_OPEN = "Then open the app with {variable}=atlas/ before its command."
HOLDS = "One text can mislead: here is every head over {texts:,} texts of {tokens:,} tokens."
WHICH_HEAD, ANSWER = "Which head {does}?", "{head} {does}."
ALL_HEADS = "All heads, by any two numbers"

# The card of a head

LOOKS_LIKE = "Role by its weights alone: {role}."
NO_HEAD = "The atlas does not hold this head."
HEAD = ("", "Mean over texts", "This text", "Middle half of texts")
MEAN, MIDDLE = "{mean:.2f} ± {half:.2f}", "{low:.2f} to {high:.2f}"
COUNTED_THE_SAME = "Each text counts the same. ± is the 95% interval of the mean."
MIDDLE_HALF = "A quarter of the texts is below the middle half, a quarter above."
MORE_NUMBERS = "{count} more numbers"
ALIKE, OTHER_HEAD, APART = "Heads like this one, in other models too", "{model} · head {head} of {site}", "Apart"
APART_MEANS = "Apart: how far their means over texts differ, in all shares from 0 to 1; 0 is the same."

# Examples

LARGEST, OPEN = "Ten texts with the largest", "Open: {number:.2f}"
PAIRS, PAIRS_IN_LINKS = "Weight between two words", "strongest pairs of tokens"
NO_NUMBER = "The atlas has none: the head has no such number."
SHADED = "The underlined word attends to the shaded ones: the stronger, the more."
SHADED_CROSS = "The word before the arrow attends to the shaded ones: the stronger, the more."
PREDICTS, MORE_TEXTS = "predicts {words}", "{count} more texts"
MARKS = {"<sos>": "<sos> is the start of a text.", "<eos>": "<eos> is the end of a text."}
NO_CAPITALS = "The model reads and predicts without capitals: {word} is {typed}."
COMPLETE = (
    "These are its largest weights, whatever the role: of every two words one place. Below {weight:.2f} some may be"
    " missing."
)
