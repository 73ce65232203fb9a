"""When to start over: at times known beforehand, or when the data say so."""

from switchmdp.restarts.evidence import Evidence
from switchmdp.restarts.schedules import NEVER, Cubic, Never, Periodic, Schedule, Told

__all__ = ["NEVER", "Cubic", "Evidence", "Never", "Periodic", "Schedule", "Told"]
