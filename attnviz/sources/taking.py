"""Get the numbers that edits take from runs of other texts, and check that these texts fit."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.edits import Donor, Site, Take
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record, Step
from attnviz.core.scoring import Area
from attnviz.core.tokens import Sentence


def donors(
    takes: tuple[Take, ...],
    run: Callable[[str, frozenset[Site]], Record],
    sentences: tuple[Sentence, ...],
    targets: tuple[Sentence, ...],
) -> tuple[Donor, ...]:
    """Get the numbers of each `Take` from a run of its text. All heads of a site share the same tensors.

    Args:
        run: function from a text, and the sites whose input is needed, to its record.
    """
    records, tensors, taken = {}, {}, []
    for text in dict.fromkeys(take.text for take in takes):
        inputs_needed = frozenset(take.site for take in takes if take.part == "stream" and take.text == text)
        records[text] = run(text, inputs_needed)
    for take in takes:
        record = records[take.text]
        step = record.step(take.site)
        if take.head is not None and take.head >= step.num_heads:
            raise InputError(f"There is no {take.site.head(take.head)}; there are {step.num_heads}, counted from 0.")
        other_queries, other_keys = record.usual_texts(take.site)
        queries, keys = replace(record, sentences=sentences, targets=targets).usual_texts(take.site)
        sides = [] if take.part == "values" else [(queries, other_queries)]
        sides += [(keys, other_keys)] if take.part in ("pattern", "values") else []
        for side, other_side in sides:
            for sentence in side if other_side is not side else ():
                _check_lengths(take, sentence, other_side[0])
        row = take.position if take.part == "pattern" else None
        key = take.text, take.part, take.site, row
        tensors[key] = tensors.get(key) or _tensors(take.part, step, row)
        taken.append(Donor(take, tensors[key]))
    return tuple(taken)


def _check_lengths(take: Take, own: Sentence, other: Sentence) -> None:
    """Raise InputError if the edited text and the text of a `Take` lack equal lengths, or a position, that it needs."""
    if own.length != other.length and (take.part == "pattern" or take.position is None):
        lengths = f"{quoted(own.text)} has {counted(own.length, 'token')} and {quoted(other.text)} {other.length}"
        how = "take at one position, from an output or values, and name the matching position in the other text"
        raise InputError(f"{lengths}: {how}.")
    first = take.position if take.from_position is None else take.from_position
    for position, sentence in ((take.position, own), (first, other)):
        if position is not None and position >= sentence.length:
            has = f"{quoted(sentence.text)} has {counted(sentence.length, 'token')}, counted from 0"
            raise InputError(f"There is no position {position}: {has}.")


def _tensors(part: str, step: Step, row: int | None) -> dict[str, Tensor]:
    """Return the tensors from which another run takes `part` of a step; with `row`, only the scores of this row."""
    keys = step.shape[3] - step.has_sink
    if row is not None:
        whole_row = Area(rows=slice(row, row + 1), columns=slice(keys))
        return {"row": step.scoring.scores(step.query, step.key, whole_row)}
    if part == "pattern":
        return {"query": step.query, "key": step.key[:, :, :keys]}
    if part == "values":
        return {"value": step.value[:, :, :keys]}
    if part == "output":
        return {"output": step.outputs().unflatten(-1, (step.num_heads, -1)).transpose(1, 2)}
    if step.entered is None:
        raise InputError(f"What enters {step.site} is not known in this model; take an output, a pattern or values.")
    return {"stream": step.entered}


def check_stream(record: Record) -> None:
    """Raise InputError if edits put vectors of another text into the residual stream of a record."""
    if any(take.part == "stream" for take in record.edits.taken):
        what = "The residual stream holds vectors of another text, which no part of the model wrote"
        raise InputError(f"{what}, so the logits are not taken apart; replace outputs, patterns or values instead.")
