"""What the page Atlas says, in one place."""

ATLAS, ATLAS_OF = "Atlas", "{name}: {texts:,} texts"
WHAT_IT_IS = "An atlas shows what each head does over many texts: one text can mislead"
NO_ATLAS = "There is no atlas of {model} here: it is measured beforehand, over a whole corpus. These models have one:"
OPEN_OTHER, BUILD = "Open the atlas of {model}", "Build one of {model}"
TEXTS = "In your shell, with a file of your own that has a text on each line. The second line opens this app with it."
STEP, COMMANDS = (
    " --step {step}",
    "attnviz atlas build {model}{step} texts.txt -o atlas/\n{variable}=atlas/ attnviz app",
)
ABOUT = "What each head of {model} does over {texts:,} texts ({tokens:,} tokens): one text can mislead."
CHOOSE_ROLE = "Choose a role to see its head at work."
CHOOSE_HEAD = "Choose a head above to see it at work."
ROLES, ROLE_OF = "Known roles", "{role} *{head}*"
ANSWER, NO_ROLE = "{head} {does}.", "{head} has no measured role."
ALL_HEADS = "All heads, by any two numbers"

# The card of a head

LOOKS_LIKE = "Role by its weights alone: {role}."
NO_HEAD = "The atlas does not hold this head."
HEAD = ("", "Mean ± 95% interval", "This text", "Std. dev.", "Middle half")
MEAN, MIDDLE = "{mean:.2f} ± {half:.2f}", "{low:.2f} to {high:.2f}"
COUNTED_THE_SAME = "Each text counts the same. The interval is where the mean of all such texts lies, 19 times in 20."
SPREAD = (
    "Std. dev.: how far texts are from their mean. Middle half: a quarter of the texts is below it, a quarter above."
)
MORE_NUMBERS = "{count} more numbers"
ALIKE, OTHER_HEAD, APART = "Heads like this one, in other models too", "{model} · head {head} of {site}", "Apart"
APART_MEANS = "Apart: how far their means over texts differ, in all shares from 0 to 1; 0 is the same."

# Examples

LARGEST, OPEN, NUMBER = "Ten texts with the largest", "Open", "{name} {number:.2f}"
PAIRS, PAIRS_IN_LINKS = "Weight between two words", "strongest pairs of tokens"
NO_NUMBER = "The atlas has none: the head has no such number."
WHATEVER = "Ordered by weight alone: some may not show its role."
SHADED = "The underlined word looks at the shaded ones"
SHADED_CROSS = "The word before the arrow looks at the shaded ones"
FROM_WORD = "Pairs from “{word}” come first: that is its role."
PAIR, LIKELY = "“{query}” → “{key}” {weight}", "“{word}” {share}"
STRONGER = ": the stronger, the more."
WEIGHTS = ". The darkest gets {least}% or more of its attention."
PREDICTS, MORE_TEXTS, ABOUT_TEXTS = "predicts {words}", "{count} more texts", "About these texts"
END = "end of the text"
MARKS = {"<sos>": "<sos>: start of a text.", "<eos>": "<eos>: end of a text."}
FULL_STOP_PREDICTS = "At an underlined full stop the model predicts how the next sentence begins."
FULL_STOP = "A full stop is a token, too: it attends as words do."
NO_CAPITALS = "The model reads and predicts without capitals: {word} is {typed}."
COMPLETE = "Each pair of words is listed once. Below {weight:.2f} some may be missing."
