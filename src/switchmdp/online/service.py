"""The service: decisions of many models over HTTP, as JSON (with Starlette).

A handler enters its event, which takes microseconds, and then waits for the database together with
all other requests (`GroupCommit`): every answer is durable. A model that is not in memory is loaded
first, in a thread. If another worker serves it, the request is forwarded to that worker.

Errors are problem details (RFC 9457): `{"type": "urn:switchmdp:problem:InvalidState", "title":
"Invalid state", "status": 422, "detail": "state must be an integer from 0 to 4, got 7", "field":
"state"}`.

Why Starlette and not FastAPI: with the same pydantic models and handlers, FastAPI needs more time.
Measured side by side, as CPU time because the machine was busy: per request in the application
alone 210 to 246 µs instead of 53 to 60; per decision with its feedback in the whole server (24
connections, three runs each) 1575 to 2086 µs instead of 960 to 1534, so 27 to 39 % less throughput.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    InvalidState,
    LogFailed,
    MissingExtra,
    ModelArchived,
    ModelExists,
    RepeatedKey,
    SwitchmdpError,
    UnknownDecision,
    UnknownModel,
    message_of,
)

try:
    import httpx
    from starlette.datastructures import QueryParams
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Match, Router
    from starlette.routing import Route as StarletteRoute
    from starlette.types import Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.database import MODEL, Lease, ModelRow
from switchmdp.online.decisions import SAME_STATE, Decision, Decisions
from switchmdp.online.learner import LONGEST_KEY, MODES, Names, checked_key
from switchmdp.online.metrics import Metrics
from switchmdp.online.models import Elsewhere, Models, compile_agent
from switchmdp.online.schemas import (
    HTTP_ERRORS,
    JSON,
    PROBLEM,
    BadBody,
    Decide,
    Feedback,
    FeedbackOf,
    Route,
    all_routes,
    document,
    parsed,
    validated,
)
from switchmdp.online.views import (
    arms_of,
    beliefs,
    buckets_of,
    content_security_policy,
    explanation,
    history_of,
    page,
    page_of_routes,
    restarts_of,
)

MAX_BODY = 64 * 1024
LARGE = 32  # how many times larger a batch may be
LONGEST_MESSAGE = 500
INLINE = 20  # decisions of a batch that are made without a thread
ENCODE = json.JSONEncoder(allow_nan=False).encode
FREQUENT = ("decide", "feedback")
TRIES = 3  # if a model is evicted or taken over meanwhile
FORWARDED = "x-switchmdp-forwarded"  # the header of requests from other workers
FORWARD_SECONDS = 30.0
SENT_ON = (b"content-type", b"idempotency-key")  # the headers of a request that is forwarded
HEADERS = "switchmdp.headers"  # in the scope: the headers of the request as a dictionary
ROUTE = "switchmdp.route"  # in the scope: the route, for the metrics
ALLOWED = "switchmdp.models"  # in the scope: patterns of the models that the token allows
STATUS: dict[type[SwitchmdpError], int] = {
    UnknownDecision: 404,
    UnknownModel: 404,
    ConflictingFeedback: 409,
    ModelExists: 409,
    ModelArchived: 409,
    RepeatedKey: 409,
    ForgottenDecision: 410,
    LogFailed: 503,
    SwitchmdpError: 422,
}
T = TypeVar("T")


class Call(NamedTuple):
    """A request with its validated content."""

    scope: Scope
    model: str
    body: Any = None
    query: Any = None

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        key = self.scope[HEADERS].get(b"idempotency-key")
        return None if key is None else checked_key(key.decode("latin-1"))

    def allows(self, model: str) -> bool:
        """Whether the caller's token allows this model."""
        patterns = self.scope.get(ALLOWED)
        return patterns is None or any(fnmatchcase(model, pattern) for pattern in patterns)


