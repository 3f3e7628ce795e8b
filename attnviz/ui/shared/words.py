"""Texts of more than one page, and around every page, in one place."""

# Names that many places share

BACK, NEXT, QUERY, EVIDENCE, ROLE = "Back", "Next", "Query", "Evidence", "Role"
HOW_COMPUTED, MEANINGS = "How it is computed", "What the numbers mean"
OVER_A_CORPUS = "Over a corpus"
PAGES, PARTS, PICTURE = "Pages", "Parts of the page", "Picture"
CANCEL, CLOSE, UNDO, REDO = "Cancel", "Close", "Undo", "Redo"
UNDO_HELP, REDO_HELP = "Undo (Ctrl+Z)", "Redo (Ctrl+Shift+Z)"
BY_DISTANCE = "by distance"

# The input bar: model, file, text, examples

MODEL, SENTENCE, ANALYZE, REPLACE = "Model", "Sentence", "Analyze", "Replace"
TYPE_A_SENTENCE = "Type a text. Shift+Enter begins a new line."
TARGET, TARGET_IS_OUTPUT = "Target", "Target: the model's own output"
WRITES_NOTHING = "{model} predicts no next token, so it has no answer."
NO_TARGET = "'{model}' takes no target: it writes no other text."
IN_TARGET = "Target: {why}"
TARGETS_DIFFER = "There are {texts} texts and {targets} targets; give a target on each line, one for each text."
BY_LINE, BY_LINE_MEANS = "One text per line", "Off: one text with its line breaks. On: each line is a text of its own."
BEGINNING, UNDO_BRINGS_BACK = "Beginning of the text", "Undo brings it back."
INSTEAD = "{why} Here is '{model}' instead."
NOT_IN_LINK = "{characters:,} characters, {tokens:,} tokens: no link holds the text."
NOT_IN_BOX = "{characters:,} characters, {tokens:,} tokens: the box shows the beginning, and no link holds the text."
NO_TEXT = "There is no text yet. Type a sentence above, or choose an example."
TOO_MANY_LINES = (
    "There are {lines:,} lines, and each line is a text of its own; this page takes up to {most}. Join some lines."
)
TOO_LONG = (
    "The text has {characters:,} characters; this page takes up to {most:,}. Shorten it, or use attnviz from Python, "
    "where there is no such limit."
)
THIS_MODEL = "This model"
UNKNOWN_WORD = "{who} does not know {words}; it reads it as an unknown word, {mark}."
UNKNOWN_BOTH = "{who} does not know {words}; it reads both as one unknown word, {mark}."
UNKNOWN_WORDS = "{who} does not know {words}; it reads them all as one unknown word, {mark}."
DID_YOU_MEAN, MORE, AND = "{word} (did you mean “{near}”?)", "{count} more", "{most} and {last}"
QUESTION_MARK = "marked (?)"

EXAMPLES_TITLE = "Examples"
EXAMPLES = {
    "The cat sat on the mat": "The cat sat on the mat",
    "The cat sat down": "The cat sat down",
    "because it was tired": "The cat sat on the mat because it was tired.",
    "two sentences, padded": "The cat sat on the mat\nThe cat sat down",
}
"""For a model that reads anything and means nothing."""
FIRST_EXAMPLE = {"because it was tired": "The cat sat on the mat because it was tired."}
"""Text that a pretrained model opens with."""
FOR_BLANKS = ("a blank to fill in", "The cat sat on the mat because it was {blank}.")
FOR_REPEATS = ("words that come again", "The cat sat on the mat. The cat sat on the")
FOR_PICTURES = "A question about a picture", "What is in this picture?"
FOR_VECTORS = (
    "three sentences",
    "The cat sat on the mat.\nA kitten rested on the rug.\nThe bank raised its interest rates.",
)
FOR_PAIRS = ("a pair of texts", "The cat sat on the mat. ||| It was tired.")

