"""A loaded agent goes on as if never stopped; two generations; every bad file is refused."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import switchmdp as sm
from switchmdp import storage
from switchmdp.agents import AGENTS, Agent, Episodic, load
from switchmdp.agents.stored import previous_of, save_agent
from switchmdp.compiled import compiled, pack
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.memory import Counts, Everything, Window
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Cubic, Never, Periodic, Schedule, Told

GOLDEN = Path(__file__).parent / "golden"
NAMED: dict[str, Callable[[sm.SwitchingMDP], Any]] = {
    "sw-ucrl": lambda p: sm.agents.SWUCRL(p.n_states, p.n_actions, window=300),
    "ucrl2": lambda p: sm.agents.UCRL2(p.n_states, p.n_actions),
    "ucrl2-r": lambda p: sm.agents.UCRL2R(p.n_states, p.n_actions, changes=4),
    "ucrl2-rw": lambda p: sm.agents.UCRL2RW(p.n_states, p.n_actions, period=450),
    "oracle": lambda p: sm.agents.Oracle(
        p.n_states, p.n_actions, change_points=p.change_points
    ),
    "borl": lambda p: sm.agents.BORL(p.n_states, p.n_actions, horizon=1500, seed=3),
    "borl-full-grid": lambda p: sm.agents.PaperBORL(p.n_states, p.n_actions, horizon=1500),
    "master-ucrl": lambda p: sm.agents.MASTER(
        p.n_states, p.n_actions, horizon=3000, diameter=1, scale=1e-3, confidence=0.5
    ),
    "omniscient": sm.agents.Omniscient,
    "random": lambda p: sm.agents.Random(p.n_states, p.n_actions, seed=5),
}  # fmt: skip
MEMORIES: dict[str, Any] = {"window": lambda: Window(1500), "everything": lambda: Everything()}
RULES: dict[str, Any] = {
    "never": lambda: Never(), "periodic": lambda: Periodic(700), "cubic": lambda: Cubic(7),
    "told": lambda: Told([2, 900, 901]),
}  # fmt: skip


def episodic(memory: str, rule: str) -> Callable[[sm.SwitchingMDP], Any]:
    return lambda p: Episodic(
        p.n_states, p.n_actions, memory=MEMORIES[memory](), plausible=L1Ball(0.1),
        restarts=RULES[rule](),
    )  # fmt: skip


MAKERS = NAMED | {f"{m}, {r}": episodic(m, r) for m in MEMORIES for r in RULES}


@pytest.fixture(scope="module")
def small() -> sm.SwitchingMDP:
    return sm.problems.random_switching(5, 3, changes=2, horizon=3000, seed=0)


@pytest.fixture(scope="module")
def listed() -> sm.SwitchingMDP:
    """So many states that successor counts are kept as lists."""
    return sm.problems.random_switching(100, 2, changes=2, horizon=3000, seed=1)


def tree(value: Any) -> Any:
    """All that an agent is, to the bit."""
    if hasattr(value, "_fields"):
        return {name: tree(part) for name, part in zip(value._fields, value, strict=True)}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value.hex() if isinstance(value, float) else value


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(tree(pack(a)) == tree(pack(b)))


def live(agent: Any, steps: int, seed: int, state: int = 0) -> list[tuple[int, int, float, int]]:
    """Steps in a world of chance, through the two verbs."""
    rng = np.random.default_rng(seed)
    lived = []
    with np.errstate(over="ignore"):
        for _ in range(steps):
            step = (state, int(agent.act(state)), float(rng.random()),
                    int(agent.n_states * rng.random() ** 2))  # fmt: skip
            agent.observe(*step)
            lived.append(step)
            state = step[3]
    return lived


def again(agent: Any, path: Path, classes: Any = ()) -> Any:
    agent.save(path)
    return load(path, classes)


@pytest.mark.parametrize("size", ["small", "listed"])
@pytest.mark.parametrize("name", MAKERS)
def test_machine_code_goes_on_from_any_moment_as_if_never_stopped(
    name: str, size: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    problem = request.getfixturevalue(size)
    rng = np.random.default_rng([len(name), len(size)])
    cuts = np.unique([1, *rng.integers(2, 3000, 8), 3000]).tolist()
    agent, control = MAKERS[name](problem), MAKERS[name](problem)
    assert same(again(agent, tmp_path / "agent"), agent)
    record = sm.simulate(agent, problem, cuts[0], seed=3, every=100)
    for cut in cuts[1:]:
        agent = again(agent, tmp_path / "agent")
        record = sm.simulate(agent, problem, cut, every=100, resume=record)
    entire = sm.simulate(control, problem, cuts[-1], seed=3, every=100)
    assert same(agent, control)
    assert np.array_equal(record.regret, entire.regret)
    agent.save(tmp_path / "one")
    control.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(("size", "steps"), [("small", 60), ("listed", 40)])
@pytest.mark.parametrize("name", MAKERS)
def test_the_two_verbs_go_on_from_any_moment_as_if_never_stopped(
    name: str, size: str, steps: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    problem = request.getfixturevalue(size)
    agent, control = MAKERS[name](problem), MAKERS[name](problem)
    rng = np.random.default_rng(len(name))
    for seed in range(5):
        n = int(rng.integers(1, steps))
        assert live(agent, n, seed) == live(control, n, seed)
        agent = again(agent, tmp_path / "agent")
    assert same(agent, control)


def test_an_agent_that_plans_from_lists_of_successors_goes_on_too(tmp_path: Path) -> None:
    """Only after many visits are the balls small enough for the lists to be looked at."""
    problem = sm.SwitchingMDP([sm.problems.random_mdp(70, 1, seed=2)])
    for make in (lambda: sm.agents.UCRL2(70, 1), lambda: sm.agents.SWUCRL(70, 1, window=300_000)):
        agent, control = make(), make()
        record = sm.simulate(agent, problem, 350_000, every=1000)
        agent = again(agent, tmp_path / "agent")
        assert load(tmp_path / "agent").transition_radii.min() < 2.0
        sm.simulate(agent, problem, 700_000, resume=record)
        sm.simulate(control, problem, 700_000, every=1000)
        assert live(agent, 200, 0) == live(control, 200, 0)
        assert same(agent, control)


def full_log() -> Any:
    agent = sm.agents.SWUCRL(3, 2, window=3000)
    agent.act(0)
    for i in range(2048):
        agent.observe(i % 3, i % 2, 0.25, (i + 1) % 3)
    assert agent.logged == agent.log_pair.size
    return agent


def wrapped_ring() -> Any:
    agent = sm.agents.SWUCRL(3, 2, window=20)
    live(agent, 107, 0)
    agent.act(0)
    assert 0 < agent.memory.head < 20
    return agent


def unprepared() -> Any:
    """Many steps past the restart that `act` would have made."""
    agent = sm.agents.UCRL2RW(3, 2, period=100)
    for i in range(450):
        agent.observe(i % 3, i % 2, 1.0, (i + 1) % 3)
    return agent


def just_restarted() -> Any:
    agent = sm.agents.UCRL2RW(100, 2, period=100)
    live(agent, 100, 0)
    agent.act(0)
    assert agent.since == 101
    return agent


def growing_ring() -> Any:
    agent = sm.agents.SWUCRL(3, 2, window=5000)
    live(agent, 1800, 0)
    assert 1024 < agent.memory.pairs.size < 5000
    return agent


def forgotten_lists() -> Any:
    """Slots whose count fell to 0, and blocks left behind."""
    agent = sm.agents.SWUCRL(100, 1, window=50)
    live(agent, 4000, 0)
    return agent


MOMENTS = [full_log, wrapped_ring, unprepared, just_restarted, growing_ring, forgotten_lists]


@pytest.mark.parametrize("moment", MOMENTS)
def test_special_moments_come_back(moment: Callable[[], Any], tmp_path: Path) -> None:
    agent = moment()
    found = again(agent, tmp_path / "agent")
    assert same(found, agent)
    assert live(found, 300, 1) == live(agent, 300, 1)
    assert same(found, agent)


def test_saving_changes_nothing_and_the_same_agent_gives_the_same_bytes(tmp_path: Path) -> None:
    for moment in MOMENTS:
        agent = moment()
        before = tree(pack(agent))
        agent.save(tmp_path / "one")
        agent.save(tmp_path / "two")
        load(tmp_path / "one").save(tmp_path / "three")
        assert tree(pack(agent)) == before
        contents = {(tmp_path / name).read_bytes() for name in ("one", "two", "three")}
        assert len(contents) == 1


def test_a_loaded_agents_components_belong_to_it(tmp_path: Path) -> None:
    found = again(sm.agents.SWUCRL(3, 2, window=20), tmp_path / "agent")
    with pytest.raises(InvalidParameter, match="belongs to another agent"):
        Episodic(3, 2, memory=found.memory, plausible=L1Ball(0.1), restarts=Never())


def test_uneven_action_sets_come_back(tmp_path: Path) -> None:
    mask = np.array([[True, False, True], [False, True, False]])
    found = again(sm.agents.SWUCRL(2, 3, window=20, available=mask), tmp_path / "agent")
    assert np.array_equal(found.pairs.available, mask)


def test_files_are_read_and_written_alike_without_machine_code(tmp_path: Path) -> None:
    makers: dict[str, Callable[[], Any]] = {
        "sw-ucrl": lambda: sm.agents.SWUCRL(3, 2, window=50),
        "told": lambda: sm.agents.Oracle(70, 2, change_points=[30, 250]),
        "cubic": lambda: sm.agents.UCRL2R(3, 2, changes=2),
        "random": lambda: sm.agents.Random(3, 2),
    }
    agents = {name: make() for name, make in makers.items()}
    for name, agent in agents.items():
        live(agent, 120, 0)
        agent.save(tmp_path / name)
    script = "\n".join(
        [
            "import sys, numpy as np, switchmdp as sm",
            "from pathlib import Path",
            inspect.getsource(live).replace("-> list[tuple[int, int, float, int]]", ""),
            "for name in sys.argv[2:]:",
            "    agent = sm.agents.load(Path(sys.argv[1], name))",
            "    live(agent, 200, 1)",
            "    agent.save(Path(sys.argv[1], name + '.plain'))",
        ]
    ).replace("agent: Any", "agent")
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", script, str(tmp_path), *makers], env=environment,
                   check=True)  # fmt: skip
    for name, agent in agents.items():
        live(agent, 200, 1)
        agent.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == (tmp_path / f"{name}.plain").read_bytes()
        assert same(load(tmp_path / f"{name}.plain"), agent)


@pytest.mark.parametrize("name", sorted(file.stem for file in GOLDEN.glob("*.npz")))
def test_what_the_first_release_wrote_is_read_and_acts_as_it_did(name: str) -> None:
    agent: Any = load(GOLDEN / f"{name}.npz")
    assert type(agent).__name__ == AGENTS[name].__name__
    assert agent.t == 3001
    steps = json.loads((GOLDEN / f"{name}.json").read_text())
    assert len(steps) == 600
    with np.errstate(over="ignore"):
        for state, action, reward, next_state in steps:
            assert agent.act(state) == action
            agent.observe(state, action, reward, next_state)


# The user's own classes.


@compiled
class Moody(sm.agents.SWUCRL):
    """Has a field of its own, and says what it may be."""

    mood: float

    def check_state(self) -> None:
        if not 0.0 <= self.mood <= 1.0:
            raise ValueError("mood is out of range")


@compiled
class Fridays(Schedule):
    """A restart rule of the user's; `missed` is part of its state."""

    missed: int

    def after(self, t: int) -> int:
        return t + 5

    def check_state(self) -> None:
        if self.missed < 0:
            raise ValueError("missed is negative")


