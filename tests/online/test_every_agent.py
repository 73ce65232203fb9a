"""Every servable agent is served, shown, replayed, and compared with a simulation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.online.every_agent import STEPS
from tests.online.serving import Client

from switchmdp.agents import AGENTS, Episodic
from switchmdp.agents.registry import servable_agents, unavailable_information
from switchmdp.online.schemas import Explanation

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

# All tests here read the result of one long process, so one worker runs them.
pytestmark = pytest.mark.xdist_group("every servable agent")
ROOT = Path(__file__).parents[2]
SHARED = ("action", "visits", "reward_visits", "estimate", "low", "high", "interval", "note")
INTERPRETED = {**os.environ, "NUMBA_DISABLE_JIT": "1"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of every agent, from one process without machine code."""
    scratch = tmp_path_factory.mktemp("agents")
    command = [sys.executable, "-m", "tests.online.every_agent", str(scratch)]
    done = subprocess.run(
        command, cwd=ROOT, env=INTERPRETED, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return {found["agent"]: found for found in map(json.loads, done.stdout.splitlines())}


def test_only_agents_that_need_to_know_the_problem_or_its_changes_cannot_be_served() -> None:
    assert AGENTS.keys() - servable_agents().keys() == {
        "oracle-ucrl2", "oracle-ucrl2b", "oracle-ucrl3", "oracle-kl-ucrl", "oracle-psrl",
        "oracle-pairs-psrl", "omniscient",
    }  # fmt: skip
    assert unavailable_information(AGENTS["omniscient"]) == "the problem itself"


@pytest.mark.parametrize("name", servable_agents())
def test_every_servable_agent_is_served_shown_and_replayed(name: str, seen: dict[str, Any]) -> None:
    found = seen[name]
    assert "failure" not in found, found["failure"]
    assert found["statuses"] == [200] * 4
    assert (found["replayed"], found["same"], found["differing"]) == (0, True, 0)
    told = found["told"]
    assert told["agent"]["class"] == AGENTS[name].__name__
    assert told["counters"]["counted"] == STEPS
    assert told["t"] == STEPS + 1
    pairs = [pair for row in told["states"] for pair in row["actions"]]
    assert len(pairs) == 6
    if issubclass(AGENTS[name], Episodic):
        assert told["agent"]["components"].keys() == {
            "memory", "plausible", "restarts", "episodes", "exploration"
        }  # fmt: skip
    assert all((pair["estimate"] is None) == (pair["reward_visits"] == 0) for pair in pairs)
    assert any(pair["visits"] for pair in pairs)
    first, *baselines = found["evaluations"]
    assert first["agent"].startswith(name)
    assert first["steps"] == STEPS + 5
    assert 0.0 <= first["agreement"] <= 1.0
    assert [row["agent"] for row in baselines] == ["never forgets", "the last visit"]


@pytest.mark.parametrize("name", servable_agents())
def test_every_servable_agent_is_explained(name: str, seen: dict[str, Any]) -> None:
    assert "failure" not in seen[name], seen[name]["failure"]
    for state, found in enumerate(seen[name]["explained"]):
        explained = Explanation.model_validate(found)
        assert explained.state == state
        assert explained.gain is not None
        assert 0.0 <= explained.gain <= 1.0
        assert [one.action for one in explained.actions] == [0, 1]
        for shown, one in zip(
            seen[name]["told"]["states"][state]["actions"], found["actions"], strict=True
        ):
            assert {key: shown[key] for key in SHARED} == {key: one[key] for key in SHARED}
        assert sum(one.visits for one in explained.actions) > 0
        chosen = [one.value for one in explained.actions if one.chosen]
        assert all(value == pytest.approx(0.0, abs=1e-9) for value in chosen)
        for one in explained.actions:
            assert 0.0 <= one.low <= one.high <= 1.0
            assert one.estimate is None or one.low <= one.estimate <= one.high
            assert (one.estimate is None) == (one.reward_visits == 0)
            assert (one.visits == 0) == (one.successors == [])
            assert (one.note is None) == (one.visits == one.reward_visits > 0)
            assert sum(to.probability for to in one.successors) <= 1.0 + 1e-12


@pytest.mark.parametrize("name", servable_agents())
def test_served_decisions_equal_those_of_a_simulation(name: str, seen: dict[str, Any]) -> None:
    """Each feedback arrives before the next decision."""
    assert "failure" not in seen[name], seen[name]["failure"]
    compared = seen[name]["as simulated"]
    assert compared["differing"] == []
    assert compared["served"] == compared["simulated"]


def test_the_comparison_with_simulations_includes_restarts_and_probes(seen: dict[str, Any]) -> None:
    restarted = ("ucrl2-r", "ucrl2-rw", "evidence-psrl", "variation-aware", "borl", "glr-ucrl")
    assert all(seen[name]["as simulated"]["served"]["since"] > 1 for name in restarted)
    assert seen["master-ucrl"]["as simulated"]["served"]["restart_count"] > 0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Client]:
    """EvidencePSRL behind the real command line."""
    command = [
        sys.executable, "-c", "from switchmdp.cli import main; main()", "serve", "--port", "0",
        "--data", "data", "--agent", "evidence-psrl", "--states", "3", "--actions", "2",
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=tmp_path, env=INTERPRETED, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("listening on "), process.communicate()
        try:
            yield Client(int(said.rpartition(":")[2]))
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_the_page_shows_credible_intervals_of_an_agent_without_confidence_intervals(
    browser: Chrome, served: Client
) -> None:
    from tests.browser import ask, complaints
    from tests.online.watching import shown_as, text, until_counted

    for i in range(40):
        served.feedback(served.decide(state=i % 3)["id"], (i % 4) / 4, (i + 1) % 3)
    complaints(browser)
    browser.get(f"http://127.0.0.1:{served.port}/")
    until_counted(browser, 40)
    assert complaints(browser) == []
    assert browser.title == "EvidencePSRL · switchmdp"
    assert "the band its 95 % credible interval" in text(browser, "#policy-note")
    rows = served.ask("GET", "/agent").json["states"]
    for pair in (pair for row in rows for pair in row["actions"]):
        assert 0 <= pair["low"] < pair["high"] <= 1
        if pair["estimate"] is not None:
            assert pair["low"] <= pair["estimate"] <= pair["high"]
    values = ask(
        browser, "[...document.querySelectorAll('#policy .value')].map((v) => v.textContent)"
    )
    estimates = [pair["estimate"] for row in rows for pair in row["actions"]]
    assert len(values) == len(estimates)
    assert all(map(shown_as, values, estimates)), (values, estimates)
    shown = "getComputedStyle(i).display !== 'none' && i.getClientRects().length > 0"
    count = f"[...document.querySelectorAll(arguments[0])].filter((i) => {shown}).length"
    known = sum(value != "unknown" for value in values)
    assert ask(browser, count, "#policy .interval") == len(values)
    assert ask(browser, count, "#policy .dot") == known > 0
    browser.get("about:blank")
