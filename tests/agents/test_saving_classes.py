"""User classes in files: they must be named, are checked, and are never imported from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.agents.saving_helpers import live, same, saved_and_loaded

import switchmdp as sm
from switchmdp import storage
from switchmdp.agents import Agent, Episodic, load
from switchmdp.agents.saving import check_agent_state, previous_of, save_agent
from switchmdp.compiled import Range, compiled
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.memory import Counts, Window
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Schedule


@compiled
class Moody(sm.agents.SWUCRL):
    """Has an additional field with a declared range."""

    mood: Annotated[float, Range(0.0, 1.0)]


@compiled
class Fridays(Schedule):
    """A restart rule of the user's; `missed` is part of its state."""

    missed: int

    def after(self, t: int) -> int:
        return t + 5

    def check_invariants(self) -> None:
        if self.missed < 0:
            raise ValueError("missed is negative")


@compiled
class Faded:
    """A user's memory that contains counts of the package."""

    counts: Counts

    def allocate(self, pairs: Any) -> None:
        self.counts = Counts(pairs)

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        self.counts.add(pairs, nexts, rewards, 0, n)

    def keep(self, steps: int, suspects: Any) -> int:
        self.counts.clear()
        return 0

    def clear(self) -> None:
        self.counts.clear()


class Plain:
    """`act`, `observe` and annotated fields, without a base class."""

    n_states: int
    n_actions: int
    table: NDArray[np.float64]
    best: bool
    weight: float
    anything: Any

    def __init__(self) -> None:
        self.n_states, self.n_actions = 2, 2
        self.table = np.zeros((2, 2))
        self.best, self.weight, self.anything = True, 1, np.arange(3)

    def act(self, state: int) -> int:
        return int(self.table[state].argmax())

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.table[state, action] += reward


class Pairwise:
    """An agent that holds agents."""

    n_states: int
    n_actions: int
    slow: sm.agents.SWUCRL
    fast: Any

    def __init__(self) -> None:
        self.n_states, self.n_actions = 3, 2
        self.slow, self.fast = (sm.agents.SWUCRL(3, 2, window=w) for w in (100, 10))

    def act(self, state: int) -> int:
        self.fast.act(state)
        return self.slow.act(state)

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.slow.observe(state, action, reward, next_state)
        self.fast.observe(state, action, reward, next_state)


def moody(mood: Any) -> Moody:
    agent = Moody(3, 2, window=20)
    agent.mood = mood
    return agent


def friday() -> Episodic:
    rule = Fridays()
    rule.missed = 3
    return Episodic(3, 2, memory=Faded(), plausible=L1Ball(0.1), restarts=rule)


def test_classes_of_the_user_are_restored_if_they_are_named(tmp_path: Path) -> None:
    for agent, classes in ((moody(0.5), [Moody]), (friday(), [Faded, Fridays])):
        live(agent, 33, 0)
        loaded = saved_and_loaded(agent, tmp_path / "agent", classes)
        assert same(loaded, agent)
        assert live(loaded, 100, 1) == live(agent, 100, 1)


def test_plain_classes_and_agents_that_hold_agents_are_restored(tmp_path: Path) -> None:
    plain = Plain()
    plain.table[1, 1] = 0.5
    save_agent(plain, tmp_path / "plain")
    restored = load(tmp_path / "plain", [Plain])
    assert restored.act(1) == 1
    assert (restored.best, restored.weight, restored.anything.tolist()) == (True, 1.0, [0, 1, 2])
    pair = Pairwise()
    live(pair, 50, 0)
    save_agent(pair, tmp_path / "pair")
    loaded = load(tmp_path / "pair", [Pairwise])
    assert same(loaded.slow, pair.slow)
    assert same(loaded.fast, pair.fast)


def test_an_unknown_class_is_reported_by_name_instead_of_as_damage(
    tmp_path: Path,
) -> None:
    sm.agents.SWUCRL(3, 2, window=20).save(tmp_path / "agent")
    moody(0.5).save(tmp_path / "agent")
    assert previous_of(tmp_path / "agent").exists()
    with pytest.raises(DamagedFile, match=r"'Moody' is unknown; name it in classes="):
        load(tmp_path / "agent")
    assert isinstance(load(tmp_path / "agent", [Moody]), Moody)


@pytest.mark.parametrize("name", ["os.system", "evil", "evil.Evil", "builtins.eval", "eval", ""])
def test_nothing_is_imported_or_called_because_a_file_names_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    sm.agents.Random(3, 2).save(tmp_path / "agent")
    fields, arrays = storage.load_arrays(tmp_path / "agent", "agent")
    fields["agent"]["class"] = name
    storage.save_arrays(tmp_path / "agent", "agent", fields, arrays)
    with pytest.raises(DamagedFile, match="is unknown"):
        load(tmp_path / "agent")
    assert "evil" not in sys.modules


