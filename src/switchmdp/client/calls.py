"""The operations of the service, one function each.

A function returns a `Call`: the request, and how its answer is read. `Client` and `AsyncClient`
send calls; their methods have the arguments and the documentation of these functions. States and
actions are numbers or, if the model has names, names.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from switchmdp.client.answers import (
    Added,
    Arm,
    Decision,
    Explanation,
    History,
    Model,
    ModelPage,
    Problem,
    UnexpectedAnswer,
    problem,
    read_all,
)
from switchmdp.errors import InvalidParameter

T = TypeVar("T")
Name = int | str
LONGEST_KEY = 200
KEY = re.compile(rf"(?! )[ -~]{{1,{LONGEST_KEY}}}(?<! )")  # a header has no spaces at its ends
COMPILING = 300.0  # seconds: without prebuilt machine code, a new kind of agent is compiled first


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the function that reads its answer.

    `repeatable`: executing the call twice has the same effect as executing it once (`connection`).
    """

    method: str
    path: str
    read: Callable[[Any], T]
    body: Mapping[str, Any] | Sequence[Any] | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    timeout: float | None = None  # seconds for a try, if the call may take longer than others


def create_model(
    name: str, *, states: int | Sequence[str], actions: int | Sequence[str],
    agent: str | None = None, parameters: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None, replan: str | None = None,
    expiry: float | None = None,
) -> Call[Model]:  # fmt: skip
    """Create a model.

    Parameters
    ----------
    name : str
        The name of the model: letters, digits, '.', '_' and '-'.
    states, actions : int or sequence of str
        The numbers of states and actions, or their names.
    agent : str, optional
        The agent, as `switchmdp agents` lists it; by default EvidencePSRL.
    parameters : mapping, optional
        The parameters of the agent.
    labels : mapping, optional
        Texts of your choice, such as the team.
    replan : str, optional
        "background": decisions do not wait while the agent plans.
    expiry : float, optional
        Seconds that a decision waits for feedback.

    Returns
    -------
    Model

    Raises
    ------
    Conflict
        A model with this name exists.
    Invalid
        The agent, a parameter or a name is not allowed.
    """
    body = {
        "name": name, "agent": agent, "parameters": parameters, "labels": labels,
        "replan": replan, "expiry": expiry, "states": _count_or_names(states, "states"),
        "actions": _count_or_names(actions, "actions"),
    }  # fmt: skip
    sent = _without_none(body)
    return Call("POST", "/models", Model.read, sent, repeatable=False, timeout=COMPILING)


def models(
    *, after: str | None = None, limit: int | None = None, search: str | None = None,
    archived: bool | None = None,
) -> Call[ModelPage]:  # fmt: skip
    """Some models, ordered by name.

    Parameters
    ----------
    after : str, optional
        The `next` of the previous page.
    limit : int, optional
        The largest number of models to return.
    search : str, optional
        Only models whose name contains this text.
    archived : bool, optional
        Whether to list archived models instead of active ones.

    Returns
    -------
    ModelPage
    """
    given = {"after": after, "limit": limit, "search": search, "archived": archived}
    return Call("GET", "/models", ModelPage.read, query=_without_none(given))


def model(name: str) -> Call[Model]:
    """One model.

    Parameters
    ----------
    name
        The model.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call("GET", _path(name), Model.read)


def delete_model(name: str) -> Call[None]:
    """Delete a model with all its data. This cannot be undone.

    Parameters
    ----------
    name
        The model.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call("DELETE", _path(name), _nothing, repeatable=False)


def archive_model(name: str) -> Call[Model]:
    """Archive a model: it is no longer listed and makes no decisions, but keeps its data.

    Parameters
    ----------
    name
        The model.

    Returns
    -------
    Model
        The model, as it is now.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call("POST", f"{_path(name)}/archive", Model.read)


def unarchive_model(name: str) -> Call[Model]:
    """Make an archived model active again.

    Parameters
    ----------
    name
        The model.

    Returns
    -------
    Model
        The model, as it is now.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call("POST", f"{_path(name)}/unarchive", Model.read)