MODELS = {
    "translator": "Translates English to French: see which word comes from which. Trained here, {size}.",
    "story": "Predicts the next word of a small story: see which word it looks at to write “it”. Trained here, {size}.",
    "induction": "Repeats what it has read before: see two heads copy together. Trained here, {size}.",
    "shapes": "Reads a picture: see which patches it looks at to say “a red circle left of a blue square”. {size}.",
    "constructed": "For learning. Heads set by hand: see what clear patterns look like. Not trained, {size}.",
    "scratch": "For learning. Random weights of any size: see how masks and softmax work. They mean nothing.",
    "huggingface": "A model that people use, such as BERT or GPT-2, from the Hub or a folder of yours.",
}
"""Description of each model: what it does, what it is good for, and how large it is."""
MODEL_SIZE = "{millions:.1f} million weights"
OPENED_FILE, OWN_MODEL = "A file that you opened: one run, with its text.", "Your own model."

# A text that is too long

FIRST_TOKENS = "Use the first {most:,} tokens"
SPLIT, SPLIT_MEANS = "Split into sentences", "Each sentence becomes a line of its own."
CUT_TOKENS = "Only the first {most:,} tokens are used. Undo brings back the rest."
CUT_LINES = "Only the first {most} of {all:,} lines are used. Undo brings back the rest."
FIRST_SENTENCES, FIRST_LINES = "Use the first {most} sentences", "Use the first {most} lines"
SWITCH_TO = "Switch to '{model}', which reads it"
JOIN, JOIN_MEANS = "Read all lines as one text", "Line breaks are part of the text."
OVER_BUDGET = (
    "{cost}; this server takes {time} and {memory} for a run. Use less of the text, or start it with more: attnviz app "
    "--seconds N --memory GB."
)
NO_ROOM = "This server has no memory left for another run; try again in a minute."
SPENT = "You began long runs for {seconds} s within a minute, all that a visitor may here; try again in {wait} s."
NOT_A_BUDGET = "{name} is {value}; it must be a number above 0 such as {usual:g}."

# Files

OPEN_FILES = "Open files"
OPEN_FILE = '<button class="open-file" data-most="{megabytes}" title="{help}">Open file</button>'
IN_NO_LINK = "{name} · in no link"
NO_TEXT_READ = "{file} is a text, and this model reads none: choose a model of texts first."
NO_PICTURE, EXAMPLE_PICTURES = "no picture", "Pictures"
READS_TEXT, READS_OTHER = "reads text", "reads something else"
PICTURE_WAITS = "{file} is here, and {model} {does}: choose a model for it, such as shapes for pictures."
CHOOSE_PICTURE, CHOOSE_SOUND = (
    f'<button class="open-file" title="{takes}. You can also drop it on the page. It stays in this session.">'
    f"Choose a {what}</button>"
    for what, takes in (("picture", "PNG, JPEG or WebP, up to 50 MB"), ("sound", "WAV, up to 60 s"))
)
NO_EXAMPLE_PICTURE = "The link names the picture “{name}”, and a link holds examples alone: {names}. Drop yours here."
OPENS = (
    "A text (.txt), a picture (.png, .jpg, .webp), a sound (.wav), a saved run (.attn, or the ZIP of everything), or "
    "attention as .npz, .npy, .csv or .safetensors: up to {files} files of {megabytes} MB. You can also drop them on "
    "the page. They stay in this session."
)
FILE_GONE = "This page shows the file {file}, which a link does not hold: drop it here again, or choose another model."
NO_FILE_NAME = "{name} is no name of a file."
ONE_TEXT = "{lines:,} lines of {file} are one text here: each line break became a blank."
FILE_FINDING, FILE_FINDINGS = "{file}: {found}", "{file}: {found} {count} more in “About this model”."
MANY_FILES = "{most} files are open: close one in “About this model” to open {file}."
PARTS_OF_FILE = ("texts", "heads in a layer", "queries", "keys")
TOO_MANY_IN_FILE = "{file} has {count:,} {what}; this page shows up to {most:,} of a file."
NO_MEMORY = "There is no memory for {file} beside the files of others; try again later."
NOT_ENCODED = "{file} cannot be read: its byte {position:,} is no {encoding}. Save it as UTF-8, and open it again."
NOT_TEXT = "{file} holds bytes that are no text. Save it as UTF-8 text, and open it again."
EMPTY_FILE = "{file} holds no text."

