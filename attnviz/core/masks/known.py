"""Whether a block of cells is open, without looking at any: True if all are, False if all are blocked, else None.

The arguments are whole numbers of a block: of its first and last query, and of its first and last key.
"""


def distances(queries: range, keys: range) -> tuple[int, int]:
    """The least and the most of key - query."""
    return keys[0] - queries[-1], keys[-1] - queries[0]


def within(least: int, most: int, low: float, high: float) -> bool | None:
    """A rule that is open where a number is from `low` to `high`; in the block it goes from `least` to `most`."""
    if low <= least and most <= high:
        return True
    return False if most < low or high < least else None


def in_same(queries: tuple[int, int], keys: tuple[int, int]) -> bool | None:
    """A rule that is open where both are in the same part: the parts of the first and the last, which go upward."""
    if keys[1] < queries[0] or queries[1] < keys[0]:
        return False
    return True if queries == keys and keys[0] == keys[1] else None


def any_known(answers: set[bool | None]) -> bool | None:
    """A rule that is open where any of several is."""
    if True in answers:
        return True
    return None if None in answers else False


def all_known(answers: set[bool | None]) -> bool | None:
    """A rule that is open where all of several are."""
    if False in answers:
        return False
    return None if None in answers else True
