"""The policy and estimates as plain data; reading them changes nothing."""

from __future__ import annotations

import copy
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.agents import (
    SWUCRL,
    UCRL2,
    UCRL2R,
    UCRL2RW,
    Episodic,
    EvidencePSRL,
    Omniscient,
    Random,
)
from switchmdp.agents.protocol import Agent
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP
from switchmdp.memory import Everything
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.online import Decisions, snapshots
from switchmdp.online.views import beliefs, explanation
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Never


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Stubborn(Agent):
    """A user's agent with only `act` and `observe`, which always takes the first action."""

    tried: int

    def __init__(self, n_states: int, n_actions: int) -> None:
        Agent.__init__(self, n_states, n_actions)
        self.tried = 0

    def act(self, state: int) -> int:
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.tried += 1


class Counting(Stubborn):
    """The same agent, which also reports its visits."""

    @property
    def visits(self) -> Any:
        return np.array([[self.tried, 0], [0, 0]])


def live(decisions: Decisions, steps: int, seed: int = 0, reward: Any = None) -> None:
    """Decisions and feedback, one after the other."""
    rng = np.random.default_rng(seed)
    state, n_states = 0, decisions.learner.agent.n_states
    for _ in range(steps):
        asked = decisions.decide(state)
        state = int(rng.integers(n_states))
        got = rng.random() if reward is None else reward(asked)
        decisions.feedback(asked.id, float(got), state)


def told(decisions: Decisions, **given: Any) -> dict[str, Any]:
    """Write the data as JSON, which has no NaN, and read it again."""
    found: dict[str, Any] = json.loads(json.dumps(beliefs(decisions, **given), allow_nan=False))
    return found


def pair(data: dict[str, Any], state: int, action: int) -> dict[str, Any]:
    (row,) = (row for row in data["states"] if row["state"] == state)
    (found,) = (pair for pair in row["actions"] if pair["action"] == action)
    return dict(found)


def test_reading_beliefs_does_not_change_the_learner(tmp_path: Path) -> None:
    with Decisions(SWUCRL(3, 2, window=20), tmp_path, sync=False) as decisions:
        live(decisions, 50)
        assert decisions.learner.agent.logged > 0, "or there is nothing that looking could absorb"
        fields, arrays = copy.deepcopy(snapshots.parts_of(decisions.learner))
        first = told(decisions)
        after, now = snapshots.parts_of(decisions.learner)
        assert after == fields
        assert {n: a.tobytes() for n, a in now.items()} == {
            n: a.tobytes() for n, a in arrays.items()
        }
        assert told(decisions) == first


def test_beliefs_equal_the_agents_own_tables(tmp_path: Path) -> None:
    with Decisions(SWUCRL(3, 2, window=20), tmp_path, sync=False) as decisions:
        live(decisions, 50)
        agent = copy.deepcopy(decisions.learner.agent)
        data = told(decisions)
        policy, visits, gain = agent.policy, agent.visits, agent.gain
        estimates, radii = agent.reward_estimates, agent.reward_radii
        assert [row["policy"] for row in data["states"]] == policy.tolist()
        assert data["gain"] == gain
        assert data["t"] == agent.t == 51
        assert data["episode"] == {"number": agent.episode, "start": agent.episode_start}
        assert data["memory"] == {"window": 20, "remembered": 20}
        for s in range(3):
            for a in range(2):
                found = pair(data, s, a)
                assert found["visits"] == visits[s, a]
                if visits[s, a]:
                    assert found["estimate"] == estimates[s, a]
                    assert found["low"] == max(0.0, estimates[s, a] - radii[s, a])
                    assert found["high"] == min(1.0, estimates[s, a] + radii[s, a])


SHARED = ("visits", "reward_visits", "estimate", "low", "high", "interval", "note")


def forget(decisions: Decisions, suspects: list[int]) -> None:
    """Forget rewards or next states, pair by pair, as after a detected change."""
    agent = decisions.learner.agent
    agent.update_memory()
    agent.memory.keep(0, np.array(suspects, np.uint8))