# A model of Hugging Face

HUB_MODEL, HUB_NAME, HUB_EXAMPLE = "Model of Hugging Face", "Hub name or folder", "Hub name or folder, such as gpt2"
NO_MODEL = (
    "There is no model yet. Type its name at huggingface.co, such as gpt2 or google-bert/bert-base-uncased, or the "
    "path of a folder that save_pretrained has written."
)
LOAD_CANCELED = "{model} is not loaded: you canceled that."
HUB_IN_LINK = "{why}; a model of Hugging Face, or in a folder, stands in a link as model={hub}&hf={name}."
NAMELESS = "“{token}” is the token with id {id:,}: the model's tokenizer has no text for it."
NO_HUB = "this server has no such setting."
ABOUT, NOT_LOADED, TRY_AGAIN = "About", "not in memory: a run loads it again", "Try again"
ASK_DOWNLOAD = "{model} is not on this machine. {size} would be downloaded from {hub}:"
DOWNLOAD, DOWNLOADED = "Download {size}", "{done} of {total}"
FINDING, FETCHING, CHECKING = "Looking for {model} …", "Downloading {model} …", "Checking {model} …"
LOADING, READING = "Loading {model} … This takes some seconds, once.", "Reading the weights of {model} …"
TRYING = "Checking how {model} computes attention …"

# A run that takes long

RUNNING = "A run is going on."
CANCELED, RUN, AS_IT_WAS = "Canceled. {cost}.", "Run", "The text and what was changed are as they were."
WAITING = "Waiting for other runs to end"
UNITS_DONE = "{done:,} of {all:,} {unit}"
WRITTEN_AT, READING, STOP = "{text} · {rate:.3g} a second", "The model reads the text …", "Stop here"
PICTURE_SHARE = "{what} · {share:.0%}"
CALL_SHARE = "{layer}, call {call} of {calls} · {share:.0%} of all attention"
FINISHING = "Attention is computed; what the page shows of it is next"
TIME = "{tokens:,} tokens · {passed} of about {seconds}"

# The toolbar: layer, head, sentence, display, links

LAYER, HEAD, HEAD_NUMBER, ALL_COMBINED = "Layer", "Head", "Head {head}", "{how} of heads"
WHICH_SENTENCE, SENTENCE_NUMBER = "Sentence of the batch", "Sentence {number}"
MORE_MENU, COLORS = "More", "Colors"
COLOR_RANGES = ("adaptive", "logarithmic")
"""Links name them, too."""
ROWS_AND_COLUMNS, TOKENS, WORDS, SENTENCES, TEN_PARTS = "Rows and columns", "tokens", "words", "sentences", "ten parts"
MERGED = (
    "A word, sentence or part has the mean weight of its tokens as queries, and the sum of their weights as keys. "
    "A sentence ends at . ! ? or …, at the end of a line, and where the role changes."
)
SPECIAL_TOKENS, PAIR = "Special tokens", "Pair of texts"
LINKS = """<button class="copy-link">Copy link</button>
<button class="shortcuts" title="Words and controls" aria-label="Words and controls">?</button>"""
CONTROLS = '<details class="fold"><summary>Settings</summary></details>'

# Steps of a training

STEP_IS = "Training step: {step}"
STEP_NUMBER, FINAL, UNTRAINED = "{step:,}", "{step:,} (final)", "{step:,} (untrained)"
AS_TRAINED = "{why} Here it is as trained."

# The mask