def add_states(
    name: str, states: int | Sequence[str], *, available: Iterable[Name] | None = None,
    key: str | None = None,
) -> Call[Added]:  # fmt: skip
    """Add states to a model.

    Parameters
    ----------
    name : str
        The model.
    states : int or sequence of str
        The number of new states, or their names.
    available : iterable of int or str, optional
        The actions of the new states; by default all.
    key : str, optional
        The idempotency key, as in `decide`.

    Returns
    -------
    Added
    """
    body = _added(states, "states") | _without_none({"available": _listed(available, "available")})
    return Call("POST", f"{_path(name)}/states", _read_added("state"), body, headers=_key(key))


def add_actions(
    name: str, actions: int | Sequence[str], *, states: Iterable[Name] | None = None,
    key: str | None = None,
) -> Call[Added]:  # fmt: skip
    """Add actions to a model.

    Parameters
    ----------
    name : str
        The model.
    actions : int or sequence of str
        The number of new actions, or their names.
    states : iterable of int or str, optional
        The states in which the new actions are available; by default all.
    key : str, optional
        The idempotency key, as in `decide`.

    Returns
    -------
    Added
    """
    body = _added(actions, "actions") | _without_none({"states": _listed(states, "states")})
    return Call("POST", f"{_path(name)}/actions", _read_added("action"), body, headers=_key(key))


def set_mode(name: str, mode: str, policy: Iterable[Name] | None = None) -> Call[None]:
    """Set who chooses the actions.

    Parameters
    ----------
    name
        The model.
    mode
        `"agent"`; `"fixed"`, a policy; or `"shadow"`, a policy, while the agent's own choice is
        returned with each decision.
    policy
        The action for each state, for `"fixed"` and `"shadow"`.

    Raises
    ------
    NotFound
        There is no such model.
    Invalid
        The mode or the policy is not allowed.
    """
    body = {"mode": mode, "policy": _listed(policy, "policy")}
    return Call("POST", f"{_path(name)}/mode", _nothing, _without_none(body))


