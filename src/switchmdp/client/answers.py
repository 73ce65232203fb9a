"""What the service answers: the results that the client returns, and the problems that it raises.

Every result is made from the JSON of the service. Members that this version does not know are
ignored, so that an older client works with a newer service; members that are missing get their
default, or raise `UnexpectedAnswer` if they have none.

ServiceError
├── ConnectionFailed       no answer, after all retries
├── UnexpectedAnswer       an answer that is not of this service
└── Problem                the service refused the call (RFC 9457 problem details)
    ├── BadRequest         400 and other statuses below 500 that have no class of their own
    ├── Unauthorized       401
    ├── Forbidden          403
    ├── NotFound           404
    ├── Conflict           409
    ├── Expired            410
    ├── Invalid            422
    ├── TooManyRequests    429, after all retries
    ├── Unavailable        502, 503 and 504, after all retries
    └── ServiceFailed      500 and other statuses from 500
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from switchmdp.errors import SwitchmdpError

# Problems.


class ServiceError(SwitchmdpError):
    """Base class of the client's errors."""


class ConnectionFailed(ServiceError, ConnectionError):
    """The service did not answer, after all retries. `__cause__` is the error of httpx."""


class UnexpectedAnswer(ServiceError, ValueError):
    """The answer is not one of the decision service; the URL may be wrong."""


class Problem(ServiceError):
    """The service refused a call.

    Attributes
    ----------
    status : int
        The HTTP status.
    type, title, detail : str
        The problem details of RFC 9457. `detail` names the field, the value and what is allowed.
    retry_after : float or None
        Seconds after which the service asks to retry.
    extensions : mapping
        All other members of the problem details.
    """

    def __init__(
        self, status: int, *, type: str = "about:blank", title: str = "", detail: str = "",  # noqa: A002
        retry_after: float | None = None, extensions: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(status, title, detail)
        self.status = status
        self.type = type
        self.title = title
        self.detail = detail
        self.retry_after = retry_after
        self.extensions = dict(extensions or {})

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.status} {self.title}".strip(), self.detail)))


class BadRequest(Problem):
    """The request is malformed."""


class Unauthorized(Problem):
    """The bearer token is missing or wrong."""


class Forbidden(Problem):
    """The token does not permit this call."""


class NotFound(Problem):
    """The model or the decision does not exist."""


class Conflict(Problem):
    """The model exists already, or the decision already has different feedback."""


class Expired(Problem):
    """The decision has expired, or got its feedback long ago."""


class Invalid(Problem):
    """A value is missing, of the wrong type, or out of range."""


class TooManyRequests(Problem):
    """The rate limit is exceeded, after all retries."""


class Unavailable(Problem):
    """The database or the service is not available, after all retries."""


class ServiceFailed(Problem):
    """An internal error of the service."""


BY_STATUS: Mapping[int, type[Problem]] = {
    401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Expired, 422: Invalid,
    429: TooManyRequests, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}  # fmt: skip


def problem(status: int, content: Any, retry_after: float | None = None) -> Problem:
    """The typed error for an HTTP status and its problem details.

    >>> problem(409, {"title": "Conflict", "detail": "model 'shop' exists already"})
    Conflict(409, 'Conflict', "model 'shop' exists already")
    """
    kind = BY_STATUS.get(status, BadRequest if status < 500 else ServiceFailed)
    details = dict(content) if isinstance(content, Mapping) else {}
    details.pop("status", None)
    known = {
        name: str(details.pop(name)) for name in ("type", "title", "detail") if name in details
    }
    return kind(status, retry_after=retry_after, extensions=details, **known)


# Results.


def read_all(kind: type[R], content: Any) -> tuple[R, ...]:
    """The results in a JSON array."""
    if not isinstance(content, list):
        raise UnexpectedAnswer(f"expected a JSON array of {kind.__name__}, got {content!r}")
    return tuple(kind.read(item) for item in content)


