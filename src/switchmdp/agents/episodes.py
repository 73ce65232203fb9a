"""When an episode ends: how often a pair may be visited in it, and a step at which it must end.

That step may depend on when time began: at the first step, or at the last restart (`since`).
"""

from __future__ import annotations

import math
from typing import Annotated

from switchmdp.compiled import Range, compiled
from switchmdp.restarts import NEVER
from switchmdp.validation import check_integer


@compiled
class Doubling:
    """UCRL2's rule: an episode ends when a pair would be visited more often in it than before."""

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode."""
        return max(1, visits)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end whatever happens."""
        return NEVER


@compiled
class Multiples(Doubling):
    """Doubling, and no episode goes on at a time, from `since` on, that the period divides.

    An episode that starts at such a time has a step before it is asked again.
    """

    period: Annotated[int, Range(1, NEVER)]

    def __init__(self, period: int) -> None:
        self.period = check_integer("period", period, 1, NEVER)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end whatever happens."""
        return since - 1 + ((t - since + 1) // self.period + 1) * self.period


@compiled
class Growing(Doubling):
    """TSDE's rule (Ouyang et al. 2017): doubling, or one step more than the last episode had.

    With the paper's t_0 = 0 the first has at most two. Restarts change nothing in this rule.
    """

    started: Annotated[int, Range(0, 2**53)]

    def __init__(self) -> None:
        self.started = 0

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end whatever happens."""
        length, self.started = t - self.started, t
        return t + length + 1


@compiled
class Rooted(Doubling):
    """Doubling, or √(2n) steps at time n.

    After n steps there are about √(2n) episodes, as by TSDE's rule; but one that is cut short, by a
    probe for instance, does not make those after it short.
    """

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end whatever happens."""
        return t + 1 + int(math.sqrt(2.0 * (t - since)))
