"""serve: the agent, the folder, the warm start, and invalid options."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

from switchmdp.online import Decisions, check, history, models, server

NEW = ("serve", "--data", "data", "--port", "0", "--states", "3", "--actions", "2")
SW = (*NEW, "--agent", "sw-ucrl", "--window", "50")
GO_ON = ("serve", "--data", "data", "--port", "0")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the server by one that stops as soon as it is ready."""
    monkeypatch.delenv("SWITCHMDP_TOKEN", raising=False)

    def serve(app: Any, bound: Any, ready: Callable[[], None]) -> int:
        ready()
        return signal.SIGTERM

    monkeypatch.setattr(server, "serve", serve)


def test_serve_prints_its_address_and_progress(call: Call) -> None:
    result = call(*SW)
    assert result.code == 143
    assert result.out.startswith("listening on http://127.0.0.1:")
    lines = result.err.splitlines()
    assert lines[0] == "compiling the agent ..."
    assert lines[-1] == "stopped; all acknowledged events are in data"


@pytest.mark.parametrize(
    ("agent", "options", "name"),
    [
        ("sw-ucrl", ["--window", "50", "--delta", "0.1"], "SWUCRL"),
        ("sw-ucrl", ["--set", "window=50"], "SWUCRL"),
        ("ucrl2", [], "UCRL2"),
        ("ucrl2-r", ["--set", "changes=4"], "UCRL2R"),
        ("ucrl2-rw", ["--set", "period=100", "--delta", "0.2"], "UCRL2RW"),
        ("random", ["--set", "seed=7"], "Random"),
    ],
)
def test_every_servable_agent_can_be_served_and_continued(
    call: Call, agent: str, options: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "compile_agent", lambda decisions: None)  # once is enough, above
    command = (*NEW, "--agent", agent, *options)
    assert [call(*command).code, call(*GO_ON).code, call(*command).code] == [143] * 3
    with Decisions(None, "data") as decisions:
        assert type(decisions.learner.agent).__name__ == name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*GO_ON, "--agent", "ucrl2"),
            "error: --states must be set, because other options describe an agent, for example: "
            "--states 6 --actions 4\n",
        ),
        ((*GO_ON, "--actions", "2"), "--states must be set, because other options describe"),
        ((*NEW, "--agent", "nobody"), "agent must be one of sw-ucrl, ucrl2, "),
        ((*NEW, "--agent", "SW_UCRL"), "(did you mean 'sw-ucrl'?), got 'SW_UCRL'"),
        ((*NEW, "--agent", "oracle-ucrl2"), "(oracle-ucrl2 needs the change points, so it can"),
        ((*NEW, "--agent", "oracle-kl-ucrl"), "needs the change points"),
        ((*NEW, "--agent", "omniscient"), "needs the problem itself"),
        (
            (*NEW, "--agent", "sw-ucrl"),
            "window must be set, because sw-ucrl requires it (on the command line: --set window=",
        ),
        ((*NEW, "--agent", "ucrl2", "--window", "5"), "parameter of ucrl2 must be one of delta"),
        ((*SW, "--set", "gamma=5"), "parameter of sw-ucrl must be one of window, delta"),
        ((*SW, "--set", "gamma"), "--set must be NAME=VALUE, got 'gamma'"),
        ((*NEW, "--agent", "sw-ucrl", "--set", "window=wide"), "window must be an integer"),
        ((*SW, "--delta", "2"), "delta must be a number strictly between 0 and 1"),
        ((*SW, "--expiry", "-1"), "expiry must be a positive number"),
        ((*SW, "--host", "0.0.0.0"), "--token-file FILE, or the variable SWITCHMDP_TOKEN"),
        ((*SW, "--rate", "nan"), "--rate must be a positive number, got nan"),
        (("serve", "--database", ""), "--database must be a file, such as switchmdp.sqlite, or"),
        ((*SW, "--token-file", "nothing"), "nothing: No such file"),
        ((*SW, "--warm-start", "nothing.csv"), "nothing.csv: No such file"),
    ],
)
def test_invalid_options_are_reported_before_anything_is_created(
    call: Call, arguments: tuple[str, ...], message: str
) -> None:
    result = call(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "got None" not in result.err
    assert not Path("data").exists()


def test_an_agent_other_than_the_stored_one_is_rejected(call: Call) -> None:
    call(*SW)
    result = call(*NEW, "--agent", "sw-ucrl", "--window", "60")
    assert result.code == 2
    assert "switchmdp.sqlite was created with another agent" in result.err
    assert "switchmdp.sqlite was created with another agent" in call(*NEW).err


def test_without_an_agent_the_service_starts_with_an_empty_database(call: Call) -> None:
    result = call(*GO_ON)
    assert result.code == 143
    assert result.out.startswith("listening on ")
    assert check("data") == {"the database": []}


def test_the_default_agent_is_evidence_psrl(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "compile_agent", lambda decisions: None)
    assert call(*NEW).code == 143
    with Decisions(None, "data") as decisions:
        assert type(decisions.learner.agent).__name__ == "EvidencePSRL"


def test_an_unrelated_folder_is_not_touched(call: Call, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "letter.txt").write_text("dear", "utf-8")
    assert call(*SW).code == 4
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["letter.txt"]


def test_the_token_is_in_a_file_or_the_environment(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("sixteen-characters\n", "utf-8")
    assert call(*SW, "--host", "0.0.0.0", "--token-file", "token").code == 143
    monkeypatch.setenv("SWITCHMDP_TOKEN", "sixteen-characters")
    assert call(*GO_ON, "--host", "0.0.0.0").code == 143
    monkeypatch.setenv("SWITCHMDP_TOKEN", "too short")
    result = call(*GO_ON, "--host", "0.0.0.0")
    assert result.code == 2
    assert "token must be at least 16 ASCII characters without spaces" in result.err
    assert "too short" not in result.err
    (tmp_path / "token").write_text("\n", "utf-8")  # an empty one protects nothing
    assert call(*GO_ON, "--token-file", "token").code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "token must be a file with a token in each line, got ''"),
        ("\nshort shop-*\n", "token, line 2: token must be at least 16 ASCII characters"),
        (
            "sixteen-characters\n\nnö-sixteen-characters\n",
            "token, line 3: token must be at least 16",
        ),
        ("a token with spaces\n", "without spaces, got '1 character'"),
    ],
)
def test_a_wrong_file_of_tokens_is_reported_with_its_line(
    call: Call, content: str, message: str
) -> None:
    Path("token").write_text(content, "utf-8")
    for option in ("--token-file", "--metrics-token-file"):
        result = call(*SW, option, "token")
        assert (result.code, result.out) == (2, "")
        assert message in result.err
        assert "sixteen-characters" not in result.err
    assert not Path("data").exists()


