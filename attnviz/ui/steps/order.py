"""What positions are for: the words in another order."""

from dataclasses import replace

from attnviz import walk
from attnviz.core.display import shown
from attnviz.core.errors import InputError
from attnviz.ui.shared import cache, state
from attnviz.ui.shared.changes import CHANGES
from attnviz.ui.shared.text import large, quiet
from attnviz.ui.steps.walked import Walk, elsewhere, table

MOST_TOKENS = 512


def order(at: Walk) -> None:
    """The words from last to first, with and without positions where a model can do both."""
    large("Put the words in another order. Does each word get another output, or the same one in another place?")
    length = at.record.sentences[at.sentence].length
    if length > MOST_TOKENS:
        quiet(f"This sentence has {length:,} tokens; words are permuted for up to {MOST_TOKENS}.")
        return
    try:
        found = walk.permutation(at.source, at.record, sentence=at.sentence)
    except InputError as error:
        say = quiet if "positions" in at.source.settings() else elsewhere
        say(str(error))
        return
    tokens = at.record.sentences[at.sentence].tokens
    quiet("Before: " + " ".join(shown(token.text) for token in tokens[:length]))
    quiet("After: " + " ".join(shown(tokens[i].text) for i in found.order))
    large(found.says)
    if "positions" in at.source.settings():
        _both(at)
    else:
        elsewhere("Positions can be switched off only in random weights: a trained model was trained with its own.")


def _both(at: Walk) -> None:
    """With and without positions."""
    rows = []
    for positions in (True, False):
        source = replace(at.source, positions=positions)
        record = cache.record(source, at.lines, at.edits)
        found = walk.permutation(source, record, sentence=at.sentence)
        follows = "yes" if found.follows else "no"
        rows.append(["on" if positions else "off", f"{found.difference:.2g}", follows])
    head = ["positions", "largest difference of a word's output", "output permuted as the words"]
    table(head, rows, numbers=(1,))
    quiet("A causal mask looks at the order, too: with it the output changes even without positions.")
    if state.get(CHANGES):
        quiet("Numbers set by hand in Q, K or V stay at their places, so they also tell places apart.")
