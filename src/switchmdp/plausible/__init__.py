"""From counts to a policy: sets of plausible MDPs, and posteriors; one idea, one file.

All of them `allocate` room for an agent's pairs, `plan` a policy from counts, and tell its `gain`
and the `sweeps` that it took.
"""

from switchmdp.plausible.intervals import Bernstein
from switchmdp.plausible.kl_ball import KLBall
from switchmdp.plausible.l1 import L1Ball
from switchmdp.plausible.laplace import BernsteinLaplace
from switchmdp.plausible.posterior import Posterior
from switchmdp.plausible.widened import SpanBall, Varied, Widened

__all__ = [
    "Bernstein", "BernsteinLaplace", "KLBall", "L1Ball", "Posterior", "SpanBall", "Varied",
    "Widened",
]  # fmt: skip
