"""Posterior sampling: PSRL with the episodes of TSDE, and different memories and restart rules.

    For episodes k = 1, 2, … do                             (Ouyang, Gagrani, Nayyar, Jain 2017)
      T_{k-1} := t - t_{k-1};  t_k := t.                              Growing.end, start_episode
      Draw an MDP from the posterior; π_k := its best policy.                     Posterior.plan
      While t <= t_k + T_{k-1} and no pair's visits have doubled:         Growing.end, .quota
         follow π_k; update the posterior.                          Episodic.prepare, .observe

(As in UCRL2, the visits to a pair have doubled when v_k = max(1, N_k).) In a stationary, weakly
communicating MDP drawn from the prior, its Bayesian regret is O(H S √(A T) log T), with H a bound
on the span of the optimal bias. With a window, decaying weights or a detector it is a heuristic.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic, Growing
from switchmdp.compiled import compiled
from switchmdp.memory import Discounted, Everything, Window
from switchmdp.plausible import posterior_for
from switchmdp.restarts import GLR, Never
from switchmdp.validation import check_integer


@compiled
class PSRL(Episodic):
    """Posterior sampling from all steps, or from the last `window` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    seed
        The seed of the random numbers. `simulate` replaces it by the seed of the run.
    window
        Remember this many latest steps; by default all.
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
    >>> PSRL(5, 3, seed=1).act(0) in (0, 1, 2)
    True
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        seed: int = 0, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = Everything() if window is None else Window(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=posterior_for(n_states, seed), restarts=Never(), episodes=Growing(),
        )  # fmt: skip


@compiled
class SWPSRL(PSRL):
    """Posterior sampling from the last `window` steps: PSRL with a required window. A heuristic.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    window
        The number of latest steps that count.
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
    a Thompson sampling approach. NeurIPS. (Without a window.)

    Examples
    --------
    >>> SWPSRL(5, 3, window=1000).memory.window
    1000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        window: int, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Window(window)  # which refuses None
        PSRL.__init__(self, n_states, n_actions, window=window, seed=seed, available=available)


@compiled
class FadingPSRL(Episodic):
    """Posterior sampling with decaying weights: about the last `steps` steps count. A heuristic.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    steps
        The sum of all weights in the long run: each step multiplies them by 1 - 1/steps.
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
    a Thompson sampling approach. NeurIPS. (Without decay.)

    Examples
    --------
    >>> FadingPSRL(5, 3, steps=1000).memory.discount
    0.999
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        steps: int, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        fading = Discounted(1.0 - 1.0 / check_integer("steps", steps, 2))
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=fading, plausible=posterior_for(n_states, seed),
            restarts=Never(), episodes=Growing(),
        )  # fmt: skip


@compiled
class GLRPSRL(Episodic):
    """Posterior sampling, restarted by generalised likelihood ratio tests. A heuristic.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        The confidence of the detector.
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
    a Thompson sampling approach. NeurIPS. (Without restarts.)

    L. Besson, E. Kaufmann, O.-A. Maillard and J. Seznec (2022). Efficient change-point detection
    for tackling piecewise-stationary bandits. Journal of Machine Learning Research 23.

    Examples
    --------
    >>> GLRPSRL(5, 3).restarts.delta
    0.05
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=posterior_for(n_states, seed),
            restarts=GLR(delta), episodes=Growing(),
        )  # fmt: skip