MASK, CAUSAL, CAUSAL_BUILT_IN = "Mask", "Causal (hide the future)", "Built in: every layer hides the future."
BUILT_IN = {
    "future": "Built-in mask: causal",
    "decoder": "Built-in mask of the decoder: causal",
    "padding": "Built-in mask: padding",
    "both": "Built-in mask: causal and padding",
}
BUILT_IN_HIDES = {
    "future": "It hides the future.",
    "padding": "It hides padding.",
    "both": "It hides the future and padding.",
}
MASK_CROSS, EMPTY_ROWS = "Also mask cross-attention", "Fully masked rows get"
EMPTY_ROW_GETS = {
    "zero": "zeros: the row adds nothing",
    "nan": "NaN, as a softmax of −inf gives",
    "uniform": "the same weight for every key",
    "error": "an error that names the row",
}
EMPTY_ROWS_REFUSED = "Some rows are fully masked, and that is set to be an error. Choose zero, nan or uniform."
NOT_HERE, SEE_LAYER = "The mask does not act on {site}.", "See {site}"
OTHER_BATCH = (
    "The {rule} is for {sentences}, and there are {count}: it is left out. Give it the lengths of all sentences on the "
    "page Masks."
)
LEFT_OUT = "{why} Left out: {changes}."
RULE_MASK = "{rule} mask"
RULE = {"": "{rule}", "or": "or {rule}", "not": "not {rule}", "or not": "or not {rule}"}

# What is changed

ORIGINAL, AS_IN_FILE = "Original model", "As in the file"
READ_ONLY = "Read-only: nothing can be changed in this model."
RESET_ALL, CLEAR_CHANGES = "Reset all", "Clear these changes"
ALL_LAYERS, ALREADY_BUILT_IN = "all layers", "already built in"
ALIBI, RELATIVE, SOFTCAP = "ALiBi bias", "relative bias, seed {seed}", "softcap {bound:g}"
TEMPERATURE, UNSCALED = "temperature {temperature:g}", "scores not scaled"
NOT_MASKED = {
    "future": "built-in causal mask off",
    "padding": "padding not masked",
    "both": "built-in causal mask off, padding not masked",
}
ROWS_GET = "fully masked rows: {policy}"
HEADS_OFF, HEADS_OF = "{heads} off", "{count} heads of {site}"
TAKEN = "taken: {what}"
NOT_TAKEN = "its other text is longer than {most:,} characters, or holds some that cannot be shown"
ACTIVE_HEADS = "Active heads"
ALL, NONE, INVERT = "all", "none", "invert"

# Predictions

NOTHING, NO_NUMBERS = "(nothing)", "the probabilities are not numbers"
LABEL, TRANSLATION, OUTPUT_TEXT = "Predicted label", "Translation", "Output text"
CUT = "(cut after {count} tokens)"
NUMBER, TOKEN_LABEL = "Predicted number", "Predicted label of {token}"
NEXT_WORD, FILLED_WORD = "Predicted next word after {token}", "Predicted word in place of {token}"
NO_BLANK = "There is no blank in the sentence for the model to fill in."
PREDICTED, PREDICTED_BY = "{title}:", "{run}: {title}:"
PREDICTED_BEFORE, AS_BEFORE = "before:", "{title}, as before:"
NONE_BY, NO_BLANK_BY = "{run}: no prediction.", "{run}: there is no blank in the sentence to fill in."
VECTORS_APART = "The vectors of A and B are apart by {value} (1 − cosine)"
VECTOR_MOVED = "The vector of the sentence moved by {value} (1 − cosine)"
MOST_ALIKE, BOTH_ALIKE = (
    "Most alike of {count} sentences: {first} and {second} {value}",
    "Similarity of both sentences {value}",
)
NONE_ALIKE = "The vectors are not numbers, or zero, so none are alike."
PREDICTION = "Prediction"
STEP_BY_STEP, NEXT_WORDS, VECTORS = "step by step", "next word", "output vectors"
BLANKS, ONE_BLANK, LABELS = "blanks", "one blank", "labels"
"""The figures of what a model says; links name them, too."""
AFTER = "Most changed prediction, after {token}: {change}.", "Prediction after {token}: {change}."
OF_TOKEN = "Most changed label, of {token}: {change}.", "Label of {token}: {change}."
IN_PLACE = "Most changed prediction, in place of {token}: {change}.", "Prediction in place of {token}: {change}."
"""Sentences for the token where a prediction changes most, and for any other."""
MOST_CHANGED = "Most changed prediction, after {token}", "Most changed prediction, in place of {token}"
MOST_CHANGED_LABEL = "Most changed label, of {token}"
FROM_TO, AS_IT_STOOD = "{before} → {now}", "{now}, as before"
OTHER_WORD = "{word} ({now}) instead of {old} ({before})"
SAME_WORD, STAYS = "{word} goes from {before} to {now}", "{word} stays at {now}"
SAME_PREDICTIONS = "No prediction changes."
FILE_ALONE = "No prediction after a change: the rest of the model is not in the file."
ONE_RUN, UNCHANGED = "One run.", "Original model."
TRY_A_CHANGE = "Switch a head off or set a mask to see output vectors move."

