"""A loaded agent continues exactly as if it had never been saved."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agents.saving_helpers import contents, live, same, saved_and_loaded
from tests.every_agent import new_agent

import switchmdp as sm
from switchmdp import storage
from switchmdp.agents import AGENTS, Episodic, load
from switchmdp.agents.saving import described
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.memory import Window
from switchmdp.plausible import KLBall, L1Ball
from switchmdp.restarts import Cubic, Never, Periodic

GOLDEN = Path(__file__).parent / "golden"
NAMED: dict[str, Callable[[sm.SwitchingMDP], Any]] = {
    "sw-ucrl": lambda p: sm.agents.SWUCRL(p.n_states, p.n_actions, window=300),
    "ucrl2": lambda p: sm.agents.UCRL2(p.n_states, p.n_actions),
    "ucrl2-r": lambda p: sm.agents.UCRL2R(p.n_states, p.n_actions, changes=4),
    "ucrl2-rw": lambda p: sm.agents.UCRL2RW(p.n_states, p.n_actions, period=450),
    "oracle": lambda p: sm.agents.OracleUCRL2(
        p.n_states, p.n_actions, change_points=p.change_points
    ),
    "borl": lambda p: sm.agents.BORL(p.n_states, p.n_actions, horizon=1500, seed=3),
    "borl-full-grid": lambda p: sm.agents.PaperBORL(p.n_states, p.n_actions, horizon=1500),
    "master-ucrl": lambda p: sm.agents.MASTER(
        p.n_states, p.n_actions, horizon=3000, diameter=1, scale=1e-3, confidence=0.5
    ),
    "oracle, consecutive changes": lambda p: sm.agents.OracleUCRL2(
        p.n_states, p.n_actions, change_points=[2, 900, 901]
    ),
    "omniscient": sm.agents.Omniscient,
    "random": lambda p: sm.agents.Random(p.n_states, p.n_actions, seed=5),
}  # fmt: skip
# Windows with a restart rule: no registered agent has these components. The same combinations are
# compiled for other tests.
MAKERS = NAMED | {
    "window, periodic": lambda p: Episodic(
        p.n_states, p.n_actions, memory=Window(1500), plausible=L1Ball(0.1),
        restarts=Periodic(700),
    ),
    "window, cubic": lambda p: Episodic(
        p.n_states, p.n_actions, memory=Window(1500), plausible=KLBall(0.1, True),
        restarts=Cubic(7),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def small() -> sm.SwitchingMDP:
    return sm.problems.random_switching(5, 3, changes=2, horizon=3000, seed=0)


@pytest.fixture(scope="module")
def listed() -> sm.SwitchingMDP:
    """So many states that successor counts are kept as lists."""
    return sm.problems.random_switching(100, 2, changes=2, horizon=3000, seed=1)


@pytest.mark.parametrize("size", ["small", "listed"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_simulation_continues_bit_for_bit_after_saving_and_loading(
    name: str, size: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    problem = request.getfixturevalue(size)
    rng = np.random.default_rng([len(name), len(size)])
    cuts = np.unique([1, *rng.integers(2, 3000, 8), 3000]).tolist()
    agent, control = MAKERS[name](problem), MAKERS[name](problem)
    assert same(saved_and_loaded(agent, tmp_path / "agent"), agent)
    record = sm.simulate(agent, problem, cuts[0], seed=3, every=100)
    for cut in cuts[1:]:
        agent = saved_and_loaded(agent, tmp_path / "agent")
        record = sm.simulate(agent, problem, cut, every=100, resume=record)
    entire = sm.simulate(control, problem, cuts[-1], seed=3, every=100)
    assert same(agent, control)
    assert np.array_equal(record.regret, entire.regret)
    agent.save(tmp_path / "one")
    control.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(("size", "steps"), [("small", 60), ("listed", 40)])
@pytest.mark.parametrize("name", MAKERS)
def test_act_and_observe_continue_bit_for_bit_after_saving_and_loading(
    name: str, size: str, steps: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    problem = request.getfixturevalue(size)
    agent, control = MAKERS[name](problem), MAKERS[name](problem)
    rng = np.random.default_rng(len(name))
    for seed in range(5):
        n = int(rng.integers(1, steps))
        assert live(agent, n, seed) == live(control, n, seed)
        agent = saved_and_loaded(agent, tmp_path / "agent")
    assert same(agent, control)


def test_an_agent_with_successor_lists_continues_after_loading(tmp_path: Path) -> None:
    """The successor lists matter only after many visits, when the balls are small."""
    problem = sm.SwitchingMDP([sm.problems.random_mdp(70, 1, seed=2)])
    for make in (lambda: sm.agents.UCRL2(70, 1), lambda: sm.agents.SWUCRL(70, 1, window=300_000)):
        agent, control = make(), make()
        record = sm.simulate(agent, problem, 350_000, every=1000)
        agent = saved_and_loaded(agent, tmp_path / "agent")
        assert load(tmp_path / "agent").transition_radii.min() < 2.0
        sm.simulate(agent, problem, 700_000, resume=record)
        sm.simulate(control, problem, 700_000, every=1000)
        assert live(agent, 200, 0) == live(control, 200, 0)
        assert same(agent, control)


@pytest.mark.parametrize("name", AGENTS)
def test_a_new_agent_comes_back_whole_with_its_scratch_fields(
    name: str, small: sm.SwitchingMDP, tmp_path: Path
) -> None:
    agent = new_agent(name, small)
    assert contents(saved_and_loaded(agent, tmp_path / "agent")) == contents(agent)


def test_files_of_format_2_load_although_they_hold_scratch_fields(tmp_path: Path) -> None:
    agent = sm.agents.SWUCRL(3, 2, window=20)
    live(agent, 50, 0)
    fields, arrays = described(agent)
    plausible = fields["agent"]["fields"]["plausible"]
    assert "radius" not in plausible["fields"]
    for name in ("reward", "radius"):
        arrays[f"plausible.{name}"] = np.full(6, np.nan)
        plausible["fields"][name] = {"array": f"plausible.{name}"}
    storage.save_arrays(tmp_path / "two", "agent", fields | {"version": 2}, arrays)
    assert same(load(tmp_path / "two"), agent)
    plausible["fields"]["radius"] = 5
    storage.save_arrays(tmp_path / "bad", "agent", fields | {"version": 2}, arrays)
    with pytest.raises(DamagedFile, match=r"L1Ball\.radius"):
        load(tmp_path / "bad")


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
    """Many steps after a restart that only `act` would have made."""
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
def test_agents_in_special_states_are_restored(moment: Callable[[], Any], tmp_path: Path) -> None:
    agent = moment()
    loaded = saved_and_loaded(agent, tmp_path / "agent")
    assert same(loaded, agent)
    assert live(loaded, 300, 1) == live(agent, 300, 1)
    assert same(loaded, agent)


def test_saving_changes_nothing_and_the_same_agent_gives_the_same_bytes(tmp_path: Path) -> None:
    for moment in MOMENTS:
        agent = moment()
        before = contents(agent)
        agent.save(tmp_path / "one")
        agent.save(tmp_path / "two")
        load(tmp_path / "one").save(tmp_path / "three")
        assert contents(agent) == before
        files = {(tmp_path / name).read_bytes() for name in ("one", "two", "three")}
        assert len(files) == 1


def test_a_loaded_agents_components_belong_to_it(tmp_path: Path) -> None:
    loaded = saved_and_loaded(sm.agents.SWUCRL(3, 2, window=20), tmp_path / "agent")
    with pytest.raises(InvalidParameter, match="an agent already uses this object"):
        Episodic(3, 2, memory=loaded.memory, plausible=L1Ball(0.1), restarts=Never())


def test_unequal_action_sets_are_restored(tmp_path: Path) -> None:
    mask = np.array([[True, False, True], [False, True, False]])
    loaded = saved_and_loaded(sm.agents.SWUCRL(2, 3, window=20, available=mask), tmp_path / "agent")
    assert np.array_equal(loaded.pairs.available, mask)


def test_files_are_the_same_with_and_without_machine_code(tmp_path: Path) -> None:
    makers: dict[str, Callable[[], Any]] = {
        "sw-ucrl": lambda: sm.agents.SWUCRL(3, 2, window=50),
        "told": lambda: sm.agents.OracleUCRL2(70, 2, change_points=[30, 250]),
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
def test_files_of_the_first_release_load_and_choose_the_same_actions(name: str) -> None:
    agent: Any = load(GOLDEN / f"{name}.npz")
    assert type(agent).__name__ == AGENTS[name].__name__
    assert agent.t == 3001
    steps = json.loads((GOLDEN / f"{name}.json").read_text())
    assert len(steps) == 600
    with np.errstate(over="ignore"):
        for state, action, reward, next_state in steps:
            assert agent.act(state) == action
            agent.observe(state, action, reward, next_state)
