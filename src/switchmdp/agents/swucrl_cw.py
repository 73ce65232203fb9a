"""SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020, Algorithm 1): a window, and widened confidence sets.

The pseudo-code, with the code that carries out each line:

    Input: horizon T, S, A, window W, widening η.                            SWUCRL2CW.__init__
    For episodes m = 1, 2, … do
      τ(m) := t; visits and estimates over the last W steps.                       Window.absorb
      Confidence regions with the horizon in the logarithm; that of the
        transitions widened by η.                                                 Widened.plan
      A policy whose optimistic gain is within 1/√τ(m) of the best.           Optimism.iterate
      While t is not a multiple of W and ν(s_t, π(s_t)) < N⁺(s_t, π(s_t)):         Multiples
        follow π.

Read literally, an episode that starts at a multiple of W would have no steps. Here the condition is
tested from the second step on. The data of a window may come from several MDPs, and then the set
without widening may contain only MDPs with a large diameter. The widening adds MDPs with a small
one.

With B_r = Σ max|Δr̄|, B_p = Σ max‖Δp‖₁ over all steps, W = `theory.cw_window` and η =
`theory.cw_widening` the dynamic regret is of order D (B_r + B_p + 1)^{1/4} S^{2/3} A^{1/2} T^{3/4}
with high probability. The defaults are those for unknown B_r and B_p; then the bound is of order
D (B_r + B_p + 1) S^{2/3} A^{1/2} T^{3/4} (from memory).
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodes import Multiples
from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Window
from switchmdp.plausible import Widened
from switchmdp.restarts import Never
from switchmdp.theory import cw_widening, cw_window


@compiled
class SWUCRL2CW(Episodic):
    """UCRL2 on the last `window` steps, with transitions widened by `widening`.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    horizon
        The number of steps of the run, which the radii know.
    window
        The number of latest steps that count.
    widening
        η, by which the transition radii are wider; by default that for unknown budgets.
    delta
        The probability with which the true MDP may lie outside the plausible set.
    width
        A factor of all radii. The proofs need 1; less is usually better, without a guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    W. C. Cheung, D. Simchi-Levi and R. Zhu (2020). Reinforcement learning for non-stationary Markov
    decision processes: the blessing of (more) optimism. ICML.

    Examples
    --------
    >>> agent = SWUCRL2CW(5, 3, horizon=100_000)
    >>> agent.memory.window, round(agent.plausible.widening, 4)
    (1602, 0.1266)
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *, horizon: int,
        window: int | None = None, widening: float | None = None, delta: float = 0.05,
        width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        pairs = Pairs.of(n_states, n_actions, available)
        sizes = {"horizon": horizon, "n_states": pairs.n_states, "n_actions": pairs.n_actions}
        memory = Window(cw_window(**sizes) if window is None else window)
        eta = cw_widening(horizon=horizon, window=memory.window) if widening is None else widening
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=Widened(delta, horizon=horizon, widening=eta, width=width), restarts=Never(),
            episodes=Multiples(memory.window),
        )  # fmt: skip