def test_page_and_explanation_agree_after_a_change(tmp_path: Path) -> None:
    with Decisions(EvidencePSRL(2, 2), tmp_path, sync=False) as decisions:
        for i in range(40):
            asked = decisions.decide(i % 2, taken=i // 2 % 2)
            decisions.feedback(asked.id, float(i % 3 == 0), 1 - i % 2)
        forget(decisions, [ROWS, REWARDS, 0, BOTH])
        for _ in range(6):
            asked = decisions.decide(0, taken=1)
            decisions.feedback(asked.id, 1.0, 1)
        data = told(decisions)
        for state in range(2):
            for explained in explanation(decisions, str(state))["actions"]:
                shown = pair(data, state, explained["action"])
                assert {key: shown[key] for key in SHARED} == {
                    key: explained[key] for key in SHARED
                }
    kept, known, whole, lost = (pair(data, s, a) for s in range(2) for a in range(2))
    assert (kept["visits"], kept["reward_visits"]) == (0, 10)
    assert kept["low"] < kept["estimate"] < kept["high"]
    assert kept["note"].startswith("the estimate is from 10 remembered rewards; the next states ")
    assert (known["visits"], known["reward_visits"], known["estimate"]) == (16, 6, 1.0)
    assert known["note"].startswith("the estimate is from 6 remembered rewards; other rewards ")
    assert (whole["visits"], whole["reward_visits"], whole["note"]) == (10, 10, None)
    assert (lost["visits"], lost["reward_visits"], lost["estimate"]) == (0, 0, None)
    assert lost["note"] == "no feedback is remembered, so any mean reward is possible"


def test_untried_pairs_have_the_interval_from_0_to_1(tmp_path: Path) -> None:
    with Decisions(SWUCRL(2, 2, window=20), tmp_path, sync=False) as decisions:
        data = told(decisions)
        assert data["gain"] is None
        assert data["at"] is None
        assert data["rewards"] == data["alerts"] == []
        assert data["signal"]["latest"] is None
        assert [row["policy"] for row in data["states"]] == [None, None]
        assert pair(data, 0, 1) == {
            "action": 1, "name": None, "visits": 0, "reward_visits": 0, "estimate": None,
            "low": 0.0, "high": 1.0, "interval": "confidence",
            "note": "no feedback is remembered, so any mean reward is possible",
            "feedbacks_ago": None, "seconds_ago": None,
        }  # fmt: skip


def test_ages_are_given_in_feedback_events_and_seconds(tmp_path: Path) -> None:
    clock = Clock()
    with Decisions(UCRL2(2, 2), tmp_path, sync=False, clock=clock, timer=clock) as decisions:
        for action, wait in ((0, 5.0), (1, 30.0), (1, 60.0)):
            asked = decisions.decide(0, taken=action)
            clock.now += wait
            decisions.feedback(asked.id, 0.5, 0)
        data = told(decisions)
    assert (pair(data, 0, 0)["feedbacks_ago"], pair(data, 0, 0)["seconds_ago"]) == (2, 90.0)
    assert (pair(data, 0, 1)["feedbacks_ago"], pair(data, 0, 1)["seconds_ago"]) == (0, 0.0)
    assert pair(data, 1, 0)["feedbacks_ago"] is None
    assert data["at"] == 1095.0


def test_counters_mode_and_shadow_agreement_are_reported(tmp_path: Path) -> None:
    clock = Clock()
    with Decisions(
        UCRL2(2, 2), tmp_path, sync=False, clock=clock, timer=clock, expiry=10.0
    ) as decisions:
        decisions.decide(0, session="lost")
        clock.now += 11
        decisions.set_mode("shadow", [1, 0])
        for _ in range(4):
            asked = decisions.decide(0, session="a")
            decisions.feedback(asked.id, 1.0, 0)
        decisions.decide(1, session="b")
        data = told(decisions)
        agreed = decisions.learner.agreed
    assert data["counters"] == {
        "decided": 6, "counted": 4, "expired": 1, "pending": 1, "sessions": 3
    }  # fmt: skip
    assert (data["mode"], data["fixed_policy"]) == ("shadow", [1, 0])
    assert data["shadow"] == {"compared": 4, "agreed": agreed, "agreement": agreed / 4}


def test_the_reward_rate_includes_every_feedback(tmp_path: Path) -> None:
    with Decisions(Random(2, 2), tmp_path, sync=False) as decisions:
        live(decisions, 700, reward=lambda asked: asked.action)
        data = told(decisions)
        total = sum(bucket[3] for bucket in decisions.learner.rewards.buckets)
    assert sum(bucket["n"] for bucket in data["rewards"]) == 700
    assert sum(bucket["n"] * bucket["mean"] for bucket in data["rewards"]) == pytest.approx(total)
    assert all(bucket["from"] <= bucket["to"] for bucket in data["rewards"])


def test_an_alert_names_what_changed(tmp_path: Path) -> None:
    with Decisions(Random(1, 2), tmp_path, sync=False, signal_window=100) as decisions:
        live(decisions, 200, reward=lambda asked: asked.action)
        quiet = told(decisions)
        live(decisions, 100, reward=lambda asked: 0.0)
        data = told(decisions)
    assert quiet["alerts"] == []
    assert not quiet["signal"]["fires"]
    assert data["signal"]["fires"]
    assert data["signal"]["latest"]["strength"] >= data["signal"]["threshold"] == 1.0
    (alert,) = data["alerts"]
    assert 200 < alert["step"] <= 300
    assert (alert["state"], alert["action"], alert["what"]) == (0, 1, "reward")
    assert alert["state_name"] is alert["action_name"] is None
    assert alert["next_state"] is alert["next_state_name"] is None
    assert alert["now"] < alert["before"] == 1.0


def test_only_the_most_visited_of_many_states_are_reported(tmp_path: Path) -> None:
    with Decisions(UCRL2(7, 2), tmp_path, sync=False) as decisions:
        decisions.learn_from([(s, 0, 0.5, 0) for s in (5, 2, 5, 2, 6, 5)])
        data = told(decisions, limit=2)
        assert [row["state"] for row in data["states"]] == [2, 5]
        assert data["more_states"] == 5
        assert told(decisions)["more_states"] == 0
        with pytest.raises(InvalidParameter, match="limit must be an integer >= 1, got 0"):
            beliefs(decisions, limit=0)


def test_without_visit_counts_the_latest_states_are_reported(tmp_path: Path) -> None:
    with Decisions(Random(7, 2), tmp_path, sync=False) as decisions:
        decisions.learn_from([(s, 0, 0.5, 0) for s in (5, 5, 5, 2, 6)])
        assert [row["state"] for row in told(decisions, limit=2)["states"]] == [2, 6]


def test_only_existing_actions_are_reported(tmp_path: Path) -> None:
    mask = np.array([[True, False, True], [False, True, False]])
    with Decisions(UCRL2(2, 3, available=mask), tmp_path, sync=False) as decisions:
        data = told(decisions)
    told_of = [[pair["action"] for pair in row["actions"]] for row in data["states"]]
    assert told_of == [[0, 2], [1]]
    assert data["agent"]["pairs"] == 3


@pytest.mark.parametrize(
    ("agent", "parameters"),
    [
        (SWUCRL(2, 2, window=30, delta=0.2), {"window": 30, "delta": 0.2, "width": 1.0}),
        (UCRL2(2, 2, delta=0.1), {"delta": 0.1, "width": 1.0}),
        (UCRL2R(2, 2, changes=1, delta=0.4), {"delta": 0.1, "width": 1.0, "segments": 2}),
        (UCRL2RW(2, 2, period=50), {"delta": 0.05, "width": 1.0, "period": 50}),
        (Random(2, 2), {}),
    ],
)
def test_class_and_parameters_are_reported(agent: Any, parameters: Any, tmp_path: Path) -> None:
    with Decisions(agent, tmp_path, sync=False) as decisions:
        data = told(decisions)["agent"]
    assert data["class"] == type(agent).__name__
    assert data["parameters"] == parameters
    assert (data["states"], data["actions"], data["pairs"]) == (2, 2, 4)


def test_components_are_reported_by_name(tmp_path: Path) -> None:
    agent = Episodic(2, 2, memory=Everything(), plausible=L1Ball(0.1), restarts=Never())
    with Decisions(agent, tmp_path, sync=False) as decisions:
        data = told(decisions)["agent"]
    assert data["components"] == {
        "memory": "Everything", "plausible": "L1Ball", "restarts": "Never", "episodes": "Doubling",
        "exploration": "AsPlanned",
    }  # fmt: skip


def test_without_a_memory_estimates_are_those_of_recent_feedback(tmp_path: Path) -> None:
    mdp = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.2, 0], [0.8, 0]])
    with Decisions(Omniscient(mdp), tmp_path, sync=False) as decisions:
        for reward in (0.0, 0.5, 0.5):
            decisions.feedback(decisions.decide(1).id, reward, 1)
        data = told(decisions)
        explained = explanation(decisions, "1")["actions"]
    assert [row["policy"] for row in data["states"]] == [1, 0]
    assert data["t"] == 4
    assert data["episode"] is data["gain"] is None
    assert data["memory"] == {"window": None, "remembered": None}
    assert data["source"] == "recent feedback"
    shown = pair(data, 1, 0)
    assert (shown["visits"], shown["estimate"], shown["interval"]) == (3, 1 / 3, "credible")
    assert {key: shown[key] for key in SHARED} == {key: explained[0][key] for key in SHARED}
    assert pair(data, 1, 1)["estimate"] is None


def test_custom_agents_are_shown_with_recent_feedback(tmp_path: Path) -> None:
    for agent in (Stubborn(2, 2), Counting(2, 2)):
        folder = tmp_path / type(agent).__name__
        with Decisions(agent, folder, sync=False, classes=[type(agent)]) as decisions:
            for _ in range(4):
                decisions.feedback(decisions.decide(0).id, 1.0, 0)
            data = told(decisions)
        first = pair(data, 0, 0)
        assert (first["visits"], first["estimate"]) == (4, 1.0)
        assert first["feedbacks_ago"] == 0
        assert data["agent"]["class"] == type(agent).__name__
        assert pair(data, 1, 0)["estimate"] is None


def test_beliefs_are_a_consistent_snapshot(tmp_path: Path) -> None:
    with Decisions(SWUCRL(3, 2, window=10_000), tmp_path, sync=False) as decisions:
        live(decisions, 10)
        thread = threading.Thread(target=live, args=(decisions, 600))
        thread.start()
        while thread.is_alive():
            data = told(decisions)
            counted = data["counters"]["counted"]
            assert sum(bucket["n"] for bucket in data["rewards"]) == counted
            assert data["memory"]["remembered"] == counted == data["t"] - 1
        thread.join()
