"""SW-UCRL (Gajane, Ortner, Auer 2018, Figure 1): UCRL2 on a sliding window.

The pseudo-code, with the code that carries out each line:

    Input: δ in (0,1), S, A, window size W.                                   SWUCRL.__init__
    Initialization: t := 1, observe the initial state s_1.                  Episodic.__init__
    For episodes k = 1, 2, … do
      1. t_k := t.                                                        Episodic.start_episode
      2. v_k(s,a) := 0;                                        Episodic.start_episode (the quotas)
         N_k(s,a) := #{t_k - W <= τ < t_k : s_τ = s, a_τ = a}.                     Window.absorb
      3. R_k, P_k over the same W steps;  r̂_k = R_k / max(1, N_k),                  Counts.mean
         p̂_k = P_k / max(1, N_k).                                            Optimism.estimate
      4. M_k: rewards and transitions within Eq. 1 and Eq. 2 of r̂_k, p̂_k.           L1Ball.plan
      5. Extended value iteration: π_k whose optimistic gain is within 1/√t_k
         of the best.                                                         Optimism.iterate
      6. While v_k(s_t, π_k(s_t)) < max(1, N_k(s_t, π_k(s_t))):                Doubling.quota,
         choose a_t = π_k(s_t), obtain r_t, observe s_{t+1};                   Episodic.prepare
         v_k(s_t, a_t) += 1;  t := t + 1.                                      Episodic.observe

Instead of v_k, the agent stores `quota`: max(1, N_k) - v_k at the action of the policy. Pairs with
N_k = 0 have a radius above 2 in Eq. 2, so their p̂ is not used.

Counts are fixed within an episode, and t_k in the radii is the global time. The paper says that no
episode is longer than W. In fact an episode may have W + S - 1 steps, because each pair with N_k =
0 may be visited once.

With W* of Eq. 3 the paper bounds its regret, for l changes, by order l^{1/3} T^{2/3} ψ^{2/3} with
probability 1 - δ, ψ = D S √(A log(T/δ)). `theory.regret_bound` is the bound with its constants and
conditions; `theory.repaired_regret_bound` corrects the slips of its proof.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Window
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Never


@compiled
class SWUCRL(Episodic):
    """UCRL2 on the last `window` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    window
        The number of latest steps that count.
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
    P. Gajane, R. Ortner and P. Auer (2018). A sliding-window algorithm for Markov decision
    processes with arbitrarily changing rewards and transitions. arXiv:1805.10066.

    Examples
    --------
    >>> agent = SWUCRL(5, 3, window=1000, delta=0.1)
    >>> action = agent.act(0)
    >>> agent.observe(0, action, 1.0, 4)
    >>> agent.t, agent.episode, int(agent.visits.sum())
    (2, 1, 1)
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        window: int, delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Window(window), plausible=L1Ball(delta, width=width), restarts=Never(),
        )  # fmt: skip