@compiled
class Dated(Schedule):
    """A restart rule that checks itself under the old name."""

    missed: int

    def after(self, t: int) -> int:
        return t + 5

    def check_state(self) -> None:
        if self.missed < 0:
            raise ValueError("missed is negative")


def test_check_state_still_works_with_a_deprecation_warning() -> None:
    rule = Dated()
    agent = Episodic(3, 2, memory=Faded(), plausible=L1Ball(0.1), restarts=rule)
    rule.missed = 0
    with pytest.warns(DeprecationWarning, match=r"Dated\.check_state"):
        check_agent_state(agent)
    rule.missed = -1
    with pytest.warns(DeprecationWarning, match="Dated"), pytest.raises(ValueError, match="missed"):
        check_agent_state(agent)


def test_declared_ranges_and_invariants_of_users_classes_are_checked(tmp_path: Path) -> None:
    moody(0.5).save(tmp_path / "moody")
    fields, arrays = storage.load_arrays(tmp_path / "moody", "agent")
    fields["agent"]["fields"]["mood"] = {"float": (1.5).hex()}
    storage.save_arrays(tmp_path / "moody", "agent", fields, arrays)
    with pytest.raises(DamagedFile, match=r"Moody\.mood must be >= 0\.0 and <= 1\.0, got 1\.5"):
        load(tmp_path / "moody", [Moody])
    friday().save(tmp_path / "friday")
    fields, arrays = storage.load_arrays(tmp_path / "friday", "agent")
    fields["agent"]["fields"]["restarts"]["fields"]["missed"] = -1
    storage.save_arrays(tmp_path / "friday", "agent", fields, arrays)
    with pytest.raises(DamagedFile, match="missed is negative"):
        load(tmp_path / "friday", [Faded, Fridays])


def test_components_of_switchmdp_in_user_classes_are_checked(tmp_path: Path) -> None:
    friday().save(tmp_path / "agent")
    fields, arrays = storage.load_arrays(tmp_path / "agent", "agent")
    arrays["memory.counts.offset"][1] = 2**40
    storage.save_arrays(tmp_path / "agent", "agent", fields, arrays)
    with pytest.raises(DamagedFile, match="Counts"):
        load(tmp_path / "agent", [Faded, Fridays])


def test_an_agent_that_could_not_be_loaded_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    moody(0.25).save(path)
    broken = sm.agents.SWUCRL(3, 2, window=20)
    broken.memory.counts.offset[1] = 2**40
    undeclared = moody(0.5)
    undeclared.diary = {}  # type: ignore[attr-defined]
    bare = sm.agents.UCRL2(3, 2)
    bare.memory.generator = np.random.default_rng(0)
    unset = Moody(3, 2, window=20)
    held = Plain()
    held.anything = Window(5)
    odd = Plain()
    odd.anything = [object()]
    unloadable = [
        broken, undeclared, bare, unset, moody(2.0), moody("x"), moody(None), moody(1j), held, odd,
        5, None, "agent", {}, object(), np.zeros(3), Window(3), Agent, sm.agents.SWUCRL,
    ]  # fmt: skip
    for agent in unloadable:
        with pytest.raises(InvalidParameter):
            save_agent(agent, path)
    assert load(path, [Moody]).mood == 0.25
    assert not previous_of(path).exists()


def test_a_field_is_converted_to_its_annotated_type_or_rejected(tmp_path: Path) -> None:
    plain: Any = Plain()
    plain.n_states, plain.best, plain.weight = 2.0, np.bool_(False), np.float32(0.5)
    plain.table = [[0, 1], [2, 3]]
    save_agent(plain, tmp_path / "agent")
    loaded = load(tmp_path / "agent", [Plain])
    assert loaded.table.dtype == np.float64
    assert (type(loaded.n_states), loaded.best, loaded.weight) == (int, False, 0.5)
    for name, value in [("n_states", 2.5), ("n_states", float("nan")), ("n_states", 2**63),
                        ("best", 2), ("weight", "1"), ("table", None), ("table", ["a"]),
                        ("n_states", float("inf")), ("weight", 10**400)]:  # fmt: skip
        plain = Plain()
        setattr(plain, name, value)
        with pytest.raises(InvalidParameter, match=name):
            save_agent(plain, tmp_path / "agent")


def test_a_user_class_cannot_have_the_name_of_a_switchmdp_class(tmp_path: Path) -> None:
    impostor = compiled(type("SWUCRL", (sm.agents.SWUCRL,), {"__module__": __name__}))
    twin = type("Moody", (), {})
    with pytest.raises(InvalidParameter, match="with a name that no class of switchmdp has"):
        impostor(3, 2, window=20).save(tmp_path / "agent")
    moody(0.5).save(tmp_path / "agent")
    for classes in ([impostor], [Moody, twin], [moody(0.5)], ["Moody"]):
        with pytest.raises(InvalidParameter, match="classes"):
            load(tmp_path / "agent", classes)  # type: ignore[arg-type]
    assert load(tmp_path / "agent", [Moody, Moody, sm.agents.SWUCRL]).mood == 0.5
