"""Sets of plausible MDPs and posteriors: from counts to a policy.

Each has `allocate` (room for the pairs of an agent), `plan` (a policy from counts), `gain` and
`sweeps` (of the last plan).
"""

from switchmdp.plausible.intervals import Bernstein, BernsteinLaplace
from switchmdp.plausible.kl_ball import KLBall
from switchmdp.plausible.l1 import L1Ball, SpanBall, Varied, Widened
from switchmdp.plausible.posterior import Posterior
from switchmdp.plausible.sparse_posterior import SparsePosterior, posterior_for

__all__ = [
    "Bernstein", "BernsteinLaplace", "KLBall", "L1Ball", "Posterior", "SpanBall",
    "SparsePosterior", "Varied", "Widened", "posterior_for",
]  # fmt: skip
