"""Episode rules: how often a pair may be visited in an episode, and the step at which it must end.

That step may depend on the start of time: step 1, or the last restart (`since`).
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
        """The step at which an episode that starts at t must end."""
        return NEVER


@compiled
class Multiples(Doubling):
    """Doubling, and an episode also ends at every multiple of the period, counted from `since`.

    An episode that starts at a multiple lasts at least one step.
    """

    period: Annotated[int, Range(1, NEVER)]

    def __init__(self, period: int) -> None:
        self.period = check_integer("period", period, 1, NEVER)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        return since - 1 + ((t - since + 1) // self.period + 1) * self.period


@compiled
class Growing(Doubling):
    """TSDE's rule (Ouyang et al. 2017): doubling, or one step more than the last episode had.

    With the paper's t_0 = 0 the first has at most two steps. Restarts do not change this rule.
    """

    started: Annotated[int, Range(0, 2**53)]

    def __init__(self) -> None:
        self.started = 0

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        length, self.started = t - self.started, t
        return t + length + 1


@compiled
class Rooted(Doubling):
    """Doubling, or √(2n) steps at time n.

    After n steps there are about √(2n) episodes, as with TSDE's rule. But a short episode, for
    example because of a probe, does not shorten the next ones.
    """

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        return t + 1 + int(math.sqrt(2.0 * (t - since)))
