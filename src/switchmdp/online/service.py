"""The service: decisions over HTTP, as JSON (a Starlette application).

A handler enters its event, which takes microseconds, and waits with all others for the disk
(`commits`); what is answered is durable. Errors are typed and answered as
`{"error": "InvalidState", "message": "state must be an integer from 0 to 4, got 7"}`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    LogFailed,
    MissingExtra,
    SwitchmdpError,
    UnknownDecision,
)

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route as StarletteRoute
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.beliefs import beliefs
from switchmdp.online.bodies import read
from switchmdp.online.commits import Commits
from switchmdp.online.decisions import Decisions
from switchmdp.online.guard import ROUTE, Guard, refusal
from switchmdp.online.metrics import Metrics
from switchmdp.online.openapi import document
from switchmdp.online.page import content_security_policy, page
from switchmdp.online.routes import REFUSALS, ROUTES, Route

MAX_BODY = 64 * 1024
RATE = 5000.0
STATUS: dict[type[SwitchmdpError], int] = {
    UnknownDecision: 404,
    ConflictingFeedback: 409,
    ForgottenDecision: 410,
    LogFailed: 503,
    SwitchmdpError: 422,
}


def application(
    decisions: Decisions, *, token: str | None = None, rate: float = RATE, max_body: int = MAX_BODY
) -> Guard:
    """The ASGI application over decisions, which stay the caller's to close.

    `token`: asked of every caller; without one only this machine may call. `rate`: requests a
    second of one client. `max_body`: bytes.
    """
    metrics = Metrics()
    service = Service(decisions, metrics)
    app = Starlette(
        routes=[
            StarletteRoute(route.path, _endpoint(service, route, max_body), methods=[route.method])
            for route in ROUTES
        ],
        exception_handlers={
            SwitchmdpError: _typed, HTTPException: _plain, ClientDisconnect: _gone, 500: _fault,
        },
    )  # fmt: skip
    app.router.redirect_slashes = False
    return Guard(app, metrics, token=token, rate=rate)


def _endpoint(
    service: Service, route: Route, max_body: int
) -> Callable[[Request], Awaitable[Response]]:
    answer = getattr(service, route.name)

    async def endpoint(request: Request) -> Response:
        request.scope[ROUTE] = route.path
        given = await read(request, route, max_body) if route.method == "POST" else {}
        found = await answer(**request.path_params, **given)
        if isinstance(found, Response):
            return found
        return Response(json.dumps(found, allow_nan=False), route.status, None, route.media)

    return endpoint


class Service:
    """One method for each route; the keys of a body are its arguments."""

    def __init__(self, decisions: Decisions, metrics: Metrics) -> None:
        self.decisions, self._metrics = decisions, metrics
        self._commits = Commits(decisions.commit)

    async def decide(self, **given: Any) -> dict[str, Any]:
        """`Decisions.decide`."""
        await self._admitted()
        decision, _ = self.decisions.enter_decision(**given)
        await self._commits.done()
        return vars(decision)

    async def feedback(
        self, id: str, reward: float, next_state: int,  # noqa: A002  # the request's own word
    ) -> dict[str, Any]:  # fmt: skip
        """`Decisions.feedback`."""
        await self._admitted()
        try:
            counted, _ = self.decisions.enter_feedback(id, reward, next_state)
        except SwitchmdpError as error:
            self._metrics.feedback("refused", type(error).__name__)
            raise
        await self._commits.done()
        self._metrics.feedback("counted" if counted else "duplicate")
        return {"counted": counted}

    async def _admitted(self) -> None:
        """Nobody enters anything while the disk does not take what is entered already."""
        if self._commits.crowded:
            raise HTTPException(429, "too many requests wait for the disk", {"Retry-After": "1"})
        await self._commits.recovered()

    async def mode(self, mode: str, policy: list[int] | None = None) -> dict[str, Any]:
        """`Decisions.set_mode`."""
        await self._change(self.decisions.set_mode, mode, policy)
        return {"mode": mode}

    async def add_state(self, available: list[int] | None = None) -> dict[str, Any]:
        """`Decisions.add_state`."""
        return {"state": await self._change(self.decisions.add_state, available)}

    async def add_action(self, states: list[int] | None = None) -> dict[str, Any]:
        """`Decisions.add_action`."""
        return {"action": await self._change(self.decisions.add_action, states)}

    async def restart(self) -> dict[str, Any]:
        """`Decisions.start_over`."""
        await self._change(self.decisions.start_over)
        return {"restarted": True}

    async def _change(self, happen: Callable[..., Any], *given: Any) -> Any:
        """What is rare and takes longer, in a thread."""
        await self._admitted()
        return await asyncio.to_thread(happen, *given)

    async def agent(self) -> dict[str, Any]:
        """What it believes."""
        return await asyncio.to_thread(beliefs, self.decisions)

    async def metrics(self) -> Response:
        """Numbers for Prometheus."""
        failed = self._commits.failure is not None
        text = await asyncio.to_thread(self._metrics.text, self.decisions, failed)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def health(self) -> dict[str, Any]:
        """Whether decisions can be made; tries the disk again where it has failed."""
        try:
            await self._commits.recovered()
        except LogFailed:  # its own words name the folder, and anybody may ask here
            raise LogFailed("the log can't be written") from None
        return {"status": "ok"}

    async def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return document()

    async def page(self) -> Response:
        """The live page."""
        return HTMLResponse(page(), headers={"Content-Security-Policy": content_security_policy()})


async def _typed(request: Request, error: Any) -> Response:
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return refusal(status, str(error), type(error).__name__)


async def _plain(request: Request, error: Any) -> Response:
    status = error.status_code
    message = REFUSALS[status][1] if status in (404, 405) else error.detail
    return refusal(status, message, headers=error.headers)


async def _gone(request: Request, error: Any) -> Response:
    return refusal(400, "the body did not come")  # to nobody


async def _fault(request: Request, error: Any) -> Response:
    return refusal(500, "a fault of the service; its log says more")
