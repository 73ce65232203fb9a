"""SWUCRL2-CW and BORL (Cheung, Simchi-Levi, Zhu 2020): a window with widened confidence sets.

**SWUCRL2-CW (Algorithm 1)**

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

**BORL**: a bandit that chooses the window and the widening.

    Input: T, S, A, δ.  H = 3 S^{2/3} A^{1/2} T^{1/2},  Φ = 1 / (2 √T)               block_length
    J: windows ⌊H^{j/⌊ln H⌋}⌋ × widenings Φ^{k/⌊ln 1/Φ⌋}, all j and k from 0         papers_grid
    q_j := 0 for the n arms j of J;  B = ⌈T/H⌉ blocks,                                    Exp3P
    α = .95 √(ln n/(nB)),  β = √(ln n/(nB)),  γ = min(1, 1.05 √(n ln n/B)).
    For blocks i = 1 … B do
      p_j = (1 - γ) exp(α q_j)/Σ exp(α q) + γ/n;  draw the arm (W, η) from p.        Exp3P.draw
      Run a new SWUCRL2-CW with (W, η) for H steps; R := its rewards.            BORL.start_over
      q_j += (β + 1{j was drawn} R/H) / p_j for all j.                              Exp3P.update

SWUCRL2-CW is `Episodic` with a window, the widened ball and an episode rule: an episode also ends
when the time since the start of the block is a multiple of W. Only one base agent exists at a time,
so each block restarts the same agent with another W and η.

**Certainty.** The radii of the base agent are those of the paper. H, Φ and the grid are from memory
(about 80 % certain). That the bandit is EXP3.P with these constants was checked against its proof
(below). Two points are our interpretation: T in the radii is the horizon of the run, not H, and
time starts again at 1 in each block.

**The default grid is smaller than that of the paper.** At T = 10⁵, S = 5, A = 3 there are 21 blocks
for 63 arms. Then γ = 1, and BORL can only draw arms uniformly, often a window that is too short for
a visit to every pair. So by default there are 8 arms: the four longest windows of the paper, each
without widening and with η = √(W/T), which is the choice of the paper for unknown budgets. Even so
γ = 0.93. `PaperBORL` has all arms.

**Guarantee.** For `PaperBORL`, with T known and budgets of variation B_r, B_p unknown, the paper
bounds the regret by Õ(D (B_r + B_p + 1)^{1/4} S^{2/3} A^{1/2} T^{3/4}). At such T the bound is
vacuous. With the reduced grid BORL is a heuristic.

**EXP3.P** chooses the arm of the next block. With high probability its choices are little worse
than the best arm. For n arms and B blocks, with gains g in [0, 1]:

    α = .95 √(ln n/(nB)),   β = √(ln n/(nB)),   γ = min(1, 1.05 √(n ln n/B));   q_j := 0
    p_j = (1 - γ) exp(α q_j)/Σ exp(α q) + γ/n;  draw an arm from p
    q_j += (β + 1{j was drawn} g) / p_j  for all j

(Auer, Cesa-Bianchi, Freund, Schapire 2002; in this form Bubeck and Cesa-Bianchi 2012, Theorem 3.3,
where our α is called η.) The properties of the update that their proof needs were derived again and
are tested:

- the estimate (β + 1{drawn} g)/p has mean g + β/p;
- E exp(β g - β · estimate) <= 1 for β <= 1, since e^x <= 1 + x + x² for x <= 1 bounds it by
  exp(-β²/p) (1 + β²/p): in sum no arm is underestimated by more than ln(1/δ)/β;
- α · estimate <= 1, as exponential weights need, which follows from (1 + β) n α <= γ.

The last property holds for B >= 5.15² n ln n. For smaller B their bound 5.15 √(B n ln n) on the
loss exceeds B, so it is vacuous.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import Episodic, Multiples
from switchmdp.compiled import RandomWords, Range, Shape, compiled, require
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Window
from switchmdp.plausible.l1 import LONGEST, Widened
from switchmdp.randomness import stream, uniform
from switchmdp.restarts import Never, Schedule
from switchmdp.theory import cw_widening, cw_window
from switchmdp.validation import check_integer, is_number

Arms = list[tuple[int, float]]


@compiled
class SWUCRL2CW(Episodic):
    """UCRL2 on the last `window` steps, with transitions widened by `widening`.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    horizon
        The number of steps of the run, on which the radii depend.
    window
        The number of latest steps that count.
    widening
        η, by which the transition radii are wider; by default that for unknown budgets.
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


# BORL.