@dataclass(frozen=True)
class Result:
    """Base class: a result is made from a JSON object by the names of its fields."""

    # The fields that are tuples of results themselves.
    nested: ClassVar[Mapping[str, type[Result]]] = {}

    @classmethod
    def read(cls, content: Any) -> Self:
        """The result in a JSON object.

        Parameters
        ----------
        content
            The JSON object, as plain data.

        Returns
        -------
        Result
            The result.

        Raises
        ------
        UnexpectedAnswer
            If the content does not describe one.
        """
        if not isinstance(content, Mapping):
            raise UnexpectedAnswer(f"expected a JSON object for {cls.__name__}, got {content!r}")
        known = {member.name for member in fields(cls)} & content.keys()
        values = {name: _frozen(content[name]) for name in known}
        for name in known & cls.nested.keys():
            values[name] = read_all(cls.nested[name], content[name])
        try:
            return cls(**values)
        except TypeError as error:  # a member is missing
            raise UnexpectedAnswer(f"the answer is not a {cls.__name__}: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Decision(Result):
    """An action to take. Report its outcome with `feedback`.

    Parameters
    ----------
    id
        The id of the decision.
    action
        The number of the action.
    state
        The number of the state.
    session
        The session.
    action_name
        The name of the action; None if it has none.
    state_name
        The name of the state; None if it has none.
    arm
        The arm of the split test that the session belongs to; `main` is the model's own agent.
    probability
        The share of the sessions that belong to the arm.
    would
        The agent's own choice, if something else chose the action.
    would_name
        The name of that action; None if it has none.
    """

    id: str
    action: int
    state: int
    session: str = ""
    action_name: str | None = None
    state_name: str | None = None
    arm: str = "main"
    probability: float = 1.0
    would: int | None = None
    would_name: str | None = None


@dataclass(frozen=True)
class Bucket(Result):
    """The mean of consecutive rewards. Times are seconds since 1970.

    Parameters
    ----------
    start
        The time of the first reward.
    end
        The time of the last reward.
    n
        The number of rewards.
    mean
        Their mean.
    """

    start: float
    end: float
    n: int
    mean: float

    @classmethod
    def read(cls, content: Any) -> Self:
        """The result in a JSON object, in which `start` and `end` are named `from` and `to`.

        Parameters
        ----------
        content
            The JSON object, as plain data.

        Returns
        -------
        Bucket
            The result.
        """
        if isinstance(content, Mapping) and {"from", "to"} <= content.keys():
            content = {**content, "start": content["from"], "end": content["to"]}
        return super().read(content)


@dataclass(frozen=True)
class Restart(Result):
    """The agent of a model has forgotten what it had learned, or a part of it.

    Parameters
    ----------
    time
        The time, in seconds since 1970.
    step
        The number of feedback events so far.
    kept
        The data of so many latest steps of the agent were kept.
    asked
        Whether `restart` was called; otherwise the agent's own rule required it.
    """

    time: float
    step: int
    kept: int
    asked: bool


@dataclass(frozen=True)
class Model(Result):
    """A model of the service. Times are seconds since 1970.

    Counts are None if they are not known yet. Lists of models omit the names, the mode and the
    restarts.

    Parameters
    ----------
    name
        The name.
    agent
        The agent, as `switchmdp agents` lists it.
    parameters
        The parameters of the agent.
    labels
        Texts of your choice.
    created
        The time at which it was created.
    archived
        The time since when it is archived, or None.
    states
        The number of states.
    actions
        The number of actions.
    decisions
        The number of decisions.
    feedback
        The number of decisions with feedback.
    pending
        The number of decisions that wait for feedback.
    mean_reward
        The mean reward.
    last_event
        The time of the last event.
    changes
        The number of alerts of the change signal.
    rewards
        The rewards over time.
    state_names
        The names of the states; None for a state without a name.
    action_names
        The names of the actions; None for an action without a name.
    mode
        Who decides: `"agent"`, `"fixed"` or `"shadow"`.
    restarts
        When the agent has forgotten: the latest 100, oldest first.
    """

    name: str
    agent: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    created: float | None = None
    archived: float | None = None
    states: int | None = None
    actions: int | None = None
    decisions: int | None = None
    feedback: int | None = None
    pending: int | None = None
    mean_reward: float | None = None
    last_event: float | None = None
    changes: int | None = None
    rewards: tuple[Bucket, ...] = field(default=(), repr=False)
    state_names: tuple[str | None, ...] | None = None
    action_names: tuple[str | None, ...] | None = None
    mode: str | None = None
    restarts: tuple[Restart, ...] = field(default=(), repr=False)
    nested: ClassVar[Mapping[str, type[Result]]] = {"rewards": Bucket, "restarts": Restart}


@dataclass(frozen=True)
class ModelPage(Result):
    """Some models, ordered by name. Iterate over it to get the models.

    Parameters
    ----------
    models
        The models.
    next
        Pass it as `after` to get the next models; None if there are no more.
    """

    models: tuple[Model, ...]
    next: str | None = None
    nested: ClassVar[Mapping[str, type[Result]]] = {"models": Model}

    def __iter__(self) -> Iterator[Model]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)


@dataclass(frozen=True)
class Added(Result):
    """States or actions that were added.

    Parameters
    ----------
    first
        The number of the first new one.
    total
        How many exist now.
    """

    first: int
    total: int


