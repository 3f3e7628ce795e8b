"""Activation patching: the share of the difference between two texts that each head carries.

Each head alone takes its output, pattern or values from the other text; many heads are run at once, on copies.
"""

from dataclasses import replace

import pandas as pd

from attnviz.analysis.contributions import Carried, id_of
from attnviz.analysis.predictions import predicting, token_at
from attnviz.core.amounts import decimals
from attnviz.core.edits import Edits, Resolved, Take
from attnviz.core.errors import InputError, quoted
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.studies.ablation import Head, OnProgress, runs_of_copies


def carried(
    source: Source,
    sentences: tuple[Sentence, ...],
    other: str,
    edits: Edits = Edits(),
    part: str = "output",
    *,
    position: int | None = None,
    words: tuple[str | int, str | int] | None = None,
    targets: tuple[Sentence, ...] = (),
    report: OnProgress | None = None,
) -> Carried:
    """Take a part of each head in turn from another text, and measure the logit difference of two words.

    Args:
        sentences: a single sentence, A.
        other: text B, with as many tokens as A.
        edits: edits of both runs; parts that they take from other texts are ignored.
        part: "output", "pattern" or "values".
        position: position after which the words are predicted; negative ones count from the end. By default the last
            position, or the first blank if the model fills in blanks.
        words: a word for A and a word for B, or their ids. By default the most probable words; if these are the same,
            the words whose logits fall and rise most from A to B.

    Raises:
        InputError: if the part cannot be taken, the model predicts no words, or the difference is the same in A and B.
    """
    if len(sentences) != 1:
        raise InputError(f"The way from A to B is measured for one text; there are {len(sentences)}. Give one of them.")
    if part == "stream":
        raise InputError("A stream has no heads; take their output, pattern or values.")
    edits = replace(edits, taken=())
    before = source.run(sentences, edits, targets)
    prediction, targets = predicting(before), before.targets if source.writes else ()
    heads: tuple[Head, ...] = tuple((step.site, head) for step in before.steps for head in range(step.num_heads))
    taking = replace(edits, taken=tuple(Take(other, part, site, head) for site, head in heads))
    donors = dict(zip(heads, source.resolved(sentences, taking, targets)[0].donors, strict=True))

    length, blanks = before.read[0].length, prediction.blanks and prediction.blanks[0]
    if position is None:
        position = blanks[0] if blanks else -1
    position = position + length if position < 0 else position
    token_at(before, position)
    after = source.run(source.tokenize([other]), edits, targets)
    a, b = (record.prediction.logits[0, position].double() for record in (before, after))
    moved = words is None and a.argmax() == b.argmax()
    if moved:
        change = (b - a).nan_to_num(0.0)
        ids = int(change.argmin()), int(change.argmax())
    else:
        ids = (int(a.argmax()), int(b.argmax())) if words is None else tuple(id_of(before, word) for word in words)
    start, end = (float(logits[ids[0]] - logits[ids[1]]) for logits in (a, b))
    names = tuple(prediction.vocabulary[id] for id in ids)
    if not abs(end - start) > 1e-4 * max(1.0, float(a[[*ids]].abs().max())):
        which = f"{quoted(names[0])} minus {quoted(names[1])} is {decimals(start, 3)} in both texts"
        raise InputError(f"{which} at position {position}, so there is no way between them; choose other words.")

    def each(some: tuple[Head, ...]) -> Edits:
        alone = (replace(donors[head], rows=slice(copy, copy + 1)) for copy, head in enumerate(some))
        return Resolved(**vars(edits), donors=tuple(alone))

    rows = []
    for some, (record, _) in runs_of_copies(source, before, heads, each, is_given=bool(targets), report=report):
        for copy, (site, head) in enumerate(some):
            logits = record.prediction.logits[copy, position].double()
            difference = float(logits[ids[0]] - logits[ids[1]])
            way = (difference - start) / (end - start)
            rows.append((str(site), site.kind, site.layer, head, difference, way))
    table = pd.DataFrame(rows, columns=["site", "kind", "layer", "head", "difference", "carried"])
    texts = sentences[0].text, other
    return Carried(texts, part, position, names, bool(moved), start, end, table)
