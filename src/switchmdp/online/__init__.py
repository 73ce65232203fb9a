"""Agents in production: decisions that survive a crash, and the service before them."""

from switchmdp.online.decisions import Decision, Decisions
from switchmdp.online.folder import history, rebuild
from switchmdp.online.prequential import Evaluation, evaluate
from switchmdp.online.replay import Verified, verify
from switchmdp.online.signal import ChangeSignal, Signal

__all__ = [
    "ChangeSignal", "Decision", "Decisions", "Evaluation", "Signal", "Verified", "evaluate",
    "history", "rebuild", "verify",
]  # fmt: skip
