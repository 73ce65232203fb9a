"""Two generations of a file survive, whenever the writer is killed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agents.saving_helpers import aged, live

from switchmdp.agents import load
from switchmdp.agents.saving import previous_of
from switchmdp.errors import DamagedFile, InvalidParameter


def test_the_previous_file_is_kept_and_used_if_the_newest_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    for steps in (10, 20, 30):
        aged(steps).save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["agent", "agent.previous"]
    assert load(path).t == 31
    assert load(previous_of(path)).t == 21
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(UserWarning, match="loaded the previous file"):
        assert load(path).t == 21
    previous_of(path).write_bytes(b"")
    with pytest.raises(DamagedFile, match="and the previous file"):
        load(path)
    path.unlink()
    previous_of(path).unlink()
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_damaged_file_never_replaces_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    aged(10).save(path)
    aged(20).save(path)
    path.write_bytes(b"damaged")
    aged(30).save(path)
    assert (load(path).t, load(previous_of(path)).t) == (31, 11)


def test_the_previous_file_is_kept_on_file_systems_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", link)
    for steps in (10, 20, 30):
        aged(steps).save(tmp_path / "agent")
    assert (load(tmp_path / "agent").t, load(tmp_path / "agent.previous").t) == (31, 21)


class Killed(BaseException):
    """Ends the writer without any cleanup."""


def killed_at(operation: int, save: Callable[[], None]) -> bool:
    """Save, killed before the n-th file operation; returns whether that operation was reached."""
    done = 0

    def before(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            nonlocal done
            if done >= operation:
                raise Killed
            done += 1
            return function(*given, **named)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in ("link", "replace", "unlink", "fsync", "open"):
            patch.setattr(os, name, before(getattr(os, name)))
        patch.setattr("switchmdp.storage.open", before(open), raising=False)
        try:
            save()
        except Killed:
            return True
    return False


def loaded_step(path: Path) -> int | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(load(path).t) if path.exists() else None


BEFORE: dict[str, Any] = {
    "nothing": (lambda path: None, None),
    "one generation": (lambda path: aged(10).save(path), 11),
    "two generations": (lambda path: (aged(5).save(path), aged(10).save(path)), 11),
    "the newest damaged": (
        lambda path: (aged(10).save(path), aged(12).save(path), path.write_bytes(b"PK")), 11),
    "the newest missing": (
        lambda path: (aged(10).save(path), aged(12).save(path), path.unlink()), None),
}  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
def test_a_kill_between_any_two_operations_leaves_the_old_or_the_new_agent(
    before: str, tmp_path: Path
) -> None:
    make, old = BEFORE[before]
    agent = aged(20)
    operation, was_killed, outcomes = 0, True, []
    while was_killed:
        path = tmp_path / f"{operation}" / "agent"
        path.parent.mkdir()
        make(path)
        was_killed = killed_at(operation, lambda path=path: agent.save(path))  # type: ignore[misc]
        outcomes.append(loaded_step(path))
        agent.save(path)
        assert loaded_step(path) == 21
        operation += 1
    assert set(outcomes) == {old, 21}
    assert operation > 4


def test_after_many_kills_an_agent_can_always_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    rng = np.random.default_rng(0)
    agent = aged(1)
    agent.save(path)
    newest = 2
    for _ in range(120):
        live(agent, 1, 1)
        killed_at(int(rng.integers(0, 12)), lambda: agent.save(path))
        if rng.random() < 0.1:
            path.unlink()
            path.write_bytes(b"PK")
            loaded = loaded_step(path)
            agent.save(path)
        else:
            loaded = loaded_step(path)
        assert loaded is not None
        assert loaded <= agent.t
        newest = max(newest, loaded)
    assert newest > 100


def test_a_file_that_was_removed_is_not_replaced_by_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    aged(10).save(path)
    aged(20).save(path)
    path.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"its previous version is .*agent.previous"
    ) as error:
        load(path)
    assert error.value.filename == str(path)
    assert load(previous_of(path)).t == 11


def test_errors_of_saving_name_the_file_and_not_a_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "agent"
    with pytest.raises(FileNotFoundError) as error:
        aged(10).save(path)
    assert error.value.filename == str(path)
    with pytest.raises(InvalidParameter, match="path must be the name of a file, got ''"):
        aged(10).save("")
