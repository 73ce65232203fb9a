"""Restart rules: schedules known in advance, and detectors that look at the data."""

from switchmdp.restarts.bocpd import BOCPD
from switchmdp.restarts.calibrated import Calibrated
from switchmdp.restarts.drift_detector import Alarm, DriftDetector
from switchmdp.restarts.glr import GLR
from switchmdp.restarts.schedules import NEVER, Cubic, Never, Periodic, Schedule, Told, ToldPairs

__all__ = [
    "BOCPD", "GLR", "NEVER", "Alarm", "Calibrated", "Cubic", "DriftDetector", "Never",
    "Periodic", "Schedule", "Told", "ToldPairs",
]  # fmt: skip
