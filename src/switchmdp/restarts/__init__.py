"""Restart rules: schedules that are known in advance, and detectors that look at the data.

`agents.protocol.RestartRule` is their interface.

- `schedules`: never, at given steps, periodically, at the steps of UCRL2-R
- `glr`: generalised likelihood ratio tests, and the base of detectors that compare the visits of a
  pair before and after a split
- `bocpd`: Bayesian online change-point detection (R-BOCPD)
- `calibrated`: e-values over all pairs, with a proved bound on false alarms; `DriftDetector` is the
  same for any stream of steps, without an agent
- `snapshots`, `e_values`: what `calibrated` is made of
"""

from switchmdp.restarts.bocpd import BOCPD
from switchmdp.restarts.calibrated import Alarm, Calibrated, DriftDetector
from switchmdp.restarts.glr import GLR
from switchmdp.restarts.schedules import NEVER, Cubic, Never, Periodic, Schedule, Told, ToldPairs

__all__ = [
    "BOCPD", "GLR", "NEVER", "Alarm", "Calibrated", "Cubic", "DriftDetector", "Never",
    "Periodic", "Schedule", "Told", "ToldPairs",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
