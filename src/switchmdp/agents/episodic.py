"""The episodic agent: any memory × plausible set × episode rule × restart rule × exploration.

    Initialise episode k   t_k := t; bring the memory up to date           (Figure 1, steps 1-3)
    Compute the policy     π_k from the plausible set                      (steps 4-5)
    Execute the policy     while v_k(s_t, π_k(s_t)) < max(1, N_k(s_t, π_k(s_t)))   (step 6)

`quota[s]` is the number of visits to state s that step 6 still allows in this episode. An episode
ends on *arrival* in a state whose quota is 0, and the new policy acts there.

Steps go to a small log. The memory absorbs it when an episode starts or the log is full; the policy
and the quotas are fixed during an episode, so the moment makes no difference.

**Episode rules** say how often a pair may be visited in an episode, and when the episode must end:
`Doubling` and its subclasses. An episode may have to end at a step that depends on the time since
step 1 or the last restart (`since`). An agent calls `end` first and then `quota` for each state, so
a quota may depend on the time.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.exploration import NO_STATE, AsPlanned
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.agents.protocol import (
    Agent,
    EpisodeRule,
    Exploration,
    Memory,
    PlausibleSet,
    RestartRule,
)
from switchmdp.compiled import Range, compiled, index, require
from switchmdp.concurrency import exclusive
from switchmdp.errors import InvalidParameter
from switchmdp.restarts import NEVER, Calibrated, Cubic, Never, Periodic, Told, ToldPairs
from switchmdp.restarts.glr import Splits
from switchmdp.restarts.schedules import mark_all
from switchmdp.validation import check_integer, is_number

MOST_STEPS = 2**53  # a century at almost three million per second
PARTS = {
    "memory": ("allocate", "absorb", "keep", "counts"),
    "plausible": ("allocate", "plan", "gain", "sweeps"),
    "restarts": ("after", "look_at", "watch", "log_emptied", "alarmed", "suspect", "start_over"),
    "episodes": ("quota", "end"),
    "exploration": ("adjust", "alarmed", "suspect", "start_over", "destination"),
}  # the components, and the methods that each must have


@compiled
class Doubling:
    """The rule of UCRL2: an episode ends when its visits to a pair equal those before it.

    Examples
    --------
    >>> Doubling().quota(4), Doubling().quota(0)
    (4, 1)
    """

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
    """The rule of TSDE: doubling, and at most one step more than the last episode.

    With t_0 = 0, as in the paper (Ouyang et al. 2017), the first episode has at most two steps.
    Restarts do not change this rule.

    Examples
    --------
    >>> rule = Growing()
    >>> rule.end(1, 1), rule.end(3, 1)
    (3, 6)
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
    """Doubling, and at most √n steps at time n.

    After n steps there are about 2√n episodes, the same order as with the rule of TSDE. But a short
    episode, for example because of a probe, does not shorten the next ones.

    Examples
    --------
    >>> Rooted().end(101, 1)
    112
    """

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        return t + 1 + int(math.sqrt(t - since))


