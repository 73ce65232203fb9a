"""When an episode ends: how often a pair may be visited in it, and a step at which it must end.

That step may depend on when time began: at the first step, or at the last restart (`since`).
"""

from __future__ import annotations

import math

from switchmdp.compiled import compiled
from switchmdp.restarts import NEVER


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
class Growing:
    """TSDE's rule (Ouyang et al. 2017): as UCRL2's, and no episode is longer than the last by two.

    An episode ends when a pair's visits have doubled, or after one step more than the last one had.
    """

    started: int
    length: int

    def __init__(self) -> None:
        self.started, self.length = 0, 0

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode."""
        return max(1, visits)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end whatever happens."""
        self.length = t - self.started if self.started > 0 else 0
        self.started = t
        return t + self.length + 1


@compiled
class Rooted:
    """An episode ends when a pair's visits have doubled, or after √(2n) steps at time n.

    After n steps there are about √(2n) episodes, as by TSDE's rule; but one that is cut short, by a
    probe for instance, does not make those after it short.
    """

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode."""
        return max(1, visits)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end whatever happens."""
        return t + 1 + int(math.sqrt(2.0 * (t - since)))
