"""The database of the service on the command line: serve, check and import."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call
from tests.online.workbench import live, sql, sw_ucrl

from switchmdp.online import Decisions, server, verify
from switchmdp.online.models import Models
from switchmdp.online.sqlite import SQLite

GOLDEN = Path(__file__).parents[1] / "online" / "golden"
SERVE = ("serve", "--port", "0", "--states", "3", "--actions", "2", "--agent", "random")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the server by one that stops as soon as it is ready."""

    def serve(app: Any, bound: Any, ready: Callable[[], None]) -> int:
        ready()
        return signal.SIGTERM

    monkeypatch.setattr(server, "serve", serve)


def test_serve_takes_a_database_or_a_folder(call: Call) -> None:
    assert call(*SERVE, "--database", "all.sqlite").code == 143
    assert call(*SERVE, "--data", "shop").code == 143
    assert Path("all.sqlite").exists()
    assert Path("shop", "switchmdp.sqlite").exists()
    result = call(*SERVE, "--database", "all.sqlite", "--data", "shop")
    assert (result.code, "--database must be omitted if --data is set" in result.err) == (2, True)


def test_serve_needs_no_arguments(call: Call) -> None:
    result = call("serve", "--port", "0")
    assert result.code == 143
    assert "the database is switchmdp.sqlite\nit has no models yet; http://127.0.0.1:" in result.err
    assert Path("switchmdp.sqlite").exists()


def test_check_reports_damage_and_its_absence(call: Call) -> None:
    with Decisions(sw_ucrl(), "shop.sqlite", sync=False) as decisions:
        live(decisions, 10)
    result = call("check", "--database", "shop.sqlite")
    assert (result.code, result.out) == (0, "the database: ok\nmodel main: ok\n")
    sql(Path("shop.sqlite"), "UPDATE events SET state = 3 - state WHERE number = 5")
    result = call("check", "--database", "shop.sqlite")
    assert result.code == 4
    assert "model main: damaged\n  event 5 is damaged: it does not match its checksum" in result.out
    result = call("check", "--database", "shop.sqlite", "--json")
    report = json.loads(result.out)
    assert (result.code, report["exit"], report["damage"]["the database"]) == (4, 4, [])
    assert len(report["damage"]["model main"]) == 2


def test_check_takes_the_database_as_an_argument_or_an_option(call: Call) -> None:
    with Decisions(sw_ucrl(), "shop.sqlite", sync=False) as decisions:
        live(decisions, 10)
    by_argument = call("check", "shop.sqlite")
    assert by_argument.code == 0
    assert by_argument == call("check", "--database", "shop.sqlite")
    both = call("check", "shop.sqlite", "--database", "shop.sqlite")
    assert "LOG must be omitted if --data or --database is set" in both.err


def test_check_needs_a_database(call: Call) -> None:
    result = call("check")
    assert result.code == 2
    assert result.err.endswith("for example: switchmdp check switchmdp.sqlite\n")
    result = call("check", "--database", "nowhere.sqlite")
    assert (result.code, result.err) == (4, "error: there is no database nowhere.sqlite\n")
    assert not Path("nowhere.sqlite").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a database of switchmdp"),
        (b"a letter, not a database", "cannot be opened: file is not a database"),
    ],
)
def test_check_rejects_other_files(call: Call, content: bytes, message: str) -> None:
    Path("letter.sqlite").write_bytes(content)
    result = call("check", "--database", "letter.sqlite")
    assert (result.code, result.err) == (4, f"error: letter.sqlite {message}\n")
    assert Path("letter.sqlite").read_bytes() == content


def test_serve_does_not_change_the_database_of_another_program(call: Call) -> None:
    file = Path("theirs.sqlite")
    sql(file, "CREATE TABLE notes (text)")
    file.chmod(0o644)
    before = file.read_bytes()
    result = call(*SERVE, "--database", file)
    assert (result.code, result.err) == (4, f"error: {file} is not a database of switchmdp\n")
    assert (file.stat().st_mode & 0o777, file.read_bytes()) == (0o644, before)
    assert not [name for name in os.listdir() if name.startswith("theirs.sqlite-")]


def test_serve_leaves_nothing_beside_a_file_that_is_not_a_database(call: Call) -> None:
    Path("letter.txt").write_text("dear", "utf-8")
    result = call(*SERVE, "--database", "letter.txt")
    assert (result.code, result.err) == (
        4, "error: letter.txt cannot be opened: file is not a database\n",
    )  # fmt: skip
    assert [name for name in os.listdir() if "letter" in name] == ["letter.txt"]
    assert Path("letter.txt").read_text("utf-8") == "dear"


def test_serve_leaves_nothing_beside_a_folder_with_the_name_of_a_database(call: Call) -> None:
    Path("folder.sqlite").mkdir()
    result = call(*SERVE, "--database", "folder.sqlite")
    assert (result.code, result.err) == (2, "error: folder.sqlite: Is a directory\n")
    assert [name for name in os.listdir() if "folder" in name] == ["folder.sqlite"]


def test_the_lock_of_a_damaged_database_stays(call: Call) -> None:
    with Decisions(sw_ucrl(), "shop.sqlite", sync=False):
        pass
    Path("shop.sqlite").write_bytes(b"not a database any more")
    assert call(*SERVE, "--database", "shop.sqlite").code == 4
    assert Path("shop.sqlite-lock").exists()


