"""log Γ and what follows from it.

Computed from products and logarithms alone, so that machine code and interpreted code give the same
bits. (`math.lgamma` and SciPy's functions differ between platforms.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import jit

TABLE = 4096
SHORT = 12.0  # up to here, a product is faster than Stirling's series
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
    """log Γ(x) for x > 0 by Stirling's series, from 9 on; to about 1e-11."""
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
    """log Γ(x) for x > 0: from a table at small whole numbers, else Stirling's series.

    >>> round(log_gamma(5.0), 9), round(log_gamma(0.5), 9)
    (3.17805383, 0.572364943)
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
def log_rising_from(x: float, n: float, log_start: float) -> float:
    """`log_rising` if log Γ(x) is known."""
    if n <= SHORT and n == math.floor(n):
        product = 1.0
        for i in range(int(n)):
            product *= x + i
        return math.log(product)
    return log_gamma(x + n) - log_start


@jit
def log_rising(x: float, n: float) -> float:
    """log Γ(x + n) / Γ(x), the logarithm of x (x + 1) … (x + n - 1) if n is a whole number.

    >>> round(log_rising(0.5, 3.0), 9), round(math.log(0.5 * 1.5 * 2.5), 9)
    (0.628608659, 0.628608659)
    """
    return log_rising_from(x, n, log_gamma(x))


@jit
def log_rewards(n: float, total: float) -> float:
    """log B(1 + R, 1 + N - R): n rewards that sum to R, if their mean is uniform a priori.

    >>> round(math.exp(log_rewards(3.0, 1.0)), 9)
    0.083333333
    """
    failures = max(0.0, n - total)  # a sum of parts may be rounded up
    return log_gamma(1.0 + total) + log_gamma(1.0 + failures) - log_gamma(2.0 + n)