def restart(name: str) -> Call[None]:
    """Forget everything that the model has learned, after a known change.

    Parameters
    ----------
    name
        The model.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call("POST", f"{_path(name)}/restart", _nothing, repeatable=False)


def decide(
    name: str, *, state: Name | None = None, session: str | None = None,
    available: Iterable[Name] | None = None, key: str | None = None,
) -> Call[Decision]:  # fmt: skip
    """Request a decision.

    Parameters
    ----------
    name : str
        The model.
    state : int or str, optional
        The state; by default the current state of the session. Required without a session.
    session : str, optional
        The session. Sessions of a split test stay in their arm.
    available : iterable of int or str, optional
        The actions that can be taken now; by default all.
    key : str, optional
        The idempotency key: two calls with the same key return the same decision. By default each
        call has its own, which its retries share.

    Returns
    -------
    Decision

    Raises
    ------
    NotFound
        There is no such model.
    Invalid
        The state or an action is unknown, or there is neither a state nor a session with one.
    """
    body = decision_request(state=state, session=session, available=available)
    return Call("POST", f"{_path(name)}/decisions", Decision.read, body, headers=_key(key))


def feedback(
    name: str, decision: Decision | str, reward: float, next_state: Name | None = None
) -> Call[bool]:
    """Report the outcome of a decision. Repeating the same feedback does no harm.

    Parameters
    ----------
    name : str
        The model.
    decision : Decision or str
        The decision, or its id.
    reward : float
        The reward, in [0, 1].
    next_state : int or str, optional
        The next state; by default the state of the decision. For a visitor who leaves, the state
        in which visits usually begin.

    Returns
    -------
    bool
        True if the model has learned from it, False if it was reported before.

    Raises
    ------
    NotFound
        The service does not know the decision.
    Conflict
        The decision already has different feedback.
    Expired
        The decision has expired.
    Invalid
        The reward or the next state is out of range.
    """
    sent = feedback_report(decision, reward, next_state)
    path = f"{_path(name)}/decisions/{quote(sent.pop('id'), safe='')}/feedback"
    return Call("POST", path, _counted, sent)


def decide_batch(
    name: str, requests: Sequence[Mapping[str, Any]], *, key: str | None = None
) -> Call[list[Decision | Problem]]:
    """Request up to 1000 decisions in one transaction.

    Parameters
    ----------
    name : str
        The model.
    requests : sequence of mapping
        The arguments `state`, `session` and `available` of each decision.
    key : str, optional
        The idempotency key of the batch.

    Returns
    -------
    list of Decision or Problem
        For each request its decision, or the error that `decide` would have raised.
    """
    sent = [_one_request(i, request) for i, request in enumerate(requests)]
    read = _each(lambda result: Decision.read(result.get("decision")), len(sent))
    path = f"{_path(name)}/decisions/batch"
    return Call("POST", path, read, {"decisions": sent}, headers=_key(key))


def feedback_batch(
    name: str, reports: Sequence[tuple[Decision | str, float, Name | None]]
) -> Call[list[bool | Problem]]:
    """Report the outcomes of up to 1000 decisions in one transaction.

    Parameters
    ----------
    name : str
        The model.
    reports : sequence of tuple
        For each, the decision or its id, the reward and the next state.

    Returns
    -------
    list of bool or Problem
        For each report the result of `feedback`, or the error that it would have raised.
    """
    sent = [feedback_report(*report) for report in reports]
    read = _each(_counted, len(sent))
    return Call("POST", f"{_path(name)}/feedback/batch", read, {"feedback": sent})


def explain(name: str, state: Name) -> Call[Explanation]:
    """Explain the choice of an action in a state: the data about each action, and the choice.

    Parameters
    ----------
    name
        The model.
    state
        The state, a number or a name.

    Returns
    -------
    Explanation
        The data about each action.

    Raises
    ------
    NotFound
        There is no such model.
    Invalid
        The state is unknown.
    """
    return Call("GET", f"{_path(name)}/explain", Explanation.read, query={"state": state})


def set_arms(name: str, arms: Sequence[Mapping[str, Any]]) -> Call[tuple[Arm, ...]]:
    """Set the arms of a split test besides `main`, the model's own agent.

    When a test starts, the results of `main` start at zero, too.

    Parameters
    ----------
    name : str
        The model.
    arms : sequence of mapping
        Each has a `name`, a `share` of the sessions, and either a `policy` (an action for each
        state) or an `agent` such as `{"name": "sw-ucrl", "parameters": {"window": 1000}}`. `main`
        has the remaining share. An empty sequence ends the test.

    Returns
    -------
    tuple of Arm
    """
    return Call("PUT", f"{_path(name)}/arms", _arms, [dict(arm) for arm in arms])


def arms(name: str) -> Call[tuple[Arm, ...]]:
    """The arms of a split test with their decisions and mean rewards; the first one is `main`.

    Parameters
    ----------
    name
        The model.

    Returns
    -------
    tuple of Arm
        The arms.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call("GET", f"{_path(name)}/arms", _arms)


def history(name: str, *, buckets: int | None = None) -> Call[History]:
    """Rewards over time, and detected changes.

    Parameters
    ----------
    name
        The model.
    buckets
        The largest number of buckets.

    Returns
    -------
    History
        The rewards and the changes.

    Raises
    ------
    NotFound
        There is no such model.
    """
    return Call(
        "GET", f"{_path(name)}/history", History.read, query=_without_none({"buckets": buckets})
    )


def is_ready() -> Call[bool]:
    """Whether the service is ready for decisions.

    Returns
    -------
    bool
        True.

    Raises
    ------
    Unavailable
        The service stays unready, after all retries.
    """
    return Call("GET", "/readyz", lambda _: True)


