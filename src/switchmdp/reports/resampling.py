"""Bootstrap intervals over problems: how much an estimate varies with the sample of problems.

The unit of resampling is the problem, one row of the data. A resample draws n of the n rows with
replacement. It is stored as the number of times each row was drawn, so that the means of all
resamples and all columns are one matrix product:

    means = counts @ rows / n,    counts of shape (resamples, n),    counts @ 1 = n

An interval runs from the 2.5 % to the 97.5 % quantile of the resampled statistic. The draws depend
only on n and the seed, so all agents are resampled alike. Rows with a NaN (failed runs) are left
out. A single row gives an interval of width 0; without rows, everything is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from switchmdp.display import counted

RESAMPLES = 2000
SEED = 20_180_525
TAILS = (0.025, 0.975)
BLOCK = 2_000_000  # counts in memory at once, which bounds memory for any number of problems
IN_CACHE = 50_000  # numbers that fit in the cache while several passes process them

Floats = NDArray[np.float64]
Statistic = Callable[[Floats, Floats], Floats]  # counts (k, n), rows (n, …) -> (k, …)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; `low <= middle <= high`, or NaN.

    Parameters
    ----------
    middle
        The estimate.
    low
        The lower end of the interval; low <= middle <= high, or NaN.
    high
        The upper end of the interval.
    """

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """A curve with a pointwise 95 % band.

    Parameters
    ----------
    times
        The x values: time steps, or values of a parameter.
    middle
        The estimate at each x value.
    low
        The lower end of the interval at each x value.
    high
        The upper end of the interval at each x value.
    """

    times: NDArray[Any]  # the x values: time steps, or values of a parameter
    middle: Floats
    low: Floats
    high: Floats

    def __repr__(self) -> str:
        return f"Band({counted(len(self.times), 'point')})"

    def from_zero(self) -> Band:
        """The curve with the point (0, 0) in front: regret is 0 before the first step."""
        parts = (self.times, self.middle, self.low, self.high)
        return Band(*(np.concatenate([np.zeros(1, part.dtype), part]) for part in parts))


def mean(counts: Floats, rows: Floats) -> Floats:
    """Return the mean of each resample.

    >>> mean(np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([3.0, 5.0])).tolist()
    [4.0, 5.0]
    """
    means: Floats = counts @ rows / len(rows)
    return means


def ratio_of_means(counts: Floats, rows: Floats) -> Floats:
    """Return the mean of rows[:, 0] divided by that of rows[:, 1]; NaN unless that is positive.

    >>> ratio_of_means(np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([[3.0, 1.0], [5.0, 1.0]]))
    array([4., 5.])
    """
    top, bottom = counts @ rows[:, 0], counts @ rows[:, 1]
    positive = bottom > 0
    ratios: Floats = np.where(positive, top, np.nan) / np.where(positive, bottom, 1.0)
    return ratios


