"""The errors that this package raises.

Every error names the field, its value and what is allowed. A call that raises one of them because
of its arguments leaves its object unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class SwitchmdpError(Exception):
    """Base class of all errors of this package."""


class InvalidParameter(SwitchmdpError, ValueError):
    """A parameter has the wrong type or is out of range."""

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.field} must be {self.allowed}, got {_shown(self.value)}"


def message_of(error: Exception) -> str:
    """The message for people who use the command line or HTTP, where `None` means nothing.

    Parameters
    ----------
    error
        The error.

    Returns
    -------
    str
        Its message, without the value if that is None.

    Examples
    --------
    >>> message_of(InvalidParameter("state", None, "set"))
    'state must be set'
    >>> message_of(InvalidParameter("rate", 0, "positive"))
    'rate must be positive, got 0'
    """
    if isinstance(error, InvalidParameter) and error.value is None:
        return f"{error.field} must be {error.allowed}"
    return str(error)


def _shown(value: Any, most: int = 200) -> str:
    try:
        text = " ".join(repr(value).split())  # an array is shown in several lines
    except ValueError:  # Python does not convert very long integers to text
        return "a value that is too long to show"
    return text if len(text) <= most else text[: most - 3] + "..."


class InvalidInteraction(InvalidParameter):
    """A state, action or reward passed to an agent is invalid."""


class InvalidState(InvalidInteraction):
    """A state is not an integer in the allowed range."""


class InvalidAction(InvalidInteraction):
    """An action is not an integer in the allowed range, or not available in the state."""


class InvalidReward(InvalidInteraction):
    """A reward is not a finite number in [0, 1]."""


class InvalidEnvironment(InvalidParameter):
    """A Gymnasium environment returned an invalid value."""


class InvalidMDP(SwitchmdpError, ValueError):
    """The data do not describe an MDP; the message names the state, the action and the value."""


class NotCommunicating(InvalidMDP):
    """Some state cannot be reached from another under any policy: the diameter is infinite."""


class InvalidProblem(SwitchmdpError, ValueError):
    """The configurations and change points do not describe a switching MDP."""


class Mismatch(SwitchmdpError, ValueError):
    """Two objects do not fit together: an agent and a problem, or a record and a run."""


class PrecisionNotReached(SwitchmdpError, ArithmeticError):
    """A tolerance could not be certified; `lower` and `upper` are the best certified bounds."""

    def __init__(self, reason: str, lower: float, upper: float) -> None:
        super().__init__(reason, lower, upper)
        self.reason = reason
        self.lower = lower
        self.upper = upper

    def __str__(self) -> str:
        return f"{self.reason}; certified so far: [{self.lower!r}, {self.upper!r}]"


class SharedAgent(SwitchmdpError, RuntimeError):
    """Two threads use the same agent at the same time."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a simulation. `record` has the completed steps; `resume=record` continues.

    `agent` is the agent of the run (in a batch of copies, the copy). It is consistent: it has
    learned from exactly the steps in the record. In a batch, `record` is that of the run that was
    interrupted, and `before` has the records of the runs before it. In a notebook,
    `sys.last_value.record` is the record of the last interrupted run.
    """

    def __init__(
        self, record: Any, horizon: int, before: Sequence[Any] = (), agent: Any = None
    ) -> None:
        super().__init__(record, horizon, before, agent)
        self.record = record
        self.horizon = horizon
        self.before = list(before)
        self.agent = agent

    def __str__(self) -> str:
        if self.record.horizon >= self.horizon:
            return f"interrupted after all {self.horizon:,} steps; error.record is complete"
        return (
            f"interrupted after {self.record.horizon:,} of {self.horizon:,} steps; to continue: "
            "simulate(error.agent, problem, horizon, resume=error.record)"
        )


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped `compare`. `comparison` has the runs that were complete.

    In a notebook, `sys.last_value.comparison` is the comparison that was interrupted last.
    """

    def __init__(self, comparison: Any, done: int, runs: int) -> None:
        super().__init__(comparison, done, runs)
        self.comparison = comparison
        self.done = done
        self.runs = runs

    def __str__(self) -> str:
        return (
            f"interrupted after {self.done:,} of {self.runs:,} runs; "
            "error.comparison has their results"
        )


class PlayInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped `gym.play`. `played` has the rewards and resets of the completed steps.

    The agent has learned from exactly these steps.
    """

    def __init__(self, played: Any, steps: int) -> None:
        super().__init__(played, steps)
        self.played = played
        self.steps = steps

    def __str__(self) -> str:
        return (
            f"interrupted after {len(self.played.rewards):,} of {self.steps:,} steps; "
            "error.played has their rewards"
        )


class OutsideValidity(SwitchmdpError, ValueError):
    """The conditions of a theorem do not hold for the given numbers."""


class DamagedFile(SwitchmdpError, ValueError):
    """A file is truncated, altered, or was not written by this package."""


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
    """An optional dependency is not installed; the message names the extra that installs it."""


@dataclass(frozen=True)
class Fault:
    """One error in a configuration.

    Parameters
    ----------
    path
        The key in the configuration, such as `agents.A.parameters.window`.
    value
        The value found there.
    allowed
        What is allowed.
    """

    path: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        return f"{self.path}: must be {self.allowed}, got {_shown(self.value, 80)}"


class InvalidExperiment(SwitchmdpError, ValueError):
    """A configuration has errors; `faults` lists all, with path, value and what is allowed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(tuple(faults))
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class UnknownDecision(SwitchmdpError, LookupError):
    """Feedback for an unknown decision."""


class ForgottenDecision(SwitchmdpError, LookupError):
    """Feedback that is too late: the decision has expired, or its feedback came long ago."""


class ConflictingFeedback(SwitchmdpError, ValueError):
    """Feedback that differs from earlier feedback for the same decision; the first one counts."""


class LogFailed(SwitchmdpError, RuntimeError):
    """An event could not be written to the log, so the request is not acknowledged."""


class LeaseLost(LogFailed):
    """Another worker owns the model now, so the request is not acknowledged."""


class UnknownModel(SwitchmdpError, LookupError):
    """A database has no model of this name."""


class ModelExists(SwitchmdpError, ValueError):
    """A database already has a model of this name."""


class ModelArchived(SwitchmdpError, ValueError):
    """The model is archived: it can be read, but makes no decisions."""


class RepeatedKey(SwitchmdpError, ValueError):
    """An idempotency key was used before for a different request."""


class ForeignFolder(SwitchmdpError, ValueError):
    """A folder contains other data: another experiment's results, or files of another origin."""
