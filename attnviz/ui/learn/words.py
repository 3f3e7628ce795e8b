"""Texts of the page Learn; those of lessons are in ``assets/lessons``."""

# The steps of a lesson

CHAPTER, OF_ALL, COMES_NEXT = "Chapter", "Chapter {number} of {all}, {done} done", ". After it: {title}"
COURSE_HAS = "There are chapters 1 to {chapters}."
BACK_TO_TEXT = "Back to my text"
DEFINITIONS = "Definitions: {names}"
TRY_IT, YOUR_ANSWER = "Try it", "Your answer"
FIRST_TRY = "Do what stands under “Try it” first, to see whether it is so."
FIND_MORE = "Find {more} more first, to see whether it is so."
NOT_THIS = "It is not this one. {hint}"
PICKED_CELL = "You picked the row {query} and the column {key}. "
PICKED_HEAD = "You picked head {head}. "
NEXT, AGAIN, OPEN_ON = "Next chapter", "Reset this chapter", "Open on the page {page}"
SLIDE = "Picture for a slide"
THE_END = "The end"
FROM_HERE = {
    "Heads": "Type a sentence of your own",
    "Compare": "Compare two texts, models or heads",
}
"""By pages, why to go there."""

# What a step shows

OUTPUT = (
    "The output of this row is the sum of the values of these words, each times its weight. Below are the weighted "
    "values, a row for each word and a column for each of their numbers, and at the end their sum."
)
ROW_HEAD = ("key", "q · k", "weight")
WIDTH = "dₖ"
RANDOM_QUERIES, UNSCALED, SCALED = "500 random queries, dₖ = {d_k}", "q·k as it is", "q·k / √dₖ"
VARIANCE = "variance of the scores"
LARGEST_OF_ROW = "Largest weight of a row, the mean over 500 queries:"
IN_THEORY = "In theory the variance of q·k is dₖ = {d_k}, and of q·k / √dₖ it is 1."
ORDER_UNSEEN = "With the words from last to first each word keeps its output, but for rounding: the order is not seen."
ORDER_SEEN = (
    "With the words from last to first the outputs of words change by up to {moved}; their largest number is {largest}."
)
HIDE = "Hide the future (causal mask)"
SMALL_MAPS = "Rows from the top, and columns from the left: {tokens}"
POSITIONS = "Add positions to the words"
TRAINING_STEP = "Training step"
ANSWERS = (
    "Both masks, on a sentence in place of random words. Row {row} has to predict {answer}. With the mask that cell is "
    "hidden; without it the answer can be looked up."
)
TRAIN, LEARNING = "Train both models", "Both models learn…"
STEP, LOSS = "training step", "loss {model}"
MASKED, OPEN = "with the causal mask", "without a mask"
WRITING = (
    "Where they have to write, with nothing after a word yet, their losses are {masked:.2f} with the mask and "
    "{open:.2f} without one; a guess has {guess:.2f}."
)

# The bug museum

COMPUTING = "Computing what the bug does …"
BUG, FOUND_OF = "Bug", "{found} of {all} found · shown on: {where}"
FOUND_BY = "`attnviz check`, {severity} *{rule}*: {says}"
HINT, WHICH_MISTAKE = "Hint {number} of {all}", "What is the mistake?"
FIX, FINDS, HAPPENED, NEXT_BUG = "The fix", "What finds it", "Where it happened: {where}.", "Next bug"

# In a notebook

ON_THE_PAGE = "On the page Learn: {do} Here it is done below."
ANSWER = "Answer"
AS_IT_SHOULD_BE, WITH_THE_BUG = "bug {number}, as it should be", "and with the bug"
