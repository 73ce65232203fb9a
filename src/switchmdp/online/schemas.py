"""Requests and responses of the service, and the OpenAPI document.

The requests are pydantic models: unknown keys and wrong types are rejected before anything happens.
The learner checks everything that depends on the model, for example whether a state exists.
Pydantic models also describe the responses, and `tests/online` checks that the service follows
them.

A body must be one JSON object (or array). Python's JSON parser is too lenient: duplicate keys, NaN
and Infinity, and encodings other than UTF-8 are rejected here. `null` counts as a missing value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError
from pydantic.json_schema import models_json_schema

from switchmdp.errors import InvalidParameter
from switchmdp.online.arms import MOST_ARMS
from switchmdp.online.learner import LONGEST_KEY, LONGEST_NAME, LONGEST_SESSION, MOST_ADDED
from switchmdp.version import __version__

MOST_IN_BATCH = 1000
MOST_LISTED = 1000
PROBLEM = "application/problem+json"
JSON = "application/json"

Reference = Annotated[int, Field(ge=0)] | Annotated[str, Field(max_length=LONGEST_NAME)]
State = Annotated[Reference, Field(description="A state: its number or its name.")]
Action = Annotated[Reference, Field(description="An action: its number or its name.")]
Session = Annotated[str, Field(max_length=LONGEST_SESSION)]
Names = list[Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]]
Scalar = bool | int | float | str


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class NewModel(Body):
    """A model to create."""

    name: Annotated[
        str, Field(description="The name: letters, digits, '.', '_' and '-'.", max_length=100)
    ]
    agent: Annotated[str, Field(description="The learning algorithm.")] = "evidence-psrl"
    parameters: Annotated[dict[str, Scalar], Field(description="Parameters of the agent.")] = {}
    states: Annotated[
        Annotated[int, Field(ge=1)] | Names,
        Field(description="The number of states, or their names."),
    ]
    actions: Annotated[
        Annotated[int, Field(ge=1)] | Names,
        Field(description="The number of actions, or their names."),
    ]
    labels: Annotated[
        dict[str, str], Field(description="Texts of your choice, such as the team.")
    ] = {}
    replan: Annotated[
        Literal["inline", "background"] | None,
        Field(description="Whether a decision waits while the agent plans."),
    ] = None
    expiry: Annotated[
        float | None, Field(gt=0, description="Seconds that a decision waits for feedback.")
    ] = None


class Decide(Body):
    """A decision to make."""

    state: Annotated[
        State | None,
        Field(
            description="A state: its number or its name. By default the current state of the "
            "session; without a session it is required."
        ),
    ] = None
    session: Annotated[
        Session, Field(description="The visitor or device that is in this state.")
    ] = ""
    available: Annotated[
        list[Action] | None, Field(description="The actions that can be taken now.")
    ] = None
    taken: Annotated[
        Action | None,
        Field(description="An action that was chosen elsewhere; the agent only learns."),
    ] = None


class Feedback(Body):
    """The outcome of a decision."""

    reward: Annotated[float, Field(description="The reward, from 0 to 1.", json_schema_extra={
        "minimum": 0, "maximum": 1,
    })]  # fmt: skip
    next_state: Annotated[
        State | None,
        Field(
            description="By default the state of the decision itself. For a visitor who leaves, "
            "the state in which visits usually begin."
        ),
    ] = None


class FeedbackOf(Feedback):
    """The outcome of one of several decisions."""

    id: str


class DecideBatch(Body):
    """Decisions to make."""

    decisions: Annotated[list[Decide], Field(min_length=1, max_length=MOST_IN_BATCH)]


class FeedbackBatch(Body):
    """Outcomes of decisions."""

    feedback: Annotated[list[FeedbackOf], Field(min_length=1, max_length=MOST_IN_BATCH)]


class SetMode(Body):
    """Who decides."""

    mode: Annotated[
        Literal["agent", "fixed", "shadow"],
        Field(
            description="Who decides: the agent; a policy (fixed); or a policy, while the "
            "agent's own choices are recorded (shadow)."
        ),
    ]
    policy: Annotated[
        list[Action] | None, Field(description="For fixed and shadow: an action for each state.")
    ] = None


class AddStates(Body):
    """States to add."""

    names: Names | None = None
    count: Annotated[int, Field(ge=1, le=MOST_ADDED)] | None = None
    available: Annotated[
        list[Action] | None, Field(description="The actions of the new states; by default all.")
    ] = None


class AddActions(Body):
    """Actions to add."""

    names: Names | None = None
    count: Annotated[int, Field(ge=1, le=MOST_ADDED)] | None = None
    states: Annotated[
        list[State] | None, Field(description="The states with the new actions; by default all.")
    ] = None


class AgentOf(Body):
    """An agent."""

    name: str
    parameters: dict[str, Scalar] = {}


class SetArm(Body):
    """An arm of a split test: a policy or an agent."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    share: Annotated[float, Field(ge=0, le=1, description="The share of the sessions.")]
    policy: Annotated[list[Action] | None, Field(description="An action for each state.")] = None
    agent: AgentOf | None = None


