"""MASTER-UCRL (Wei, Luo 2021): UCRL on all time scales at once, restarted by two tests.

    t := 1.  For n = 0, 1, 2, … do
      t_n := t; schedule base instances in the block t_n … t_n + 2ⁿ - 1               Instances
      While t < t_n + 2ⁿ:
        the lowest order that lives acts and learns; g̃_t is its optimistic gain       hand_over
        Test 1 and Test 2                                                     StationarityTests
        if a test fails or the base signals:  n := 0 again                            start_over

The base is UCRL in doubling episodes with `plausible.SpanBall`. In each of its own steps it
adds its episode's widening η to Γ, and it signals when  Γ > 4 S √(A t log(SAT/δ)), t its own steps.

**Schedule.** In a block of 2ⁿ steps (Wei, Luo 2021, MALG):

    for τ = 0 … 2ⁿ - 1, and m = n, n-1, …, 0 with 2^m | τ:
        with probability ρ(2ⁿ)/ρ(2^m) an instance of order m is scheduled for steps τ+1 … τ+2^m

At each step the live instance of the lowest order acts and learns; the others pause. Spans of one
order do not overlap, so one instance of each order is enough. A shorter span lies within every
longer one that it overlaps, so the active instance is the next to end.

The schedule is drawn step by step, each time up to the next start.

**Tests** (Wei, Luo 2021), and the rates that they use:

    ρ(t) = min( D S √(A/t) + D S A/t, D ),    ρ̂(t) = scale · 18 (log₂ T + 1) log(T/δ) ρ(t)

In a block of which t steps have passed, with optimistic gains g̃, rewards R, and U = min g̃ so far:

    Test 1, where an instance of order m ends:   the mean of R over its 2^m steps >= U + 9 ρ̂(2^m)
    Test 2, after every step:                    the mean of g̃ - R over the t steps >= 3 ρ̂(t)

**Deviations.** The schedule, the tests and the base are those of the paper. Its ρ has logarithms
that are left out here. Three points are our interpretation: all steps of a span count in Test 1,
also those of other instances; η starts at 1/T in every episode; if several spans could act, the
shortest one does.

**Guarantee.** With `diameter` at least every diameter, the paper bounds the regret by order
min(√(L T), Δ^{1/3} T^{2/3}), with neither the number L of changes nor their amount Δ known: for
scale = 1, up to the logarithms in ρ. At practical T the bound is vacuous. Since g̃ - R <= 1, Test 2
can fire only if 3 ρ̂ <= 1, which at S = 5, A = 3, D = 1 takes more than 10¹¹ steps (Gerogiannis,
Huang and Veeravalli 2024 say the same of bandits), and Test 1 needs a ρ̂ three times as small. Until
then MASTER is UCRL, interrupted by new instances that start without data.

Two parameters make it useful in practice, as a heuristic. `scale` < 1 allows the tests to fire. It
must exceed 1/(54 D (log₂ T + 1) log(T/δ)), about 10⁻⁴/D at T = 10⁵; below that, a single step
without a reward fails Test 2. `confidence` < 8 allows the base to learn: with 8, its reward radius
is below 1 only after 64 log(SAT/δ) visits to a pair in one instance, 1058 at T = 10⁵, δ = 0.1.
Until then all actions look equally good, and it takes the lowest one.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import check_policy_and_log
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.agents.protocol import Agent
from switchmdp.compiled import FINITE, Equals, RandomWords, Range, Shape, compiled, require
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import MAX_PAIRS, Pairs
from switchmdp.memory import Counts
from switchmdp.plausible.l1 import LONGEST, SpanBall
from switchmdp.randomness import stream, uniform
from switchmdp.restarts import NEVER
from switchmdp.validation import check_integer, check_positive

MOST_ORDERS = 54
FAR = 2.0**53


@compiled
class Instances:
    """Which orders are live, and which start next. Steps are those of the agent's clock."""

    rho: Annotated[NDArray[np.float64], Shape("orders")]  # ρ(2^m)
    n: Annotated[int, Range(-1, below="orders")]
    begin: Annotated[int, Range(1, 2**53)]
    next_start: Annotated[int, Range("begin", 2**54)]
    starting: Annotated[NDArray[np.bool_], Shape("orders")]
    # the first step after an order's span; 0: not live
    ends: Annotated[NDArray[np.int64], Shape("orders"), Range(0, 2**54)]
    words: RandomWords

    def __init__(self, rho: NDArray[np.float64], seed: int = 0) -> None:
        self.rho = rho
        self.n, self.begin, self.next_start = -1, 1, 1
        self.starting = np.zeros(rho.size, np.bool_)
        self.ends = np.zeros(rho.size, np.int64)
        self.words = stream(seed)

    def open_block(self, clock: int) -> None:
        """Begin the next block, twice as long; after the last order all have the same length."""
        self.n = min(self.n + 1, self.rho.size - 1)
        self.begin = clock
        self.draw(0)

    def draw(self, tau: int) -> None:
        """Find the first τ, from here on, at which an instance starts, and which orders do."""
        n, rho, starting, words, any_starts = self.n, self.rho, self.starting, self.words, False
        for m in range(starting.size):
            starting[m] = False
        while tau < 1 << n and not any_starts:
            top = 0
            while top < n and tau & (1 << top) == 0:
                top += 1
            for m in range(top, -1, -1):
                if uniform(words) < rho[n] / rho[m]:
                    starting[m] = any_starts = True
            tau += 1
        self.next_start = self.begin + tau - 1 if any_starts else self.begin + (1 << self.n)

    def start(self) -> None:
        """Start the instances that are due, and draw the next."""
        for m in range(self.ends.size):
            if self.starting[m]:
                self.ends[m] = self.next_start + (1 << m)
        self.draw(self.next_start - self.begin + 1)

    def end(self, clock: int) -> None:
        """End the spans that are over."""
        for m in range(self.ends.size):
            if self.ends[m] <= clock:
                self.ends[m] = 0

    def end_all(self) -> None:
        """End all instances; the next block is the first."""
        self.n, self.next_start = -1, self.begin
        for m in range(self.ends.size):
            self.ends[m], self.starting[m] = 0, False

    def living(self, clock: int) -> int:
        """The lowest live order, or -1."""
        for m in range(self.ends.size):
            if self.ends[m] > clock:
                return m
        return -1

    def check_invariants(self) -> None:
        """Only the orders of this block live or start, and within the block."""
        orders, n = self.rho.size, self.n
        require(1 <= orders <= MOST_ORDERS, "Instances.rho must have 1 to 54 orders")
        size = 1 << max(0, n)
        require(size <= self.begin, "Instances.begin must follow the blocks before")
        require(self.next_start <= self.begin + size, "Instances.next_start lies after the block")
        require((self.ends <= self.begin + size).all(), "Instances.ends lies after the block")
        idle = not self.ends[n + 1 :].any() and not self.starting[n + 1 :].any()
        require(idle, "Instances has orders that are longer than the block")


