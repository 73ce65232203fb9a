"""How much, how long, how often and by whom the service lets itself be asked."""

from __future__ import annotations

import json

import pytest
from tests.online.serving import Client, serving

from switchmdp.online import Decisions, protocol

TOKEN = "correct-horse-battery"


def test_a_body_that_is_too_large_is_not_read(decisions: Decisions) -> None:
    chunked = b"POST /decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(decisions, max_body=100) as client:
        assert client.ask("POST", "/decisions", {"state": 1, "session": "x" * 60}).status == 201
        assert client.ask("POST", "/decisions", {"state": 1, "session": "x" * 90}).status == 413
        answer = client.raw(chunked + b"50\r\n" + b" " * 80 + b"\r\n50\r\n" + b" " * 80)
        assert answer.startswith(b"HTTP/1.1 413")
        announced = b"POST /decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1%s\r\n\r\n"
        assert client.raw(announced % (b"0" * 15)).startswith(b"HTTP/1.1 413")


def test_requests_may_come_in_chunks_and_before_the_last_one_is_answered(client: Client) -> None:
    request = (
        b"POST /decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b'Transfer-Encoding: chunked\r\n%s\r\n4\r\n{"st\r\n8\r\nate": %d}\r\n0\r\n\r\n'
    )
    sent = b"".join(request % (b"", state) for state in (2, 0)) + request % (
        b"Connection: close\r\n", 1,
    )  # fmt: skip
    received = client.raw(sent)
    assert received.count(b"HTTP/1.1 201 Created") == 3
    states = [int(part[:1]) for part in received.split(b'"state": ')[1:]]
    assert states == [2, 0, 1]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody speaks TLS
        b"GET\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000,
    ],
)
def test_what_is_not_http_ends_the_connection(client: Client, sent: bytes) -> None:
    received = client.raw(sent)
    assert received.startswith(b"HTTP/1.1 400 Bad Request")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"] == "BadRequest"
    assert client.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST /decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /",
    ],
)
def test_nobody_is_waited_for_for_ever(
    client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(protocol, "PATIENCE", 0.05)
    client.raw(sent)  # returns, because the server closes the connection


def test_with_a_token_nobody_is_told_anything_without_it(decisions: Decisions) -> None:
    with serving(decisions, token=TOKEN) as client:
        for given in (None, TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer é"):
            headers = {} if given is None else {"Authorization": given}
            for path in ("/agent", "/metrics", "/openapi.json", "/nowhere"):
                answer = client.ask("GET", path, headers=headers)
                assert (answer.status, answer.json["error"]) == (401, "Unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/", "/healthz"):
            assert client.ask("GET", path).status == 200
        right = {"Authorization": f"bearer {TOKEN}", "Host": "shop.example"}
        assert client.ask("POST", "/decisions", {"state": 0}, right).status == 201


def test_without_a_token_pages_of_other_sites_are_kept_out(client: Client) -> None:
    for headers in (
        {"Host": "rebound.example"}, {"Host": "127.0.0.1.example:80"}, {"Host": ""},
        {"Origin": "http://other.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
    ):  # fmt: skip
        answer = client.ask("POST", "/restart", headers=headers)
        assert (answer.status, answer.json["error"]) == (403, "Forbidden")
    for host in ("localhost", "LOCALHOST:80", "[::1]", "[::1]:8000", "127.0.0.1"):
        origin = {"Host": host, "Origin": f"http://{host}"}
        assert client.ask("POST", "/restart", headers=origin).status == 200


def test_who_asks_too_often_is_told_when_to_come_again(decisions: Decisions) -> None:
    with serving(decisions, rate=0.01) as client:
        assert client.ask("GET", "/healthz").status == 200
        answer = client.ask("GET", "/healthz")
        assert (answer.status, answer.json["error"]) == (429, "TooManyRequests")
        assert 90 <= int(answer.headers["retry-after"]) <= 100