def block_length(n_states: int, n_actions: int, horizon: int) -> int:
    """H = 3 S^{2/3} A^{1/2} T^{1/2}, rounded down, and at most T.

    >>> block_length(5, 3, 100_000)
    4804
    """
    return min(horizon, int(3.0 * n_states ** (2 / 3) * math.sqrt(n_actions * horizon)))


def windows(block: int) -> list[int]:
    """⌊H^{j/⌊ln H⌋}⌋, j = 0 … ⌊ln H⌋.

    >>> windows(4804)
    [1, 2, 8, 24, 69, 199, 577, 1664, 4804]
    """
    powers = int(math.log(block))
    # Rounding must not turn H^1 into H - 1.
    return [int(block ** (j / powers) + 1e-9) for j in range(powers + 1)]


def papers_grid(block: int, horizon: int) -> Arms:
    """The paper's windows × Φ^{k/⌊ln 1/Φ⌋}, k = 0 … ⌊ln 1/Φ⌋, Φ = 1/(2 √T).

    >>> len(papers_grid(4804, 100_000))
    63
    """
    least = 1.0 / (2.0 * math.sqrt(horizon))
    powers = int(-math.log(least))
    return [(w, least ** (k / powers)) for w in windows(block) for k in range(powers + 1)]


def reduced_grid(block: int, horizon: int) -> Arms:
    """The paper's four longest windows, without widening and with √(W/T).

    >>> [(w, round(eta, 3)) for w, eta in reduced_grid(4804, 100_000)][-2:]
    [(4804, 0.0), (4804, 0.219)]
    """
    return [(w, eta) for w in windows(block)[-4:] for eta in (0.0, math.sqrt(w / horizon))]


