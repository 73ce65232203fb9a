"""Decisions with immediate feedback equal a simulation; a folder has one process and one agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.faults.workbench import scratch_folder
from tests.online.workbench import Clock, answer, bits, bits_of, kill, live, sql, sw_ucrl

import switchmdp as sm
from switchmdp.agents import Agent
from switchmdp.compiled import compiled
from switchmdp.errors import (
    ContractViolation,
    DamagedFile,
    ForeignFolder,
    InvalidParameter,
    LogFailed,
    Mismatch,
)
from switchmdp.online import Decisions, events_of, history, rebuild
from switchmdp.online.sqlite import SQLite
from switchmdp.online.views import beliefs

STEPS = 3000
MAKERS: dict[str, Callable[[sm.SwitchingMDP], Agent]] = {
    "sw-ucrl": lambda p: sm.agents.SWUCRL(p.n_states, p.n_actions, window=300),
    "ucrl2": lambda p: sm.agents.UCRL2(p.n_states, p.n_actions),
    "ucrl2-r": lambda p: sm.agents.UCRL2R(p.n_states, p.n_actions, changes=4),
    "ucrl2-rw": lambda p: sm.agents.UCRL2RW(p.n_states, p.n_actions, period=450),
    "oracle": lambda p: sm.agents.OracleUCRL2(
        p.n_states, p.n_actions, change_points=p.change_points
    ),
    "evidence-psrl": lambda p: sm.agents.EvidencePSRL(p.n_states, p.n_actions, share=1.0),
    "glr-ucrl": lambda p: sm.agents.GLRUCRL(p.n_states, p.n_actions, explore=0.05),
    "master-ucrl": lambda p: sm.agents.MASTER(p.n_states, p.n_actions, horizon=STEPS, diameter=2),
    "omniscient": sm.agents.Omniscient,
    "random": lambda p: sm.agents.Random(p.n_states, p.n_actions),
}  # fmt: skip


def settings_in(folder: Path) -> list[dict[str, Any]]:
    return [record["settings"] for _, record in events_of(folder) if record["event"] == "settings"]


@pytest.mark.parametrize(("name", "sync"), [("sw-ucrl", True), *((name, False) for name in MAKERS)])
def test_with_immediate_feedback_the_actions_equal_a_simulations(name: str, sync: bool) -> None:
    problem = sm.problems.random_switching(4, 3, changes=2, horizon=STEPS, seed=7)
    simulated: Any = MAKERS[name](problem)
    record = sm.simulate(simulated, problem, STEPS, seed=3, trajectory=True)
    assert record.trajectory is not None
    states = [*record.trajectory.states.tolist(), record.final_state]
    agent: Any = MAKERS[name](problem)
    if hasattr(agent, "reseed"):
        agent.reseed(np.random.SeedSequence(3).spawn(3)[2])
    with scratch_folder() as folder:
        decisions = Decisions(agent, folder, sync=sync, snapshot_every=700)
        for t in range(STEPS):
            if t == STEPS // 2:
                kill(decisions)
                decisions = Decisions(None, folder, sync=sync)
            decision = decisions.decide(states[t])
            assert decision.action == record.trajectory.actions[t], f"step {t}"
            assert decision.would is None
            decisions.feedback(decision.id, float(record.trajectory.rewards[t]), states[t + 1])
        learned = decisions.learner.agent
        assert learned.t == STEPS + 1
        if hasattr(learned, "visits"):
            assert np.array_equal(learned.visits, simulated.visits)
            assert learned.episode == simulated.episode
        decisions.close()


def test_the_steps_can_be_read_from_the_events_alone(tmp_path: Path) -> None:
    rng, told = np.random.default_rng(0), []
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        warm = [(0, 1, 0.25, 2), (2, 0, 1, 3)]
        decisions.learn_from(warm)
        open_ones = []
        for _ in range(50):
            open_ones.append(decisions.decide(int(rng.integers(4))))
            if rng.random() < 0.8:
                chosen = open_ones.pop(int(rng.integers(len(open_ones))))
                told.append((chosen.state, chosen.action, *answer(decisions, rng, chosen.id)))
    assert list(history(tmp_path)) == [(0, 1, 0.25, 2), (2, 0, 1.0, 3), *told]


def test_reading_beliefs_writes_nothing(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        for seed in range(5):
            live(decisions, 33, seed)
            before = bits_of(decisions)
            json.dumps(beliefs(decisions))
            assert bits_of(decisions) == before
    assert bits(rebuild(tmp_path)) == before


def test_ids_cannot_be_guessed_and_have_one_spelling(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        ids = [decisions.decide(0).id for _ in range(20)]
        assert len(set(ids)) == 20
        assert len({name.partition("-")[2] for name in ids}) == 20


# The folder.


def test_a_second_process_is_rejected_while_the_first_runs(tmp_path: Path) -> None:
    program = (
        "import sys; from switchmdp.online import Decisions\n"
        "try:\n    Decisions(None, sys.argv[1]).close()\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]

    def other() -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with Decisions(sw_ucrl(), tmp_path) as decisions:
        decisions.decide(0)
        assert other().startswith("ForeignFolder")
        with pytest.raises(ForeignFolder, match="in use"):
            Decisions(sw_ucrl(), tmp_path)
        decisions.decide(0)
    assert other() == ""


def test_a_folder_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ForeignFolder, match=r"contains 'thesis.txt'"):
        Decisions(sw_ucrl(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_interrupted_creation_is_repeated(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLite, "_insert_snapshot", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Decisions(sw_ucrl(), tmp_path)
    assert sql(tmp_path, "SELECT * FROM models") == []
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        live(decisions, 5)


@pytest.mark.parametrize("column", ["key", "name", "created"])
def test_a_damaged_model_is_rejected(column: str, tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path):
        pass
    value = 5.0 if column == "created" else "ab" * 16
    sql(tmp_path, f"UPDATE models SET {column} = ?", value)
    with pytest.raises(DamagedFile, match="row of the model"):
        Decisions(None, tmp_path)


OTHERS: dict[str, Callable[[], Agent]] = {
    "another window": lambda: sm.agents.SWUCRL(4, 3, window=61, delta=0.1),
    "another delta": lambda: sm.agents.SWUCRL(4, 3, window=60, delta=0.2),
    "other states": lambda: sm.agents.SWUCRL(5, 3, window=60, delta=0.1),
    "another class": lambda: sm.agents.UCRL2(4, 3, delta=0.1),
    "fewer pairs": lambda: sm.agents.SWUCRL(
        4, 3, window=60, delta=0.1, available=[[True, True, False]] * 4
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", OTHERS)
def test_a_folder_is_not_opened_with_another_agent(which: str, tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        live(decisions, 30)
        decisions.add_state()
        before = bits_of(decisions)
    with pytest.raises(Mismatch, match="created with another agent"):
        Decisions(OTHERS[which](), tmp_path)
    for same in (None, sw_ucrl()):
        with Decisions(same, tmp_path) as decisions:
            assert bits_of(decisions) == before


@pytest.mark.parametrize("agent", [None, object(), 5, "sw-ucrl", sm.agents.SWUCRL])
def test_a_new_folder_needs_an_agent(agent: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="agent"):
        Decisions(agent, tmp_path / "new")
    with Decisions(sw_ucrl(), tmp_path / "new"):
        pass


def test_changed_settings_are_logged_and_others_keep_their_values(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, expiry=50, most_pending=7) as decisions:
        live(decisions, 10)
        assert decisions.learner.settings.signal_window == 60
    with Decisions(None, tmp_path, expiry=50):
        pass
    assert settings_in(tmp_path) == []
    with Decisions(None, tmp_path, expiry=60, replan="background") as decisions:
        settings = decisions.learner.settings
        assert (settings.expiry, settings.most_pending, settings.replan) == (60, 7, "background")
        live(decisions, 10)
        after = bits_of
    assert len(settings_in(tmp_path)) == 1
    with Decisions(None, tmp_path) as decisions:
        assert decisions.learner.settings == settings
        assert after(decisions) == bits(rebuild(tmp_path))


BAD_SETTINGS: list[dict[str, Any]] = [
    {"expiry": 0}, {"expiry": -1.0}, {"expiry": float("inf")}, {"expiry": float("nan")},
    {"expiry": "1"}, {"expiry": True}, {"most_pending": 0}, {"most_pending": 2.0},
    {"most_pending": 10**8}, {"most_sessions": 0}, {"most_sessions": "x"}, {"replan": "later"},
    {"replan": ["inline"]}, {"signal_window": 0}, {"signal_window": 10**8}, {"signal_delta": 0.0},
    {"signal_delta": 1}, {"snapshot_every": 0}, {"snapshot_every": 1.5},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_SETTINGS, ids=str)
def test_invalid_settings_are_rejected_and_change_nothing(
    bad: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter):
        Decisions(sw_ucrl(), tmp_path / "new", **bad)
    with Decisions(sw_ucrl(), tmp_path / "old") as decisions:
        live(decisions, 3)
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    with pytest.raises(InvalidParameter):
        Decisions(None, tmp_path / "old", **bad)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}


def test_closed_decisions_accept_nothing_and_can_be_closed_twice(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path)
    decision = decisions.decide(0)
    decisions.close()
    decisions.close()
    for call in (
        lambda: decisions.decide(0), lambda: decisions.feedback(decision.id, 1, 0),
        lambda: decisions.set_mode("agent"), decisions.add_state, decisions.add_action,
        decisions.start_over, lambda: decisions.learn_from([(0, 0, 1.0, 0)]),
    ):  # fmt: skip
        with pytest.raises(LogFailed, match="is closed"):
            call()


# Agents of one's own.


@compiled
class Sulking(Agent):
    """Chooses an action that does not exist every tenth time, and counts its calls."""

    asked: int
    steps: NDArray[np.int64]

    def __init__(self, n_states: int, n_actions: int) -> None:
        Agent.__init__(self, n_states, n_actions)
        self.asked, self.steps = 0, np.zeros(n_states, np.int64)

    def act(self, state: int) -> int:
        self.asked += 1
        return 99 if self.asked % 10 == 0 else self.asked % 3

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.steps[next_state] += 1


def test_after_a_contract_violation_the_model_must_be_reopened(
    tmp_path: Path,
) -> None:
    decisions = Decisions(Sulking(4, 3), tmp_path)
    for _ in range(9):
        last = decisions.decide(0)
    before = bits_of(decisions)
    with pytest.raises(ContractViolation, match="chose 99"):
        decisions.decide(0)
    with pytest.raises(LogFailed, match="must be reopened"):
        decisions.feedback(last.id, 1.0, 0)
    decisions.close()
    with Decisions(None, tmp_path, classes=[Sulking]) as decisions:
        assert bits_of(decisions) == before
        assert decisions.feedback(last.id, 1.0, 0)
        assert decisions.learner.agent.steps.tolist() == [1, 0, 0, 0]
    with pytest.raises(DamagedFile, match="is unknown; name it in classes="):
        Decisions(None, tmp_path)


@compiled
class Contrary(sm.agents.SWUCRL):
    """Plans like SW-UCRL, but takes other actions."""

    def act(self, state: int) -> int:
        self.prepare(state)
        return 2


def test_an_overridden_act_is_used_by_the_service(tmp_path: Path) -> None:
    with Decisions(Contrary(4, 3, window=10), tmp_path) as decisions:
        for _ in range(30):
            decision = decisions.decide(1)
            assert decision.action == 2
            decisions.feedback(decision.id, 0.5, 1)
        assert decisions.learner.agent.visits[1].tolist() == [0, 0, 10]
        after = bits_of(decisions)
    assert after != bits(rebuild(tmp_path, [Contrary]))  # asked for its visits, it has absorbed
    with Decisions(None, tmp_path, classes=[Contrary]) as decisions:
        assert bits_of(decisions) == after


def test_on_alert_is_called_once_when_the_signal_fires(tmp_path: Path) -> None:
    told: list[Any] = []
    clock = Clock()
    with Decisions(
        sw_ucrl(),
        tmp_path,
        sync=False,
        signal_window=200,
        on_alert=told.append,
        clock=clock,
        timer=clock,
    ) as d:
        for i in range(1200):
            d.feedback(d.decide(0).id, float(i < 600), 0)
        assert len(told) == 1
        assert told[0].next_state is None
        assert (told[0].before, told[0].now) == (1.0, pytest.approx(0.6, abs=0.4))
        assert d.learner.alerts == told


def test_reprs_are_one_informative_line(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path / ("long-name" * 20)) as decisions:
        decision = decisions.decide(2, session="ann")
        reprs = [repr(decisions), repr(decisions.learner), repr(decision)]
    assert all(len(text) < 200 and "\n" not in text for text in reprs)
    assert reprs[1] == ("Learner(SWUCRL, 4 states, 3 actions, mode 'agent', 1 decision, 1 pending)")
    assert "name/switchmdp.sqlite', Learner(SWUCRL, " in reprs[0]
    assert "state=2, session='ann'" in reprs[2]
