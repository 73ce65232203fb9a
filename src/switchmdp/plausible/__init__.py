"""From counts to a policy: sets of plausible MDPs, and posteriors; one idea, one file.

All of them `allocate` room for an agent's pairs, `plan` a policy from counts, and tell its `gain`
and the `sweeps` that it took.
"""

from switchmdp.plausible.l1 import L1Ball
from switchmdp.plausible.posterior import Posterior
from switchmdp.plausible.widened import SpanBall, WidenedBall

__all__ = ["L1Ball", "Posterior", "SpanBall", "WidenedBall"]
