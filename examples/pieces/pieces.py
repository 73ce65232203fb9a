"""EvidencePSRL with one piece left out or replaced by another: what does each piece buy?

Every agent here is `Episodic` with other components. `pieces.toml` names them "pieces:NAME".
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents import AsPlanned, DirectedProbes, Episodic, Growing, Recall, Rooted
from switchmdp.agents.evidence_psrl import SHARPNESS
from switchmdp.compiled import compiled
from switchmdp.memory import Apart, Everything
from switchmdp.plausible import L1Ball, Posterior
from switchmdp.restarts import GLR, Calibrated, Never
from switchmdp.restarts.schedules import mark_all

DELTA = 0.01


def assemble(agent: Any, sizes: tuple[Any, Any], seed: int, available: Any, **others: Any) -> None:
    """EvidencePSRL with other components in place of its own."""
    own: dict[str, Any] = {
        "memory": Recall(),
        "plausible": Posterior(seed, sharpness=SHARPNESS),
        "episodes": Rooted(),
        "restarts": Calibrated(DELTA),
        "exploration": DirectedProbes(delta=DELTA),
    }
    Episodic.__init__(agent, *sizes, available=available, **(own | others))


@compiled
class WithoutProbes(Episodic):
    """Nothing is tried that the policy leaves out."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), seed, available, exploration=AsPlanned())


@compiled
class PlainPosterior(Episodic):
    """The MDP is drawn from the posterior itself."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), seed, available, plausible=Posterior(seed))


@compiled
class FixedPrior(Episodic):
    """Rows are uniform a priori: Dirichlet(1, …, 1)."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        fixed = Posterior(seed, concentration=1.0, sharpness=SHARPNESS)
        assemble(self, (n_states, n_actions), seed, available, plausible=fixed)


@compiled
class WithoutRestarts(Episodic):
    """Nothing is ever forgotten, unless a probe says so."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), seed, available, restarts=Never())


@compiled
class EvidenceAgainstAll(Calibrated):
    """An alarm makes suspects of all pairs."""

    suspect_some = Calibrated.suspect  # what is overridden below: machine code knows no super()

    def suspect(self, suspects: Any) -> int:
        """Mark all pairs; returns how many steps ago the likeliest change was."""
        steps: int = self.suspect_some(suspects)
        mark_all(suspects)
        return steps


@compiled
class AllAlike(Episodic):
    """An alarm forgets the past of every pair, suspected or not."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        every = EvidenceAgainstAll(DELTA)
        assemble(self, (n_states, n_actions), seed, available, restarts=every)


@compiled
class NothingKept(Episodic):
    """All data of a suspect are forgotten, also those since the change."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), seed, available, memory=Everything())


@compiled
class WithoutRecall(Episodic):
    """No configuration is recognised when it comes back."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), seed, available, memory=Apart())


@compiled
class RatiosForEvidence(Episodic):
    """One likelihood-ratio test for each mean in place of the evidence of all pairs together."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        every, ratios = Everything(), GLR(DELTA)
        assemble(self, (n_states, n_actions), seed, available, memory=every, restarts=ratios)


@compiled
class OptimismForPosterior(Episodic):
    """The best policy of the best plausible MDP, as in UCRL2, in place of a drawn one's."""

    def __init__(self, n_states: Any, n_actions: Any, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), 0, available, plausible=L1Ball(0.1))


@compiled
class EpisodesOfTSDE(Episodic):
    """An episode is at most one step longer than the one before."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        assemble(self, (n_states, n_actions), seed, available, episodes=Growing())
