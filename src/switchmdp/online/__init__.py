"""Agents in production: decisions that survive a crash, and the service in front of them."""

from switchmdp.online.decisions import Decision, Decisions
from switchmdp.online.evaluation import Evaluation, evaluate
from switchmdp.online.monitoring import ChangeSignal, Signal
from switchmdp.online.recovery import (
    Verified,
    check,
    events_of,
    history,
    import_folder,
    read_steps,
    rebuild,
    verify,
)

__all__ = [
    "ChangeSignal", "Decision", "Decisions", "Evaluation", "Signal", "Verified", "check",
    "evaluate", "events_of", "history", "import_folder", "read_steps",
    "rebuild", "verify",
]  # fmt: skip