# What a head does

LOOKS_LIKE = "A guess by the shape of its weights on this text alone: {roles}."
ROLES = {
    "induction": "looks at what followed an earlier copy of the same token",
    "first token (sink)": "the weight rests where it has nothing to find",
    "same token elsewhere": "looks at copies of the same token",
    "looks evenly": "all tokens get about the same weight",
}
"""Meaning of a role, where its name does not say it."""
THIS_HEAD, ONCE_TRAINED = "This head {does}{often}.", "Once trained, this head {does}{often}."
ELSEWHERE = "On other texts it {does}."
OFTEN, IN_ORIGINAL = ", in {rate} of cases", ", in the original model"
PRETRAINED = "Pretrained. What its heads do was not measured here."
NOT_MEASURED, NO_LANGUAGE = (
    "What its heads do was not measured here.",
    "What a head looks at here says nothing about language.",
)
OTHER_HEAD = "What this head does was not measured. One that was:"
OF_COMBINED = "All heads combined. One that was measured:"

# Pictures and their export

PICTURE_ALT = "Chart, described in the text after it"
CLICK_A_CELL, CLICK_ANOTHER = "Click a cell to read it in words.", "Cell outlined; click another to read it."
CELL_SELECTED = "Selected cell outlined; Esc to clear."
NUMBERS, NUMBERS_OF = "Numbers", "Numbers: {what}"
EXPORT, EXPORT_OF, MADE_FOR = "Export", "Export {what}", "For"
FOR_SCREEN, FOR_PAPER, FOR_SLIDE, MORE_WAYS = "screen", "paper", "slide", "More"
CAPTION, PYTHON = "Caption", "Python"
NO_FONT = "No font in the SVG has {characters}: whoever opens it sees a font of their own there, or a box."
TABLE_TAKES = "CSV takes about {time}: the strongest keys of each query, {rows:,} rows at most. NPZ has the tiles."
FILE_GAVE_WAY = "The server needed the memory that this file is made from. Close the menu, and open it again."
SOURCE_OF_CODE = "source is what attnviz.show was given, or what the function of your file gives"
EVERYTHING = "Download everything"
EVERYTHING_HOLDS = (
    "The run as a file that opens here again, every figure as SVG and CSV, and every head as a page for any browser."
)

# A large map

ZOOM_IN, WHOLE_MAP = "Zoom in", "Whole map"
TOKENS_OF, BACK_TO = "Show the tokens of this cell", "Back to {unit}"
PART = "queries {top}–{bottom}, keys {left}–{right}"
FIND, PHRASE, TYPE_A_PHRASE = "Find", "Token or phrase", "Type what to look for, and press Enter."
AS_QUERY, AS_KEY = "As a query (what it looks at): {places}", "As a key (what looks at it): {places}"
NOWHERE, PLACE, FIRST_PLACES = "nowhere", "place", "{places}, the first {most}"

# Links

