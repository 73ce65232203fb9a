"""EvidencePSRL: posterior sampling that forgets what seems to have changed, and probes the rest.

    Memory      rewards and successors of each pair since their last     agents.Recall
                change, or those of an earlier configuration that is back
    Policy      the best one of an MDP drawn from a posterior, slightly  plausible.Posterior
                sharper than the true one because probes explore too
    Episodes    end when the visits to a pair double, or after √n steps  agents.episodic.Rooted
    Restarts    when the e-value of all pairs is large enough: forget    restarts.Calibrated
                suspected rewards and rows from before the change
    Probes      from time to time travel to pairs that the policy does   agents.DirectedProbes
                not visit, with a sequential test

It does not need the horizon, the number of changes, the diameter or a window. Two parameters have
defaults that are never tuned to a problem: δ = 0.01, the evidence required before it forgets
anything, and `share`, how much probes may add to the regret of learning.

The probability that the detector ever raises a false alarm is at most δ. No regret bound is proved
for changing MDPs. docs/evidence-psrl.md has the proof, and measurements of each component.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic, Rooted
from switchmdp.agents.exploration import DirectedProbes
from switchmdp.agents.recall import Recall
from switchmdp.compiled import compiled
from switchmdp.plausible import posterior_for
from switchmdp.restarts import Calibrated

SHARPNESS = 1.2  # of the posterior


@compiled
class EvidencePSRL(Episodic):
    """Posterior sampling with restarts by evidence, and probes. Needs no tuning.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        The probability that the detector ever raises a false alarm; also the level of the probes.
    share
        How much probes may cost, relative to the regret of learning; 0 for no probes.
    independent
        Whether the reward and the next state of a step are independent. If not, it takes more steps
        to find a change of both.
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
    This agent is switchmdp's own. docs/evidence-psrl.md has its definition, proofs and
    measurements.

    Examples
    --------
    >>> agent = EvidencePSRL(5, 3)
    >>> agent.observe(0, agent.act(0), 1.0, 4)
    >>> agent.t
    2
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.01, share: float = 0.06, independent: bool = True, seed: int = 0,
        available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Recall(), plausible=posterior_for(n_states, seed, SHARPNESS), episodes=Rooted(),
            restarts=Calibrated(delta, independent=independent),
            exploration=DirectedProbes(share, delta),
        )  # fmt: skip
