"""What the methods of the client return.

Every class is made from the JSON of the service. Members that this version does not know are
ignored, so that an older client works with a newer service; members that are missing get their
default, or raise `UnexpectedAnswer` if they have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from switchmdp.client.problems import UnexpectedAnswer


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
        """The result in a JSON object."""
        if not isinstance(content, Mapping):
            raise UnexpectedAnswer(f"expected a JSON object for {cls.__name__}, got {content!r}")
        known = {member.name for member in fields(cls)} & content.keys()
        values = {name: _frozen(content[name]) for name in known}
        for name in known & cls.nested.keys():
            values[name] = read_all(cls.nested[name], content[name])
        try:
            return cls(**values)
        except TypeError as error:  # a member is missing
            raise UnexpectedAnswer(f"the answer is no {cls.__name__}: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Decision(Result):
    """An action to take. Report its outcome with `feedback`.

    `state` and `action` are numbers; their names are None if they have none. `arm` is the arm of
    the split test that the session belongs to (`main`: the model's own agent), and `probability`
    the share of the sessions that belong to it. `would` is the agent's own choice if something else
    chose the action.
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


@dataclass(frozen=True)
class Bucket(Result):
    """The mean of `n` consecutive rewards. Times are seconds since 1970."""

    start: float
    end: float
    n: int
    mean: float

    @classmethod
    def read(cls, content: Any) -> Self:
        """The result in a JSON object, where `start` and `end` are called `from` and `to`."""
        if isinstance(content, Mapping) and {"from", "to"} <= content.keys():
            content = {**content, "start": content["from"], "end": content["to"]}
        return super().read(content)


@dataclass(frozen=True)
class Model(Result):
    """A model of the service. Times are seconds since 1970.

    `states`, `actions`, `decisions`, `feedback`, `pending` and `changes` are counts; None if they
    are not known yet. `archived` is the time since when it is archived, or None. Lists of models
    omit the names and the mode.
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
    rewards: tuple[Bucket, ...] = ()
    state_names: tuple[str | None, ...] | None = None
    action_names: tuple[str | None, ...] | None = None
    mode: str | None = None
    nested: ClassVar[Mapping[str, type[Result]]] = {"rewards": Bucket}


@dataclass(frozen=True)
class ModelPage(Result):
    """Some models in the order of their names. Pass `next` as `after` to get the next ones."""

    models: tuple[Model, ...]
    next: str | None = None
    nested: ClassVar[Mapping[str, type[Result]]] = {"models": Model}


@dataclass(frozen=True)
class Added(Result):
    """States or actions that were added: the number of the first one, and how many exist now."""

    first: int
    total: int


@dataclass(frozen=True)
class Successor(Result):
    """A likely next state, with its estimated probability."""

    state: int
    probability: float
    name: str | None = None


@dataclass(frozen=True)
class ActionExplanation(Result):
    """What a model knows about an action in a state. None: it does not know.

    `estimate` is the mean reward, from `low` to `high` with high probability (`interval`: a
    confidence or a credible interval). `value` is that of taking the action once and then following
    the policy, relative to the best action.
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
    nested: ClassVar[Mapping[str, type[Result]]] = {"successors": Successor}


@dataclass(frozen=True)
class Explanation(Result):
    """Why a model acts as it does in a state: its actions, in the order of their numbers."""

    state: int
    actions: tuple[ActionExplanation, ...]
    name: str | None = None
    source: str | None = None
    gain: float | None = None
    nested: ClassVar[Mapping[str, type[Result]]] = {"actions": ActionExplanation}


@dataclass(frozen=True)
class Arm(Result):
    """An arm of a split test: a policy, an agent, or (`main`) the model's own agent.

    `low` and `high` bound the mean reward at all times at once, so you may look whenever you like.
    """

    name: str
    share: float
    low: float
    high: float
    decisions: int = 0
    feedback: int = 0
    mean_reward: float | None = None
    policy: tuple[int, ...] | None = None
    agent: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Change(Result):
    """A change that was detected: of a reward or, with a `next_state`, of the moves to it."""

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


@dataclass(frozen=True)
class History(Result):
    """Rewards over time, oldest first, and detected changes."""

    rewards: tuple[Bucket, ...]
    changes: tuple[Change, ...]
    nested: ClassVar[Mapping[str, type[Result]]] = {"rewards": Bucket, "changes": Change}
