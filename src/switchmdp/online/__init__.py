"""Agents in production: decisions that survive a crash, and the service before them."""

from switchmdp.online.decisions import Decision, Decisions
from switchmdp.online.evaluation import Evaluation, evaluate
from switchmdp.online.monitoring import ChangeSignal, Signal
from switchmdp.online.recovery import (
    Verified,
    check,
    events_of,
    history,
    import_folder,
    rebuild,
    verify,
)

__all__ = [
    "ChangeSignal", "Decision", "Decisions", "Evaluation", "Signal", "Verified", "check",
    "evaluate", "events_of", "history", "import_folder", "rebuild", "verify",
]  # fmt: skip
