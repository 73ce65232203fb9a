"""log Γ from square roots and logarithms alone, so that it is the same interpreted and compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import jit

TABLE = 4096
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _table() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """log Γ(0 … TABLE-1) at whole numbers; that of 0 is never asked for."""
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
    """log n! of a whole number, though it be a float: the same as log Γ(n + 1), and faster.

    >>> round(log_factorial(4), 9), log_factorial(5000.0) == log_gamma(5001.0)
    (3.17805383, True)
    """
    k: Any = np.int64(n)
    if k < TABLE - 1:
        return float(LOGS[k + 1])
    return float(stirling(n + 1.0))