def decision_request(
    *, state: Name | None = None, session: str | None = None,
    available: Iterable[Name] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The JSON of a request for a decision, without values that are None.

    >>> decision_request(state="new", available=("sport",))
    {'state': 'new', 'available': ['sport']}
    """
    given = {"state": state, "session": session, "available": _listed(available, "available")}
    return _without_none(given)


def _one_request(index: int, request: Any) -> dict[str, Any]:
    """A request of a batch."""
    if not isinstance(request, Mapping) or not request.keys() <= {"state", "session", "available"}:
        allowed = "a mapping with any of state, session and available"
        raise InvalidParameter(f"requests[{index}]", request, allowed)
    return decision_request(**request)


def feedback_report(
    decision: Decision | str, reward: float, next_state: Name | None = None
) -> dict[str, Any]:
    """The JSON of feedback.

    >>> feedback_report("1-3fc2", 1.0, "basket")
    {'id': '1-3fc2', 'reward': 1.0, 'next_state': 'basket'}
    """
    found = decision.id if isinstance(decision, Decision) else decision
    if not isinstance(found, str) or not found:
        raise InvalidParameter("decision", decision, "a Decision or its id")
    if isinstance(reward, float) and not math.isfinite(reward):
        raise InvalidParameter("reward", reward, "a finite number in [0, 1]")
    return _without_none({"id": found, "reward": reward, "next_state": next_state})


def _path(name: str) -> str:
    if not isinstance(name, str) or not name.strip("."):
        raise InvalidParameter("name", name, "the name of a model")
    return f"/models/{quote(name, safe='', errors='replace')}"


def _count_or_names(given: int | Sequence[str], field: str) -> int | list[str]:
    if hasattr(given, "__index__") and not hasattr(given, "__len__"):  # also numbers of NumPy
        return int(given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidParameter(field, given, "how many, or a list of names")
    return list(given)


def _added(given: int | Sequence[str], field: str) -> dict[str, Any]:
    found = _count_or_names(given, field)
    return {"count": found} if isinstance(found, int) else {"names": found}


def _listed(given: Iterable[Name] | None, field: str) -> list[Name] | None:
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise InvalidParameter(field, given, "a list")
    return None if given is None else list(given)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _key(given: str | None) -> dict[str, str]:
    if given is None:
        return {"Idempotency-Key": str(uuid.uuid4())}
    if not isinstance(given, str) or not KEY.fullmatch(given):
        raise InvalidParameter("key", given, f"a text of 1 to {LONGEST_KEY} ASCII characters")
    return {"Idempotency-Key": given}


def _nothing(_: Any) -> None:
    return None


def _read_added(what: str) -> Callable[[Any], Added]:
    """Read the answer {"state": the first one, "states": the total}, or the same for actions."""

    def read(content: Any) -> Added:
        found = content if isinstance(content, Mapping) else {}
        values = {"first": found.get(what), "total": found.get(f"{what}s")}
        return Added.read(_without_none(values))

    return read


def _counted(content: Any) -> bool:
    if not isinstance(content, Mapping) or not isinstance(content.get("counted"), bool):
        raise UnexpectedAnswer(f"expected whether the feedback was counted, got {content!r}")
    return bool(content["counted"])


def _arms(content: Any) -> tuple[Arm, ...]:
    return read_all(Arm, content.get("arms") if isinstance(content, Mapping) else content)


def _each(read: Callable[[Any], T], count: int) -> Callable[[Any], list[T | Problem]]:
    """Read the answer to a batch: a result or a problem for each item."""

    def read_results(content: Any) -> list[T | Problem]:
        results = content.get("results") if isinstance(content, Mapping) else None
        if not isinstance(results, list) or len(results) != count:
            raise UnexpectedAnswer(f"expected {count} results, got {content!r}")
        return [_result_or_problem(read, result) for result in results]

    return read_results


def _result_or_problem(read: Callable[[Any], T], content: Any) -> T | Problem:
    if not isinstance(content, Mapping):
        raise UnexpectedAnswer(f"expected a result or a problem, got {content!r}")
    refused = content.get("problem")
    return read(content) if refused is None else problem(int(refused["status"]), refused)
