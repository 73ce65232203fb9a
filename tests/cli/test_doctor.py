"""doctor: one line for each check, and an exit code."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from switchmdp.cli import information


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(information, "_compiled", lambda: "not tried here")


def lacking(name: str) -> Any:
    def version(asked: str) -> str:
        if asked == name:
            raise PackageNotFoundError(asked)
        return "1.0"

    return version


def test_a_working_installation_is_fine(call: Any) -> None:
    result = call("doctor")
    assert result.code == 0
    first, *rest = result.out.splitlines()
    assert first.startswith("switchmdp ")
    assert {line[:10] for line in rest} <= {"  ok      ", "  absent  "}
    assert any("writing and syncing files here" in line for line in rest)


def test_the_packages_of_contributors_are_not_checked(call: Any) -> None:
    names = [line.split()[1] for line in call("doctor").out.splitlines()[1:]]
    assert "matplotlib" in names
    assert not {"mypy", "ruff", "mkdocs-material", "jupytext"} & {*names}


def test_a_missing_extra_is_not_an_error(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(information, "version", lacking("pyarrow"))
    result = call("doctor")
    assert result.code == 0
    assert "  absent  pyarrow is not installed: pip install 'switchmdp[parquet]'" in result.out


def test_a_missing_dependency_is_an_error(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(information, "version", lacking("numba"))
    result = call("doctor")
    assert result.code == 3
    assert "  BROKEN  numba is not installed" in result.out


def test_a_broken_check_is_reported_and_the_others_still_run(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise OSError("no such cache")

    monkeypatch.setattr(information, "_cache", broken)
    result = call("doctor")
    assert result.code == 3
    assert "  BROKEN  the cache of machine code: OSError: no such cache" in result.out
    assert "  ok      processors: " in result.out


def test_machine_code_is_compared_with_python(monkeypatch: pytest.MonkeyPatch) -> None:
    import switchmdp as sm

    class Record:
        def __init__(self, interpreted: bool) -> None:
            self.regret = [1.0 if interpreted else 2.0]

    def simulate(*rest: Any, interpreted: bool, **more: Any) -> Record:
        return Record(interpreted)

    monkeypatch.undo()
    monkeypatch.setattr(sm, "simulate", simulate)
    with pytest.raises(RuntimeError, match="machine code and Python give different results"):
        information._compiled()
