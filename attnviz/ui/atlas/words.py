"""What the page Atlas says, in one place."""

ATLAS, ATLAS_OF = "Atlas", "{name}: {texts:,} texts"
NO_ATLAS = "There is no atlas of {model} here: what each head does over many texts."
BUILD, BUILD_COMMAND = "Build one: {command}", "attnviz atlas build {model} texts.txt -o atlas/"
THEN_OPEN = "Then open the app with {variable}=atlas/ before its command."
HOLDS = "What every head does over {texts:,} texts of {tokens:,} tokens. One text can mislead."
WHICH_HEAD, ANSWER = "Which head {does}?", "{head} {does}."
ALL_HEADS = "All heads, by any two numbers"

# The card of a head

LOOKS_LIKE = "Role by its weights alone: {role}."
NO_HEAD = "The atlas does not hold this head."
HEAD = ("", "Mean over texts", "This text", "Half of the texts")
MEAN, MIDDLE = "{mean:.2f} ± {half:.2f}", "{low:.2f} to {high:.2f}"
COUNTED_THE_SAME = "Each text counts the same. ± is the 95% interval of the mean."
MIDDLE_HALF = "Half of the texts lie in the last column's range, a quarter below it and a quarter above."
MORE_NUMBERS = "{count} more numbers"
ALIKE, OTHER_HEAD, APART = "Heads like this one, in other models too", "{model} · head {head} of {site}", "Apart"
APART_MEANS = "Apart: how far their means over texts differ, in all shares from 0 to 1; 0 is the same."

# Examples

LARGEST, OPEN = "Ten texts, by the largest", "Open: {number:.2f}"
PAIRS, PAIRS_IN_LINKS = "Weight between two tokens", "strongest pairs of tokens"
NO_NUMBER = "The atlas has none: the head has no such number."
SHADED = "The underlined word attends to the shaded ones: the darker, the more. Open shows that on Heads."
SHADED_CROSS = "The word before the arrow attends to the shaded ones: the darker, the more. Open shows that on Heads."
COMPLETE = "Of every two tokens the largest weight. All above {weight:.2f} were kept; weaker ones may be missing."
