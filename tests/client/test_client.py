"""The Python client: what it sends, what it returns, when it retries and what it raises.

Every test runs with `Client` and with `AsyncClient`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from tests.client.prepared_service import DROPPED, PreparedService

from switchmdp import client as package
from switchmdp.client import Added, AsyncClient, Bucket, Client, Decision, Model, Problem, Retries
from switchmdp.client import answers as errors
from switchmdp.errors import InvalidParameter

DECISION = {
    "id": "1-ab", "action": 1, "action_name": "voucher", "state": 0, "state_name": "new",
    "session": "ann", "arm": "main", "probability": 0.9, "from_a_newer_version": True,
}  # fmt: skip
MODEL = {
    "name": "shop", "agent": "evidence-psrl", "states": 2, "actions": 2,
    "state_names": ["new", "basket"], "action_names": ["sport", "voucher"],
    "rewards": [{"from": 1.0, "to": 2.0, "n": 10, "mean": 0.5}],
}  # fmt: skip
QUICK = Retries(most=3, first=0.001)
UNAVAILABLE = (503, {"title": "Unavailable", "detail": "the database cannot be written"})
Do = Callable[..., Any]


class Blocking:
    """Calls the methods of `Client`."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = Client(url, **{"retries": QUICK} | options)

    def __call__(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.client, method)(*args, **kwargs)

    def listed(self, **kwargs: Any) -> list[Model]:
        return list(self.client.all_models(**kwargs))

    def close(self) -> None:
        self.client.close()


