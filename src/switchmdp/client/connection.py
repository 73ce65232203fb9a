"""`Client` and `AsyncClient`: they send calls, retry them, and read the answers.

A failure may leave open whether the service has executed the call. So calls are of two kinds:

- *repeatable* calls have the same effect whether they are executed once or twice: reading, feedback
  (it names its decision), and calls with an `Idempotency-Key` that all tries share (decisions, new
  states and actions). They are retried after every failure of the connection and after 429, 502,
  503 and 504.
- the other calls (creating and deleting models, restarting) are retried only if the service refused
  them (429, 503) or the connection could not be opened.

The n-th pause is drawn at random between 0 and min(longest, first · 2^(n-1)) seconds ("full
jitter"), so that clients that failed together do not come back together. It is at least the
`Retry-After` of the service. If that exceeds the longest pause, the call fails at once.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from switchmdp.client import calls
from switchmdp.client.answers import ConnectionFailed, Model, UnexpectedAnswer, problem
from switchmdp.client.calls import Call
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.version import __version__

try:
    import httpx
except ImportError as error:
    raise MissingExtra("switchmdp.client needs httpx: pip install 'switchmdp[client]'") from error

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])
ADDRESS = re.compile(r"https?://[^/?#\s]+[^?#\s]*")
WRONG_ADDRESS = "is this the address of the service?"
REFUSED = frozenset({429, 503})
UNCERTAIN = frozenset({502, 504})  # of a proxy: the service may have executed the call


@dataclass(frozen=True)
class Retries:
    """How often calls are retried, and how long the pauses are.

    Parameters
    ----------
    most
        The number of retries after the first try.
    first, longest
        The upper limits of the first pause and of all pauses, in seconds.
    draw
        A function that draws a number between two limits.
    """

    most: int = 5
    first: float = 0.1
    longest: float = 10.0
    draw: Callable[[float, float], float] = random.uniform

    def pause(self, tries: int, retry_after: float | None = None) -> float | None:
        """The seconds to wait before the next try.

        Parameters
        ----------
        tries
            The number of tries so far.
        retry_after
            The seconds that the service has asked to wait.

        Returns
        -------
        float | None
            The seconds; None to give up.

        Examples
        --------
        >>> patient = Retries(most=2, draw=max)
        >>> [patient.pause(tries) for tries in (1, 2, 3)]
        [0.1, 0.2, None]
        >>> patient.pause(1, retry_after=3.0), patient.pause(1, retry_after=60.0)
        (3.0, None)
        """
        if tries > self.most or (retry_after or 0) > self.longest:
            return None
        limit = min(self.longest, self.first * 2.0 ** min(tries - 1, 60))
        return max(self.draw(0.0, limit), retry_after or 0.0)


def is_retried(status: int, *, repeatable: bool) -> bool:
    """Whether a call is retried after this status."""
    return status in REFUSED or (repeatable and status in UNCERTAIN)


def seconds_to_wait(header: str | None) -> float | None:
    """The value of a `Retry-After` header: seconds, or a date; None if it is neither.

    >>> seconds_to_wait("3"), seconds_to_wait("soon"), seconds_to_wait(None)
    (3.0, None, None)
    >>> seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def blocking(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method of `Client` that sends the call."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return _described(method, build)


def awaitable(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method of `AsyncClient` that sends the call."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return _described(method, build)


def _described(method: M, build: Callable[..., Any]) -> M:
    """Give a method the name, the documentation and the signature of its call."""
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    result = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    signature = signature.replace(
        parameters=[self, *signature.parameters.values()], return_annotation=result
    )
    vars(method)["__signature__"] = signature
    return method


class Address:
    """Where the service is, and the token for it: makes HTTP requests of calls."""

    def __init__(self, url: str, token: str | None) -> None:
        token = (os.environ.get("SWITCHMDP_TOKEN") or "" if token is None else token).strip()
        if not isinstance(url, str) or not ADDRESS.fullmatch(url):
            raise InvalidParameter("url", url, "an address such as http://localhost:8000")
        if not (token.isascii() and token.isprintable()) or " " in token:  # the error hides it
            hidden = f"{len(token)} characters"
            raise InvalidParameter("token", hidden, "ASCII characters without spaces")
        self.url = url.rstrip("/")
        self.headers = {"User-Agent": f"switchmdp/{__version__}", "Accept": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def request(self, http: httpx.Client | httpx.AsyncClient, call: Call[Any]) -> httpx.Request:
        """The HTTP request of a call."""
        content, headers = None, self.headers | dict(call.headers)
        if call.body is not None:
            content, headers["Content-Type"] = encoded(call.body), "application/json"
        return http.build_request(
            call.method, self.url + call.path, content=content, params=call.query or None,
            headers=headers, timeout=call.timeout or http.timeout,
        )  # fmt: skip


def encoded(body: Any) -> bytes:
    """A body as JSON. NumPy's numbers and arrays are sent as numbers and lists.

    >>> encoded({"reward": 1.0})
    b'{"reward": 1.0}'
    """
    try:
        return json.dumps(body, allow_nan=False, default=_as_plain).encode()
    except (TypeError, ValueError) as error:  # ValueError: NaN or an infinite number
        allowed = f"texts, finite numbers, lists and mappings ({error})"
        raise InvalidParameter("the content of a request", body, allowed) from None


def _as_plain(value: Any) -> Any:
    """The Python value of a number or array of NumPy, which the client does not import."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent")


class Tries(Generic[T]):
    """The tries of one call: after each, either its result, an error, or seconds to wait."""

    def __init__(self, call: Call[T], retries: Retries) -> None:
        self.call, self.retries, self.made = call, retries, 0

    def after_answer(self, answer: httpx.Response) -> float | None:
        """Seconds to wait before the next try; None if this answer is final."""
        self.made += 1
        if not is_retried(answer.status_code, repeatable=self.call.repeatable):
            return None
        return self.retries.pause(self.made, seconds_to_wait(answer.headers.get("Retry-After")))

    def after_failure(self, failure: httpx.TransportError) -> float:
        """Seconds to wait before the next try; raises ConnectionFailed if there is none."""
        self.made += 1
        never_sent = isinstance(
            failure, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        )
        pause = self.retries.pause(self.made) if self.call.repeatable or never_sent else None
        if pause is None:
            tries = "1 try" if self.made == 1 else f"{self.made} tries"
            what = f"{self.call.method} {failure.request.url}"
            reason = str(failure) or type(failure).__name__
            if never_sent:
                reason += "; is the service running at this address?"
            raise ConnectionFailed(f"{what} failed after {tries}: {reason}") from failure
        return pause

    def result(self, answer: httpx.Response) -> T:
        """What the call returns; raises the problem if the service refused it."""
        if answer.is_redirect:
            to = answer.headers.get("Location")
            raise UnexpectedAnswer(f"{_asked(answer)} was redirected to {to}; {WRONG_ADDRESS}")
        content = _content(answer)
        if answer.is_success:
            return self.call.read(content)
        retry_after = seconds_to_wait(answer.headers.get("Retry-After"))
        if not isinstance(content, dict):
            content = {"title": answer.reason_phrase, "detail": answer.text[:200]}
        raise problem(answer.status_code, content, retry_after)


def _content(answer: httpx.Response) -> Any:
    try:
        return answer.json() if answer.content else None
    except json.JSONDecodeError:
        if answer.is_success:
            message = f"the answer to {_asked(answer)} is not JSON; {WRONG_ADDRESS}"
            raise UnexpectedAnswer(message) from None
        return None


def _asked(answer: httpx.Response) -> str:
    return f"{answer.request.method} {answer.request.url}"


class Client:
    """A client whose methods block. Threads may share it, and a forked process may use its copy.

    Parameters
    ----------
    url : str
        The address of the service, such as `http://localhost:8000`.
    token : str, optional
        The bearer token; by default the environment variable `SWITCHMDP_TOKEN`, if it is set.
    timeout : float
        Seconds that one try may take; creating a model may take longer.
    retries : Retries, optional
        How often calls are retried, and how long the pauses are. `Retries(most=0)` never retries.
    http : httpx.Client, optional
        The HTTP client to use, for proxies, certificates or limits of your own. You close it;
        `timeout` is not applied to it.

    Raises
    ------
    ServiceError
        Every method raises one of its subclasses if the call fails (`switchmdp.client.problems`).
    InvalidParameter
        The address, the token, or an argument that cannot be sent. Nothing was sent then.

    Examples
    --------
    >>> with Client("http://localhost:8000") as client:  # doctest: +SKIP
    ...     client.decide("shop", state="new", session="ann").action_name
    'books'
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0,
        retries: Retries | None = None, http: httpx.Client | None = None,
    ) -> None:  # fmt: skip
        self._address = Address(url, token)
        self._retries, self._timeout = retries or Retries(), timeout
        self._http, self._owned = http or httpx.Client(timeout=timeout), http is None
        self._process = os.getpid()

    create_model = blocking(calls.create_model)
    models = blocking(calls.models)
    model = blocking(calls.model)
    delete_model = blocking(calls.delete_model)
    archive_model = blocking(calls.archive_model)
    unarchive_model = blocking(calls.unarchive_model)
    add_states = blocking(calls.add_states)
    add_actions = blocking(calls.add_actions)
    set_mode = blocking(calls.set_mode)
    restart = blocking(calls.restart)
    decide = blocking(calls.decide)
    feedback = blocking(calls.feedback)
    decide_batch = blocking(calls.decide_batch)
    feedback_batch = blocking(calls.feedback_batch)
    explain = blocking(calls.explain)
    set_arms = blocking(calls.set_arms)
    arms = blocking(calls.arms)
    history = blocking(calls.history)
    is_ready = blocking(calls.is_ready)

    def all_models(
        self, *, search: str | None = None, archived: bool | None = None
    ) -> Iterator[Model]:
        """All models, ordered by name; they are requested page by page.

        Parameters
        ----------
        search
            Only models whose name contains this text.
        archived
            Whether to list archived models instead of active ones.

        Yields
        ------
        Model
            A model.
        """
        page = self.models(search=search, archived=archived)
        yield from page.models
        while page.next is not None:
            page = self.models(after=page.next, search=search, archived=archived)
            yield from page.models

    def send(self, call: Call[T]) -> T:
        """Send a call, and retry it if necessary.

        Parameters
        ----------
        call
            The call, as the functions of `calls` make it.

        Returns
        -------
        T
            The result of the call.

        Raises
        ------
        ServiceError
            If the call fails; one of its subclasses.
        """
        if self._owned and self._process != os.getpid():  # a fork: the parent uses its connections
            self._http, self._process = httpx.Client(timeout=self._timeout), os.getpid()
        tries, request = Tries(call, self._retries), self._address.request(self._http, call)
        while True:
            try:
                answer = self._http.send(request)
                pause = tries.after_answer(answer)
                if pause is None:
                    return tries.result(answer)
            except httpx.TransportError as failure:
                pause = tries.after_failure(failure)
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections."""
        if self._owned:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """A client for asyncio: `Client` with awaitable methods. The arguments are the same.

        async with AsyncClient("http://localhost:8000") as client:
            decision = await client.decide("shop", state="new")

    Parameters
    ----------
    url
        The address of the service, such as `http://localhost:8000`.
    token
        The bearer token; by default the environment variable `SWITCHMDP_TOKEN`, if it is set.
    timeout
        Seconds that one try may take; creating a model may take longer.
    retries
        How often calls are retried, and how long the pauses are.
    http
        The httpx.AsyncClient to use. You close it; `timeout` is not applied to it.

    Examples
    --------
    >>> async def choose():
    ...     async with AsyncClient("http://localhost:8000") as client:
    ...         return (await client.decide("shop", state="new")).action_name
    >>> asyncio.run(choose())  # doctest: +SKIP
    'books'
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0,
        retries: Retries | None = None, http: httpx.AsyncClient | None = None,
    ) -> None:  # fmt: skip
        self._address = Address(url, token)
        self._retries = retries or Retries()
        self._http, self._owned = http or httpx.AsyncClient(timeout=timeout), http is None

    create_model = awaitable(calls.create_model)
    models = awaitable(calls.models)
    model = awaitable(calls.model)
    delete_model = awaitable(calls.delete_model)
    archive_model = awaitable(calls.archive_model)
    unarchive_model = awaitable(calls.unarchive_model)
    add_states = awaitable(calls.add_states)
    add_actions = awaitable(calls.add_actions)
    set_mode = awaitable(calls.set_mode)
    restart = awaitable(calls.restart)
    decide = awaitable(calls.decide)
    feedback = awaitable(calls.feedback)
    decide_batch = awaitable(calls.decide_batch)
    feedback_batch = awaitable(calls.feedback_batch)
    explain = awaitable(calls.explain)
    set_arms = awaitable(calls.set_arms)
    arms = awaitable(calls.arms)
    history = awaitable(calls.history)
    is_ready = awaitable(calls.is_ready)

    async def all_models(
        self, *, search: str | None = None, archived: bool | None = None
    ) -> AsyncIterator[Model]:
        """All models, ordered by name; they are requested page by page.

        Parameters
        ----------
        search
            Only models whose name contains this text.
        archived
            Whether to list archived models instead of active ones.

        Yields
        ------
        Model
            A model.
        """
        page = await self.models(search=search, archived=archived)
        for model in page.models:
            yield model
        while page.next is not None:
            page = await self.models(after=page.next, search=search, archived=archived)
            for model in page.models:
                yield model

    async def send(self, call: Call[T]) -> T:
        """Send a call, and retry it if necessary.

        Parameters
        ----------
        call
            The call, as the functions of `calls` make it.

        Returns
        -------
        T
            The result of the call.

        Raises
        ------
        ServiceError
            If the call fails; one of its subclasses.
        """
        tries, request = Tries(call, self._retries), self._address.request(self._http, call)
        while True:
            try:
                answer = await self._http.send(request)
                pause = tries.after_answer(answer)
                if pause is None:
                    return tries.result(answer)
            except httpx.TransportError as failure:
                pause = tries.after_failure(failure)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close the connections."""
        if self._owned:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
