"""The errors of the client.

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

from collections.abc import Mapping
from typing import Any

from switchmdp.errors import SwitchmdpError


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