@compiled
class Faded:
    """A memory of the user's that holds counts of ours."""

    counts: Counts

    def allocate(self, pairs: Any) -> None:
        self.counts = Counts(pairs)

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        self.counts.add(pairs, nexts, rewards, 0, n)

    def keep(self, steps: int) -> int:
        self.counts.clear()
        return 0

    def clear(self) -> None:
        self.counts.clear()


class Plain:
    """Two verbs and annotated fields; nothing of ours."""

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


def test_classes_of_the_users_come_back_where_they_are_named(tmp_path: Path) -> None:
    for agent, classes in ((moody(0.5), [Moody]), (friday(), [Faded, Fridays])):
        live(agent, 33, 0)
        found = again(agent, tmp_path / "agent", classes)
        assert same(found, agent)
        assert live(found, 100, 1) == live(agent, 100, 1)


def test_plain_classes_and_agents_of_agents_come_back(tmp_path: Path) -> None:
    plain = Plain()
    plain.table[1, 1] = 0.5
    save_agent(plain, tmp_path / "plain")
    found = load(tmp_path / "plain", [Plain])
    assert found.act(1) == 1
    assert (found.best, found.weight, found.anything.tolist()) == (True, 1.0, [0, 1, 2])
    pair = Pairwise()
    live(pair, 50, 0)
    save_agent(pair, tmp_path / "pair")
    again = load(tmp_path / "pair", [Pairwise])
    assert same(again.slow, pair.slow)
    assert same(again.fast, pair.fast)


