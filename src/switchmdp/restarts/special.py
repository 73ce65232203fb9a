"""log Γ from square roots and logarithms alone, so that it is the same interpreted and compiled."""

from __future__ import annotations

import math

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
def log_gamma(x: float) -> float:
    """log Γ(x) for x >= 1, to about 1e-11: a table at small whole numbers, else Stirling's series.

    >>> round(log_gamma(5.0), 9), round(log_gamma(1.5), 9)
    (3.17805383, -0.120782238)
    """
    whole = int(x)
    if whole == x and whole < TABLE:
        return float(LOGS[whole])
    product = 1.0
    while x < 9.0:
        product *= x
        x += 1.0
    y = 1.0 / (x * x)
    series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x
    return (x - 0.5) * math.log(x) - x + HALF_LOG_2PI + series - math.log(product)