class Awaited:
    """Calls the methods of `AsyncClient`, in one event loop."""

    def __init__(self, url: str, **options: Any) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(url, **{"retries": QUICK} | options)

    def __call__(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.runner.run(getattr(self.client, method)(*args, **kwargs))

    def listed(self, **kwargs: Any) -> list[Model]:
        async def collected() -> list[Model]:
            return [model async for model in self.client.all_models(**kwargs)]

        return self.runner.run(collected())

    def close(self) -> None:
        self.runner.run(self.client.close())
        self.runner.close()


@pytest.fixture(params=[Blocking, Awaited])
def do(request: pytest.FixtureRequest, service: PreparedService) -> Iterator[Any]:
    found = request.param(service.url)
    try:
        yield found
    finally:
        found.close()


def test_importing_the_client_imports_neither_numba_nor_scipy_nor_numpy() -> None:
    heavy = ("numpy", "numba", "scipy", "pydantic", "matplotlib")
    code = (
        "import sys; from switchmdp.client import Client, AsyncClient;"
        f"print(*[m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_missing_httpx_is_an_error_that_names_the_extra() -> None:
    code = "import sys; sys.modules['httpx'] = None; import switchmdp.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra: switchmdp.client needs httpx" in done.stderr
    assert "switchmdp[client]" in done.stderr


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: value for name, value in vars(kind).items() if not name.startswith("_")}

    assert public(Client).keys() == public(AsyncClient).keys()
    for name, method in public(Client).items():
        other = public(AsyncClient)[name]
        assert inspect.signature(method).parameters == inspect.signature(other).parameters
        assert method.__doc__ == other.__doc__
    assert str(inspect.signature(Client.model)) == "(self, name: 'str') -> 'Model'"


def test_every_public_name_of_the_package_exists() -> None:
    assert all(getattr(package, name) for name in package.__all__)


def test_the_client_sends_a_decision_and_its_feedback(do: Do, service: PreparedService) -> None:
    service.prepare((201, DECISION), (200, {"counted": True}))
    decision = do("decide", "a shop", state="new", session="ann", available=("sport", 1))
    assert decision == Decision(
        id="1-ab", action=1, state=0, session="ann", action_name="voucher", state_name="new",
        arm="main", probability=0.9,
    )  # fmt: skip
    assert do("feedback", "a shop", decision, 1.0, next_state="basket") is True
    asked, reported = service.requests
    assert (asked.method, asked.path) == ("POST", "/models/a%20shop/decisions")
    assert asked.body == {"state": "new", "session": "ann", "available": ["sport", 1]}
    assert reported.path == "/models/a%20shop/decisions/1-ab/feedback"
    assert reported.body == {"reward": 1.0, "next_state": "basket"}


def test_a_name_cannot_leave_its_place_in_the_path(do: Do, service: PreparedService) -> None:
    service.prepare((404, {"title": "Not Found"}))
    with pytest.raises(errors.NotFound):
        do("model", "../x?a#b")
    assert service.requests[0].path == "/models/..%2Fx%3Fa%23b"


def test_models_are_created_and_changed(do: Do, service: PreparedService) -> None:
    added = (201, {"state": 2, "states": 3}), (201, {"action": 2, "actions": 4})
    service.prepare((201, MODEL), *added, (200, MODEL), (200, {"deleted": "shop"}))
    model = do(
        "create_model", "shop", states=["new", "basket"], actions=2, parameters={"delta": 0.1}
    )
    assert model.action_names == ("sport", "voucher")
    assert model.rewards == (Bucket(start=1.0, end=2.0, n=10, mean=0.5),)
    assert do("add_states", "shop", ["leaving"], available=[0]) == Added(first=2, total=3)
    assert do("add_actions", "shop", 2) == Added(first=2, total=4)
    do("archive_model", "shop")
    assert do("delete_model", "shop") is None
    assert [(r.method, r.path, r.body) for r in service.requests] == [
        ("POST", "/models", {
            "name": "shop", "parameters": {"delta": 0.1}, "states": ["new", "basket"],
            "actions": 2,
        }),
        ("POST", "/models/shop/states", {"names": ["leaving"], "available": [0]}),
        ("POST", "/models/shop/actions", {"count": 2}),
        ("POST", "/models/shop/archive", None),
        ("DELETE", "/models/shop", None),
    ]  # fmt: skip


def test_models_are_listed_page_by_page(do: Any, service: PreparedService) -> None:
    first, second = MODEL, MODEL | {"name": "web"}
    service.prepare((200, {"models": [first], "next": "shop"}), (200, {"models": [second]}))
    assert [model.name for model in do.listed(search="s w", archived=False)] == ["shop", "web"]
    assert [request.path for request in service.requests] == [
        "/models?search=s+w&archived=false",
        "/models?after=shop&search=s+w&archived=false",
    ]


def test_a_page_of_models_is_iterable(do: Do, service: PreparedService) -> None:
    service.prepare((200, {"models": [MODEL, MODEL | {"name": "web"}], "next": "web"}))
    page = do("models")
    assert [model.name for model in page] == ["shop", "web"]
    assert len(page) == 2


def test_a_batch_returns_a_result_or_a_problem_for_each_item(
    do: Do, service: PreparedService
) -> None:
    refused = {"status": 422, "title": "InvalidState", "detail": "state must be in 0..1, got 7"}
    service.prepare((200, {"results": [{"decision": DECISION}, {"problem": refused}]}))
    first, second = do("decide_batch", "shop", [{"state": 0}, {"state": 7, "session": "bob"}])
    assert isinstance(first, Decision)
    assert isinstance(second, errors.Invalid)
    assert str(second) == "422 InvalidState: state must be in 0..1, got 7"
    assert service.requests[0].body == {"decisions": [{"state": 0}, {"state": 7, "session": "bob"}]}
    service.prepare(
        (200, {"results": [{"counted": True}, {"counted": False}, {"problem": refused}]})
    )
    told = do("feedback_batch", "shop", [(first, 1, 1), ("2-cd", 0, None), ("3-ef", 0, 7)])
    assert told[:2] == [True, False]
    assert isinstance(told[2], Problem)
    assert service.requests[0].body["feedback"][1] == {"id": "2-cd", "reward": 0}


def test_a_batch_with_results_missing_is_an_error(do: Do, service: PreparedService) -> None:
    service.prepare((200, {"results": []}))
    with pytest.raises(errors.UnexpectedAnswer, match="expected 1 results"):
        do("decide_batch", "shop", [{"state": 0}])


@pytest.mark.parametrize("failure", [UNAVAILABLE, (429, {}), (502, b"<html>"), (504, b""), DROPPED])
def test_a_decision_is_retried_with_the_same_key(
    do: Do, service: PreparedService, failure: Any
) -> None:
    service.prepare(failure, failure, (201, DECISION))
    assert do("decide", "shop", state=0).id == "1-ab"
    assert len(service.requests) == 3
    assert len(set(service.keys())) == 1
    assert service.keys()[0]


def test_two_decisions_have_different_keys_and_a_given_key_is_used(
    do: Do, service: PreparedService
) -> None:
    service.prepare((201, DECISION), (201, DECISION), (201, DECISION))
    do("decide", "shop", state=0)
    do("decide", "shop", state=0)
    do("decide", "shop", state=0, key="order 7")
    first, second, third = service.keys()
    assert first != second
    assert third == "order 7"


def test_a_call_fails_after_all_retries(do: Do, service: PreparedService) -> None:
    service.prepare(*[UNAVAILABLE] * 4)
    with pytest.raises(errors.Unavailable, match="503 Unavailable: the database cannot be written"):
        do("feedback", "shop", "1-ab", 1.0)
    assert len(service.requests) == 4
    service.prepare(*[DROPPED] * 4)
    with pytest.raises(
        errors.ConnectionFailed, match=r"GET http://.+/models/shop failed after 4 tries: .+"
    ):
        do("model", "shop")


def test_the_client_does_not_wait_if_retry_after_exceeds_the_longest_pause(
    do: Do, service: PreparedService
) -> None:
    service.prepare((*UNAVAILABLE, {"Retry-After": "30"}))
    with pytest.raises(errors.Unavailable) as caught:
        do("decide", "shop", state=0)
    assert caught.value.retry_after == 30
    assert len(service.requests) == 1


@pytest.mark.parametrize("failure", [DROPPED, (502, {}), (504, {})])
def test_a_model_is_not_created_twice(do: Do, service: PreparedService, failure: Any) -> None:
    service.prepare(failure)
    with pytest.raises((errors.ConnectionFailed, errors.Unavailable)):
        do("create_model", "shop", states=2, actions=2)
    assert len(service.requests) == 1
    service.prepare(UNAVAILABLE, (201, MODEL))
    assert do("create_model", "shop", states=2, actions=2).name == "shop"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest), (401, errors.Unauthorized), (403, errors.Forbidden),
        (404, errors.NotFound), (409, errors.Conflict), (410, errors.Expired),
        (413, errors.BadRequest), (422, errors.Invalid), (500, errors.ServiceFailed),
    ],
)  # fmt: skip
def test_every_refusal_has_its_type_and_is_not_retried(
    do: Do, service: PreparedService, status: int, kind: type[Problem]
) -> None:
    details = {"type": "/problems/x", "title": "X", "detail": "no", "status": status, "field": "f"}
    service.prepare((status, details))
    with pytest.raises(kind) as caught:
        do("explain", "shop", "new")
    assert type(caught.value) is kind
    problem = caught.value
    assert (problem.status, problem.type, problem.title) == (status, "/problems/x", "X")
    assert problem.extensions == {"field": "f"}
    assert len(service.requests) == 1