@dataclass(frozen=True)
class Successor(Result):
    """A likely next state, with its estimated probability.

    Parameters
    ----------
    state
        The number of the state.
    probability
        Its estimated probability.
    name
        The name of the state; None if it has none.
    """

    state: int
    probability: float
    name: str | None = None


@dataclass(frozen=True)
class ActionExplanation(Result):
    """What a model knows about an action in a state. None means unknown.

    Parameters
    ----------
    action
        The number of the action.
    chosen
        Whether the model would choose it.
    visits
        The number of remembered visits, with their next states.
    low
        The lower end of the interval for the mean reward.
    high
        The upper end of the interval for the mean reward.
    name
        The name of the action; None if it has none.
    estimate
        The estimated mean reward.
    interval
        The kind of interval: confidence or credible.
    value
        The change in total reward if the action is taken once, and the policy is followed
        afterwards.
    last_seen
        The time at which the action was last taken in this state, in seconds since 1970.
    last_change
        The last alert of the change signal for this state-action pair. The agent may have forgotten
        data without such an alert; then `note` says so.
    successors
        The likely next states.
    reward_visits
        The number of remembered rewards, from which the estimate is made. It differs from `visits`
        if the agent has forgotten only the rewards or only the next states after a change.
    note
        Why visits and estimate do not match, if they do not.
    """

    action: int
    chosen: bool
    visits: float
    low: float
    high: float
    name: str | None = None
    estimate: float | None = None
    interval: str | None = None
    value: float | None = None
    last_seen: float | None = None
    last_change: Mapping[str, Any] | None = None
    successors: tuple[Successor, ...] = ()
    reward_visits: float | None = None
    note: str | None = None
    nested: ClassVar[Mapping[str, type[Result]]] = {"successors": Successor}


@dataclass(frozen=True)
class Explanation(Result):
    """Why a model acts as it does in a state.

    Parameters
    ----------
    state
        The number of the state.
    actions
        The actions, in the order of their numbers.
    name
        The name of the state; None if it has none.
    source
        Where the estimates come from: the memory of the agent, or recent feedback.
    gain
        The mean reward per decision of the agent's policy, according to these estimates.
    """

    state: int
    actions: tuple[ActionExplanation, ...]
    name: str | None = None
    source: str | None = None
    gain: float | None = None
    nested: ClassVar[Mapping[str, type[Result]]] = {"actions": ActionExplanation}


@dataclass(frozen=True)
class Arm(Result):
    """An arm of a split test: a policy, an agent, or (`main`) the model's own agent.

    Decisions, feedback and rewards are counted since the test started.

    Parameters
    ----------
    name
        The name.
    share
        The share of the sessions.
    low
        The lower bound of the mean reward, which holds at all times at once.
    high
        The upper bound of the mean reward, which holds at all times at once.
    decisions
        The number of decisions.
    feedback
        The number of decisions with feedback.
    mean_reward
        The mean reward.
    policy
        The policy of the arm, if it has one: an action for each state.
    policy_names
        The names of these actions, if they have names.
    agent
        The agent of the arm, if it has one.
    """

    name: str
    share: float
    low: float
    high: float
    decisions: int = 0
    feedback: int = 0
    mean_reward: float | None = None
    policy: tuple[int, ...] | None = None
    policy_names: tuple[str | None, ...] | None = None
    agent: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Change(Result):
    """A change that was detected: of a mean reward, or of the probability of a next state.

    Parameters
    ----------
    step
        The number of feedback events before it was detected.
    state
        The number of the state.
    action
        The number of the action.
    before
        The mean before the change.
    now
        The mean after the change.
    strength
        The difference, relative to the threshold of detection.
    next_state
        The next state whose probability has changed; None for the reward.
    time
        The time of detection, in seconds since 1970.
    state_name
        The name of the state; None if it has none.
    action_name
        The name of the action; None if it has none.
    next_state_name
        The name of the next state; None if it has none.
    """

    step: int
    state: int
    action: int
    before: float
    now: float
    strength: float
    next_state: int | None = None
    time: float | None = None
    state_name: str | None = None
    action_name: str | None = None
    next_state_name: str | None = None


@dataclass(frozen=True)
class History(Result):
    """Rewards over time, oldest first, and detected changes.

    Parameters
    ----------
    rewards
        The mean rewards, oldest first.
    changes
        The detected changes.
    """

    rewards: tuple[Bucket, ...]
    changes: tuple[Change, ...]
    nested: ClassVar[Mapping[str, type[Result]]] = {"rewards": Bucket, "changes": Change}