class SetArms(RootModel[Annotated[list[SetArm], Field(max_length=MOST_ARMS)]]):
    """The arms besides `main`, which is the model's own agent and has the remaining share."""


class Empty(Body):
    """No content."""


# Queries.


class Query(BaseModel):
    """The query of a request."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ListQuery(Query):
    """The models to list."""

    after: Annotated[str, Field(description="The last name of the previous page.")] = ""
    limit: Annotated[
        int, Field(ge=1, le=MOST_LISTED, description="The largest number of models in the answer.")
    ] = 100
    search: Annotated[str, Field(description="A part of the name.", max_length=100)] = ""
    archived: Annotated[
        bool | None, Field(description="true: only archived models; false (default): only others.")
    ] = False


class ExplainQuery(Query):
    """The state to explain."""

    state: Annotated[str, Field(description="The number or the name of a state.")]


class HistoryQuery(Query):
    """The level of detail."""

    buckets: Annotated[
        int,
        Field(ge=1, le=240, description="The largest number of points of the reward over time."),
    ] = 120


# Responses.


class Answer(BaseModel):
    """The content of a response."""


class Bucket(Answer):
    """Rewards of a period."""

    from_: Annotated[float, Field(alias="from", description="Seconds since 1970.")]
    to: float
    n: int
    mean: float


class ModelAnswer(Answer):
    """A model."""

    name: str
    agent: str | None
    parameters: dict[str, Any]
    labels: dict[str, str]
    created: float
    archived: Annotated[
        float | None, Field(description="When it was archived, in seconds since 1970.")
    ]
    states: int | None
    actions: int | None
    decisions: int | None
    feedback: int | None
    pending: int | None
    mean_reward: float | None
    last_event: float | None
    changes: Annotated[int | None, Field(description="Detected changes.")]
    rewards: list[Bucket]


class Restart(Answer):
    """The agent has forgotten what it had learned, or a part of it."""

    time: Annotated[float, Field(description="Seconds since 1970.")]
    step: Annotated[int, Field(description="The number of feedback events so far.")]
    kept: Annotated[
        int, Field(description="The data of so many latest steps of the agent were kept.")
    ]
    asked: Annotated[
        bool, Field(description="True: by POST .../restart; false: by the agent's own rule.")
    ]


class OneModel(ModelAnswer):
    """A model with its names."""

    state_names: list[str | None] | None
    action_names: list[str | None] | None
    mode: str
    restarts: Annotated[list[Restart], Field(description="The latest 100, oldest first.")]


class ModelList(Answer):
    """A page of models."""

    models: list[ModelAnswer]
    next: Annotated[
        str | None, Field(description="`after` for the next page; null on the last page.")
    ]


class DecisionAnswer(Answer):
    """A decision."""

    id: Annotated[str, Field(description="The id, to report feedback.")]
    action: int
    action_name: str | None
    state: int
    state_name: str | None
    session: str
    would: Annotated[
        int | None, Field(description="The agent's own choice, if it did not choose the action.")
    ]
    would_name: str | None
    arm: str
    probability: Annotated[float, Field(description="The share of the sessions in this arm.")]


class Counted(Answer):
    """Feedback that was received."""

    counted: Annotated[bool, Field(description="False if the same feedback was given before.")]


class Problem(Answer):
    """An error, as in RFC 9457."""

    type: Annotated[str, Field(description="urn:switchmdp:problem: and the name of the error.")]
    title: str
    status: int
    detail: str
    field: Annotated[
        str | None, Field(description="The name of the wrong value, if there is one.")
    ] = None


class DecisionResult(Answer):
    """One of several decisions, or the reason why it was not made."""

    decision: DecisionAnswer | None = None
    problem: Problem | None = None


class DecisionResults(Answer):
    """The results in the order of the request."""

    results: list[DecisionResult]


class CountedResult(Answer):
    """The outcome of one feedback of several, or the reason why it was rejected."""

    counted: bool | None = None
    problem: Problem | None = None


class CountedResults(Answer):
    """The results in the order of the request."""

    results: list[CountedResult]


class ModeAnswer(Answer):
    """Who decides."""

    mode: str


class StatesAnswer(Answer):
    """The states that were added."""

    state: Annotated[int, Field(description="The number of the first new state.")]
    states: Annotated[int, Field(description="The number of states that the model has now.")]


class ActionsAnswer(Answer):
    """The actions that were added."""

    action: Annotated[int, Field(description="The number of the first new action.")]
    actions: Annotated[int, Field(description="The number of actions that the model has now.")]


class Restarted(Answer):
    """The agent has forgotten everything."""

    restarted: bool


class Deleted(Answer):
    """The model was deleted."""

    deleted: str


class ArmAnswer(Answer):
    """An arm with its results since the test started."""

    name: str
    share: float
    policy: list[int] | None
    policy_names: Annotated[
        list[str | None] | None, Field(description="The names of these actions, if they have any.")
    ]
    agent: dict[str, Any] | None
    decisions: int
    feedback: int
    mean_reward: float | None
    low: Annotated[float, Field(description="95 % confidence sequence, valid at every time.")]
    high: float


class Arms(Answer):
    """All arms; the first one is `main`."""

    arms: list[ArmAnswer]


class Successor(Answer):
    """A likely next state."""

    state: int
    name: str | None
    probability: float


class Change(Answer):
    """A detected change."""

    time: Annotated[float | None, Field(description="Approximate, in seconds since 1970.")]
    step: int
    what: Annotated[str, Field(description="What has changed: reward or next state.")]
    state: int
    state_name: str | None
    action: int
    action_name: str | None
    next_state: Annotated[int | None, Field(description="null if the reward has changed.")]
    next_state_name: str | None
    before: float
    now: float
    strength: float


class Explained(Answer):
    """The data about an action in a state."""

    action: int
    name: str | None
    chosen: Annotated[bool, Field(description="Whether the current policy chooses it.")]
    visits: Annotated[float, Field(description="The number of remembered visits.")]
    reward_visits: Annotated[
        float, Field(description="The number of rewards on which the estimate is based.")
    ]
    estimate: Annotated[float | None, Field(description="The estimated mean reward.")]
    low: float
    high: float
    interval: Annotated[str, Field(description="The kind of interval: confidence or credible.")]
    note: Annotated[
        str | None, Field(description="An explanation if the estimate is not based on the visits.")
    ]
    successors: list[Successor]
    value: Annotated[
        float | None,
        Field(
            description="The change in total reward if the action is taken once and the "
            "policy is followed afterwards."
        ),
    ]
    last_seen: Annotated[float | None, Field(description="Seconds since 1970.")]
    last_change: Change | None


class Explanation(Answer):
    """Why an action is chosen in a state."""

    state: int
    name: str | None
    source: Annotated[str, Field(description="The source of the estimates.")]
    gain: Annotated[float | None, Field(description="Mean reward of the policy per step.")]
    actions: list[Explained]


class History(Answer):
    """Reward over time."""

    rewards: list[Bucket]
    changes: list[Change]


class Status(Answer):
    """The state of the service."""

    status: str


class Anything(Answer):
    """An object; its keys depend on the agent."""

    model_config = ConfigDict(extra="allow")


# Routes.

# Status codes: the name of an error without a typed exception, and the meaning of the status.
HTTP_ERRORS = {
    400: ("BadRequest", "The body is not valid JSON."),
    401: ("Unauthorized", "The bearer token is missing or wrong."),
    403: ("Forbidden", "The token does not allow it, or the request comes from another site."),
    404: ("NotFound", "The path, the model or the decision does not exist."),
    405: ("MethodNotAllowed", "The path does not support this method."),
    409: ("Conflict", "The request contradicts an earlier one, or the model is archived."),
    410: ("ForgottenDecision", "The decision has expired, or got its feedback long ago."),
    413: ("TooLarge", "The body is too large."),
    415: ("UnsupportedMediaType", "The body is not declared as application/json."),
    422: ("InvalidParameter", "A value is missing, of the wrong type, or out of range."),
    429: ("TooManyRequests", "Too many requests; retry after the seconds in `Retry-After`."),
    500: ("InternalError", "An internal error of the service."),
    503: ("LogFailed", "The database is unavailable; nothing was acknowledged. Retry."),
}
ALWAYS = (401, 403, 429)
OF_BODIES = (400, 413, 415, 422)


@dataclass(frozen=True)
class Route:
    """A route: its path, its request and its response."""

    method: str
    path: str
    name: str  # of the method of `Service`
    summary: str
    answer: type[BaseModel] | str  # or a media type
    status: int = 200
    body: type[BaseModel] | None = None
    query: type[Query] | None = None
    problems: tuple[int, ...] = ()  # in addition to those of all routes of this kind
    public: bool = False  # no token is needed
    large: bool = False  # the body may be larger
    single: bool = False  # also exists without /models/{name}, for one model, usually `main`
    keyed: bool = False  # accepts an idempotency key


MODEL_ERRORS = (404, 503)
ROUTES = (
    Route("GET", "/models", "list_models", "List models.", ModelList, query=ListQuery,
          problems=(422, 503)),
    Route("POST", "/models", "create_model", "Create a model.", OneModel, status=201,
          body=NewModel, large=True, problems=(409, 503)),
    Route("GET", "/models/{name}", "show_model", "Show a model.", OneModel, problems=MODEL_ERRORS),
    Route("DELETE", "/models/{name}", "delete_model", "Delete a model with all of its data.",
          Deleted, problems=MODEL_ERRORS),
    Route("POST", "/models/{name}/archive", "archive", "Archive a model: it makes no decisions.",
          OneModel, body=Empty, problems=MODEL_ERRORS),
    Route("POST", "/models/{name}/unarchive", "unarchive",
          "Let an archived model make decisions again.", OneModel, body=Empty,
          problems=MODEL_ERRORS),
    Route("POST", "/models/{name}/decisions", "decide", "Choose an action.", DecisionAnswer,
          status=201, body=Decide, problems=(409, *MODEL_ERRORS), single=True, keyed=True),
    Route("POST", "/models/{name}/decisions/batch", "decide_batch", "Choose several actions.",
          DecisionResults, body=DecideBatch, problems=(409, *MODEL_ERRORS), single=True,
          large=True, keyed=True),
    Route("POST", "/models/{name}/decisions/{id}/feedback", "feedback",
          "Report the outcome of a decision.", Counted, body=Feedback,
          problems=(409, 410, *MODEL_ERRORS), single=True),
    Route("POST", "/models/{name}/feedback/batch", "feedback_batch",
          "Report the outcomes of several decisions.", CountedResults, body=FeedbackBatch,
          problems=MODEL_ERRORS, single=True, large=True),
    Route("POST", "/models/{name}/mode", "mode", "Set who decides.", ModeAnswer, body=SetMode,
          problems=MODEL_ERRORS, single=True, large=True),
    Route("POST", "/models/{name}/states", "add_states", "Add states.", StatesAnswer, status=201,
          body=AddStates, problems=(409, *MODEL_ERRORS), single=True, large=True, keyed=True),
    Route("POST", "/models/{name}/actions", "add_actions", "Add actions.", ActionsAnswer,
          status=201, body=AddActions, problems=(409, *MODEL_ERRORS), single=True, large=True,
          keyed=True),
    Route("POST", "/models/{name}/restart", "restart",
          "Forget everything learned, after a known change.", Restarted, body=Empty,
          problems=MODEL_ERRORS, single=True),
    Route("PUT", "/models/{name}/arms", "set_arms", "Set the arms of a split test.", Arms,
          body=SetArms, problems=MODEL_ERRORS, single=True, large=True),
    Route("GET", "/models/{name}/arms", "show_arms", "Show the arms and their results.", Arms,
          problems=MODEL_ERRORS, single=True),
    Route("GET", "/models/{name}/explain", "explain", "Explain the choice of an action.",
          Explanation, query=ExplainQuery, problems=(422, *MODEL_ERRORS), single=True),
    Route("GET", "/models/{name}/history", "history",
          "Show the reward over time, and detected changes.", History, query=HistoryQuery,
          problems=(422, *MODEL_ERRORS), single=True),
    Route("GET", "/models/{name}/agent", "agent", "Show the agent's policy and estimates.",
          Anything, problems=MODEL_ERRORS, single=True),
    Route("GET", "/metrics", "metrics", "Metrics for Prometheus.", "text/plain"),
    Route("GET", "/healthz", "health", "Check whether the process is alive.", Status, public=True),
    Route("GET", "/readyz", "ready", "Check whether decisions can be made.", Status,
          problems=(503,), public=True),
    Route("GET", "/openapi.json", "openapi", "This document.", Anything),
    Route("GET", "/docs", "docs", "This document as a page.", "text/html", public=True),
    Route("GET", "/", "page", "The live page, which asks the user for the token.", "text/html",
          public=True),
)  # fmt: skip
PREFIX = "/models/{name}"


def all_routes() -> list[Route]:
    """All routes, including those without /models/{name}, for one model."""
    from dataclasses import replace

    single = [
        replace(route, path=route.path.removeprefix(PREFIX), name=route.name)
        for route in ROUTES
        if route.single
    ]
    return [*ROUTES, *single]


def document() -> dict[str, Any]:
    """The OpenAPI document.

    >>> sorted(document()["paths"]["/models/{name}/arms"])
    ['get', 'put']
    """
    used = {route.body for route in ROUTES} | {route.answer for route in ROUTES} | {Problem}
    models = sorted((one for one in used if isinstance(one, type)), key=lambda one: one.__name__)
    refs, schemas = models_json_schema(
        [(one, "validation") for one in models], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in all_routes():
        operation = _operation(route, {model: ref for (model, _), ref in refs.items()})
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "switchmdp",
            "version": __version__,
            "summary": "Decisions of agents that learn in changing environments.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def problems_of(route: Route) -> tuple[int, ...]:
    """The error statuses of a route."""
    return tuple(sorted({*ALWAYS, *(OF_BODIES if route.body else ()), *route.problems}))


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if isinstance(route.answer, str):
        content[route.answer] = {"schema": {"type": "string"}}
    else:
        content[JSON] = {"schema": refs[route.answer]}
    responses = {str(route.status): {"description": "Success.", "content": content}}
    responses |= {str(status): _problem(status) for status in problems_of(route)}
    single = route.single and not route.path.startswith("/models")
    operation: dict[str, Any] = {
        "operationId": f"{route.name}_of_main" if single else route.name,
        "summary": route.summary,
        "responses": responses,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
    }
    if route.keyed:
        operation["parameters"].append({
            "name": "Idempotency-Key", "in": "header", "required": False,
            "description": "A repeated request with the same key gets the same answer.",
            "schema": {
                "type": "string", "minLength": 1, "maxLength": LONGEST_KEY,
                "pattern": "^[!-~]([ -~]*[!-~])?$",
            },
        })  # fmt: skip
    if route.public:
        operation["security"] = []
    if route.body is not None:
        required = issubclass(route.body, RootModel) or any(
            field.is_required() for field in route.body.model_fields.values()
        )
        operation["requestBody"] = {
            "required": required, "content": {JSON: {"schema": refs[route.body]}},
        }  # fmt: skip
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("name", "id")
        if f"{{{name}}}" in route.path
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema()
    needed = schema.get("required", [])
    return [
        {"name": name, "in": "query", "schema": kind, "required": name in needed}
        for name, kind in schema["properties"].items()
    ]


def _problem(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": HTTP_ERRORS[status][1],
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return response


# Parsing.


class BadBody(ValueError):
    """A body that is not strict JSON."""


def parsed(body: bytes) -> Any:
    """The JSON value in a body.

    >>> parsed(b'{"state": 3}')
    {'state': 3}
    """
    try:
        return _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise BadBody(f"the body is not valid JSON: {error}") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("duplicate key")
    return content


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_reject_constant)


def validated(model: type[BaseModel], content: Any) -> Any:
    """A request with these values; the error names the first one that is wrong.

    >>> validated(Feedback, {"reward": "much"})
    Traceback (most recent call last):
        ...
    switchmdp.errors.InvalidParameter: reward must be valid (Input should be a valid number), \