@compiled
class Orders:
    """The counts of one instance of each order: row m·P + x counts pair x of P for order m."""

    orders: Annotated[int, Range(1, MOST_ORDERS)]
    n_pairs: Annotated[int, Range(1, MAX_PAIRS)]
    counts: Counts

    def __init__(self, orders: int) -> None:
        self.orders = orders

    def dimensions(self) -> dict[str, int]:
        """The counts have a row for each order and pair."""
        return {"pairs": self.orders * self.n_pairs}

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.n_pairs = pairs.n_pairs
        self.counts = Counts(self.rows(pairs))

    def rows(self, pairs: Pairs) -> Pairs:
        """As many pairs, over the same states, as there are rows."""
        n = self.orders * pairs.n_pairs
        if n > MAX_PAIRS:
            raise InvalidParameter("n_states * n_actions * log2(horizon)", n, f"<= {MAX_PAIRS}")
        none = np.zeros(pairs.n_states + 1, np.int64)
        return Pairs(pairs.n_states, pairs.n_actions, none, np.zeros(n, np.int64))

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        into = np.arange(self.orders)[:, None] * pairs.n_pairs + place
        self.counts = self.counts.moved(self.rows(pairs), into.ravel())
        self.n_pairs = pairs.n_pairs

    def absorb(self, order: int, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log for one order; the log then holds rows."""
        first = order * self.n_pairs
        for i in range(n):
            pairs[i] += first
        self.counts.add(pairs, nexts, rewards, 0, n)

    def clear(self, order: int) -> None:
        """Delete the counts of an order."""
        counts = self.counts
        for row in range(order * self.n_pairs, (order + 1) * self.n_pairs):
            if counts.visits[row] > 0:
                for k in range(counts.offset[row], counts.offset[row] + counts.used[row]):
                    counts.count[k] = 0
                counts.visits[row], counts.high[row], counts.low[row] = 0, 0, 0
                if not counts.full:
                    counts.used[row] = 0


@compiled
class Paused:
    """The policy and progress of each order's instance while another one acts."""

    choices: Annotated[NDArray[np.int64], Shape("orders", "states"), Range(0, below="pairs")]
    quotas: Annotated[NDArray[np.int64], Shape("orders", "states"), Range(0)]
    gains: Annotated[NDArray[np.float64], Shape("orders"), Range(0.0, 2.0)]
    widenings: Annotated[NDArray[np.float64], Shape("orders"), Range(above=0.0, high=4.0)]
    steps: Annotated[NDArray[np.int64], Shape("orders"), Range(0, 2**53)]
    drifts: Annotated[NDArray[np.float64], Shape("orders")]  # Γ

    def __init__(self, orders: int, choice: NDArray[np.int64]) -> None:
        self.choices = np.tile(choice, (orders, 1))
        self.quotas = np.zeros_like(self.choices)
        self.gains, self.widenings = np.ones(orders), np.ones(orders)
        self.steps, self.drifts = np.zeros(orders, np.int64), np.zeros(orders)

    def put(self, order: int, choice: Any, quota: Any) -> None:
        """Store the policy and quotas of an instance that pauses."""
        for s in range(choice.size):
            self.choices[order, s], self.quotas[order, s] = choice[s], quota[s]

    def take(self, order: int, choice: Any, quota: Any) -> None:
        """Restore the policy and quotas of an instance that resumes."""
        for s in range(choice.size):
            choice[s], quota[s] = self.choices[order, s], self.quotas[order, s]

    def start(self, order: int) -> None:
        """Start a new instance of an order; its quotas are 0, so that it plans first."""
        self.steps[order], self.drifts[order] = 0, 0.0
        for s in range(self.quotas.shape[1]):
            self.quotas[order, s] = 0

    def grow(self, choice: NDArray[np.int64], place: Any) -> None:
        """Make room for more pairs, where pair x is now place[x]; all instances plan again."""
        choices = np.tile(choice, (self.steps.size, 1))
        choices[:, : self.choices.shape[1]] = place[self.choices]
        self.choices, self.quotas = choices, np.zeros_like(choices)

    def planned(self, order: int, gain: float, widening: float) -> None:
        """Store the gain and the widening of a new plan."""
        self.gains[order], self.widenings[order] = gain, widening

    def spend(self, order: int, steps: int) -> None:
        """Add the widening of an instance to Γ, for each step in which it acted."""
        for _ in range(steps):
            self.drifts[order] += self.widenings[order]
        self.steps[order] += steps


@compiled
class StationarityTests:
    """The sums of a block that the two tests need, and the tests.

    >>> tests = StationarityTests(
    ...     5, 3, horizon=100_000, diameter=1.0, delta=0.1, scale=1.0, orders=17)
    >>> round(tests.rho(100_000), 5), round(tests.rho_hat(100_000), 1)
    (0.02754, 120.6)
    """

    n_states: Annotated[int, Equals("states")]
    n_actions: Annotated[int, Equals("actions")]
    diameter: Annotated[float, Range(above=0.0, below=math.inf)]
    factor: Annotated[float, Range(above=0.0, below=math.inf)]
    earned: Annotated[float, FINITE]  # ΣR
    gap: Annotated[float, FINITE]  # Σ(g̃ - R)
    lowest: Annotated[float, Range(0.0, math.inf)]  # U
    # ΣR when the instance of each order started
    earned_before: Annotated[NDArray[np.float64], Shape("orders")]

    def __init__(
        self, n_states: int, n_actions: int, *,
        horizon: int, diameter: float, delta: float, scale: float, orders: int,
    ) -> None:  # fmt: skip
        self.n_states, self.n_actions, self.diameter = n_states, n_actions, diameter
        self.factor = scale * 18.0 * (math.log2(horizon) + 1.0) * math.log(horizon / delta)
        self.earned_before = np.zeros(orders)
        self.begin()

    def rho(self, t: int) -> float:
        """ρ(t), the base's regret per step after t of them, up to logarithms."""
        ratio = self.n_actions / t
        return self.diameter * min(1.0, self.n_states * (math.sqrt(ratio) + ratio))

    def rho_hat(self, t: int) -> float:
        """ρ̂(t) = factor · ρ(t)."""
        return self.factor * self.rho(t)

    def begin(self) -> None:
        """Reset the sums at the start of a block."""
        self.earned, self.gap, self.lowest = 0.0, 0.0, np.inf

    def start(self, order: int) -> None:
        """Store the sum of rewards at the start of an instance."""
        self.earned_before[order] = self.earned

    def take_in(self, rewards: Any, first: int, last: int, gain: float) -> None:
        """Add the rewards first..last-1 of a log, from steps with g̃ = `gain`."""
        earned, gap = self.earned, self.gap
        for i in range(first, last):
            earned += rewards[i]
            gap += gain - rewards[i]
        self.earned, self.gap, self.lowest = earned, gap, min(self.lowest, gain)

    def test_1_fails(self, order: int) -> bool:
        """Whether an instance that ended earned more than its block's optimism allows."""
        span = 1 << order
        mean = (self.earned - self.earned_before[order]) / span
        return bool(mean >= self.lowest + 9.0 * self.rho_hat(span))

    def test_2_fails(self, t: int) -> bool:
        """Whether t steps of a block earned less than their optimistic gains allow."""
        return self.gap >= self.most_gap(t)

    def most_gap(self, t: int) -> float:
        """3 t ρ̂(t), which rises with t: what Σ(g̃ - R) must stay below."""
        return 3.0 * t * self.rho_hat(t)


@compiled
class MASTER(PolicyAgent):
    """UCRL on many time scales, restarted by two tests of stationarity.

    `episode` counts the stretches in which one policy is followed.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    horizon
        The number of steps of the run, on which the radii depend.
    diameter
        An upper bound of every diameter.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    scale
        A factor of ρ̂. Below 1 the tests can fire; that is a heuristic.
    confidence
        The factor of the radii of the base, 8 in the paper. Less is a heuristic.
    seed
        The seed of the random numbers. `simulate` replaces it by the seed of the run.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    C.-Y. Wei and H. Luo (2021). Non-stationary reinforcement learning without prior knowledge: an
    optimal black-box approach. COLT.

    Examples
    --------
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
        """Plan for the active instance, and set its quotas."""
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
        """Add states or actions; counts are kept, and all instances plan again.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        available
            Which actions each state has, a mask of the new size that includes all known pairs; by
            default new states have all actions, and new actions are available in all states.
        """
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
        """Seed the draws of the schedule.

        Parameters
        ----------
        seed
            An integer or a numpy `SeedSequence`.
        """
        self.instances.words = stream(seed)