UNKNOWN_SETTING = 'The page opens without the unknown link setting "{name}".'
IGNORED = 'The page opens without the link setting "{name}": {why}'
COPY_A_LINK = " “Copy link” writes those that there are."
SETTING_NAMES = {"kind": "layer", "temperature": "scores"}
"""Names of settings elsewhere, and in a link."""
TOO_MANY_PARAMETERS = "The page opens without the last {count:,} settings of its link, which has more than are read."
MORE_PROBLEMS = "And {count} more."
UNREADABLE = "'{text}' cannot be read; it should look like {like}."
NOT_ONE_OF, NOT_WHOLE = "'{text}' is not one of {options}.", "'{text}' is not a whole number from {least} to {most}."
TOO_MANY_PARTS = "'{text}' … holds {count} parts; a link takes {most}."
NOT_THERE = "{value} does not exist. {there}"
MODEL_HAS = "The model has {sites} with {heads} each, counted from 0."
MODEL_KEPT = "Of the steps of its training these are kept: {steps}."
PICTURE_HAS = "The picture has {queries} queries and {keys} keys, counted from 0."
NUMBER_OR = "a number or one of {names}"

MASK_TOO_LONG = "This mask takes {characters:,} characters in the link; it may take {most:,}. Paint fewer cells."
MASK_UNREAD = "A mask of {characters:,} characters is too long; a link takes {most:,}."
OUT_OF_BOUNDS = "The {label} of '{rule}' is {value}; it must be from {least} to {most:,}."

# The first visit

CLAIM = "See where each attention head looks, and what breaks when you change it."
WHY_BECAUSE = "Each row is a word, and its cells say how much it looks at each other word."
THREE_TO_TRY = "Three things to try:"
RESTING = (WHY_BECAUSE, THREE_TO_TRY)
"""Texts beside the cards where none of them asks anything: where there is little room, the claim stands there."""
LEARN = "Course"
READ_A_MAP, HIDE_THE_FUTURE, SWITCH_OFF = "Read a map", "Hide the future", "Switch off a head"
ASK_BECAUSE = "Row “because”: to predict “it”, the head looks most at “cat”. Where does it look in row “was”?"
TIRED = "The mouse sat on the mat because it was tired."
ASK_FUTURE = "In this translator each English word now sees only those before it. Which French words change?"
NOTHING_HIDDEN = "Nothing is hidden now, and the translation is as before."
BALL = "Anna and Tom went to the park. Anna gave the ball to"
ASK_HEAD = "A new text: head 0 is off. Who gets the ball now, and who did before? Switch it on."
HEAD_ON = "Head 0 is on again, and Tom gets the ball as before."
CLOSE_GUIDE, GUIDE = "Close; ? brings it back", "Show the guide again"
TRY_HERE = "Try it on this text:"
READ_HERE = "Each row is a word that looks. The outlined cell is read in words: click another one to read that."
FUTURE_HERE = "Each word now sees only itself and the words before it. What changes? Undo takes it back."
FUTURE_HIDDEN = "This model hides the future by itself: the hatched cells are words that come later."
OFF_HERE = "This head is off now. What changes? Its eye switches it on again."
OPENED = (TIRED, BALL)
"""Texts that nobody typed, beside the examples of a model."""
UNDO_CARD = ' <button class="undo-card" title="Opened: {what}.">Back to my text</button>'
OPENED_MODEL, OPENED_TEXT = "model {model}", "another text"

# What the scripts of the page say in the browser

