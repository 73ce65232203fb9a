"""Confidence sets and posteriors: from counts to a policy.

A *plausible set* contains the MDPs that are consistent with the counts, up to confidence radii. Its
plan is optimistic: the best policy in the best of these MDPs. A *posterior* draws one MDP, and its
plan is the optimal policy of that MDP. `agents.protocol.PlausibleSet` is their interface.

- `l1`: L1 balls around the empirical rows (UCRL2 and its variants)
- `tight`: an interval for each transition probability (UCRL2B, UCRL3), and Kullback-Leibler balls
  (KL-UCRL)
- `posterior`: Dirichlet rows and Beta rewards, for few and for many states
"""

from switchmdp.plausible.l1 import L1Ball, SpanBall, Varied, Widened
from switchmdp.plausible.posterior import Posterior, SparsePosterior, posterior_for
from switchmdp.plausible.tight import Bernstein, BernsteinLaplace, KLBall

__all__ = [
    "Bernstein", "BernsteinLaplace", "KLBall", "L1Ball", "Posterior", "SpanBall",
    "SparsePosterior", "Varied", "Widened", "posterior_for",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