got 'much'
    >>> validated(Feedback, {"rewards": 1})
    Traceback (most recent call last):
        ...
    switchmdp.errors.InvalidParameter: rewards must be omitted, or one of reward, next_state, got 1
    """
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if value is not None}
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # An unknown key comes first: a required value may be missing because its key is misspelt.
        faults = error.errors(include_url=False, include_context=False)
        first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
        where, value = _place(content, first["loc"])
        same = [fault["msg"] for fault in faults if fault["loc"][:1] == first["loc"][:1]]
        allowed = f"valid ({' or: '.join(dict.fromkeys(same))})"  # all alternatives
        if first["type"] == "missing":
            key = str(first["loc"][-1])
            if where.rpartition(".")[2] != key:  # its place is that of the object that lacks it
                where = f"{where}.{key}"
            value, allowed = None, "set"
        elif first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            allowed = f"omitted, or one of {', '.join(model.model_fields)}"
        raise InvalidParameter(where, value, allowed) from None


def _place(content: Any, path: tuple[int | str, ...]) -> tuple[str, Any]:
    """The name of a field in a body, such as decisions[3].state, and its value."""
    name, value = "", content
    for part in path:
        try:
            value = value[part]
        except (LookupError, TypeError):
            if name and value is not content:
                break  # the alternatives of a union are parts of the path, too
            value = None
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
        name = f"arms{name}" if name.startswith("[") else name  # the only body that is a list
    return name or "body", value
