"""Agents in production: decisions that survive a crash, and the service in front of them."""

from switchmdp.online.decisions import Decision, Decisions
from switchmdp.online.evaluation import Evaluation, evaluate
from switchmdp.online.monitoring import ChangeSignal, Signal
from switchmdp.online.recovery import (
    DECISION_COLUMNS,
    Verified,
    check,
    decision_blocks,
    default_model,
    events_of,
    history,
    import_folder,
    is_url,
    open_database,
    read_steps,
    rebuild,
    verify,
)

__all__ = [
    "DECISION_COLUMNS", "ChangeSignal", "Decision", "Decisions", "Evaluation", "Signal", "Verified",
    "check", "decision_blocks", "default_model", "evaluate", "events_of", "history",
    "import_folder", "is_url", "open_database", "read_steps", "rebuild", "verify",
]  # fmt: skip