@compiled
class Vanishing(Doubling):
    """The vanishing multiplicative rule (Boone and Gaujal 2025): visits grow by a factor near 1.

    The episode that starts at time n ends when the visits to a pair have grown from N to

        (1 + f(n)) N,        f(n) = √(log n / n),

    and after at least one. With doubling, f = 1, an agent that follows a bad policy after much
    learning does so for as long as it has learned. Here bad episodes become short in comparison.

    The paper's rule is for any f that vanishes; this choice is ours. At most log N / log(1 + f(n))
    of the first n steps end an episode because of one pair, as its visits grow by a factor of
    1 + f(n) each time. So there are O(SA √(n log n)) episodes, and if each costs D in the regret
    bound of UCRL2 or UCRL3, that bound keeps its order in n.

    Examples
    --------
    >>> rule = Vanishing()
    >>> rule.end(1000, 1) > 10**18, rule.quota(1000)
    (True, 84)
    """

    growth: Annotated[float, Range(0.0, 1.0)]

    def __init__(self) -> None:
        self.growth = 0.0

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode: ⌈f(n) N⌉, at least once."""
        return max(1, math.ceil(self.growth * visits))

    def end(self, t: int, since: int) -> int:
        """Compute f(n) for an episode that starts at t; there is no last step."""
        n = t - since + 1.0
        self.growth = math.sqrt(math.log(n) / n)
        return NEVER


@compiled
class Squares(Doubling):
    """Doubling, and an episode also ends gap·k² steps after the last restart, k = 1, 2, …

    Parameters
    ----------
    gap
        The number of steps until the first of these ends, at least 1.

    Raises
    ------
    InvalidParameter
        `gap` is not a number from 1 to 10⁹.

    Examples
    --------
    >>> Squares(10.0).end(1, 1), Squares(10.0).end(11, 1)
    (11, 41)
    """

    gap: Annotated[float, Range(1.0, 1e9)]

    def __init__(self, gap: float) -> None:
        self.gap = check_gap(gap)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        steps = t - since
        k = int(math.sqrt(steps / self.gap)) + 1.0
        while self.gap * k * k <= steps:  # the root is rounded
            k += 1.0
        return since + math.ceil(self.gap * k * k)


def check_gap(gap: float) -> float:
    """The steps until the first round of exploration: a number >= 1 and below 10⁹.

    >>> check_gap(10)
    10.0
    """
    if not is_number(gap) or not 1.0 <= gap <= 1e9:
        raise InvalidParameter("gap", gap, "a number from 1 to 10⁹")
    return float(gap)


def _checked(name: str, component: Any) -> Any:
    """Check that a component has its methods and belongs to no other agent."""
    verbs = [verb for verb in PARTS[name] if verb != "counts"]  # set by `allocate`
    if isinstance(component, type) or not all(hasattr(component, verb) for verb in verbs):
        raise InvalidParameter(name, component, f"an object with the methods {', '.join(verbs)}")
    if getattr(component, "taken", False):
        raise InvalidParameter(
            name, component, "a new component: an agent already uses this object"
        )
    return component


def check_policy_and_log(agent: Any) -> None:
    """Check the fields of an agent that follows a policy and logs its steps."""
    choice, room, logged = agent.choice, agent.log_pair.size, agent.logged
    require(choice.shape == agent.quota.shape == (agent.n_states,), "choice or quota has a size")
    available = (agent.starts[:-1] <= choice) & (choice < agent.starts[1:])
    require(available.all(), "choice must be a pair of each state")
    require((agent.quota >= 0).all(), "quota must be >= 0")
    logs = (agent.log_pair, agent.log_next, agent.log_reward)
    require(all(log.shape == (room,) for log in logs), "the log's arrays must have one size")
    require(0 <= logged <= room >= 1, "logged must be at most the size of the log")
    require((agent.log_pair[:logged] < agent.actions.size).all(), "log_pair is not a pair")
    require((agent.log_next[:logged] < agent.n_states).all(), "log_next is not a state")
    rewards = agent.log_reward[:logged]
    require(((rewards >= 0.0) & (rewards <= 1.0)).all(), "log_reward must lie in [0, 1]")
    require(1 <= agent.started <= agent.clock <= MOST_STEPS, "the clock is out of range")
    require(0 <= agent.episode_count <= MOST_STEPS, "episode_count is out of range")


def _due(rule: Any, since: int) -> int:
    """The next restart of a schedule, whose last was at step `since`; leaves it as it is."""
    if isinstance(rule, Told):
        return int(rule.times[rule.i]) if rule.i < rule.times.size else NEVER
    return int(rule.time() if isinstance(rule, Cubic) else rule.after(since))


@compiled
class Episodic(PolicyAgent):
    """An agent that learns in episodes, made of components.

    `agents.protocol` says what each component must offer.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    memory
        The component that counts the steps.
    plausible
        The plausible set or posterior, which computes the policies.
    restarts
        The restart rule or detector.
    episodes
        The episode rule; by default `Doubling`.
    exploration
        The component that explores beyond the plan; by default none.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A component lacks a method or belongs to another agent, or a parameter is out of range.

    Examples
    --------
    >>> from switchmdp.memory import Window
    >>> from switchmdp.plausible import L1Ball
    >>> from switchmdp.restarts import Periodic
    >>> agent = Episodic(5, 3, memory=Window(100), plausible=L1Ball(0.1), restarts=Periodic(1000))
    >>> agent.act(0)
    0
    """

    memory: Any
    restarts: Any
    episodes: Any
    exploration: Any
    since: Annotated[int, Range(1, "clock")]
    restart_at: Annotated[int, Range(1, NEVER)]
    end_at: Annotated[int, Range(1, NEVER)]

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        memory: Memory, plausible: PlausibleSet, restarts: RestartRule,
        episodes: EpisodeRule | None = None, exploration: Exploration | None = None,
        available: Any = None,
    ) -> None:  # fmt: skip
        Agent.__init__(self, n_states, n_actions, available)
        self.memory = _checked("memory", memory)
        self.plausible = _checked("plausible", plausible)
        self.restarts = _checked("restarts", restarts)
        self.episodes = _checked("episodes", Doubling() if episodes is None else episodes)
        extra = AsPlanned() if exploration is None else exploration
        self.exploration = _checked("exploration", extra)
        for component in self.parts():
            component.taken = True
            if hasattr(component, "allocate"):
                component.allocate(self.pairs)
        if hasattr(self.exploration, "check_partners"):
            self.exploration.check_partners(self.memory, self.episodes)
        self.begin()
        self.since, self.restart_at, self.end_at = 1, self.restarts.after(1), NEVER

    def check_invariants(self) -> None:
        """The components have all required methods, and agree with the agent on the time."""
        for name, verbs in PARTS.items():
            offers = all(hasattr(getattr(self, name), verb) for verb in verbs)
            require(offers, f"{name} must offer {', '.join(verbs)}")
        check_policy_and_log(self)
        rule, since = self.restarts, self.since
        if isinstance(rule, (Calibrated, Splits)):
            require(rule.seen <= self.logged, "the restart rule has seen more than was logged")
            behind = self.logged - rule.seen
            require(rule.clock + behind == self.clock, "the restart rule's clock is wrong")
        if type(rule) in (Never, Periodic, Cubic, Told, ToldPairs):
            due = since < self.restart_at == _due(rule, since)
            require(due, "restart_at must be the next step of the schedule")

    def parts(self) -> list[Any]:
        """The components."""
        return [getattr(self, name) for name in PARTS]

    def plan_is_due(self, state: int) -> bool:
        """Whether the state's quota is used up, the episode is over, or a probe was taken."""
        probed = self.exploration.destination()
        if probed != NO_STATE and self.quota[probed] == 0:
            return True
        return bool(self.quota[state] == 0 or self.clock >= self.end_at)

    def restart_if_due(self) -> bool:
        """Forget data if the schedule or a detector requires it. True if any were forgotten."""
        if self.clock >= self.restarts.look_at():
            self.restarts.watch(self.log_pair, self.log_next, self.log_reward, self.logged)
        if self.clock >= self.restart_at:
            self.start_over()
            return True
        alarm = self.restarts.alarmed()
        if not alarm and not self.exploration.alarmed():
            return False
        self.absorb()
        suspects = self.no_suspects()
        if alarm:
            steps = self.restarts.suspect(suspects)
        else:
            steps = self.exploration.suspect(suspects, self.clock - self.since + 1)
        self.forget_suspects(suspects, steps)
        return True

    def no_suspects(self) -> NDArray[np.uint8]:
        """An array of codes, one for each pair, that marks none of them."""
        return np.zeros(self.memory.counts.visits.size, np.uint8)

    def patience(self) -> int:
        """The number of steps until `prepare` must be called again, if quotas allow."""
        if self.exploration.alarmed() or self.exploration.destination() != NO_STATE:
            return 1
        due: int = min(min(self.restart_at, self.end_at), self.restarts.look_at()) - self.clock
        return min(max(1, due), self.log_pair.size - self.logged)  # at least one step

    def absorb(self) -> None:
        """Pass the log to the restart rule and the memory, and empty it."""
        self.restarts.watch(self.log_pair, self.log_next, self.log_reward, self.logged)
        self.restarts.log_emptied()
        self.memory.absorb(self.log_pair, self.log_next, self.log_reward, self.logged)
        self.logged = 0

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions, and keep the memory.

        An episode starts at the next visit to a state. Detectors and probes start from scratch.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        available
            Which actions each state has, a mask of the new size that includes all known pairs; by
            default new states have all actions, and new actions are available in all states.

        Raises
        ------
        InvalidParameter
            If a number decreases, a known pair is missing, or the memory cannot grow.
        """
        if not hasattr(self.memory, "grow"):
            raise InvalidParameter(
                "memory", self.memory, "a memory that supports new states and actions"
            )
        pairs, place = self.larger(n_states, n_actions, available)
        for component in (self.plausible, self.restarts, self.exploration):
            if hasattr(component, "allocate"):
                copy(component).allocate(pairs)  # refuses before anything is moved
        self.absorb()
        self.restart_if_due()  # an alarm names pairs by the numbers that they have had
        self.know(pairs)
        self.memory.grow(pairs, place)
        self.plausible.allocate(pairs)
        for component in (self.restarts, self.exploration):
            if hasattr(component, "grow"):
                component.grow(pairs, place)
        choice = pairs.starts[:-1].copy()
        choice[: len(self.choice)] = place[self.choice]
        self.choice, self.quota = choice, np.zeros(self.n_states, np.int64)

    def start_over(self) -> None:
        """Forget everything that was observed."""
        self.absorb()
        suspects = self.no_suspects()
        self.forget_suspects(suspects, mark_all(suspects))

    def forget_suspects(self, suspects: Any, steps: int) -> None:
        """Forget all but the last steps of the suspects; time restarts before those steps."""
        self.exploration.start_over(suspects)
        self.restarts.start_over(suspects)
        self.since = self.clock - self.memory.keep(steps, suspects)
        self.restart_at = self.restarts.after(self.clock)
        for s in range(self.quota.size):
            self.quota[s] = 0

    def start_episode(self) -> None:
        """Plan, and set the quotas: steps 1 to 5 of the algorithm, and the condition of step 6."""
        self.absorb()
        self.started = self.clock
        self.episode_count += 1
        counts, choice, quota = self.memory.counts, self.choice, self.quota
        t = self.clock - self.since + 1
        self.plausible.plan(self.starts, counts, t, choice)
        visits, episodes = counts.visits, self.episodes
        self.end_at = episodes.end(self.clock, self.since)
        for s in range(quota.size):
            pair = index(choice[index(s)])
            known = min(visits[pair], counts.reward_visits(pair))
            quota[index(s)] = max(1, episodes.quota(known))
        self.exploration.adjust(self.starts, counts, t, choice, quota)

    def worth(self, state: int, action: int) -> float:
        """The value of an action under the last plan, if the plausible set knows it."""
        if not hasattr(self.plausible, "worth"):
            return 0.0
        t, pair = self.clock - self.since + 1, self.pairs.pair(state, action)
        return float(self.plausible.worth(self.memory.counts, t, pair))

    def adopt(self, planned: Self) -> None:
        """Follow the plan that a copy of this agent has computed."""
        PolicyAgent.adopt(self, planned)
        self.episodes, self.exploration = planned.episodes, planned.exploration
        self.end_at = planned.end_at

    def draws(self) -> bool:
        """Whether a component draws random numbers."""
        return any(hasattr(part, "reseed") for part in self.parts())

    def reseed(self, seed: Any) -> None:
        """Seed the components that draw random numbers.

        Parameters
        ----------
        seed
            An integer or a numpy `SeedSequence`.
        """
        for part in self.parts():
            if hasattr(part, "reseed"):
                part.reseed(seed)

    @property
    def visits(self) -> NDArray[np.int64]:
        """N(s, a): the visits in memory, an (S, A) array; N_k when episode k starts."""
        return self._table(self._counts().visits, 0)

    @property
    def reward_estimates(self) -> NDArray[np.float64]:
        """r̂(s, a), an (S, A) array, 0 where never visited."""
        counts = self._counts()
        return self._table([counts.mean(x) for x in range(len(self.actions))], np.nan)

    @property
    def reward_radii(self) -> NDArray[np.float64]:
        """The confidence radii of the mean rewards."""
        return self._radii("reward_radius")

    @property
    def transition_radii(self) -> NDArray[np.float64]:
        """The confidence radii of the transition rows, in L1 distance."""
        return self._radii("transition_radius")

    def transition_counts(self, state: int, action: int) -> dict[int, int]:
        """P(s, a, ·): how often each next state was observed.

        Parameters
        ----------
        state, action
            The state-action pair.

        Returns
        -------
        dict
            The count of each next state in the memory.
        """
        pair, counts = self.pairs.pair(state, action), self._counts()
        block = slice(counts.offset[pair], counts.offset[pair] + counts.used[pair])
        slots = zip(counts.target[block].tolist(), counts.count[block].tolist(), strict=True)
        return {target: count for target, count in sorted(slots) if count > 0}

    def transition_estimates(self, state: int, action: int) -> dict[int, float]:
        """p̂(· | s, a): the observed frequency of each next state.

        Parameters
        ----------
        state, action
            The state-action pair.

        Returns
        -------
        dict
            The frequency of each next state; empty if the pair was never visited.
        """
        counts = self.transition_counts(state, action)
        visits = sum(counts.values())
        return {target: count / visits for target, count in counts.items()}

    def _counts(self) -> Any:
        with exclusive(self):
            self.absorb()
            return self.memory.counts

    def _radii(self, name: str) -> NDArray[np.float64]:
        if not hasattr(self.plausible, name):
            raise InvalidParameter("plausible", self.plausible, "an L1 set: others have no radii")
        radius, t = getattr(self.plausible, name), self.clock - self.since + 1
        return self._table([radius(int(n), t) for n in self._counts().visits], np.nan)
