"""doctor: one line for each thing, and an exit code for all of them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from switchmdp.cli import doctor


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_compiled", lambda: "not tried here")


def lacking(name: str) -> Any:
    def version(asked: str) -> str:
        if asked == name:
            raise PackageNotFoundError(asked)
        return "1.0"

    return version


def test_a_sound_installation_is_fine(call: Any) -> None:
    said = call("doctor")
    assert said.code == 0
    first, *rest = said.out.splitlines()
    assert first.startswith("switchmdp ")
    assert {line[:10] for line in rest} <= {"  ok      ", "  absent  "}
    assert any("writing and syncing files here" in line for line in rest)


def test_an_extra_that_is_absent_is_no_fault(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lacking("pyarrow"))
    said = call("doctor")
    assert said.code == 0
    assert "  absent  pyarrow is not here: pip install 'switchmdp[parquet]'" in said.out


def test_a_dependency_that_is_absent_is_one(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lacking("scipy"))
    said = call("doctor")
    assert said.code == 3
    assert "  BROKEN  scipy is not here" in said.out


def test_what_is_broken_is_told_and_the_rest_still_looked_at(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise OSError("no such cache")

    monkeypatch.setattr(doctor, "_cache", broken)
    said = call("doctor")
    assert said.code == 3
    assert "  BROKEN  the cache of machine code: OSError: no such cache" in said.out
    assert "  ok      processors: " in said.out


def test_machine_code_is_compared_with_python(monkeypatch: pytest.MonkeyPatch) -> None:
    import switchmdp as sm

    class Record:
        def __init__(self, interpreted: bool) -> None:
            self.regret = [1.0 if interpreted else 2.0]

    def simulate(*rest: Any, interpreted: bool, **more: Any) -> Record:
        return Record(interpreted)

    monkeypatch.undo()
    monkeypatch.setattr(sm, "simulate", simulate)
    with pytest.raises(RuntimeError, match="machine code and Python disagree"):
        doctor._compiled()
