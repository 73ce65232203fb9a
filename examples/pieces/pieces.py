"""EvidencePSRL with one piece taken out, or put in another's place: what does each piece buy?

Every agent here is `Episodic` with other components. `pieces.toml` names them "pieces:NAME".
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents import DirectedProbes, Episodic, Growing, Probes, Recall, Rooted
from switchmdp.compiled import compiled
from switchmdp.memory import Apart, Everything, Since
from switchmdp.plausible import L1Ball, Posterior
from switchmdp.restarts import GLR, Calibrated, Evidence, Never
from switchmdp.restarts.schedules import mark_all

DELTA = 0.01


@compiled
class WithoutProbes(Episodic):
    """Nothing is tried that the policy leaves out."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=Calibrated(DELTA),
        )  # fmt: skip


@compiled
class ProbesThatWait(Episodic):
    """Pairs are tried when the policy comes by."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=Calibrated(DELTA),
            exploration=Probes(delta=DELTA),
        )  # fmt: skip


@compiled
class FixedPrior(Episodic):
    """Rows are uniform a priori: Dirichlet(1, …, 1)."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(),
            plausible=Posterior(seed, concentration=1.0), episodes=Rooted(),
            restarts=Calibrated(DELTA), exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class WithoutRestarts(Episodic):
    """Nothing is ever forgotten, unless a probe says so."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=Never(),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class EvidenceAgainstAll(Calibrated):
    """An alarm makes suspects of all pairs."""

    suspect_some = Calibrated.suspect  # what is overridden below: machine code knows no super()

    def suspect(self, suspects: Any) -> int:
        """Mark all pairs; how many steps ago the likeliest change was."""
        steps: int = self.suspect_some(suspects)
        mark_all(suspects)
        return steps


@compiled
class AllAlike(Episodic):
    """An alarm of the evidence forgets the past of every pair, suspected or not."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=EvidenceAgainstAll(DELTA),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class NothingKept(Episodic):
    """Of a suspect all is forgotten: also what came after the change and led to the alarm."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=Calibrated(DELTA),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class WithoutRecall(Episodic):
    """No configuration is recognised when it comes back."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Apart(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=Calibrated(DELTA),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class BayesFactors(Episodic):
    """Bayes factors under a uniform prior, which forget rewards and rows together."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Since(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=Evidence(DELTA),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class RatiosForEvidence(Episodic):
    """One likelihood-ratio test for each mean in place of the evidence of all pairs together."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=Posterior(seed), episodes=Rooted(), restarts=GLR(DELTA),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class OptimismForPosterior(Episodic):
    """The best policy of the best plausible MDP, as in UCRL2, in place of a drawn one's."""

    def __init__(self, n_states: Any, n_actions: Any, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(), plausible=L1Ball(0.1),
            episodes=Rooted(), restarts=Calibrated(DELTA), exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip


@compiled
class EpisodesOfTSDE(Episodic):
    """An episode is at most one step longer than the one before."""

    def __init__(self, n_states: Any, n_actions: Any, seed: int = 0, available: Any = None) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Recall(),
            plausible=Posterior(seed), episodes=Growing(), restarts=Calibrated(DELTA),
            exploration=DirectedProbes(delta=DELTA),
        )  # fmt: skip