def test_a_class_that_is_not_known_is_refused_by_name_and_not_taken_for_damage(
    tmp_path: Path,
) -> None:
    sm.agents.SWUCRL(3, 2, window=20).save(tmp_path / "agent")
    moody(0.5).save(tmp_path / "agent")
    assert previous_of(tmp_path / "agent").exists()
    with pytest.raises(DamagedFile, match=r"'Moody' is not known; name it in classes="):
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
    with pytest.raises(DamagedFile, match="is not known"):
        load(tmp_path / "agent")
    assert "evil" not in sys.modules


def test_check_state_is_asked_of_agents_and_of_what_they_hold(tmp_path: Path) -> None:
    moody(0.5).save(tmp_path / "moody")
    fields, arrays = storage.load_arrays(tmp_path / "moody", "agent")
    fields["agent"]["fields"]["mood"] = {"float": (1.5).hex()}
    storage.save_arrays(tmp_path / "moody", "agent", fields, arrays)
    with pytest.raises(DamagedFile, match="mood is out of range"):
        load(tmp_path / "moody", [Moody])
    friday().save(tmp_path / "friday")
    fields, arrays = storage.load_arrays(tmp_path / "friday", "agent")
    fields["agent"]["fields"]["restarts"]["fields"]["missed"] = -1
    storage.save_arrays(tmp_path / "friday", "agent", fields, arrays)
    with pytest.raises(DamagedFile, match="missed is negative"):
        load(tmp_path / "friday", [Faded, Fridays])


