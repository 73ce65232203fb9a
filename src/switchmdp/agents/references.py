"""References for comparisons: agents with additional knowledge, and an agent that does not learn.

    Omniscient       knows every configuration and when it is active, and plays its optimal policy
    Oracle…          restart at the change points, which they know; they do not know the
                     configurations
    OraclePairsPSRL  also knows which pairs change, and forgets only those
    Random           chooses uniformly among the available actions

Between two change points an Oracle agent is the agent of its paper, with the guarantee of the
paper, if there is one. The difference to it is the cost of not knowing when changes come.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import Episodic, Growing
from switchmdp.agents.protocol import Agent
from switchmdp.compiled import Increasing, RandomWords, Range, Shape, compiled, require
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.memory import Apart, Everything, EverythingWithVariance
from switchmdp.planning.gain import optimal_policies
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, L1Ball, posterior_for
from switchmdp.randomness import below, stream
from switchmdp.restarts import Told, ToldPairs
from switchmdp.validation import check_integer


@compiled
class Omniscient(Agent):
    """Plays the optimal policy of whichever configuration is active.

    Parameters
    ----------
    problem
        The problem, with all its configurations and change points.

    Raises
    ------
    NotCommunicating
        Some states of a configuration cannot reach each other.

    Examples
    --------
    >>> from switchmdp.mdp import MDP
    >>> Omniscient(MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.2, 0], [0.8, 0]])).act(0)
    1
    """

    policies: Annotated[
        NDArray[np.int64], Shape("changes + 1", "states"), Range(0, below="actions")
    ]
    change_points: Annotated[
        NDArray[np.int64], Shape("changes"), Range(2, below=2**62), Increasing()
    ]
    at: Annotated[int, Range(0, "changes")]
    clock: Annotated[int, Range(1, 2**53)]

    def __init__(self, problem: SwitchingMDP | MDP) -> None:
        problem = as_switching(problem)
        Agent.__init__(self, problem.n_states, problem.n_actions, problem.available)
        self.policies = optimal_policies(problem)
        self.change_points = problem.change_points.copy()
        self.at, self.clock = 0, 1

    def check_invariants(self) -> None:
        """The policies choose available actions."""
        first = np.arange(self.n_states) * self.n_actions
        available = np.repeat(first, np.diff(self.starts)) + self.actions
        chosen = np.isin(first + self.policies, available)
        require(chosen.all(), "Omniscient.policies must choose available actions")

    def act(self, state: int) -> int:
        """The optimal action at this step."""
        while self.at < self.change_points.size and self.change_points[self.at] <= self.clock:
            self.at += 1
        return int(self.policies[self.at, state])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Advance the time."""
        self.clock += 1

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock

    @property
    def policy(self) -> NDArray[np.int64]:
        """The optimal policy of the active configuration."""
        active = int(np.searchsorted(self.change_points, self.clock, side="right"))
        return np.array(self.policies[active])


@compiled
class Random(Agent):
    """Chooses uniformly among the available actions.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    seed
        The seed of the random numbers. `simulate` replaces it by the seed of the run.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Random(5, 3, seed=1).act(0) in (0, 1, 2)
    True
    """

    words: RandomWords
    clock: Annotated[int, Range(1, 2**53)]

    def __init__(
        self, n_states: Any, n_actions: Any, *, seed: int = 0, available: Any = None
    ) -> None:
        Agent.__init__(self, n_states, n_actions, available)
        self.words = stream(check_integer("seed", seed, 0))
        self.clock = 1

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        available
            Which actions each state has, a mask of the new size that includes all known pairs; by
            default new states have all actions, and new actions are available in all states.
        """
        self.know(self.larger(n_states, n_actions, available)[0])

    def reseed(self, seed: int | np.random.SeedSequence) -> None:
        """Seed the random numbers; `simulate` does so with the seed of the run.

        Parameters
        ----------
        seed
            An integer or a numpy `SeedSequence`.
        """
        self.words = stream(seed)

    def act(self, state: int) -> int:
        """A uniform draw."""
        first = self.starts[state]
        return int(self.actions[first + below(self.words, self.starts[state + 1] - first)])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Advance the time."""
        self.clock += 1

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock


@compiled
class OracleUCRL2(Episodic):
    """UCRL2 with known change points: restarts at each of them.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    change_points
        The steps at which the agent restarts.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    T. Jaksch, R. Ortner and P. Auer (2010). Near-optimal regret bounds for reinforcement learning.
    Journal of Machine Learning Research 11.

    Examples
    --------
    >>> OracleUCRL2(5, 3, change_points=[50_000], delta=0.1).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=L1Ball(delta, width=width), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class OracleUCRL2B(Episodic):
    """UCRL2B with known change points: restarts at each of them.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    change_points
        The steps at which the agent restarts.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Fruit, M. Pirotta and A. Lazaric (2020). Improved analysis of UCRL2 with empirical Bernstein
    inequality. arXiv:2007.05456.

    Examples
    --------
    >>> OracleUCRL2B(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=EverythingWithVariance(),
            plausible=Bernstein(delta, width=width), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class OracleUCRL3(Episodic):
    """UCRL3 with known change points: restarts at each of them.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    change_points
        The steps at which the agent restarts.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    H. Bourel, O.-A. Maillard and M. S. Talebi (2020). Tightening exploration in upper confidence
    reinforcement learning. ICML.

    Examples
    --------
    >>> OracleUCRL3(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=EverythingWithVariance(),
            plausible=BernsteinLaplace(delta, width=width), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class OracleKLUCRL(Episodic):
    """KL-UCRL with known change points: restarts at each of them.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    change_points
        The steps at which the agent restarts.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    S. Filippi, O. Cappé and A. Garivier (2010). Optimism in reinforcement learning and
    Kullback-Leibler divergence. Allerton Conference.

    Examples
    --------
    >>> OracleKLUCRL(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=KLBall(delta, width=width), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class OraclePSRL(Episodic):
    """Posterior sampling with known change points: restarts at each of them.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    change_points
        The steps at which the agent restarts.
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
    Y. Ouyang, M. Gagrani, A. Nayyar and R. Jain (2017). Learning unknown Markov decision processes:
    a Thompson sampling approach. NeurIPS.

    Examples
    --------
    >>> OraclePSRL(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=posterior_for(n_states, seed),
            restarts=Told(change_points), episodes=Growing(),
        )  # fmt: skip


@compiled
class OraclePairsPSRL(Episodic):
    """Posterior sampling that knows the change points and what changes there.

    At a change point it forgets the rewards, or the transition row, of exactly the pairs whose mean
    reward, or row, changes. `changed_pairs` has a row for each change point and a column for each
    pair: 0 no change, 1 both, 2 the reward, 3 the transition row; by default everything changes.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    change_points
        The steps at which the agent restarts.
    changed_pairs
        What changes at each change point; see above.
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
    Y. Ouyang, M. Gagrani, A. Nayyar and R. Jain (2017). Learning unknown Markov decision processes:
    a Thompson sampling approach. NeurIPS.

    Examples
    --------
    >>> agent = OraclePairsPSRL(2, 1, change_points=[50_000], changed_pairs=[[0, 2]])
    >>> agent.restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, changed_pairs: Any = None, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Apart(), plausible=posterior_for(n_states, seed),
            restarts=ToldPairs(change_points, changed_pairs), episodes=Growing(),
        )  # fmt: skip

    def restart_if_due(self) -> bool:
        """Forget what changes at this step."""
        if self.clock < self.restart_at:
            return False
        self.absorb()
        suspects = self.no_suspects()
        self.forget_suspects(suspects, self.restarts.suspect(suspects))
        return True
