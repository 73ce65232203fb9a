"""The typed errors.

Every error names the field or place that is wrong, the value that was found there and what is
allowed. A call that is refused for its arguments leaves its object as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class SwitchmdpError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidParameter(SwitchmdpError, ValueError):
    """A parameter is of the wrong type or out of range."""

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.field} must be {self.allowed}, got {_shown(self.value)}"


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to write out very long integers
        return "something too long to show"


class InvalidInteraction(InvalidParameter):
    """A state, action or reward handed to an agent is not one it can take."""


class InvalidState(InvalidInteraction):
    """A state is not an integer in range."""


class InvalidAction(InvalidInteraction):
    """An action is not an integer in range, or is not available in the state."""


class InvalidReward(InvalidInteraction):
    """A reward is not a finite number in [0, 1]."""


class InvalidEnvironment(InvalidParameter):
    """A Gymnasium environment gave back something that is not what it promised."""


class InvalidMDP(SwitchmdpError, ValueError):
    """The data does not describe an MDP; says at which state and action, and what was found."""


class NotCommunicating(InvalidMDP):
    """Some state cannot be reached from some other under any policy: the diameter is infinite."""


class InvalidProblem(SwitchmdpError, ValueError):
    """Configurations and change points do not describe a switching MDP."""


class Mismatch(SwitchmdpError, ValueError):
    """Two things that must belong together do not (an agent and a problem, a record and a run)."""


class PrecisionNotReached(SwitchmdpError, ArithmeticError):
    """A tolerance could not be certified; carries the bracket that was reached."""

    def __init__(self, reason: str, lower: float, upper: float) -> None:
        super().__init__(reason, lower, upper)
        self.reason = reason
        self.lower = lower
        self.upper = upper

    def __str__(self) -> str:
        return f"{self.reason}; certified so far: [{self.lower!r}, {self.upper!r}]"


class SharedAgent(SwitchmdpError, RuntimeError):
    """Two threads use one agent at the same time."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a simulation. `record` holds the steps done; `resume=record` continues it.

    The agent is consistent: it has learned from exactly the steps in the record. In a notebook,
    `sys.last_value.record` is the record of the run that was interrupted last.
    """

    def __init__(self, record: Any, horizon: int) -> None:
        super().__init__(record, horizon)
        self.record = record
        self.horizon = horizon

    def __str__(self) -> str:
        return (
            f"interrupted after {self.record.horizon:,} of {self.horizon:,} steps; to continue: "
            "simulate(agent, problem, horizon, resume=error.record)"
        )


class OutsideValidity(SwitchmdpError, ValueError):
    """A theorem's conditions do not hold for the numbers it was asked about."""


class DamagedFile(SwitchmdpError, ValueError):
    """A stored file is truncated, altered, or not one of ours."""


class ContractViolation(SwitchmdpError, AssertionError):
    """An agent or problem violates the contract that `check_agent` or `check_problem` tests.

    For an agent the message lists all errors, and `report` is the report of `check_agent`.
    """

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message, report)
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


class MissingExtra(SwitchmdpError, ImportError):
    """An optional dependency is not installed; says which extra brings it."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a configuration."""

    path: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        shown = _shown(self.value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return f"{self.path}: must be {self.allowed}, got {shown}"


class InvalidExperiment(SwitchmdpError, ValueError):
    """A configuration has faults; carries them all, with path, value and what is allowed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(tuple(faults))
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class UnknownDecision(SwitchmdpError, LookupError):
    """Feedback for a decision that was never made here."""


class ForgottenDecision(SwitchmdpError, LookupError):
    """Feedback that came too late: the decision has expired, or was answered long ago."""


class ConflictingFeedback(SwitchmdpError, ValueError):
    """Feedback for a decision that was already answered otherwise; the first answer counts."""


class LogFailed(SwitchmdpError, RuntimeError):
    """What was asked for could not be made durable, and so is not acknowledged."""


class ForeignFolder(SwitchmdpError, ValueError):
    """A folder holds something else: another experiment's results, or none of ours."""
