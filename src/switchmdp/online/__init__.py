"""Agents in production: decisions that survive a crash, and the service before them."""

from switchmdp.online.decisions import Decision, Decisions
from switchmdp.online.evaluation import Evaluation, evaluate
from switchmdp.online.folder import Verified, history, rebuild, verify
from switchmdp.online.monitoring import ChangeSignal, Signal

__all__ = [
    "ChangeSignal", "Decision", "Decisions", "Evaluation", "Signal", "Verified", "evaluate",
    "history", "rebuild", "verify",
]  # fmt: skip
