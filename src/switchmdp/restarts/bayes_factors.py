"""Bayes factors for a change of single pairs, and their combination over all pairs.

Take the rewards of one pair, or its successors, before some moment and since. Under a uniform prior
on means and rows, the data of a stretch have the probability

    m(rewards) = B(1 + R, 1 + N - R),       m(successors) = Γ(S) Π_j Γ(1 + P_j) / Γ(S + N),

and a change of this one thing at that moment the Bayes factor  b = m(before) m(since) / m(both).

It is unknown which pairs have changed. If each has changed with probability q, independently, the
log Bayes factor of one kind of data (rewards or successors) is

    Λ_q = Σ over pairs of  log(1 - q + q b)

for "some have changed". Nor is q known: it is one of `SHARES`, each as likely as any other, and for
each kind separately. So a change of all pairs is detected after a few visits to each, because the
terms add up; and a change of a single pair once its own data are clear, because the other pairs
cost almost nothing if q is small.

log Γ is computed from square roots and logarithms alone, so that it has the same bits interpreted
and compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import jit

SHARES = (7 / 8, 1 / 2, 1 / 8, 1 / 32, 1 / 128)
LARGE = 40.0  # from b = e⁴⁰ on 1 - q + q b is q b
TABLE = 4096
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _table() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """log Γ(0 … TABLE-1) at whole numbers; the entry for 0 is never used."""
    logs = np.zeros(TABLE)
    for n in range(3, TABLE):
        logs[n] = logs[n - 1] + math.log(n - 1.0)
    return logs


LOGS = _table()


@jit
def stirling(x: float) -> float:
    """log Γ(x) for x >= 1 by Stirling's series, from 9 on; to about 1e-11."""
    below = 0.0
    if x < 9.0:
        product = 1.0
        while x < 9.0:
            product *= x
            x += 1.0
        below = math.log(product)
    z = 1.0 / x
    y = z * z
    series = z * (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0))))
    return (x - 0.5) * math.log(x) - x + HALF_LOG_2PI + series - below


@jit
def log_gamma(x: float) -> float:
    """log Γ(x) for x >= 1: from a table at small whole numbers, else Stirling's series.

    >>> round(log_gamma(5.0), 9), round(log_gamma(1.5), 9)
    (3.17805383, -0.120782238)
    """
    whole: Any = np.int64(x)
    if whole < TABLE and whole == x:
        return float(LOGS[whole])
    return float(stirling(x))


@jit
def log_factorial(n: Any) -> float:
    """log n! of a whole number, which may be a float: the same as log Γ(n + 1), and faster.

    >>> round(log_factorial(4), 9), log_factorial(5000.0) == log_gamma(5001.0)
    (3.17805383, True)
    """
    k: Any = np.int64(n)
    if k < TABLE - 1:
        return float(LOGS[k + 1])
    return float(stirling(n + 1.0))


@jit
def log_rewards(n: float, total: float) -> float:
    """log B(1 + R, 1 + N - R)."""
    failures = max(0.0, n - total)  # a sum of parts may be rounded up
    return log_gamma(1.0 + total) + log_gamma(1.0 + failures) - log_gamma(2.0 + n)


@jit
def log_moves(n: float, now: Any, old: Any) -> float:
    """log Γ(S) Π Γ(1 + P_j) / Γ(S + N) of the successors counted between `old` and `now`."""
    total = log_gamma(float(now.size)) - log_gamma(now.size + n)
    for j in range(now.size):
        if now[j] > old[j]:
            total += log_factorial(now[j] - old[j])
    return total


@jit
def multiply(products: Any, sums: Any, log_b: float) -> None:
    """Multiply the product of each share q by 1 - q + q b."""
    b = math.exp(min(log_b, LARGE))
    for i in range(len(SHARES)):
        products[i] *= 1.0 - SHARES[i] + SHARES[i] * b
    if log_b > LARGE:
        for i in range(len(SHARES)):
            sums[i] += log_b - LARGE


@jit
def settle(products: Any, sums: Any) -> None:
    """Move the products into the sums of their logarithms: at most 16 factors each fit a double."""
    for i in range(len(SHARES)):
        sums[i] += math.log(products[i])
        products[i] = 1.0


@jit
def largest(sums: Any) -> float:
    """The largest of the sums."""
    top = sums[0]
    for i in range(1, len(SHARES)):
        top = max(top, sums[i])
    return float(top)


@jit
def log_mean(sums: Any) -> float:
    """log of the mean of e^Λ_q over the shares.

    >>> import numpy as np
    >>> log_mean(np.zeros(5))
    0.0
    """
    top, total = largest(sums), 0.0
    for i in range(len(SHARES)):
        total += math.exp(sums[i] - top)
    return top + math.log(total / len(SHARES))


@jit
def share(sums: Any) -> float:
    """The expected share q of what has changed, given all that is known: ∝ e^Λ_q.

    >>> import numpy as np
    >>> round(share(np.zeros(5)), 4), round(share(np.array([90.0, 0, 0, 0, 0])), 4)
    (0.3078, 0.875)
    """
    top, total, weighted = largest(sums), 0.0, 0.0
    for i in range(len(SHARES)):
        weight = math.exp(sums[i] - top)
        total += weight
        weighted += weight * SHARES[i]
    return weighted / total


@jit
def unchanged(q: float, log_b: float) -> float:
    """The probability that one thing has not changed, where a share q has.

    >>> unchanged(0.5, 0.0), unchanged(0.25, 800.0) < 1e-16
    (0.5, True)
    """
    return (1.0 - q) / (1.0 - q + q * math.exp(min(log_b, LARGE)))
