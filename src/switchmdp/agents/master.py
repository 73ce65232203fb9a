"""MASTER-UCRL (Wei, Luo 2021): UCRL on all time scales at once, restarted by two tests.

    t := 1.  For n = 0, 1, 2, … do
      t_n := t; schedule base instances in the block t_n … t_n + 2ⁿ - 1               Instances
      While t < t_n + 2ⁿ:
        the lowest order that lives acts and learns; g̃_t is its optimistic gain       hand_over
        Test 1 and Test 2                                                     StationarityTests
        if a test fails or the base signals:  n := 0 again                            start_over

The base is UCRL in doubling episodes with `plausible.SpanBall`. In each of its own steps it
adds its episode's widening η to Γ, and it signals when  Γ > 4 S √(A t log(SAT/δ)), t its own steps.

**Deviations.** The schedule, the tests and the base are those of the paper. Its ρ has logarithms
that are left out here. Our interpretation: all steps of a span count in Test 1, also those of other
instances; η starts at 1/T in every episode; of spans that tie the shorter one acts.

**Guarantee.** With `diameter` at least every diameter, the paper bounds the regret by order
min(√(L T), Δ^{1/3} T^{2/3}), with neither the number L of changes nor their amount Δ known: for
scale = 1, up to the logarithms in ρ. It says nothing at practical T. Since g̃ - R <= 1, Test 2 can
fire only where 3 ρ̂ <= 1, which at S = 5, A = 3, D = 1 takes more than 10¹¹ steps (Gerogiannis,
Huang and Veeravalli 2024 say the same of bandits), and Test 1 needs ρ̂ three times as small. Until
then MASTER is UCRL with unlearned copies of itself in between.

Two parameters make it useful in practice, and a heuristic. `scale` < 1 lets the tests fire; it has
to exceed 1/(54 D (log₂ T + 1) log(T/δ)), about 10⁻⁴/D at T = 10⁵: from there down, one step without
a reward fails Test 2. `confidence` < 8 lets the base learn: as printed, its reward radius is below
1 only after 64 log(SAT/δ) visits to a pair in one instance, 1058 at T = 10⁵, δ = 0.1. Until then
all actions look equally good, and it takes the lowest one.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import check_policy_and_log
from switchmdp.agents.master_components import (
    MOST_ORDERS,
    Instances,
    Orders,
    Paused,
    StationarityTests,
)
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.agents.protocol import Agent
from switchmdp.compiled import Range, compiled, require
from switchmdp.plausible.widened import LONGEST, SpanBall
from switchmdp.randomness import stream
from switchmdp.restarts import NEVER
from switchmdp.validation import check_integer, check_positive

FAR = 2.0**53


@compiled
class MASTER(PolicyAgent):
    """UCRL on many time scales, restarted by two tests.

    `scale` multiplies the tests' ρ̂, and `confidence` is the 8 of the base's radii.
    An episode here is a stretch in which one policy is followed.

    >>> agent = MASTER(5, 3, horizon=100_000, diameter=1.0, delta=0.1)
    >>> agent.act(2), agent.memory.orders
    (0, 17)
    """

    memory: Orders
    plausible: SpanBall
    instances: Instances
    tests: StationarityTests
    paused: Paused
    active: Annotated[int, Range(0, MOST_ORDERS)]
    since: Annotated[int, Range(1, "clock")]
    look_at: Annotated[int, Range(1, NEVER)]
    seen: Annotated[int, Range(0, "logged")]
    restart_count: Annotated[int, Range(0, 2**53)]  # how often it has started over

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        horizon: int, diameter: float, delta: float = 0.05, scale: float = 1.0,
        confidence: float = 8.0, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Agent.__init__(self, n_states, n_actions, available)
        horizon = check_integer("horizon", horizon, 1, LONGEST)
        diameter, scale = check_positive("diameter", diameter), check_positive("scale", scale)
        confidence = check_positive("confidence", confidence)
        orders = horizon.bit_length()  # 0 … ⌊log₂ T⌋
        self.memory = Orders(orders)
        self.plausible = SpanBall(
            delta, horizon=horizon, span=2.0 * diameter, scale=confidence * confidence
        )
        self.memory.allocate(self.pairs)
        self.plausible.allocate(self.pairs)
        self.tests = StationarityTests(
            self.n_states, self.n_actions,
            horizon=horizon, diameter=diameter, delta=delta, scale=scale, orders=orders,
        )  # fmt: skip
        self.instances = Instances(self.rates(orders), check_integer("seed", seed, 0))
        self.begin()
        self.active, self.since, self.look_at, self.seen, self.restart_count = 0, 1, 1, 0, 0
        self.paused = Paused(orders, self.choice)

    def check_invariants(self) -> None:
        """All parts have the same orders, and paused policies choose pairs of their states."""
        check_policy_and_log(self)
        orders, choices = self.memory.orders, self.paused.choices
        sizes = {self.instances.ends.size, self.tests.earned_before.size, len(choices), orders}
        require(sizes == {orders} and self.active < orders, "the orders do not fit together")
        require(self.memory.n_pairs == self.actions.size, "Orders.n_pairs is wrong")
        rates = np.array_equal(self.instances.rho, self.rates(orders))
        require(rates, "Instances.rho does not follow from the tests")
        available = (self.starts[:-1] <= choices) & (choices < self.starts[1:])
        require(available.all(), "Paused.choices must be pairs of their states")
        require(self.instances.begin <= self.clock, "Instances.begin lies in the future")

    def rates(self, orders: int) -> NDArray[np.float64]:
        """ρ(2^m) for each order m."""
        return np.array([self.tests.rho(1 << m) for m in range(orders)])

    def advance(self) -> bool:
        """Run the tests and change the instance where that is due. True if another policy acts."""
        if self.clock >= min(self.look_at, self.due()):
            self.take_in()
            if self.fails():
                self.start_over()
            else:
                self.look_at = self.clock + self.calm()
        if self.clock < self.due():
            return False
        self.hand_over()
        return True

    def plan_is_due(self, state: int) -> bool:
        """Whether the state's quota is used up."""
        return bool(self.quota[state] == 0)

    def due(self) -> int:
        """The step at which another instance may take over."""
        return min(self.instances.next_start, int(self.instances.ends[self.active]))

    def patience(self) -> int:
        """The number of steps until `prepare` must be called again, if quotas allow."""
        next_time = min(self.look_at, self.due())
        return max(1, min(next_time - self.clock, self.log_pair.size - self.logged))

    def calm(self) -> int:
        """The number of steps before Test 2 can fail or the base can signal.

        A step adds at most g̃ to the sum of Test 2, and η to Γ, and their limits only increase.
        """
        t, m, gain = max(1, self.clock - self.instances.begin), self.active, self.plausible.gain()
        steps = (self.most_drift(max(1, self.paused.steps[m])) - self.paused.drifts[m]) / (
            self.plausible.widening
        )
        if gain > 0.0:
            steps = min(steps, (self.tests.most_gap(t) - self.tests.gap) / gain)
        return max(1, int(min(steps, FAR)))

    def most_drift(self, t: int) -> float:
        """4 S √(A t log(SAT/δ)): the limit of Γ after t steps."""
        return 4.0 * self.n_states * math.sqrt(self.n_actions * t * self.plausible.log)

    def take_in(self) -> None:
        """Pass the new steps of the log to the tests and to the base's signal."""
        if self.seen < self.logged:
            self.tests.take_in(self.log_reward, self.seen, self.logged, self.plausible.gain())
            self.paused.spend(self.active, self.logged - self.seen)
            self.seen = self.logged

    def fails(self) -> bool:
        """Whether a test failed at the last step, or the base signals."""
        t, ends = self.clock - self.instances.begin, self.instances.ends
        end = ends[self.active]
        if t == 0 or end == 0:
            return False
        if end <= self.clock:  # the active instance is the next to end
            for m in range(ends.size):
                if 0 < ends[m] <= self.clock and self.tests.test_1_fails(m):
                    return True
        drift, steps = self.paused.drifts[self.active], self.paused.steps[self.active]
        return bool(self.tests.test_2_fails(t) or drift > self.most_drift(steps))

    def start_over(self) -> None:
        """Forget everything: the next block is the first."""
        self.absorb()
        self.instances.end_all()
        self.since = self.clock
        self.restart_count += 1

    def hand_over(self) -> None:
        """End and start the instances that are due; the lowest live order becomes active."""
        self.absorb()
        instances = self.instances
        self.paused.put(self.active, self.choice, self.quota)
        if instances.living(self.clock) < 0:
            instances.open_block(self.clock)
            self.tests.begin()
        while instances.next_start <= self.clock:
            for m in range(instances.ends.size):
                if instances.starting[m]:
                    self.memory.clear(m)
                    self.tests.start(m)
                    self.paused.start(m)
            instances.start()
        instances.end(self.clock)
        self.active = instances.living(self.clock)
        self.paused.take(self.active, self.choice, self.quota)
        self.plausible.follow(self.paused.gains[self.active], self.paused.widenings[self.active])
        self.look_at = self.clock + self.calm()

    def start_episode(self) -> None:
        """The active instance plans."""
        self.absorb()
        self.started = self.clock
        self.episode_count += 1
        m, counts, choice, quota = self.active, self.memory.counts, self.choice, self.quota
        first = m * self.memory.n_pairs
        self.plausible.plan_rows(self.starts, counts, first, self.paused.steps[m] + 1, choice)
        for s in range(quota.size):
            quota[s] = max(1, counts.visits[first + choice[s]])
        self.paused.planned(m, self.plausible.gain(), self.plausible.widening)
        self.look_at = self.clock + self.calm()

    def absorb(self) -> None:
        """Add the log to the counts of the active instance, and empty it."""
        self.take_in()
        self.memory.absorb(self.active, self.log_pair, self.log_next, self.log_reward, self.logged)
        self.logged, self.seen = 0, 0

    def adopt(self, planned: Self) -> None:
        """Follow the plan that a copy of this agent has computed for the same instance."""
        self.take_in()  # for the plan that was followed so far
        PolicyAgent.adopt(self, planned)
        self.paused.planned(self.active, self.plausible.gain(), self.plausible.widening)
        self.look_at = self.clock + self.calm()

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions; counts are kept, and all instances plan again."""
        pairs, place = self.larger(n_states, n_actions, available)
        self.memory.rows(pairs)  # refuses before anything is moved
        self.absorb()
        self.know(pairs)
        self.memory.grow(pairs, place)
        self.plausible.allocate(pairs)
        self.tests.n_states, self.tests.n_actions = self.n_states, self.n_actions
        self.instances.rho = self.rates(self.memory.orders)
        choice, self.choice = self.choice, self.starts[:-1].copy()
        self.choice[: choice.size], self.quota = place[choice], np.zeros(self.n_states, np.int64)
        self.paused.grow(self.choice, place)
        self.plausible.follow(self.paused.gains[self.active], self.paused.widenings[self.active])

    def reseed(self, seed: Any) -> None:
        """Seed the draws of the schedule."""
        self.instances.words = stream(seed)
