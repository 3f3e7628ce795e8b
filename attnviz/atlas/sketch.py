"""How a number is spread over texts: counts of values in bins, which add up exactly in any order.

A bin is the values that share a sign, an exponent and 7 digits of the fraction: a float32 rounded to its upper 16 bits.
So a quantile is within 1/256 of the value at its rank, the promise of DDSketch (Masson, Rim and Lee 2019), and two
sketches are merged by adding whole numbers. A t-digest depends on the order and on the split of what it is made of, and
a KLL sketch on random numbers: an atlas of either would not come out the same after it was interrupted.
"""

import numpy as np

WIDTH = 2**16
"""Bins that there are."""


def bins(values: np.ndarray) -> np.ndarray:
    """The bin of each value, 0 or more, int64; a larger value has no lower bin."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def values(bins: np.ndarray) -> np.ndarray:
    """The value that stands for each bin, float64."""
    return (np.asarray(bins, np.int64) << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def counted(keys: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, in order, and how often there is each, both int64."""
    distinct, index = np.unique(keys, return_inverse=True)
    if counts is None:
        return distinct, np.bincount(index, minlength=len(distinct))
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, index, counts)
    return distinct, sums


def quantiles(bins: np.ndarray, counts: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    """The values at some shares of the ranks, the lower of two; NaN of nothing.

    Args:
        bins: in order.
    """
    if not len(bins):
        return np.full(len(shares), np.nan)
    upto = np.cumsum(counts)
    ranks = np.floor(np.array(shares) * (upto[-1] - 1))
    return values(bins[np.searchsorted(upto, ranks, side="right")])


def below(numbers: np.ndarray, counts: np.ndarray, bound: float) -> float:
    """The share of values in lower bins than that of a bound; NaN of nothing.

    Args:
        numbers: bins of the counts.
    """
    return float(counts[numbers < bins(np.array([bound]))].sum() / counts.sum()) if len(numbers) else np.nan
