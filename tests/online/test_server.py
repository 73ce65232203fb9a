"""The server as a process: it is stopped or killed without loss."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

import pytest
from tests.online.serving import Client

from switchmdp.errors import InvalidParameter
from switchmdp.online import Decisions, rebuild
from switchmdp.online.server import address_of, listen

PROGRAM = [sys.executable, "-c", "from switchmdp.cli import main; main()", "serve"]
NEW = ["--agent", "sw-ucrl", "--states", "3", "--actions", "2", "--window", "50"]

Start = Callable[..., tuple[subprocess.Popen[str], Client]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers on the folder `data`; after the test, kill those that still run."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> tuple[subprocess.Popen[str], Client]:
        process = subprocess.Popen(
            [*PROGRAM, "--data", "data", "--port", "0", *options], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), process.communicate()
        return process, Client(int(line.rpartition(":")[2]))

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def _visit(client: Client, told: dict[str, bool], tries: int = 10**9) -> None:
    """Decide and give feedback until the server is gone; `told` records which were acknowledged."""
    try:
        for i in range(tries):
            decision = client.decide(state=i % 3)["id"]
            told[decision] = False
            if client.feedback(decision, 1, (i + 1) % 3).status == 200:
                told[decision] = True
    except (OSError, HTTPException):
        pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_the_server_after_open_requests(
    start: Start, tmp_path: Path, number: int, code: int
) -> None:
    process, client = start(*NEW)
    told: dict[str, bool] = {}
    visitors = [threading.Thread(target=_visit, args=(client, told)) for _ in range(4)]
    for visitor in visitors:
        visitor.start()
    while len(told) < 50:
        visitors[0].join(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    for visitor in visitors:
        visitor.join()
    assert process.returncode == code
    assert err.splitlines()[-1] == "stopped; all acknowledged events are in data"
    assert "Traceback" not in err
    _must_hold(tmp_path / "data", told)
    # Everybody who was let in was answered: nothing was learned that nobody was told of.
    assert rebuild(tmp_path / "data").counted == sum(told.values())


def test_kill_9_under_load_loses_nothing_acknowledged(start: Start, tmp_path: Path) -> None:
    told: dict[str, bool] = {}
    for options in (NEW, []):  # the second server continues with the database of the first
        before = len(told)
        process, client = start(*options)
        visitors = [threading.Thread(target=_visit, args=(client, told)) for _ in range(4)]
        for visitor in visitors:
            visitor.start()
        while len(told) < before + 60:
            visitors[0].join(0.01)
        process.kill()
        process.wait()
        for visitor in visitors:
            visitor.join()
    _must_hold(tmp_path / "data", told)


def _must_hold(folder: Path, told: dict[str, bool]) -> None:
    """The folder knows every decision, and every feedback that was acknowledged, once."""
    with Decisions(None, folder) as decisions:
        learner = decisions.learner
        assert learner.decided >= len(told)
        assert sum(told.values()) <= learner.counted <= learner.decided
        numbers = {int(name.partition("-")[0]): counted for name, counted in told.items()}
        assert all(number in learner.answered for number, counted in numbers.items() if counted)
        known = learner.answered.keys() | learner.pending.keys()
        assert numbers.keys() <= known
    assert rebuild(folder).counted == learner.counted


def test_serve_continues_an_existing_folder(start: Start) -> None:
    first, client = start(*NEW, "--delta", "0.1")
    decision = client.decide(state=1)["id"]
    first.terminate()
    first.communicate(timeout=60)
    _, client = start()
    assert client.feedback(decision, 1, 2).json == {"counted": True}
    believed = client.ask("GET", "/agent").json
    assert believed["agent"]["parameters"] == {"window": 50, "delta": 0.1, "width": 1.0}


def test_an_alert_is_one_line_on_standard_error(start: Start) -> None:
    process, client = start(
        "--agent", "sw-ucrl", "--states", "1", "--actions", "1", "--window", "40"
    )
    for i in range(80):
        client.feedback(client.decide(state=0)["id"], float(i >= 40), 0)
    process.terminate()
    _, err = process.communicate(timeout=60)
    [alert] = [line for line in err.splitlines() if line.startswith("alert: ")]
    assert "in state 0 with action 0, the mean reward changed from " in alert


def test_an_alert_has_the_names_of_state_and_action(start: Start) -> None:
    process, client = start()
    client.ask("POST", "/models", {
        "name": "shop", "agent": "sw-ucrl", "parameters": {"window": 40}, "states": ["café"],
        "actions": ["gift"],
    })  # fmt: skip
    for i in range(80):
        decision = client.ask("POST", "/models/shop/decisions", {"state": "café"}).json["id"]
        path = f"/models/shop/decisions/{decision}/feedback"
        client.ask("POST", path, {"reward": float(i >= 40)})
    told = client.ask("GET", "/models/shop/agent").json["alerts"]
    process.terminate()
    _, err = process.communicate(timeout=60)
    [alert] = [line for line in err.splitlines() if line.startswith("alert: ")]
    named = "alert: model shop: in state 'café' with action 'gift', the mean reward changed from "
    assert alert.startswith(named)
    assert [(each["state_name"], each["action_name"]) for each in told] == [("café", "gift")]


def test_other_hosts_require_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(InvalidParameter, match="host must be a loopback address"):
            listen(host, 0)
    with listen("0.0.0.0", 0, has_token=True) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"
    with pytest.raises(InvalidParameter, match="an address or host name of this machine"):
        listen("no.such.host.invalid", 0)
    asked = [*PROGRAM, *NEW, "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: host must be a loopback address such as ")
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            listen("127.0.0.1", port)


def test_the_printed_address_is_a_valid_url() -> None:
    with listen("localhost", 0) as bound:
        assert address_of(bound) in (
            f"http://127.0.0.1:{bound.getsockname()[1]}", f"http://[::1]:{bound.getsockname()[1]}",
        )  # fmt: skip
    if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
        with listen("::1", 0) as bound:
            assert address_of(bound).startswith("http://[::1]:")
