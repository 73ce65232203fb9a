"""Hidden improvement: a change that nothing a settled agent does would ever show.

Let π* be an optimal policy of the present configuration M, with gain ρ*. One pair (s, a) is drawn
among those that no optimal policy has use for (their gap ρ* + h(s) - r̄ - Σ p h is positive), and

    mean  ←  (1 - x) r̄ + x,       row  ←  (1 - x) p + x · (stay in s),

with the least x for which the new optimal gain is ρ* + margin (1 - ρ*). All other pairs, those of
π* among them, stay as they are to the bit: whoever follows π* sees the same states and rewards as
before, of the same gain ρ*, while the best gain has become higher by a share of what was missing
to 1.

Such an x < 1 always exists: the gain of a policy that takes the pair is monotone in x (a ratio of
two linear functions) and 1 at x = 1, where staying in s earns 1 at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from switchmdp.errors import InvalidParameter, InvalidProblem
from switchmdp.mdp import MDP
from switchmdp.mdp.pool import RowChange
from switchmdp.planning import action_gaps, optimal_gain
from switchmdp.problems.changing import patched
from switchmdp.validation import is_number

LEAST_GAP = 1e-6
MOST_MARGIN = 0.9
HALVINGS = 30


@dataclass(frozen=True)
class HiddenImprovement:
    """A way to change: only an action that the old optimal policy never takes gets better.

    The best gain rises by `margin` times what is missing to 1.

    >>> from switchmdp.problems import changing, random_mdp
    >>> problem = changing(random_mdp(seed=0), HiddenImprovement(0.5), changes=1, horizon=1000)
    >>> before, after = (optimal_gain(mdp).gain for mdp in problem.configurations())
    >>> round((after - before) / (1 - before), 4)
    0.5
    """

    margin: float = 0.5

    def __post_init__(self) -> None:
        if not is_number(self.margin) or not 0.0 < self.margin <= MOST_MARGIN:
            allowed = f"a number above 0 and at most {MOST_MARGIN}"
            raise InvalidParameter("margin", self.margin, allowed)

    def __call__(self, mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
        plan = optimal_gain(mdp)
        target = plan.gain + self.margin * (1.0 - plan.gain)
        unused = np.argwhere(action_gaps(mdp, plan) > LEAST_GAP)
        if not len(unused) or target - plan.gain < LEAST_GAP:
            raise InvalidProblem(
                f"nothing can improve unseen in {mdp}: its gain is {plan.gain:.6g}, and "
                f"{len(unused)} actions are of no use in it"
            )
        s, a = unused[rng.integers(len(unused))].tolist()
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            if (
                optimal_gain(patched(mdp, [_improved(mdp, s, a, middle)]), start=plan).lower
                < target
            ):
                low = middle
            else:
                high = middle
        if high == 1.0:
            raise InvalidProblem(f"state {s} of {mdp} is too far away to be worth staying in")
        return [_improved(mdp, s, a, high)]


def _improved(mdp: MDP, s: int, a: int, x: float) -> RowChange:
    successors, row = mdp.successors(s, a)
    blend = {target: (1.0 - x) * p for target, p in zip(successors, row, strict=True)}
    blend[s] = blend.get(s, 0.0) + x
    return s, a, blend, (1.0 - x) * float(mdp.rewards[s, a]) + x
