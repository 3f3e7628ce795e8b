"""What the page Atlas says, in one place."""

ATLAS, ATLAS_OF = "Atlas", "{name}: {texts:,} texts"
NO_ATLAS = "There is no atlas of {model} here: what each head does over many texts."
BUILD, BUILD_COMMAND = "Build one: {command}", "attnviz atlas build {model} texts.txt -o atlas/"
THEN_OPEN = "Then open the app with {variable}=atlas/ before its command."
HOLDS = "What every head does over {texts:,} texts of {tokens:,} tokens. One text can mislead."
WHICH_HEAD = "Which head {does}?"

# The card of a head

LOOKS_LIKE = "Role by its weights alone: {role}."
NO_HEAD = "The atlas does not hold this head."
HEAD = ("", "Mean over texts (95%)", "This text", "Middle half")
MEAN, MIDDLE = "{mean:.2f} ({low:.2f} to {high:.2f})", "{low:.2f} to {high:.2f}"
COUNTED_THE_SAME = "Each text counts the same; the interval is that of the mean."
MIDDLE_HALF = "Middle half: of the texts, by this number."
ALIKE, OTHER_HEAD, APART = "Heads like this one, in other models too", "{model} · head {head} of {site}", "Apart"
APART_MEANS = "Apart: how far their means over texts differ, in all shares from 0 to 1; 0 is the same."

# Examples

LARGEST, OPEN = "Examples: the texts with the largest", "Open: {number:.2f}"
PAIRS, PAIRS_IN_LINKS = "Strongest pairs of tokens", "strongest pairs of tokens"
NO_NUMBER = "The atlas has none: the head has no such number."
SHADED = "Shaded: what the query, underlined, attends to. A click opens the text on Heads, at that cell."
SHADED_CROSS = "Shaded: what the query, before the arrow, attends to. A click opens the text on Heads, at that cell."
COMPLETE = (
    "Of each pair of words, its largest weight. All pairs above {weight:.2f} were kept; weaker ones may be missing."
)
