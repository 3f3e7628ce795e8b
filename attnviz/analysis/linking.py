"""Which heads link two words: those that give most weight from one to the other."""

import re

import pandas as pd

from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence, Token, occurrences

COLUMNS = ["site", "kind", "layer", "head", "query", "key", "weight"]


def rank(record: Record, query: str | int, key: str | int, *, sentence: int = 0) -> pd.DataFrame:
    """Every head by the weight that one word gives to another.

    Of a word of several tokens that looks, the weight is the mean of its tokens; of one that is looked at, the sum. Of
    words that stand in several places it is the pair of places with the largest weight.

    Args:
        query, key: a word or a phrase, whatever its case, or the position of a token, counted from 0.
        sentence: of the batch.

    Returns:
        site, kind, layer, head, the positions `query` and `key` where the words begin, and weight; the largest weight
        first. Heads of a call that reads neither word are not in it.

    Raises:
        InputError: if no call has both.
    """
    if not 0 <= sentence < len(record.sentences):
        raise InputError(f"There is no sentence {quoted(sentence)}; there are {len(record.sentences)}, counted from 0.")
    rows = []
    for step in record.steps:
        texts = record.texts(step.site, sentence=sentence)
        tokens = record.tokens(step.site, sentence=sentence)
        query_places, key_places = map(_places, texts, tokens, (query, key))
        for head in range(step.num_heads) if query_places and key_places else ():
            weights = {}
            for a in query_places:
                means = step.weights(head, slice(*a), slice(None), sentence=sentence).double().mean(0)
                weights |= {(a, b): float(means[slice(*b)].sum()) for b in key_places}
            (a, b), weight = max(weights.items(), key=lambda item: item[1])
            rows.append((str(step.site), step.site.kind, step.site.layer, head, a[0], b[0], weight))
    if not rows:
        raise InputError(f"No attention goes from {quoted(query)} to {quoted(key)}: give words that the text has.")
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)


def _places(sentence: Sentence, tokens: tuple[Token, ...], word: str | int) -> list[tuple[int, int]]:
    """The first token of each place of a word, and the one after its last."""
    if isinstance(word, int):
        return [(word, word + 1)] if 0 <= word < len(tokens) else []
    whole = rf"(?<!\w){re.escape(word.strip())}(?!\w)"
    return [(first, stop) for first, stop, _ in occurrences(sentence.text, tokens, whole)] if word.strip() else []