def test_a_database_that_cannot_be_opened_is_not_called_damaged(call: Call) -> None:
    with Decisions(sw_ucrl(), "shop.sqlite", sync=False):
        pass
    Path("shop.sqlite-shm").symlink_to("missing/file")  # cannot be created, as if read-only
    result = call("check", "--database", "shop.sqlite")
    assert result.code == 2
    assert "shop.sqlite cannot be opened (this needs write access to its folder" in result.err
    Path("shop.sqlite-shm").unlink()
    with closing(sqlite3.connect("shop.sqlite")) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        result = call("check", "--database", "shop.sqlite")
    assert (result.code, result.err) == (
        2, "error: shop.sqlite cannot be opened: database is locked\n",
    )  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_a_folder_of_an_earlier_version_is_imported(call: Call, version: int) -> None:
    with tarfile.open(GOLDEN / f"format-{version}.tar.gz") as archive:
        archive.extractall("old", filter="data")
    before = {path.name: path.read_bytes() for path in Path("old").iterdir()}
    result = call("serve", "--data", "old", "--port", "0")
    assert result.code == 4
    assert "convert it with: switchmdp import old --database old/switchmdp.sqlite" in result.err
    result = call("import", "old", "--database", "all.sqlite", "--model", "shop")
    assert result.code == 0
    assert "as the model 'shop' of all.sqlite:\n  same learner, bit for bit" in result.out
    assert {path.name: path.read_bytes() for path in Path("old").iterdir()} == before
    assert verify("all.sqlite", model="shop").same
    assert call("import", "old").code == 0
    assert call("serve", "--data", "old", "--port", "0").code == 143
    assert call("import", "old").code == 2  # it has been imported


def test_an_imported_model_has_a_name_that_the_service_accepts(call: Call) -> None:
    with tarfile.open(GOLDEN / "format-2.tar.gz") as archive:
        archive.extractall("old", filter="data")
    for name in ("a b", "shop/é", "", "-"):
        result = call("import", "old", "--database", "all.sqlite", "--model", name)
        assert result.code == 2
        assert "model must be 1 to 100 letters, digits, '.', '_' or '-', and start" in result.err
    assert not Path("all.sqlite").exists()


def test_an_import_needs_a_folder_of_an_earlier_version(call: Call) -> None:
    result = call("import", "nowhere")
    assert result.code == 4
    assert "nowhere is not a folder of decisions: it has no decisions.json" in result.err


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--port", "0", "--database"), ("check", "--database"), ("replay",),
        ("export", "--database"), ("import", "old", "--database"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
@pytest.mark.parametrize("address", ["postgres:/db/shop", "http://localhost:8000", "mysql://db"])
def test_an_address_is_not_taken_for_a_path(
    call: Call, command: tuple[str, ...], address: str
) -> None:
    result = call(*command, address)
    assert result.code == 2
    assert "database must be a file, a folder or, on the command line, postgresql://" in result.err
    assert not [path for path in Path().iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "command", [("check",), ("replay",), ("export",), ("serve", "--port", "0")]
)
def test_a_database_of_a_newer_version_is_not_changed(call: Call, command: tuple[str, ...]) -> None:
    with Decisions(sw_ucrl(), "shop.sqlite", sync=False) as decisions:
        live(decisions, 10)
    sql(Path("shop.sqlite"), "UPDATE settings SET value = '3' WHERE name = 'format'")
    before = Path("shop.sqlite").read_bytes()
    result = call(*command, "--database", "shop.sqlite")
    assert (result.code, result.err) == (
        4, "error: shop.sqlite was written by a newer version of switchmdp (format 3, this version "
        "reads up to 2); upgrade switchmdp, or restore an earlier backup\n",
    )  # fmt: skip
    assert Path("shop.sqlite").read_bytes() == before


@pytest.mark.parametrize("command", ["replay", "export"])
def test_an_unknown_model_is_reported_with_those_that_exist(call: Call, command: str) -> None:
    with Models(SQLite("shop.sqlite", sync=False)) as models:
        result = call(command, "--database", "shop.sqlite")
        assert result.err == "error: shop.sqlite has no model 'main'; it has no models yet\n"
        for name in ("offers", "ads"):
            models.create(name, "random", states=2, actions=2)
    for given, shown in (("ofers", "'offers'"), ("xyz", "'ads', 'offers'")):
        result = call(command, "--database", "shop.sqlite", "--model", given)
        assert (result.code, result.err) == (
            2, f"error: shop.sqlite has no model {given!r}; choose one of its models, such as "
            f"{shown}\n",
        )  # fmt: skip


def test_databases_in_the_same_folder_are_suggested(call: Call) -> None:
    with Decisions(sw_ucrl(), "shop.sqlite", sync=False):
        pass
    result = call("check", "--data", ".")
    assert (
        result.err == "error: there is no database switchmdp.sqlite; its folder has shop.sqlite\n"
    )
    result = call(*SERVE, "--data", ".")
    assert result.code == 4
    assert "but no switchmdp.sqlite; its folder has shop.sqlite\n" in result.err


def test_a_folder_of_results_is_not_confused_with_a_database(call: Call) -> None:
    with Decisions(sw_ucrl(), "shop", sync=False):
        pass
    for given in ("shop", "shop/switchmdp.sqlite"):
        result = call("export", given)
        assert result.code == 2
        assert f"(for decisions of a service: --database {given})" in result.err
    result = call("export")
    assert result.err == "error: FOLDER must be set (or --database, for decisions of a service)\n"