def test_what_users_classes_hold_of_ours_is_checked(tmp_path: Path) -> None:
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
    refused = [
        broken, undeclared, bare, unset, moody(2.0), moody("x"), moody(None), moody(1j), held, odd,
        5, None, "agent", {}, object(), np.zeros(3), Window(3), Agent, sm.agents.SWUCRL,
    ]  # fmt: skip
    for agent in refused:
        with pytest.raises(InvalidParameter):
            save_agent(agent, path)
    assert load(path, [Moody]).mood == 0.25
    assert not previous_of(path).exists()


def test_a_field_is_made_what_its_annotation_says_or_refused(tmp_path: Path) -> None:
    plain: Any = Plain()
    plain.n_states, plain.best, plain.weight = 2.0, np.bool_(False), np.float32(0.5)
    plain.table = [[0, 1], [2, 3]]
    save_agent(plain, tmp_path / "agent")
    found = load(tmp_path / "agent", [Plain])
    assert found.table.dtype == np.float64
    assert (type(found.n_states), found.best, found.weight) == (int, False, 0.5)
    for name, value in [("n_states", 2.5), ("n_states", float("nan")), ("n_states", 2**63),
                        ("best", 2), ("weight", "1"), ("table", None), ("table", ["a"]),
                        ("n_states", float("inf")), ("weight", 10**400)]:  # fmt: skip
        plain = Plain()
        setattr(plain, name, value)
        with pytest.raises(InvalidParameter, match=name):
            save_agent(plain, tmp_path / "agent")