def test_an_answer_of_another_service_is_an_error(do: Do, service: PreparedService) -> None:
    answers: list[Any] = [b"<html>", [], {"action": 1}, None]
    for answer in answers:
        service.prepare((200, answer))
        with pytest.raises(errors.UnexpectedAnswer):
            do("decide", "shop", state=0)
    service.prepare((404, b"<html>nothing here</html>"))
    with pytest.raises(errors.NotFound, match="nothing here"):
        do("model", "shop")


def test_the_token_is_sent_and_may_come_from_the_environment(
    service: PreparedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMDP_TOKEN", "of-the-environment")
    for given, sent in (("given", "Bearer given"), (None, "Bearer of-the-environment"), ("", None)):
        service.prepare((200, {}))
        with Client(service.url, token=given) as client:
            assert client.is_ready()
        assert service.requests[0].headers.get("authorization") == sent


def test_a_closed_port_is_a_failed_connection() -> None:
    with (
        Client("http://127.0.0.1:1", retries=Retries(most=1, first=0.001)) as client,
        pytest.raises(errors.ConnectionFailed, match="after 2 tries") as caught,
    ):
        client.create_model("shop", states=2, actions=2)
    assert isinstance(caught.value, ConnectionError)
    assert str(caught.value).endswith("; is the service running at this address?")


@pytest.mark.parametrize("url", ["localhost:8000", "", None, "ftp://x", "http://", "http://a?b"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_that_is_not_http_is_refused_at_once(kind: Any, url: Any) -> None:
    with pytest.raises(InvalidParameter, match="url must be an address such as http://"):
        kind(url)


def test_a_token_that_does_not_fit_in_a_header_is_refused_and_not_shown() -> None:
    for token in ("gre\nat", "größe", "two words"):
        with pytest.raises(InvalidParameter, match="token must be ASCII characters") as caught:
            Client("http://localhost:8000", token=token)
        assert token not in str(caught.value)


def test_an_address_may_end_in_a_slash_or_have_a_path(service: PreparedService) -> None:
    for end, path in (("", "/readyz"), ("/", "/readyz"), ("/api/", "/api/readyz")):
        service.prepare((200, {}))
        with Client(service.url + end) as client:
            assert client.is_ready()
        assert service.requests[0].path == path


REFUSED: tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...] = (
    ("feedback", ("shop", "1-ab", math.nan), {}, "reward must be a finite number"),
    ("feedback", ("shop", None, 1), {}, "decision must be a Decision or its id, got None"),
    ("feedback", ("shop", "", 1), {}, "decision must be a Decision or its id, got ''"),
    ("feedback", ("shop", "1-ab", {1}), {}, "the content of a request must be "),
    ("feedback_batch", ("shop", [("1-ab", math.inf, None)]), {}, "reward must be a finite"),
    ("feedback_batch", ("shop", [(Problem(422), 1, None)]), {}, "decision must be a Decision"),
    ("decide_batch", ("shop", [{"stat": 0}]), {}, r"requests\[0\] must be a mapping with any of"),
    ("decide", ("shop",), {"state": 0, "available": "book"}, "available must be a list, got 'b"),
    ("decide", ("shop",), {"state": 0, "key": ""}, "key must be a text of 1 to 200 ASCII"),
    ("decide", ("shop",), {"state": 0, "key": "Größe 7"}, "key must be a text of 1 to 200"),
    ("decide", ("shop",), {"state": 0, "key": "a\nb"}, "key must be a text of 1 to 200 ASCII"),
    ("create_model", ("shop",), {"states": "new", "actions": 2}, "states must be how many, or a"),
    ("add_actions", ("shop", 1.5), {}, "actions must be how many, or a list of names, got 1.5"),
    ("model", ("",), {}, "name must be the name of a model"),
    ("model", ("..",), {}, "name must be the name of a model"),
    ("model", (None,), {}, "name must be the name of a model"),
)


@pytest.mark.parametrize(("method", "args", "kwargs", "message"), REFUSED)
def test_arguments_that_cannot_be_sent_are_refused_at_once(
    do: Do, service: PreparedService, method: str, args: Any, kwargs: Any, message: str
) -> None:
    service.prepare()
    with pytest.raises(InvalidParameter, match=message):
        do(method, *args, **kwargs)
    assert service.requests == []


def test_numbers_and_arrays_of_numpy_are_sent_as_plain_values(
    do: Do, service: PreparedService
) -> None:
    service.prepare(
        (201, DECISION), (200, {"counted": True}), (201, MODEL), (201, {"state": 2, "states": 3}),
        (200, {"mode": "fixed"}), (200, {"arms": []}),
    )  # fmt: skip
    do("decide", "shop", state=np.int64(1), available=np.array([0, 1]))
    do("feedback", "shop", "1-ab", np.float32(0.5), np.uint8(1))
    do("create_model", "shop", states=np.int32(2), actions=np.array(["a", "b"]))
    do("add_states", "shop", np.int64(1))
    do("set_mode", "shop", "fixed", np.zeros(2, np.int64))
    do("set_arms", "shop", [{"name": "r", "share": np.float16(0.5), "policy": np.array([1, 0])}])
    assert [request.body for request in service.requests] == [
        {"state": 1, "available": [0, 1]}, {"reward": 0.5, "next_state": 1},
        {"name": "shop", "states": 2, "actions": ["a", "b"]}, {"count": 1},
        {"mode": "fixed", "policy": [0, 0]}, [{"name": "r", "share": 0.5, "policy": [1, 0]}],
    ]  # fmt: skip


def test_a_redirection_is_not_taken_for_an_answer(do: Do, service: PreparedService) -> None:
    service.prepare((302, {}, {"Location": "/login"}))
    with pytest.raises(errors.UnexpectedAnswer, match="redirected to /login; is this the address"):
        do("model", "shop")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_forked_process_opens_its_own_connection(service: PreparedService) -> None:
    service.prepare(*[(200, {})] * 3)
    with Client(service.url) as client:
        client.is_ready()
        before = client._http
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                client.is_ready()
                os._exit(0 if client._http is not before else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        client.is_ready()
        assert client._http is before