def interquartile_mean(counts: Floats, rows: Floats) -> Floats:
    """Return the mean of the middle half of each resample; a row on a quartile counts in part.

    >>> interquartile_mean(np.ones((1, 6)), np.array([-99.0, 1.0, 2.0, 3.0, 4.0, 99.0])).tolist()
    [2.5]
    """
    n = len(rows)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    means: Floats = np.empty(len(counts))
    for first in range(0, len(counts), IN_CACHE // n + 1):
        some = slice(first, first + IN_CACHE // n + 1)
        edges = np.cumsum(counts[some, order], axis=1)
        # A value drawn c times has the ranks (edge - c, edge]. Keep the ranks in (n/4, 3n/4].
        np.clip(edges, n / 4, 3 * n / 4, out=edges)
        weights = np.diff(edges, axis=1, prepend=n / 4)
        means[some] = weights @ ordered / (n / 2)
    return means


def estimate(rows: ArrayLike, statistic: Statistic = mean) -> float:
    """Return a scalar statistic of the rows without its interval, which takes much longer.

    >>> estimate([1.0, 2.0, float("nan"), 3.0]), estimate([])
    (2.0, nan)
    """
    data = _complete(rows)
    return float(_on_all(data, statistic)) if len(data) else np.nan


def interval(
    rows: ArrayLike, statistic: Statistic = mean, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return a scalar statistic of the rows with its 95 % interval.

    >>> interval([7.0])
    Interval(middle=7.0, low=7.0, high=7.0)
    >>> interval([1.0, 2.0, float("nan"), 3.0])
    Interval(middle=2.0, low=1.0, high=3.0)
    """
    middle, low, high = _bootstrap(rows, statistic, (), resamples, seed)
    return Interval(float(middle), float(low), float(high))


def intervals(
    rows: ArrayLike, statistic: Statistic = mean, *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[Interval]:
    """Return a statistic with its 95 % interval for each column, the last axis of the rows.

    One matrix product for all columns is many times faster than one for each. Only columns that
    lack the same rows are resampled together, since a column is resampled without them.

    >>> intervals([[1.0, 5.0], [3.0, float("nan")]])[1]
    Interval(middle=5.0, low=5.0, high=5.0)
    """
    data = np.asarray(rows, dtype=np.float64)
    k = data.shape[-1]
    missing = np.asarray(np.isnan(data).any(axis=tuple(range(1, data.ndim - 1))))
    alike: dict[bytes, list[int]] = {}
    for j in range(k):
        alike.setdefault(missing[:, j].tobytes(), []).append(j)
    found: dict[int, Interval] = {}
    for places in alike.values():
        bounds = _bootstrap(data[..., places], statistic, (len(places),), resamples, seed)
        for j, *numbers in zip(places, *(bound.tolist() for bound in bounds), strict=True):
            found[j] = Interval(*numbers)
    return [found[j] for j in range(k)]


def band(
    times: ArrayLike, rows: ArrayLike, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Band:
    """Return the mean of the rows at every point with its 95 % band.

    >>> band([10, 20], [[1.0, 2.0], [3.0, 4.0]]).middle.tolist()
    [2.0, 3.0]
    """
    times = np.asarray(times)
    return Band(times, *_bootstrap(rows, mean, times.shape, resamples, seed))


def band_and_growth(
    times: ArrayLike, rows: ArrayLike, starts: NDArray[np.int64]
) -> tuple[Band, Band]:
    """Return the mean at every point, and its growth since the point number `starts[point]`.

    The growth of a mean is the difference of two means, so it costs no second matrix product.

    >>> mean, growth = band_and_growth([0, 10, 20], [[0.0, 2.0, 5.0]], np.array([0, 0, 1]))
    >>> growth.middle.tolist()
    [0.0, 2.0, 3.0]
    """

    def both(counts: Floats, rows: Floats) -> Floats:
        means = mean(counts, rows)
        return np.stack([means, means - means[:, starts]], axis=1)

    times = np.asarray(times)
    bounds = _bootstrap(rows, both, (2, *times.shape), RESAMPLES, SEED)
    return Band(times, *(bound[0] for bound in bounds)), Band(times, *(b[1] for b in bounds))


def _bootstrap(
    rows: ArrayLike, statistic: Statistic, shape: tuple[int, ...], resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return estimate, lower and upper bound, each of the shape of one resample's statistic."""
    data = _complete(rows)
    n = len(data)
    if n == 0:
        nothing = np.full(shape, np.nan)
        return nothing, nothing, nothing
    at_once = min(resamples, max(1, BLOCK // n))
    blocks = range(-(-resamples // at_once))
    drawn = [statistic(_counts(n, at_once, seed, block), data) for block in blocks]
    low, high = np.quantile(np.concatenate(drawn)[:resamples], TAILS, axis=0, overwrite_input=True)
    middle = _on_all(data, statistic)
    # If all rows are equal, rounding may put the estimate one ulp outside.
    return middle, np.minimum(low, middle), np.maximum(high, middle)


def _complete(rows: ArrayLike) -> Floats:
    """Return the rows without a NaN."""
    data = np.asarray(rows, dtype=np.float64)
    complete: Floats = data[~np.isnan(data).any(axis=tuple(range(1, data.ndim)))]
    return complete


def _on_all(data: Floats, statistic: Statistic) -> Floats:
    """Return the statistic of the data themselves, in which each row occurs once."""
    value: Floats = statistic(np.ones((1, len(data))), data)[0]
    return value


@lru_cache(maxsize=4)
def _counts(n: int, resamples: int, seed: int, block: int) -> Floats:
    """Return how often each of n rows is drawn in each resample of a block."""
    drawn = np.random.default_rng([seed, n, block]).integers(n, size=(resamples, n))
    drawn += n * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=resamples * n).astype(np.float64)
    counts.flags.writeable = False
    return counts.reshape(resamples, n)