def test_a_name_of_ours_can_not_be_taken(tmp_path: Path) -> None:
    impostor = compiled(type("SWUCRL", (sm.agents.SWUCRL,), {"__module__": __name__}))
    twin = type("Moody", (), {})
    with pytest.raises(InvalidParameter, match="name that none of ours has"):
        impostor(3, 2, window=20).save(tmp_path / "agent")
    moody(0.5).save(tmp_path / "agent")
    for classes in ([impostor], [Moody, twin], [moody(0.5)], ["Moody"]):
        with pytest.raises(InvalidParameter, match="classes"):
            load(tmp_path / "agent", classes)  # type: ignore[arg-type]
    assert load(tmp_path / "agent", [Moody, Moody, sm.agents.SWUCRL]).mood == 0.5


# Two generations.


def aged(steps: int) -> Any:
    agent = sm.agents.SWUCRL(3, 2, window=20)
    live(agent, steps, 0)
    return agent


def test_the_generation_before_is_kept_and_found_where_the_newest_is_not(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    for steps in (10, 20, 30):
        aged(steps).save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["agent", "agent.previous"]
    assert load(path).t == 31
    assert load(previous_of(path)).t == 21
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(UserWarning, match="going on with the one before"):
        assert load(path).t == 21
    path.unlink()
    with pytest.warns(UserWarning, match="going on with the one before"):
        assert load(path).t == 21
    previous_of(path).write_bytes(b"")
    with pytest.raises(DamagedFile, match="and the one before"):
        load(path)
    previous_of(path).unlink()
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_damaged_file_never_becomes_the_generation_before(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    aged(10).save(path)
    aged(20).save(path)
    path.write_bytes(b"damaged")
    aged(30).save(path)
    assert (load(path).t, load(previous_of(path)).t) == (31, 11)


def test_generations_are_kept_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", link)
    for steps in (10, 20, 30):
        aged(steps).save(tmp_path / "agent")
    assert (load(tmp_path / "agent").t, load(tmp_path / "agent.previous").t) == (31, 21)


class Killed(BaseException):
    """The process ends here, without any tidying up."""


def killed_at(operation: int, save: Callable[[], None]) -> bool:
    """Save, and be killed before the n-th file operation; whether it came to that."""
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


def found_after(path: Path) -> int | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(load(path).t) if path.exists() or previous_of(path).exists() else None


BEFORE: dict[str, Any] = {
    "nothing": (lambda path: None, None),
    "one generation": (lambda path: aged(10).save(path), 11),
    "two generations": (lambda path: (aged(5).save(path), aged(10).save(path)), 11),
    "the newest damaged": (
        lambda path: (aged(10).save(path), aged(12).save(path), path.write_bytes(b"PK")), 11),
    "the newest missing": (
        lambda path: (aged(10).save(path), aged(12).save(path), path.unlink()), 11),
}  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
def test_killed_between_any_two_operations_the_old_or_the_new_agent_is_there(
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
        outcomes.append(found_after(path))
        agent.save(path)
        assert found_after(path) == 21
        operation += 1
    assert set(outcomes) == {old, 21}
    assert operation > 4


def test_killed_time_and_again_an_agent_is_always_there(tmp_path: Path) -> None:
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
            found = found_after(path)
            agent.save(path)
        else:
            found = found_after(path)
        assert found is not None
        assert found <= agent.t
        newest = max(newest, found)
    assert newest > 100


# Refusals of the file itself; what is in it is `test_consistency`'s.


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("file") / "agent"
    agent = aged(300)
    assert agent.memory.head
    agent.save(path)
    return path.read_bytes()


def test_truncated_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "agent"
    for length in [*range(0, len(content), 50), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(DamagedFile):
            load(path)


def test_flipped_bits_are_refused_or_change_nothing(content: bytes, tmp_path: Path) -> None:
    """Some bits of a zip mean nothing to anybody: dates, or what system wrote it."""
    path = tmp_path / "agent"
    path.write_bytes(content)
    agent = load(path)
    rng = np.random.default_rng(0)
    refused = 0
    for at, bit in zip(rng.integers(0, len(content), 500), rng.integers(0, 8, 500), strict=True):
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(bit)
        path.write_bytes(bytes(flipped))
        try:
            assert same(load(path), agent)
        except DamagedFile:
            refused += 1
    assert refused > 450


def raw(path: Path, header: str, compress: int = zipfile.ZIP_STORED, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr("header.json", header)
        for name, entry in entries.items():
            archive.writestr(f"{name}.npy", entry)


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


HEADER = '{"kind": "agent", "format": 1, "fields": {"version": 1, "agent": %s}, "sha256": ""}'
DEEP = '{"class": "Episodic", "fields": {"memory": ' * 3000 + "1" + "}}" * 3000


@pytest.mark.parametrize("header", [
    "", "[]", "null", "{}", "1" * 10_000, "[" * 100_000, "{" * 10, HEADER % ("[" * 100_000),
    HEADER % DEEP, HEADER % "null", HEADER % "[]", HEADER % '"x"', HEADER % "{}", "\0",
])  # fmt: skip
def test_headers_that_make_no_sense_are_refused(header: str, tmp_path: Path) -> None:
    raw(tmp_path / "agent", header)
    with pytest.raises(DamagedFile):
        load(tmp_path / "agent")


@pytest.mark.parametrize("entry", [
    npy("|O", "(1,)", b"cos\nsystem\n(S'true'\ntR."), npy("<i8", f"({2**40},)", b"x" * 8),
    npy("<i8", f"({2**70},)"), npy("<i8", "(-1, -1)", b"x" * 8), npy("<i8", "(0,)", b"x"),
    b"", b"\x93NUMPY", b"junk" * 100, npy("<i8", "(__import__('os').getpid(),)"),
])  # fmt: skip
def test_arrays_that_are_objects_or_promise_more_than_there_is_are_refused(
    entry: bytes, tmp_path: Path
) -> None:
    raw(tmp_path / "agent", HEADER % "{}", starts=entry)
    with pytest.raises(DamagedFile, match="not a complete 'agent' file"):
        load(tmp_path / "agent")


def test_compressed_entries_are_refused_unread(tmp_path: Path) -> None:
    bomb = npy("|u1", f"({10**8},)", bytes(10**8))
    raw(tmp_path / "agent", HEADER % "{}", zipfile.ZIP_DEFLATED, starts=bomb)
    assert (tmp_path / "agent").stat().st_size < 10**6
    with pytest.raises(DamagedFile, match="compressed"):
        load(tmp_path / "agent")


def test_foreign_kinds_versions_folders_and_nothing_are_refused(tmp_path: Path) -> None:
    sm.problems.random_switching(3, 2, changes=1, horizon=100).save(tmp_path / "problem")
    with pytest.raises(DamagedFile, match="holds"):
        load(tmp_path / "problem")
    np.savez(tmp_path / "foreign.npz", x=np.zeros(3))
    aged(5).save(tmp_path / "agent")
    fields, arrays = storage.load_arrays(tmp_path / "agent", "agent")
    versions: list[Any] = [0, 3, None, "1", [1], {}]
    for version in versions:
        storage.save_arrays(tmp_path / "v", "agent", fields | {"version": version}, arrays)
        with pytest.raises(DamagedFile, match="has agent format"):
            load(tmp_path / "v")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "folder").mkdir()
    for name in ("foreign.npz", "text", "folder"):
        with pytest.raises(DamagedFile):
            load(tmp_path / name)
    for name in ("missing", "missing/agent"):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / name)
        with pytest.raises(OSError, match=r"folder|agent"):
            aged(5).save(tmp_path / "folder" if name == "missing" else tmp_path / name)
