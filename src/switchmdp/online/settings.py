"""How long to wait for feedback, how much to keep, when to plan, what to call a change."""

from __future__ import annotations

from dataclasses import dataclass

from switchmdp.errors import InvalidParameter
from switchmdp.online.signal import ChangeSignal
from switchmdp.validation import check_integer, check_positive

REPLAN = ("inline", "background")
MOST = 10**7


@dataclass(frozen=True)
class Settings:
    """Kept in the folder; whoever opens it again may change them."""

    expiry: float = 3600.0
    most_pending: int = 100_000
    most_sessions: int = 100_000
    replan: str = "inline"
    signal_window: int = 1000
    signal_delta: float = 0.01


def checked(settings: Settings) -> Settings:
    """Settings that make sense, or a typed error.

    >>> checked(Settings(most_pending=0))
    Traceback (most recent call last):
        ...
    switchmdp.errors.InvalidParameter: most_pending must be an integer from 1 to 10000000, got 0
    """
    replan = settings.replan
    if not isinstance(replan, str) or replan not in REPLAN:
        raise InvalidParameter("replan", replan, f"one of {', '.join(REPLAN)}")
    signal = ChangeSignal(settings.signal_window, settings.signal_delta)
    return Settings(
        expiry=check_positive("expiry", settings.expiry),
        most_pending=check_integer("most_pending", settings.most_pending, 1, MOST),
        most_sessions=check_integer("most_sessions", settings.most_sessions, 1, MOST),
        replan=replan,
        signal_window=signal.window,
        signal_delta=signal.delta,
    )