@compiled
class Exp3P(Schedule):
    """Restarts every `block` steps, and chooses an arm for each block by EXP3.P."""

    block: Annotated[int, Range(1, LONGEST)]
    alpha: Annotated[float, Range(0.0, 1.0)]
    beta: Annotated[float, Range(0.0, 1.0)]
    gamma: Annotated[float, Range(0.0, 1.0)]
    scores: Annotated[NDArray[np.float64], Shape("arms")]
    chances: Annotated[NDArray[np.float64], Shape("arms"), Range(above=0.0, high=1.0)]
    arm: Annotated[int, Range(-1, below="arms")]
    earned: Annotated[float, Range(0.0, LONGEST)]
    seen: Annotated[int, Range(0, below=2**31)]
    words: RandomWords

    def __init__(self, arms: int, blocks: int, block: int, seed: int = 0) -> None:
        self.block = check_integer("block", block, 1)
        blocks = check_integer("blocks", blocks, 1)
        rate = math.sqrt(math.log(arms) / (arms * blocks))
        self.alpha, self.beta = 0.95 * rate, rate
        self.gamma = min(1.0, 1.05 * rate * arms)
        self.scores, self.chances = np.zeros(arms), np.full(arms, 1.0 / arms)
        self.arm, self.earned, self.seen = -1, 0.0, 0
        self.words = stream(check_integer("seed", seed, 0))

    def reseed(self, seed: Any) -> None:
        """Seed the draws."""
        self.words = stream(seed)

    def after(self, t: int) -> int:
        """The first step of the next block, for a block that begins at t."""
        return t + self.block

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Add up the rewards of the new steps of a log."""
        for i in range(self.seen, n):
            self.earned += rewards[i]
        self.seen = n

    def log_emptied(self) -> None:
        """Note that the log was emptied."""
        self.seen = 0

    def start_over(self, suspects: Any) -> None:
        """Learn from the block that has ended, and draw an arm for the next one."""
        if self.arm >= 0:
            self.update(self.earned / self.block)
        self.draw()
        self.earned = 0.0

    def update(self, gain: float) -> None:
        """Update the scores: q_j += (β + 1{j was drawn} gain) / p_j."""
        for j in range(self.scores.size):
            self.scores[j] += self.beta / self.chances[j]
        self.scores[self.arm] += gain / self.chances[self.arm]

    def draw(self) -> None:
        """Draw an arm from p = (1 - γ) softmax(α q) + γ/n."""
        scores, chances, n = self.scores, self.chances, self.scores.size
        best, total = -np.inf, 0.0
        for j in range(n):
            best = max(best, scores[j])
        for j in range(n):
            chances[j] = math.exp(self.alpha * (scores[j] - best))
            total += chances[j]
        for j in range(n):
            chances[j] = (1.0 - self.gamma) * chances[j] / total + self.gamma / n
        left = uniform(self.words)
        self.arm = 0
        while self.arm < n - 1 and left >= chances[self.arm]:
            left -= chances[self.arm]
            self.arm += 1

    def check_invariants(self) -> None:
        """There is an arm to draw."""
        require(self.scores.size >= 1, "Exp3P.scores must have at least one arm")


@compiled
class AnyWindow(Window):
    """A window whose length can change when it is emptied."""

    def reopen(self, window: int) -> None:
        """Forget everything, and remember the last `window` steps from now on."""
        self.counts.clear()
        self.window = window
        self.open_ring()


@compiled
class BORL(Episodic):
    """A bandit that chooses the window and the widening of SWUCRL2-CW.

    By default there are eight combinations, not the grid of the paper (see `PaperBORL`).

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    horizon
        The number of steps of the run, on which the radii depend.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    arms
        The pairs (window, widening) to choose from; by default a small grid.
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
    W. C. Cheung, D. Simchi-Levi and R. Zhu (2020). Reinforcement learning for non-stationary Markov
    decision processes: the blessing of (more) optimism. ICML.

    Examples
    --------
    >>> agent = BORL(5, 3, horizon=100_000, delta=0.1)
    >>> agent.windows.tolist()
    [199, 199, 577, 577, 1664, 1664, 4804, 4804]
    >>> round(agent.restarts.gamma, 2)
    0.93
    """

    windows: Annotated[NDArray[np.int64], Shape("arms"), Range(1, LONGEST)]
    widenings: Annotated[NDArray[np.float64], Shape("arms"), Range(0.0, below=math.inf)]

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        horizon: int, delta: float = 0.05, width: float = 1.0, arms: Any = None, seed: int = 0,
        available: Any = None,
    ) -> None:  # fmt: skip
        horizon = check_integer("horizon", horizon, 3, LONGEST)
        n_states, n_actions = (
            check_integer("n_states", n_states, 1),
            check_integer("n_actions", n_actions, 1),
        )
        block = block_length(n_states, n_actions, horizon)
        chosen = reduced_grid(block, horizon) if arms is None else _sound(arms)
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=AnyWindow(chosen[0][0]),
            plausible=Widened(delta, horizon=horizon, width=width),
            restarts=Exp3P(len(chosen), -(-horizon // block), block, seed),
            episodes=Multiples(chosen[0][0]),
        )  # fmt: skip
        self.windows = np.array([window for window, _ in chosen], np.int64)
        self.widenings = np.array([widening for _, widening in chosen])
        self.restart_at = 1  # the first block begins like all others

    forget = Episodic.start_over  # the overridden method: machine code has no super()

    def start_over(self) -> None:
        """Start a block: restart the base agent with the arm that is drawn."""
        self.forget()
        arm = self.restarts.arm
        self.memory.reopen(self.windows[arm])
        self.plausible.widening = self.widenings[arm]
        self.episodes.period = self.windows[arm]

    def check_invariants(self) -> None:
        """The components are those of BORL, and there is a window for each arm."""
        for part, kind in (
            (self.memory, AnyWindow), (self.plausible, Widened), (self.restarts, Exp3P),
            (self.episodes, Multiples),
        ):  # fmt: skip
            require(isinstance(part, kind), f"BORL must hold a {kind.__name__}")
        require(self.windows.size == self.restarts.scores.size, "BORL must have a window per arm")


@compiled
class PaperBORL(BORL):
    """BORL with all the arms of the paper's grid.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    horizon
        The number of steps of the run, on which the radii depend.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
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
    W. C. Cheung, D. Simchi-Levi and R. Zhu (2020). Reinforcement learning for non-stationary Markov
    decision processes: the blessing of (more) optimism. ICML.

    Examples
    --------
    >>> agent = PaperBORL(5, 3, horizon=100_000)
    >>> len(agent.windows), agent.restarts.gamma
    (63, 1.0)
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        horizon: int, delta: float = 0.05, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        horizon = check_integer("horizon", horizon, 3, LONGEST)
        n_states, n_actions = (
            check_integer("n_states", n_states, 1),
            check_integer("n_actions", n_actions, 1),
        )
        arms = papers_grid(block_length(n_states, n_actions, horizon), horizon)
        BORL.__init__(
            self, n_states, n_actions, horizon=horizon, delta=delta, arms=arms, seed=seed,
            available=available,
        )  # fmt: skip


def _sound(arms: Any) -> Arms:
    """Arms as the user gives them: pairs of a window and a widening."""
    try:
        pairs = [
            (check_integer("window", window, 1, LONGEST), widening) for window, widening in arms
        ]
    except (TypeError, ValueError):
        pairs = []
    if not pairs or not all(is_number(eta) and 0.0 <= eta < math.inf for _, eta in pairs):
        raise InvalidParameter("arms", arms, "a list of (window, widening), windows from 1 on")
    return [(window, float(eta)) for window, eta in pairs]
