"""Numbers that can neither overflow nor underflow: a double times a power of 2⁵¹².

    x = m · 2^(512 e),     2⁻²⁵⁶ <= |m| < 2²⁵⁶  or  x = (0, 0)

A number is the pair (m, e). One operation rounds once, as with doubles (relative error 2⁻⁵³), and
scaling by 2⁵¹² is exact. Of two positive numbers, the one with the larger (e, m) is larger.

Products of transition probabilities leave the range of doubles as soon as a few of them are tiny.
A product that underflows to 0 looks like a transition that does not exist.
"""

from __future__ import annotations

from typing import Any

from switchmdp.compiled import jit

UNIT = 2.0**-53  # the relative error of one rounding
UP, DOWN = 2.0**512, 2.0**-512
HIGH, LOW = 2.0**256, 2.0**-256
LARGEST = 1.7976931348623157e308


@jit
def wide(m: float, e: int = 0) -> Any:
    """The number m · 2^(512 e), for any finite m.

    >>> wide(1e-200)
    (1.3407807929942597e-46, -1)
    """
    if m == 0.0:
        return 0.0, 0
    while abs(m) >= HIGH:
        m *= DOWN
        e += 1
    while abs(m) < LOW:
        m *= UP
        e -= 1
    return m, e


@jit
def narrow(x: Any) -> float:
    """The nearest double; those out of range become 0 or the largest double.

    >>> narrow(wide(1e-200)), narrow(product(wide(1e200), wide(1e200)))
    (1e-200, 1.7976931348623157e+308)
    """
    m, e = x
    if e > 2:
        return LARGEST if m > 0.0 else -LARGEST
    if e < -3:
        return 0.0
    while e > 0:
        m *= UP
        e -= 1
    while e < 0:
        m *= DOWN
        e += 1
    return float(min(max(m, -LARGEST), LARGEST))


@jit
def negative(x: Any) -> Any:
    """-x."""
    return -x[0], x[1]


@jit
def magnitude(x: Any) -> Any:
    """|x|."""
    return abs(x[0]), x[1]


@jit
def product(x: Any, y: Any) -> Any:
    """x y."""
    return wide(x[0] * y[0], x[1] + y[1])


@jit
def quotient(x: Any, y: Any) -> Any:
    """x / y; y is not 0."""
    return wide(x[0] / y[0], x[1] - y[1])


@jit
def total(x: Any, y: Any) -> Any:
    """x + y.

    >>> narrow(total(wide(1e300), wide(1.0))), narrow(total(wide(0.1), wide(0.2)))
    (1e+300, 0.30000000000000004)
    """
    if x[0] == 0.0:
        return y
    if y[0] == 0.0:
        return x
    if x[1] < y[1]:
        x, y = y, x
    apart = x[1] - y[1]
    if apart == 0:
        return wide(x[0] + y[0], x[1])
    if apart == 1:
        return wide(x[0] + y[0] * DOWN, x[1])
    return x


@jit
def total_and_error(x: Any, y: Any) -> Any:
    """(x + y rounded, what rounding took from it)."""
    if x[0] == 0.0:
        return y, x
    if y[0] == 0.0:
        return x, y
    if x[1] < y[1]:
        x, y = y, x
    apart = x[1] - y[1]
    if apart > 1:
        return x, y
    a, b = x[0], y[0]
    if apart == 1:
        b *= DOWN
    rounded = a + b
    of_b = rounded - a
    error = (a - (rounded - of_b)) + (b - of_b)
    return wide(rounded, x[1]), wide(error, x[1])


@jit
def exceeds(x: Any, y: Any) -> bool:
    """x > y.

    >>> exceeds(wide(2.0), wide(1.0)), exceeds(wide(-1e300), wide(1e-300))
    (True, False)
    """
    return bool(total(x, negative(y))[0] > 0.0)


@jit
def larger(x: Any, y: Any) -> Any:
    """max(x, y)."""
    return x if exceeds(x, y) else y


@jit
def smaller(x: Any, y: Any) -> Any:
    """min(x, y)."""
    return y if exceeds(x, y) else x