def test_a_port_in_use_is_reported_with_advice(call: Call) -> None:
    with server.listen("127.0.0.1", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        result = call("serve", "--data", "data", "--port", port)
    assert result.code == 2
    assert f"127.0.0.1:{port}: " in result.err
    assert result.err.endswith("; stop the program that uses it, or choose another port\n")
    assert not Path("data").exists()


def test_a_token_file_readable_by_others_causes_a_warning(call: Call, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("sixteen-characters\n", "utf-8")
    warning = "warning: other users can read token; to prevent this, run: chmod 600 token\n"
    for mode, warned in ((0o600, False), (0o640, True), (0o604, True), (0o644, True)):
        token.chmod(mode)
        result = call(*SW, "--token-file", "token")
        assert result.code == 143
        assert (warning in result.err) == warned
        assert "sixteen-characters" not in result.err


TABLE = "state,action,reward,next_state\n0,1,0.5,2\n2,0,1,0\n"


def test_a_warm_start_from_a_table(call: Call, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text(TABLE, "utf-8")
    result = call(*SW, "--warm-start", "steps.csv")
    assert result.code == 143
    assert result.err.startswith("learned from 2 steps of steps.csv\n")
    assert list(history("data")) == [(0, 1, 0.5, 2), (2, 0, 1.0, 0)]


def test_a_warm_start_from_another_database(call: Call, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text(TABLE, "utf-8")
    call(*SW, "--warm-start", "steps.csv")
    result = call(*SW, "--data", "other", "--warm-start", "data")
    assert result.code == 143
    assert list(history("other")) == list(history("data"))


@pytest.mark.parametrize(
    ("table", "code", "message"),
    [
        ("state\udcff", 4, "steps.csv is not a CSV file in UTF-8: 'utf-8' codec can't decode"),
        (TABLE + f"{'1' * 200_000},1,1,1\n", 4, "steps.csv is not a CSV file in UTF-8: field"),
        ("", 4, "the first line of steps.csv must be state,action,reward,next_state"),
        ("a,b\n1,2\n", 4, "the first line of steps.csv must be"),
        (TABLE + "1,1,x,1\n", 4, "steps.csv, line 4: not a step: ['1', '1', 'x', '1']"),
        (TABLE + "1,1\n", 4, "steps.csv, line 4: not a step"),
        (TABLE + "1,1,2,1\n", 2, "steps.csv, step 3: reward must be a finite number in [0, 1]"),
        (TABLE + "7,1,1,1\n", 2, "steps.csv, step 3: state must be an integer from 0 to 2"),
        (TABLE + "1,1,nan,1\n", 2, "steps.csv, step 3: reward must be"),
    ],
)
def test_an_invalid_table_creates_no_database(
    call: Call, tmp_path: Path, table: str, code: int, message: str
) -> None:
    (tmp_path / "steps.csv").write_text(table, "utf-8", errors="surrogateescape")
    result = call(*SW, "--warm-start", "steps.csv")
    assert result.code == code
    assert message in result.err
    assert not (tmp_path / "data").exists()


def test_a_warm_start_needs_a_new_database(call: Call, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text(TABLE, "utf-8")
    call(*SW)
    result = call(*SW, "--warm-start", "steps.csv")
    assert result.code == 2
    assert "--warm-start must be omitted: the database is not new" in result.err
    assert list(history("data")) == []


@pytest.mark.parametrize("package", ["uvicorn", "starlette", "httpx", "prometheus_client"])
def test_a_missing_extra_is_named(
    call: Call, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    for module in ("server", "service", "metrics"):
        monkeypatch.delitem(sys.modules, f"switchmdp.online.{module}", raising=False)
    result = call(*SW)
    assert result.code == 2
    assert "pip install 'switchmdp[serve]'" in result.err
    assert not Path("data").exists()
