"""Extended value iteration over balls of any shape, for example intervals or a divergence.

    u_{i+1}(s) = (1 - ι) max_a { r̃(s,a)/(1 - ι) + max_{p in ball(s,a)} Σ p(s') u_i(s') } + ι u_i(s)

until  max(u_{i+1} - u_i) - min(u_{i+1} - u_i) < precision. The policy is the one found in that last
sweep (ties: the lowest action), the gain estimate is the midpoint of those two differences.

**Aperiodicity.** The optimistic rows of a small ball may be periodic, and then the plain iteration
does not converge. P' = ι I + (1 - ι) P stays where it is with probability ι: every policy keeps its
stationary distribution and with it its gain, biases grow by 1/(1 - ι), and nothing is periodic.
L1 balls need none of this (`optimism`).

**What a ball offers.** `highest(counts, pair, wanted)` is the inner maximum over the ball of a pair
for the values `value` of these sweeps, whose least is 0 and largest `top`; where it can show that
the maximum is below `wanted`, any number below that will do. `arrange()` is called when the values
have changed. A pair whose ball holds every distribution is marked by `free[pair]`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import FINITE, Range, Scratch, Shape, compiled

IDLE = 0.1  # ι: a tenth more sweeps where the chain mixes slowly, and few where it is periodic
MAX_SWEEPS = 1_000_000


@compiled
class Sweeps:
    """Extended value iteration with the memory it works in."""

    value: Annotated[NDArray[np.float64], Shape("states")]
    next_value: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    top: Annotated[float, FINITE]
    lower: Annotated[float, FINITE]
    upper: Annotated[float, FINITE]
    done: Annotated[int, Range(0, MAX_SWEEPS)]

    def __init__(self, n_states: int) -> None:
        self.value, self.next_value = np.zeros(n_states), np.zeros(n_states)
        self.top, self.lower, self.upper = 0.0, 0.0, 1.0
        self.done = 0

    def iterate(
        self, ball: Any, starts: Any, counts: Any, reward: Any, free: Any, precision: float,
        choice: Any,
    ) -> bool:  # fmt: skip
        """Sweep until precise; writes each state's greedy pair into `choice`.

        `reward` are the optimistic mean rewards. False where the sweeps ran out.
        """
        value, next_value = self.value, self.next_value
        n_states, moving = value.size, 1.0 - IDLE
        for s in range(n_states):
            value[s] = 0.0
            choice[s] = starts[s]
        self.top = 0.0
        ball.arrange()
        for sweep in range(1, MAX_SWEEPS + 1):
            top = self.top
            largest, smallest = -np.inf, np.inf
            for s in range(n_states):
                # The last sweep's choice first: most others then can't reach it.
                kept = choice[s]
                chosen, found = kept, reward[kept] + moving * top
                if not free[kept] and top > 0.0:
                    found = reward[kept] + moving * ball.highest(counts, kept, -np.inf)
                for pair in range(starts[s], starts[s + 1]):
                    total = reward[pair] + moving * top
                    if pair == kept or total < found:
                        continue
                    if not free[pair] and top > 0.0:
                        wanted = (found - reward[pair]) / moving
                        total = reward[pair] + moving * ball.highest(counts, pair, wanted)
                    if total > found or (total == found and pair < chosen):
                        chosen, found = pair, total
                choice[s] = chosen
                next_value[s] = found + IDLE * value[s]
                largest = max(largest, next_value[s] - value[s])
                smallest = min(smallest, next_value[s] - value[s])
            self.lower, self.upper, self.done = smallest, largest, sweep
            if largest - smallest < precision:
                return True
            lowest, highest = np.inf, -np.inf
            for s in range(n_states):
                lowest = min(lowest, next_value[s])
                highest = max(highest, next_value[s])
            for s in range(n_states):
                value[s] = next_value[s] - lowest
            self.top = highest - lowest
            ball.arrange()
        return False