class Application:
    """The routes, without access control. Every error becomes a response with problem details.

    It replaces Starlette's own application, which takes 9 µs more for each request.

    `single`: the model of the routes without /models/{name}.
    """

    def __init__(self, service: Service, *, single: str = MODEL, max_body: int = MAX_BODY) -> None:
        # The router tries one route after the other: the frequent ones come first.
        routes = sorted(all_routes(), key=lambda route: route.name not in FREQUENT)
        self._routes = [
            StarletteRoute(
                route.path, Endpoint(service, route, single, max_body), methods=[route.method]
            )
            for route in routes
        ]
        self._router = Router(self._routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["app"] = self  # then the router raises the errors 404 and 405
        try:
            await self._router.app(scope, receive, send)
            return
        except SwitchmdpError as error:
            problem = problem_of(error)
            headers = {"Retry-After": "1"} if problem["status"] == 503 else None
            response = problem_response(problem, headers)
        except HTTPException as error:
            status = error.status_code
            message, allowed = error.detail, error.headers
            if status == 404:
                message = f"there is no path {scope['path']}; /docs lists all"
            elif status == 405:
                allowed = {"Allow": self._allowed(scope)}
                message = f"{scope['path']} only supports {allowed['Allow']}"
            response = error_response(status, message, allowed)
        except ClientDisconnect:
            response = error_response(400, "the client disconnected before the end of the body")
        except Exception:
            message = "internal error; see the log of the service"
            await error_response(500, message)(scope, receive, send)
            raise  # the server logs it
        await response(scope, receive, send)

    def _allowed(self, scope: Scope) -> str:
        """The methods of a path. The router knows only those of its first route with this path."""
        methods: set[str] = set()
        for route in self._routes:
            if route.matches(scope)[0] is not Match.NONE:
                methods.update(route.methods or ())
        return ", ".join(sorted(methods))


class Endpoint:
    """Answers the requests of a route. As an ASGI application it needs no wrapper of Starlette."""

    def __init__(self, service: Service, route: Route, single: str, max_body: int) -> None:
        self._service, self._route, self._single = service, route, single
        self._answer: Callable[[Call], Awaitable[Any]] = getattr(service, route.name)
        self._most = max_body * (LARGE if route.large else 1)
        self._of_model = route.single or "{name}" in route.path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or raise an error."""
        route, given = self._route, scope["path_params"]
        scope[ROUTE] = route.path
        content = b"" if route.body is None else await _received(scope, receive, self._most)
        call = Call(
            scope, given.get("name", self._single),
            None if route.body is None else _body(scope, route.body, content),
            None if route.query is None else validated(
                route.query, dict(QueryParams(scope["query_string"]))
            ),
        )  # fmt: skip
        if self._of_model and not call.allows(call.model):
            raise HTTPException(403, f"the token does not allow the model {call.model!r}")
        try:
            response = await self._answer(call)
        except Elsewhere as error:
            response = await self._service.forward(scope, content, error.lease)
        except UnknownModel as error:
            if "name" in given:
                raise
            raise UnknownModel(
                f"{error}; the path of another one is /models/NAME{route.path}"
            ) from None
        if not isinstance(response, Response):
            response = Response(f"{ENCODE(response)}\n", route.status, None, JSON)
        await response(scope, receive, send)


async def _received(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body. A body that is too large is not read to its end."""
    chunks: list[bytes] = []
    size, more = int(scope[HEADERS].get(b"content-length", 0)), True
    if size <= most:
        size = 0
        while more and size <= most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunks.append(message.get("body", b""))
            size, more = size + len(chunks[-1]), message.get("more_body", False)
    if size > most:  # close, because the rest of the body would be read as the next request
        close = {"Connection": "close"}
        raise HTTPException(413, f"the body must have at most {most} bytes", close)
    return b"".join(chunks)


def _body(scope: Scope, model: type[BaseModel], content: bytes) -> Any:
    """The validated body. A body without required values may be missing."""
    if not content and scope["method"] == "POST":
        return validated(model, {})
    kind = scope[HEADERS].get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != JSON.encode():
        raise HTTPException(415, "the content type of the body must be application/json")
    try:
        return validated(model, parsed(content))
    except BadBody as error:
        raise HTTPException(400, str(error)) from None


class Service:
    """One method per route."""

    def __init__(
        self, models: Models, metrics: Metrics, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self.models, self._metrics = models, metrics
        self._commits = GroupCommit(models.writer.commit, tell)
        self._client: httpx.AsyncClient | None = None  # to other workers

    # Decisions.

    async def decide(self, call: Call) -> dict[str, Any]:
        """Make a decision."""
        key, body = call.key, call.body
        return await self._enter(call.model, lambda model: self._decide(model, body, key))

    def _decide(self, model: Decisions, body: Decide, key: str | None) -> dict[str, Any]:
        if self.models.is_archived(model.model):
            raise ModelArchived(
                f"the model {model.model!r} is archived and makes no decisions, until POST "
                f"/models/{model.model}/unarchive"
            )
        if body.state is None and not body.session:  # it would be that of another visitor
            raise InvalidState("state", None, "set, or a session whose state is known")
        decision, _ = model.enter_decision(
            body.state, session=body.session, available=body.available, taken=body.taken, key=key
        )
        return decision_answer(model, decision)

    async def feedback(self, call: Call) -> dict[str, Any]:
        """Report the outcome of a decision."""
        decision, body = call.scope["path_params"]["id"], call.body
        return await self._enter(call.model, lambda model: self._feedback(model, decision, body))

    def _feedback(self, model: Decisions, decision: str, body: Feedback) -> dict[str, Any]:
        next_state = SAME_STATE if body.next_state is None else body.next_state
        try:
            counted, _ = model.enter_feedback(decision, body.reward, next_state)
        except SwitchmdpError as error:
            self._metrics.feedback("refused", type(error).__name__)
            raise
        self._metrics.feedback("counted" if counted else "duplicate")
        return {"counted": counted}

    async def decide_batch(self, call: Call) -> dict[str, Any]:
        """Make several decisions in one transaction."""
        key, wanted = call.key, call.body.decisions

        def one(model: Decisions, index: int, body: Decide) -> dict[str, Any]:
            own = None if key is None else key_in_batch(key, index)
            return {"decision": self._decide(model, body, own)}

        return await self._batch(call.model, wanted, one)

    async def feedback_batch(self, call: Call) -> dict[str, Any]:
        """Report several outcomes in one transaction."""

        def one(model: Decisions, index: int, body: FeedbackOf) -> dict[str, Any]:
            return self._feedback(model, body.id, body)

        return await self._batch(call.model, call.body.feedback, one)

    async def _batch(
        self, name: str, items: list[Any], one: Callable[[Decisions, int, Any], dict[str, Any]]
    ) -> dict[str, Any]:
        def enter(model: Decisions) -> dict[str, Any]:
            results = []
            for index, item in enumerate(items):
                try:
                    results.append(one(model, index, item))
                except LogFailed:
                    raise
                except SwitchmdpError as error:
                    results.append({"problem": problem_of(error)})
            return {"results": results}

        return await self._enter(name, enter, in_thread=len(items) > INLINE)

    # Changes of a model.

    async def mode(self, call: Call) -> dict[str, Any]:
        """Set who decides."""
        mode, policy = call.body.mode, call.body.policy
        await self._change(call.model, lambda model: model.set_mode(mode, policy))
        return {"mode": mode}

    async def add_states(self, call: Call) -> dict[str, Any]:
        """Add states."""
        body, key, count = call.body, call.key, _count(call.body)
        return await self._change(call.model, lambda model: {
            "state": model.add_state(
                _numbers(model.learner.actions, body.available, "available"), count=count,
                names=body.names, key=key,
            ),
            "states": model.learner.agent.n_states,
        })  # fmt: skip

    async def add_actions(self, call: Call) -> dict[str, Any]:
        """Add actions."""
        body, key, count = call.body, call.key, _count(call.body)
        return await self._change(call.model, lambda model: {
            "action": model.add_action(
                _numbers(model.learner.states, body.states, "states"), count=count,
                names=body.names, key=key,
            ),
            "actions": model.learner.agent.n_actions,
        })  # fmt: skip

    async def restart(self, call: Call) -> dict[str, Any]:
        """Forget everything learned."""
        await self._change(call.model, lambda model: model.start_over())
        return {"restarted": True}

    async def set_arms(self, call: Call) -> dict[str, Any]:
        """Set the arms of a split test."""
        arms = [arm.model_dump(exclude_none=True) for arm in call.body.root]

        def change(model: Decisions) -> dict[str, Any]:
            model.set_arms(arms)
            compile_agent(model)
            return {"arms": model.look(arms_of)}

        return await self._change(call.model, change)

    # Views of a model.

    async def show_arms(self, call: Call) -> dict[str, Any]:
        """The arms and their results."""
        return await self._look(call.model, lambda model: {"arms": model.look(arms_of)})

    async def explain(self, call: Call) -> dict[str, Any]:
        """What is known about the actions of a state."""
        state = call.query.state
        return await self._look(call.model, lambda model: explanation(model, state))

    async def history(self, call: Call) -> dict[str, Any]:
        """Reward over time, and detected changes."""
        most = call.query.buckets
        view = partial(history_of, most=most)
        return await self._look(call.model, lambda model: model.look(view))

    async def agent(self, call: Call) -> dict[str, Any]:
        """The policy and the estimates."""
        return await self._look(call.model, beliefs)

    # Models.

    async def list_models(self, call: Call) -> dict[str, Any]:
        """A page of models."""
        query = call.query
        found: list[ModelRow] = []
        after = query.after
        while len(found) <= query.limit:  # a restricted token may hide some models of a page
            rows = await asyncio.to_thread(
                self.models.find, after=after, limit=query.limit + 1, search=query.search,
                archived=query.archived,
            )  # fmt: skip
            found += [row for row in rows if call.allows(row.name)]
            if len(rows) <= query.limit:
                break
            after = rows[-1].name
        more = len(found) > query.limit
        shown = found[: query.limit]
        return {"models": [model_answer(row) for row in shown],
                "next": shown[-1].name if more else None}  # fmt: skip

    async def create_model(self, call: Call) -> dict[str, Any]:
        """Create a model."""
        body = call.body
        if not call.allows(body.name):
            raise HTTPException(403, f"the token does not allow the model {body.name!r}")
        await self._check_disk()
        settings = {"replan": body.replan, "expiry": body.expiry}
        row = await asyncio.to_thread(
            self.models.create, body.name, body.agent, body.parameters, states=body.states,
            actions=body.actions, labels=body.labels, compiled=True,
            **{name: value for name, value in settings.items() if value is not None},
        )  # fmt: skip
        states, actions = (
            given if isinstance(given, list) else None for given in (body.states, body.actions)
        )
        return one_model_answer(row, states, actions)

    async def show_model(self, call: Call) -> dict[str, Any]:
        """A model."""
        return await self._look(call.model, self._one_model)

    async def delete_model(self, call: Call) -> dict[str, Any]:
        """Delete a model."""
        await self._check_disk()
        await asyncio.to_thread(self.models.delete, call.model)
        return {"deleted": call.model}

    async def archive(self, call: Call) -> dict[str, Any]:
        """Archive a model."""
        await asyncio.to_thread(self.models.archive, call.model, True)
        return await self._look(call.model, self._one_model)

    async def unarchive(self, call: Call) -> dict[str, Any]:
        """Let an archived model make decisions again."""
        await asyncio.to_thread(self.models.archive, call.model, False)
        return await self._look(call.model, self._one_model)

    def _one_model(self, model: Decisions) -> dict[str, Any]:
        row, learner = self.models.current(self.models.store.model(model.model)), model.learner
        return one_model_answer(
            row, learner.states.all, learner.actions.all, learner.mode, model.look(restarts_of)
        )

    # The service itself.

    async def metrics(self, call: Call) -> Response:
        """Metrics for Prometheus."""
        failed = self._commits.failure is not None
        text, kind = await asyncio.to_thread(self._metrics.text, failed)
        return Response(text, media_type=kind)

    async def health(self, call: Call) -> dict[str, Any]:
        """Whether the process is alive."""
        return {"status": "ok"}

    async def ready(self, call: Call) -> dict[str, Any]:
        """Whether decisions can be made. Retries the database if it has failed."""
        try:
            await self._commits.recovered()
            await asyncio.to_thread(self.models.store.read, "SELECT 1")
        except SwitchmdpError:  # the message names the database, and this route needs no token
            raise LogFailed("the database is unavailable") from None
        return {"status": "ok"}

    async def openapi(self, call: Call) -> dict[str, Any]:
        """The OpenAPI document."""
        return _document()

    async def docs(self, call: Call) -> Response:
        """The OpenAPI document as a page."""
        text, policy = page_of_routes()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def page(self, call: Call) -> Response:
        """The live page."""
        return HTMLResponse(page(), headers={"Content-Security-Policy": content_security_policy()})

    # How requests reach a model.

    async def _model(self, name: str) -> Decisions:
        found = self.models.get(name)
        return found if found is not None else await asyncio.to_thread(self.models.load, name)

    async def _enter(
        self, name: str, act: Callable[[Decisions], T], *, in_thread: bool = False
    ) -> T:
        """Call `act`, which enters events, and wait until they are durable."""
        if self._commits.hindered:
            await self._check_disk()
        for last in (False,) * (TRIES - 1) + (True,):
            model = self.models.get(name) or await self._model(name)
            try:
                result = await asyncio.to_thread(act, model) if in_thread else act(model)
                await self._commits.done()
                model.check_owned()
                return result
            except LogFailed:
                if last or not model.is_over:  # otherwise it was evicted or taken over: load it
                    raise
        raise AssertionError("unreachable")

    async def _change(self, name: str, act: Callable[[Decisions], T]) -> T:
        """Call `act`, which changes the model and commits, in a thread."""
        await self._check_disk()
        return await self._look(name, act)

    async def _look(self, name: str, act: Callable[[Decisions], T]) -> T:
        """Call `act` in a thread."""
        for last in (False,) * (TRIES - 1) + (True,):
            model = await self._model(name)
            try:
                return await asyncio.to_thread(act, model)
            except LogFailed:
                if last or not model.is_over:
                    raise
        raise AssertionError("unreachable")

    async def _check_disk(self) -> None:
        """Reject the request if the database is too slow or has failed."""
        if self._commits.crowded:
            raise HTTPException(429, "too many requests wait for the disk", {"Retry-After": "1"})
        await self._commits.recovered()

    async def close(self) -> None:
        """End the thread that commits, and close the connections to other workers."""
        self._commits.close()
        if self._client is not None:
            await self._client.aclose()

    async def forward(self, scope: Scope, content: bytes, lease: Lease) -> Response:
        """Send a request to the worker that serves the model, and return its response."""
        given = scope[HEADERS]
        if FORWARDED.encode() in given:  # the lease has just changed
            raise LogFailed("the model is moving to another worker; send the request again")
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=FORWARD_SECONDS)
        headers = {name: given[name] for name in SENT_ON if name in given}
        headers[FORWARDED.encode()] = self.models.store.secret.encode()
        url = f"{lease.address}{scope['raw_path'].decode()}?{scope['query_string'].decode()}"
        try:
            answer = await self._client.request(
                scope["method"], url, content=content, headers=headers
            )
        # The last two are errors of a connection that is reset while it opens.
        except (httpx.HTTPError, OSError, AttributeError) as error:
            raise LogFailed(
                f"the worker {lease.owner} does not answer ({type(error).__name__}); send the "
                "request again"
            ) from None
        returned = ("content-type", "retry-after")
        kept = {name: answer.headers[name] for name in returned if name in answer.headers}
        return Response(answer.content, answer.status_code, kept)


@cache
def _document() -> dict[str, Any]:
    return document()


def key_in_batch(key: str, index: int) -> str:
    """The idempotency key of one decision of a batch, which has a single key.

    >>> key_in_batch("monday", 2), len(key_in_batch("x" * LONGEST_KEY, 999))
    ('monday:2', 68)
    """
    own = f"{key}:{index}"
    if len(own) <= LONGEST_KEY:
        return own
    return f"{hashlib.sha256(key.encode()).hexdigest()}:{index}"


def _count(body: Any) -> int:
    """How many states or actions to add."""
    if body.count is None:
        return 1 if body.names is None else len(body.names)
    return int(body.count)


def _numbers(names: Names, given: list[Any] | None, field: str) -> list[Any] | None:
    return None if given is None else [names.number(value, field) for value in given]


def decision_answer(model: Decisions, decision: Decision) -> dict[str, Any]:
    """A decision for JSON."""
    states, actions, would = model.learner.states, model.learner.actions, decision.would
    return {
        "id": decision.id, "action": decision.action, "action_name": actions.of(decision.action),
        "state": decision.state, "state_name": states.of(decision.state),
        "session": decision.session, "would": would,
        "would_name": None if would is None else actions.of(would), "arm": decision.arm,
        "probability": decision.probability,
    }  # fmt: skip


def model_answer(row: ModelRow) -> dict[str, Any]:
    """A model for JSON."""
    facts = (
        "states", "actions", "decisions", "feedback", "pending", "mean_reward", "last_event",
        "changes",
    )  # fmt: skip
    summary = row.summary or {}
    return {
        "name": row.name, "agent": row.agent, "parameters": row.parameters, "labels": row.labels,
        "created": row.created, "archived": row.archived,
        **{name: summary.get(name) for name in facts},
        "rewards": buckets_of(summary.get("rewards", [])),
    }  # fmt: skip


def one_model_answer(
    row: ModelRow, states: list[str | None] | None, actions: list[str | None] | None,
    mode: str = MODES[0], restarts: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """A model with its names for JSON."""
    names = {"state_names": states or None, "action_names": actions or None}
    return model_answer(row) | names | {"mode": mode, "restarts": list(restarts)}


MOST_WAITING = 1000


class GroupCommit:
    """Combines the waits of many requests into few calls of `commit`.

    While one call runs in a thread, other requests wait for the next one together. If a call fails,
    every request in its group gets the error. The thread gets its groups from a queue: an executor
    of the standard library takes 20 µs more for each pair of requests.
    """

    def __init__(
        self, commit: Callable[[], None], tell: Callable[[str], None] = lambda text: None
    ) -> None:
        """`tell` is told when the database fails, and when it is available again."""
        self._commit, self._tell = commit, tell
        self._gathering: list[asyncio.Future[None]] = []
        self._busy = False
        self._groups: SimpleQueue[Group | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    @property
    def hindered(self) -> bool:
        """Whether the database has failed, or too many requests wait for it."""
        return self.failure is not None or self.crowded

    @property
    def crowded(self) -> bool:
        """Whether too many requests wait for the disk to accept another."""
        return len(self._gathering) >= MOST_WAITING

    async def recovered(self) -> None:
        """After a failure, return when the waiting events are on disk, or raise the error again."""
        if self.failure is not None:
            await self.done()

    async def done(self) -> None:
        """Wait until all events entered so far are on disk."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._gathering.append(mine)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start, loop)  # later, so that other requests can join the group
        await mine

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="commit", daemon=True)
            self._thread.start()
        group, self._gathering = self._gathering, []
        self._groups.put((loop, group))

    def _work(self) -> None:
        """Commit for one group after the other, in the thread."""
        while (given := self._groups.get()) is not None:
            loop, group = given
            failure: BaseException | None = None
            try:
                self._commit()
            except BaseException as error:
                failure = error
            with suppress(RuntimeError):  # the server was stopped at once, and its loop is closed
                loop.call_soon_threadsafe(self._finish, loop, group, failure)

    def _finish(
        self, loop: asyncio.AbstractEventLoop, group: list[asyncio.Future[None]],
        failure: BaseException | None,
    ) -> None:  # fmt: skip
        if self._gathering:
            self._start(loop)  # first, so that the disk does not wait for the answers
        else:
            self._busy = False
        if (self.failure is None) != (failure is None):
            self._tell(
                "the database is available again" if failure is None
                else f"error: the database is unavailable, calls get 503: {failure}"
            )  # fmt: skip
        self.failure = failure
        for waiter in group:
            if waiter.done():  # the request was cancelled
                continue
            if failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(failure)

    def close(self) -> None:
        """End the thread; another one starts if there are more groups."""
        if self._thread is not None:
            self._groups.put(None)
            self._thread = None


Group = tuple[asyncio.AbstractEventLoop, list[asyncio.Future[None]]]


def problem_of(error: SwitchmdpError) -> dict[str, Any]:
    """The problem details of a typed error."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    problem = _problem(status, type(error).__name__, message_of(error))
    field = getattr(error, "field", None)
    return problem if field is None else problem | {"field": str(field)[:LONGEST_MESSAGE]}


def _problem(status: int, name: str, detail: str) -> dict[str, Any]:
    return {
        "type": f"urn:switchmdp:problem:{name}", "title": title_of(name), "status": status,
        "detail": detail[:LONGEST_MESSAGE],
    }  # fmt: skip


def title_of(name: str) -> str:
    """The name of an error in words.

    >>> title_of("TooManyRequests"), title_of("InvalidMDP")
    ('Too many requests', 'Invalid MDP')
    """
    first, *others = re.findall("[A-Z]+(?![a-z])|[A-Z][a-z]+", name)
    return " ".join([first, *(word if word.isupper() else word.lower() for word in others)])


def error_response(status: int, message: str, headers: Any = None) -> Response:
    """A response for an error that has no typed exception."""
    return problem_response(_problem(status, HTTP_ERRORS[status][0], message), headers)


def problem_response(problem: dict[str, Any], headers: Any = None) -> Response:
    """A response with problem details."""
    return Response(f"{json.dumps(problem)}\n", problem["status"], headers, PROBLEM)
