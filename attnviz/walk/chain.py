"""The chain: one attention call from tokens to what the layer gives, stage by stage."""

from typing import Protocol

from attnviz.core.edits import Site
from attnviz.core.origin import Origin
from attnviz.core.record import Record
from attnviz.walk import after, before, scores
from attnviz.walk.knobs import Knobs
from attnviz.walk.stages import Stage, StageCall
from attnviz.walk.windows import FIRST, window_positions

STAGES = (
    before.embedding,
    before.position,
    before.layer_input,
    before.project,
    before.split,
    before.adjust,
    scores.products,
    scores.scale,
    scores.softcap,
    scores.bias,
    scores.temperature,
    scores.mask,
    scores.softmax,
    scores.dropout,
    after.values,
    after.concat,
    after.output,
)


class Knowing(Protocol):
    """Source of a record that knows what its calls were projected from."""

    def origin(self, record: Record, site: Site) -> Origin | None: ...


def chain(
    record: Record,
    source: Knowing | None,
    site: Site,
    head: int,
    *,
    sentence: int = 0,
    knobs: Knobs = Knobs(),
    queries: slice = FIRST,
    keys: slice = FIRST,
) -> tuple[Stage, ...]:
    """Walk through one head of one attention call with the numbers of its run.

    Args:
        record: a run of `source`.
        source: is asked what the call was projected from; None where that is not known.
        knobs: what to do wrong, or as in training, in this call alone.
        queries, keys: which tokens the tables show, at most 64 of each.

    Returns:
        Every stage, always the same ones; with the mask after the softmax those two change places. A stage that the
        model does not have, or does not show, says so in `missing`.

    Raises:
        InputError: if there is no such site, head or sentence, or a window is too large.
    """
    step = record.step(site)
    step.empty_queries(head, sentence=sentence)  # refuses a head or sentence that is not there
    origin = None if source is None or record.read_only else source.origin(record, site)
    windows = window_positions(queries, step.shape[2], "queries"), window_positions(keys, step.shape[3], "keys")
    call = StageCall(record, step, origin, head, sentence, *windows, knobs)
    stages = [stage(call) for stage in STAGES]
    if knobs.mask_after_softmax:
        index = STAGES.index(scores.mask)
        stages[index : index + 2] = stages[index + 1], stages[index]
    return tuple(stages)
