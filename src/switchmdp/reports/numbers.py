"""Numbers as a reader wants them: three digits, thousands apart, and never more than is known."""

from __future__ import annotations

import math

from switchmdp.reports.resampling import Interval

UNKNOWN = "–"


def number(value: float) -> str:
    """Three significant digits, or all those before the point.

    >>> [number(x) for x in (12_539.4, 53.94, 0.5, -1.0, 4e-7, 0.0)]
    ['12 539', '53.9', '0.500', '-1.00', '4.00e-07', '0']
    >>> [number(x) for x in (7, 1_000_000, float("inf"), float("nan"))]
    ['7', '1 000 000', '∞', '–']
    """
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, int) or abs(value) >= 999.5 or value == 0:
        return f"{value + 0:,.0f}".replace(",", " ")
    rounded = float(f"{value:.3g}")
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:.2e}" if exponent < -4 else f"{rounded:.{max(0, 2 - exponent)}f}"


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.1234), percent(1.0), percent(float("nan"))
    ('12.3 %', '100.0 %', '–')
    """
    return UNKNOWN if math.isnan(share) else f"{round(100 * share, 1) + 0.0:.1f} %"


def with_interval(interval: Interval) -> str:
    """The number and its interval.

    >>> with_interval(Interval(12_539.0, 12_001.0, 13_000.0))
    '12 539 (12 001 … 13 000)'
    """
    if math.isnan(interval.middle):
        return UNKNOWN
    return f"{number(interval.middle)} ({number(interval.low)} … {number(interval.high)})"
