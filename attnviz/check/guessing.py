"""Which of two conventions a mask is in: True = may attend, or True = masked."""

import math

from torch import Tensor

from attnviz.check.judged import Judged
from attnviz.check.kinds import small
from attnviz.core.explain import words


def evidence(open_where: Judged, masked_where: Judged) -> tuple[int, tuple[str, ...]]:
    """Evidence for True = may attend (points above 0) or True = masked (below 0), with a sentence.

    Args:
        open_where: the mask read as True = may attend.
        masked_where: the same read as True = masked. The points of the two the other way round are the opposite.
    """
    ours, theirs = _rank(open_where), _rank(masked_where)
    readings = [
        small(words.is_what(judged.judgement)) for judged in (open_where, masked_where) if judged.judgement.explanations
    ]
    if (open_where.is_right and masked_where.is_right) or (ours == theirs and len(readings) == 2):
        return 0, (f"Read so, {readings[0]}; read the other way, {readings[1]}.",)
    if ours == theirs or _far_fetched(open_where, masked_where) or _far_fetched(masked_where, open_where):
        return _marks(open_where.may_attend)
    better, worse = (open_where, masked_where) if ours < theirs else (masked_where, open_where)
    points = 4 if better.is_right and not worse.is_right else 2
    explanations = worse.judgement.explanations
    other = small(words.is_what(worse.judgement)) if explanations else "it is no mask that is known here"
    return points if ours < theirs else -points, (f"Read the other way, {other}.",)


def _far_fetched(mistaken: Judged, other: Judged) -> bool:
    """Whether a reading needs a mistake, and leaves a row no key, where in the other every query sees itself.

    What may be a single slip of the other is then not called a known mask with more wrong in it.
    """
    leaves_none = ~mistaken.may_attend.any(-1)
    own = other.may_attend.diagonal(max(0, other.may_attend.shape[3] - other.may_attend.shape[2]), 2, 3)
    explained = bool(mistaken.judgement.explanations), bool(other.judgement.explanations)
    return bool(explained == (True, False) and mistaken.judgement.mistake and leaves_none.any() and own.all())


def _rank(judged: Judged) -> tuple[int, float]:
    """How good a reading is: a known mask, before one with something wrong in it, before one that nothing explains."""
    judgement = judged.judgement
    if judged.composition is not None:
        return len(judged.faults), judged.composition.bits
    if judged.meant is not None:  # half as many that differ are better
        return 0, math.frexp(1 + judgement.differing)[1] if judgement.explanations else math.inf
    if judgement.is_certain:
        return (1, 0.0) if judgement.mistake else (0, judgement.bits)
    return (2 if judgement.explanations else 3), judgement.bits


def _marks(mask: Tensor) -> tuple[int, tuple[str, ...]]:
    """Clues in a mask, True = may attend, that is no known one, or one either way."""
    clues = []
    own = mask.diagonal(max(0, mask.shape[3] - mask.shape[2]), 2, 3)
    if own.shape[-1] > 2 and (own.all() or not own.any()):
        clues.append((2 if own.all() else -2, "Read the other way, no query would see itself."))
    no_true, no_false = bool((~mask).all(-1).any()), bool(mask.all(-1).any())
    if no_true != no_false:
        message = f"Some row holds no {'True' if no_true else 'False'}: read the other way, it would have no key left."
        clues.append((-2 if no_true else 2, message))
    falls, rises = _ends(mask)
    if falls != rises:
        message = f"Every row that changes ends in {'False' if falls else 'True'}: so does padding on the right."
        clues.append((1 if falls else -1, message))
    total = sum(points for points, _ in clues)
    return total, tuple(message for points, message in clues if points * total > 0)[:1]


def _ends(mask: Tensor) -> tuple[bool, bool]:
    """Whether each row that changes does so once, from True to False; and the opposite."""
    row = mask.flatten(0, -2)
    row = row[row.any(-1) & ~row.all(-1)].int()
    if not len(row):
        return False, False
    steps = row.diff(dim=-1)
    return bool((steps <= 0).all()), bool((steps >= 0).all())
