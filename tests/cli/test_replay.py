"""replay: the log is verified, agents are evaluated, and the output explains its limits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import change_event

from switchmdp.agents import SWUCRL
from switchmdp.online import Decisions
from switchmdp.online.models import Models
from switchmdp.online.sqlite import NAME, SQLite


@pytest.fixture
def log() -> Path:
    """The log of a problem with two states whose rewards are exchanged in the middle."""
    rng = np.random.default_rng(0)
    with Decisions(SWUCRL(2, 2, window=50, delta=0.1), "log", sync=False) as decisions:
        for i in range(400):
            decision = decisions.decide(i % 2)
            good = decision.action == (i >= 200)
            decisions.feedback(decision.id, float(rng.random() < (0.9 if good else 0.1)), 1 - i % 2)
    return Path("log")


def rows_of(result: str) -> dict[str, list[str]]:
    lines = re.findall(r"^(sw-ucrl, window \d+|never forgets|the last visit) +(.*)$", result, re.M)
    return {label: rest.split() for label, rest in lines}


def test_windows_are_compared_with_two_baselines(call: Any, log: Path) -> None:
    result = call("replay", log, "--agent", "sw-ucrl", "--window", 30, "--window", 50)
    assert result.code == 0
    assert "replayed 800 events from the beginning:" in result.out
    assert "  same learner, bit for bit, as in the snapshot at event 800\n" in result.out
    assert "  all replayed actions equal the log\n" in result.out
    assert "400 steps, 2 states, 2 actions" in result.out
    rows = rows_of(result.out)
    assert list(rows) == [
        "sw-ucrl, window 30", "sw-ucrl, window 50", "never forgets", "the last visit"
    ]  # fmt: skip
    assert sum("*" in row for row in rows.values()) in (1, 2)
    assert rows["sw-ucrl, window 50"][-2:] == ["100.0", "%"]  # it made the log
    assert rows["the last visit"][-1] == "-"
    assert "after the last step, which may explore" in result.out
    assert "do not show the reward or\nregret of another agent" in result.out
    assert result.out.endswith("Agreement with the log is not an advantage.\n")


def test_the_database_is_an_argument_or_an_option(call: Any, log: Path) -> None:
    by_argument, by_option = call("replay", log), call("replay", "--database", log)
    assert by_option == by_argument
    assert by_option.code == 0
    both, none = call("replay", log, "--database", log), call("replay")
    assert (both.code, none.code) == (2, 2)
    assert "LOG must be omitted if --database is set" in both.err
    assert none.err == (
        "error: LOG must be set: the file of the database, its folder, or postgresql://..., "
        "for example: switchmdp replay switchmdp.sqlite\n"
    )


def test_states_and_actions_are_printed_with_their_names(call: Any) -> None:
    with Models(SQLite("shop.sqlite", sync=False)) as models:
        models.create("shop", "random", states=["first page", "Größe\n"], actions=["it's"])
        shop = models.load("shop")
        for _ in range(3):
            shop.feedback(shop.decide(0).id, 0.5, 1)
        shop.add_state()
    options = ("replay", "shop.sqlite", "--model", "shop", "--window", 2)
    result = call(*options)
    known = "(mean reward 0.5000 in 2 remembered visits)"
    assert f"  in state 'first page': action \"it's\" {known}\n" in result.out
    assert "  in state 'Größe\\n': action \"it's\" (" in result.out
    assert '  in state 2: action "it\'s" (no remembered visit)' in result.out
    verified = json.loads(call(*options, "--json").out.splitlines()[0])
    assert verified["state_names"] == ["first page", "Größe\n"]
    assert verified["action_names"] == ["it's"]


def test_by_default_several_windows_are_tried(call: Any, log: Path) -> None:
    rows = rows_of(call("replay", log).out)
    windows = [f"sw-ucrl, window {w}" for w in (6, 12, 25, 50, 100, 200, 400)]
    assert list(rows) == [*windows, "never forgets", "the last visit"]
    numbers = [[x for x in row if x not in "*~"] for row in rows.values()]
    assert numbers[-3] == numbers[-2]  # a window as long as the log never forgets


def test_json_output_contains_all_results(call: Any, log: Path) -> None:
    result = call("replay", log, "--window", 30, "--json")
    verified, *rows, note = map(json.loads, result.out.splitlines())
    assert verified == {
        "event": "verified", "records": 800, "snapshot": 800, "same": True, "differing": 0,
        "state_names": None, "action_names": None, "exit": 0,
    }  # fmt: skip
    assert [row["agent"] for row in rows] == [
        "sw-ucrl, window 30", "never forgets", "the last visit"
    ]  # fmt: skip
    assert sum(row["best_reward_error"] for row in rows) == 1
    assert sum(row["best_move_loss"] for row in rows) == 1
    assert np.array(rows[0]["visits"]).sum() == 30
    assert len(rows[0]["policy"]) == 2
    assert (rows[2]["policy"], rows[2]["agreement"]) == (None, None)
    assert note["event"] == "note"
    assert "regret" in note["message"]


@pytest.mark.parametrize(
    ("agent", "options", "label"),
    [
        ("ucrl2", (), "ucrl2"),
        ("ucrl2-rw", ("--period", 100), "ucrl2-rw, period 100"),
        ("ucrl2-r", ("--changes", 2), "ucrl2-r, changes 2"),
    ],
)
def test_other_agents_can_be_evaluated(
    call: Any, log: Path, agent: str, options: tuple[Any, ...], label: str
) -> None:
    result = call("replay", log, "--agent", agent, *options, "--json")
    assert result.code == 0
    assert json.loads(result.out.splitlines()[1])["agent"] == label


def test_an_agent_without_predictions_is_compared_by_agreement_only(call: Any, log: Path) -> None:
    result = call("replay", log, "--agent", "random", "--set", "seed=3")
    assert result.code == 0
    row = re.search(r"^random +(.*)$", result.out, re.M)
    assert row is not None
    *nothing, agrees, percent = row[1].split()
    assert (nothing, percent) == (["-"] * 5, "%")
    assert 30 < float(agrees) < 70
    assert "policy of never forgets after the last step" in result.out
    row = json.loads(
        call("replay", log, "--agent", "random", "--json").out.splitlines()[1]
    )  # fmt: skip
    assert row["reward_error"] is row["policy"] is None
    assert row["reward_estimates"] == [[None, None], [None, None]]
    assert row["best_reward_error"] is False


def test_a_log_that_gives_a_different_learner_is_reported(call: Any, log: Path) -> None:
    change_event(log, 800, reward=0.25)
    result = call("replay", log, "--window", 30)
    assert result.code == 4
    assert "the learner DIFFERS from the snapshot at event 800" in result.out
    assert "sw-ucrl, window 30" in result.out


def test_a_log_with_growth_is_evaluated_at_its_final_size(call: Any, log: Path) -> None:
    with Decisions(None, log, sync=False) as decisions:
        state = decisions.add_state(available=[1])
        decisions.feedback(decisions.decide(state).id, 1.0, 0)
    result = call("replay", log, "--window", 30, "--json")
    row = json.loads(result.out.splitlines()[1])
    assert row["visits"][state] == [0, 1]
    assert row["reward_estimates"][state] == [None, 1.0]


def test_a_log_without_feedback_is_verified(call: Any) -> None:
    with Decisions(SWUCRL(2, 2, window=50), "empty", sync=False) as decisions:
        decisions.decide(0)
    result = call("replay", "empty")
    assert result.code == 0
    assert result.out.endswith("no feedback yet: nothing to evaluate\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--agent", "ucrl2", "--window", 5),
            "--window must be omitted: ucrl2 has no such",
        ),
        (("--agent", "ucrl2-r"), "changes must be set, because ucrl2-r requires it"),
        (("--agent", "borl"), "horizon must be set, because borl requires it"),
        (("--window", 5, "--set", "window=6"), "--set window must be omitted if --window is set"),
        (("--set", "gamma=1"), "parameter of sw-ucrl must be one of window, delta"),
        (("--agent", "psrl", "--delta", 0.1), "parameter of psrl must be one of seed"),
        (
            ("--agent", "q-learning", "--window", 5),
            "--window must be omitted: q-learning has no such parameter",
        ),
        (("--window", 0), "window must be"),
        (("--delta", 2), "delta must be"),
        (("--agent", "omniscient"), "omniscient needs the problem itself, so it can only"),
        (("--agent", "nobody"), "error: agent must be one of sw-ucrl, ucrl2, "),
    ],
)
def test_invalid_parameters_are_reported(
    call: Any, log: Path, options: tuple[Any, ...], message: str
) -> None:
    result = call("replay", log, *options)
    assert result.code == 2
    assert message in result.err


def test_a_folder_without_a_log_is_reported(call: Any) -> None:
    result = call("replay", "nowhere")
    assert result.code == 4
    assert result.err == f"error: there is no database {Path('nowhere', NAME)}\n"
    assert not Path("nowhere").exists()