IN_BROWSER = {
    "link without file": "A link does not hold the file: send that, too.",
    "link here alone": (
        "This link opens on this computer alone, while attnviz runs. To hand on what you see, press Export and "
        "“Download everything”."
    ),
    "go on": "Go on where you stopped: {done} done",
    "link copied": "Link copied",
    "copy address": "Copy the address above",
    "switch on": "Switch {head} on",
    "switch off": "Switch {head} off",
    "walks": "Picture: arrow keys walk through it, Enter selects, Escape clears",
    "picture": "Picture",
    "computing": "Computing…",
    "file too large": "{name} has {size} MB; files of up to {most} MB open here.",
    "files too large": "{name} is left out: files of up to {all} MB together open at once.",
    "close": "Close",
    "glossary": "Words and controls",
    "keyboard": "Keyboard",
    "touch": "On this screen",
    "first screen": "Open the first screen again",
    "guide": GUIDE,
}
TERMS = {
    "query": "A token that looks: one row of the map. Its weights sum to 1.",
    "key": "A token that is looked at: one column of the map.",
    "value": "What a key hands over: a vector. A head's output is the sum of the values, each times its weight.",
    "score": "How well a query and a key agree: their dot product divided by √dₖ. Any number.",
    "weight": "The share of attention that a query gives to a key, from 0 to 1: the softmax of its scores.",
    "head": "One way of looking: a map of its own in a layer, learned apart from the others.",
    "layer": "One round of attention. Each layer has several heads and reads what the layer before wrote.",
    "encoder": "Reads a whole text at once: every token may look at every other one.",
    "decoder": "Writes a text token by token: a token looks at itself and at those before it.",
    "end of text": "A model ends its text by predicting <eos>. <sos> is the start of one.",
    "cross": "A decoder's tokens (rows) look at the encoder's tokens (columns): two texts in one map.",
    "mask": "Which keys a query may look at. Blocked cells get weight 0.",
    "first token": (
        "Many heads leave the weight that they have no use for on the first token: it is then called a sink."
    ),
    "previous token": "How much weight each token gives to the one just before it.",
    "itself": "How much weight each token gives to itself.",
    "confidence": "The largest weight of each row, on average. Near 1 the head looks at one key.",
    "entropy": "How widely a row spreads its weight: 0 on one key, ln n on n keys alike.",
    "effective number of keys": "Over how many keys a row spreads its weight, were they all alike: e to the entropy.",
    "share of output": (
        "This head's share of what all heads of its layer hand on, by the length of vectors. It is not importance: "
        "switch the head off to see that."
    ),
    "nats": "The unit of entropy and divergence by the natural logarithm: 1 bit is 0.69 nats.",
    "divergence": (
        "How differently two heads look, by Jensen and Shannon: 0 where they are alike in every row, 0.69 where they "
        "never look at the same token."
    ),
    "rollout": (
        "Attention through all layers: their maps multiplied, where each token keeps half of itself. It shows where "
        "content can go."
    ),
    "scaled dot product attention": "SDPA: all of attention in one call of PyTorch, F.scaled_dot_product_attention.",
    "softcap": "A bound that scores approach and never pass: cap · tanh(score / cap). Few models have one.",
    "temperature": "Divides the scores: below 1 a row gets more pointed, above 1 more even.",
}
"""The terms that have a picture in the glossary."""
ALSO_CALLED = {
    "queries": "query",
    "keys": "key",
    "values": "value",
    "scores": "score",
    "weights": "weight",
    "heads": "head",
    "layers": "layer",
    "masks": "mask",
    "Jensen-Shannon divergence": "divergence",
    "attention rollout": "rollout",
    "eos": "end of text",
    "sos": "end of text",
    "sdpa": "scaled dot product attention",
}
"""Other names of terms, under which a page may speak of them."""
TOUCH = (
    ("Tap a cell", "read its weight in words"),
    ("Tap a small map", "see that head large"),
    ("Tap an eye", "switch that head off or on"),
    ("Layer, head, map", "choose which head is seen, and how: as a map, lines or text"),
    ("Settings", "choose model and example, hide the future"),
    ("At the top", "copy a link, undo, redo, export"),
)
"""Gestures, and places of things on a phone."""
SHORTCUTS = (
    ("Enter", "apply the text"),
    ("Shift Enter", "another line in the text"),
    ("Ctrl Z", "undo"),
    ("Ctrl Shift Z", "redo"),
    ("Tab, arrow keys", "walk over the cells of a map"),
    ("Enter on a cell", "select it"),
    ("+ and −", "zoom into a large map, and out"),
    ("Esc", "clear the selection, close a menu"),
    ("?", "this list"),
)
