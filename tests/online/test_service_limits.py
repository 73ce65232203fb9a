"""The limits of the service: sizes, times, rates, connections and origins of requests."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.online.serving import Client, serving

from switchmdp.online import Decisions, server

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


def test_requests_may_be_chunked_and_pipelined(client: Client) -> None:
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


def test_a_client_may_wait_for_100_continue(client: Client) -> None:
    head = (
        b"POST /decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 12\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    with connected(client.port) as connection:
        connection.sendall(head)
        assert connection.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"state": 1}')
        received = b""
        while part := connection.recv(1024):
            received += part
    assert received.startswith(b"HTTP/1.1 201 Created")
    assert received.endswith(b"}\n")


def test_the_head_of_a_response_is_sent_together_with_its_body() -> None:
    sent: list[bytes] = []

    class Network(asyncio.Transport):
        def write(self, data: Any) -> None:
            sent.append(data)

        def close(self) -> None:
            sent.append(b"closed")

    response = server._HeadWithBody(Network())
    for data in (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"{}", b"more"):
        response.write(data)
    assert sent == [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}", b"more"]
    without_body = server._HeadWithBody(Network())
    without_body.write(b"HTTP/1.1 200 OK\r\n\r\n")
    assert len(sent) == 3
    without_body.close()
    assert sent[3:] == [b"HTTP/1.1 200 OK\r\n\r\n", b"closed"]


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
def test_invalid_http_closes_the_connection(client: Client, sent: bytes) -> None:
    received = client.raw(sent)
    assert received.startswith(b"HTTP/1.1 400 Bad Request")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["title"] == "Bad request"
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
def test_incomplete_requests_time_out(
    client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "TIMEOUT", 0.05)
    received = client.raw(sent)  # returns, because the server closes the connection
    assert received.count(b"HTTP/1.1 200 OK") == sent.count(b"GET /healthz")
    assert client.ask("GET", "/healthz").status == 200


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_open(connection: socket.socket) -> bool:
    """Whether the connection is still open."""
    connection.settimeout(0)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def asked(connection: socket.socket, token: str = "", path: str = "/metrics") -> bytes:
    """The first line of the answer."""
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    connection.settimeout(30)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode())
    received = b""
    while True:
        received += connection.recv(65536)
        head, found, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if found and length and len(body) >= int(length[1]):
            return head.partition(b"\r\n")[0]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of a thousand connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_900_idle_unauthenticated_connections_do_not_block_a_client_with_the_token(
    decisions: Decisions,
) -> None:
    with serving(decisions, token=TOKEN) as client, ExitStack() as stack:
        early = stack.enter_context(connected(client.port))
        assert asked(early, TOKEN) == b"HTTP/1.1 200 OK"
        idle = [stack.enter_context(connected(client.port)) for _ in range(900)]
        right = {"Authorization": f"Bearer {TOKEN}"}
        for _ in range(20):
            assert client.ask("POST", "/decisions", {"state": 0}, right).status == 201
        assert asked(early, TOKEN) == b"HTTP/1.1 200 OK"
        left = sum(map(is_open, idle))
        assert 0 < left <= server.MOST_UNAUTHENTICATED_FROM_ADDRESS
        assert is_open(idle[-1])  # the one that was idle longest was closed first


def test_unauthenticated_connections_are_limited_in_total(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_UNAUTHENTICATED", 5)
    with serving(decisions, token=TOKEN) as client, ExitStack() as stack:
        known = [stack.enter_context(connected(client.port)) for _ in range(4)]
        assert {asked(one, TOKEN) for one in known} == {b"HTTP/1.1 200 OK"}
        strangers = [stack.enter_context(connected(client.port)) for _ in range(4)]
        assert {asked(one) for one in strangers} == {b"HTTP/1.1 401 Unauthorized"}
        assert {asked(one, path="/healthz") for one in strangers} == {b"HTTP/1.1 200 OK"}
        more = [stack.enter_context(connected(client.port)) for _ in range(4)]
        assert asked(more[-1], TOKEN) == b"HTTP/1.1 200 OK"
        assert [is_open(one) for one in strangers] == [False] * 3 + [True]
        assert all(map(is_open, more))
        assert {asked(one, TOKEN) for one in known} == {b"HTTP/1.1 200 OK"}


def test_connections_per_address_are_limited_and_the_longest_idle_is_closed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_FROM_ADDRESS", 4)
    with ExitStack() as stack:
        known = [stack.enter_context(connected(client.port)) for _ in range(4)]
        for one in (*known[1:], known[0]):
            assert asked(one) == b"HTTP/1.1 200 OK"
        newest = stack.enter_context(connected(client.port))
        assert asked(newest) == b"HTTP/1.1 200 OK"
        assert [is_open(one) for one in known] == [True, False, True, True]


def test_a_busy_connection_is_not_closed_for_a_new_one(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    half = b"POST /decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with serving(decisions) as client, ExitStack() as stack:
        busy = [stack.enter_context(connected(client.port)) for _ in range(2)]
        for one in busy:
            assert asked(one) == b"HTTP/1.1 200 OK"
            one.sendall(half)
        time.sleep(0.1)  # until the server has read it
        newest = stack.enter_context(connected(client.port))
        assert newest.recv(1) == b""
        for one in busy:
            one.sendall(b'Content-Length: 12\r\n\r\n{"state": 1}')
            assert one.recv(12) == b"HTTP/1.1 201"


def test_unauthenticated_connections_have_a_shorter_idle_timeout(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TIMEOUT", 0.2)
    with serving(decisions, token=TOKEN) as client, ExitStack() as stack:
        stranger, known = (stack.enter_context(connected(client.port)) for _ in range(2))
        assert asked(known, TOKEN) == b"HTTP/1.1 200 OK"
        for _ in range(3):
            assert asked(stranger) == b"HTTP/1.1 401 Unauthorized"
            time.sleep(0.1)
        assert stranger.recv(1) == b""
        assert is_open(known)
        assert asked(known, TOKEN) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("size", [100, 1460, 4096, 65536, 10**7])
def test_pipelined_requests_are_all_answered(client: Client, size: int) -> None:
    """The result does not depend on how requests are cut into packets."""
    padding = "x" * 300
    request = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {padding}\r\n\r\n".encode()
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    sent = request * 250 + last
    assert len(sent) > 2 * server.LARGEST_HEAD
    received = b""
    with connected(client.port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for first in range(0, len(sent), size):
            connection.sendall(sent[first : first + size])
        while part := connection.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200 OK") == 251
    assert received.count(b"HTTP/1.1") == 251


@pytest.mark.parametrize("sent_in", [100, 1460, 10**6])
def test_heads_are_limited(client: Client, sent_in: int) -> None:
    before = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    for size, status in ((server.LARGEST_HEAD, b"200"), (server.LARGEST_HEAD + 10_000, b"400")):
        head = before + b"x" * (size - len(before) - 4) + b"\r\n\r\n"
        with connected(client.port) as connection, suppress(ConnectionError):
            for first in range(0, size, sent_in):
                connection.sendall(head[first : first + sent_in])
            assert connection.recv(12) == b"HTTP/1.1 " + status


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nhost: other\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n", 200),
    ],
)
def test_a_request_must_have_one_host_header(client: Client, head: bytes, status: int) -> None:
    received = client.raw(head + b"Connection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 %d" % status)
    if status == 400:
        told = json.loads(received.partition(b"\r\n\r\n")[2])
        assert told["detail"].startswith("a request must have exactly one Host header, got ")
        body = b"POST /restart HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
        assert client.raw(body).startswith(b"HTTP/1.1 400")


def test_requests_without_the_token_are_rejected(decisions: Decisions) -> None:
    with serving(decisions, token=TOKEN) as client:
        for given in (None, TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer é"):
            headers = {} if given is None else {"Authorization": given}
            for path in ("/agent", "/metrics", "/openapi.json", "/nowhere"):
                answer = client.ask("GET", path, headers=headers)
                assert (answer.status, answer.error) == (401, "Unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/", "/healthz"):
            assert client.ask("GET", path).status == 200
        right = {"Authorization": f"bearer {TOKEN}", "Host": "shop.example"}
        assert client.ask("POST", "/decisions", {"state": 0}, right).status == 201


def test_without_a_token_pages_of_other_sites_are_rejected(client: Client) -> None:
    for headers in (
        {"Host": "rebound.example"}, {"Host": "127.0.0.1.example:80"}, {"Host": ""},
        {"Origin": "http://other.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
    ):  # fmt: skip
        answer = client.ask("POST", "/restart", headers=headers)
        assert (answer.status, answer.error) == (403, "Forbidden")
    for host in ("localhost", "LOCALHOST:80", "[::1]", "[::1]:8000", "127.0.0.1"):
        origin = {"Host": host, "Origin": f"http://{host}"}
        assert client.ask("POST", "/restart", headers=origin).status == 200


def test_too_many_requests_get_retry_after(decisions: Decisions) -> None:
    with serving(decisions, rate=0.01) as client:
        assert client.ask("GET", "/healthz").status == 200
        answer = client.ask("GET", "/healthz")
        assert (answer.status, answer.error) == (429, "TooManyRequests")
        assert 90 <= int(answer.headers["retry-after"]) <= 100
