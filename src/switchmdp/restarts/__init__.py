"""Restart rules: schedules known in advance, and detectors that look at the data."""

from switchmdp.restarts.bocpd import BOCPD
from switchmdp.restarts.calibrated import Calibrated
from switchmdp.restarts.drift_detector import Alarm, DriftDetector
from switchmdp.restarts.evidence import Evidence
from switchmdp.restarts.glr import GLR
from switchmdp.restarts.schedules import NEVER, Cubic, Never, Periodic, Schedule, Told

__all__ = [
    "BOCPD", "GLR", "NEVER", "Alarm", "Calibrated", "Cubic", "DriftDetector", "Evidence", "Never",
    "Periodic", "Schedule", "Told",
]  # fmt: skip
