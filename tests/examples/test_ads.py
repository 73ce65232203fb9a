"""The shop example: its audiences, its statistics, and a run over HTTP."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.client import Client, ConnectionFailed, Decision, NotFound, Retries

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "ads"
MODULES = ("audience", "serving", "shop", "traffic")


@pytest.fixture(scope="module")
def ads() -> Iterator[dict[str, ModuleType]]:
    """The modules of the example, imported as when the example runs."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in MODULES:
            sys.modules.pop(name, None)


class RecordingClient:
    """A client that always shows the same offer and records all requests."""

    def __init__(self, offer: int) -> None:
        self.offer = offer
        self.asked: list[dict[str, Any]] = []
        self.fed: list[tuple[Decision, float, str]] = []
        self.calls: list[str] = []

    def decide_batch(self, model: str, requests: list[dict[str, Any]]) -> list[Decision]:
        self.calls.append("decide")
        first = len(self.asked)
        self.asked += requests
        return [
            Decision(id=str(first + i), action=self.offer, state=0) for i in range(len(requests))
        ]

    def feedback_batch(self, model: str, reports: list[tuple[Decision, float, str]]) -> list[bool]:
        self.calls.append("feedback")
        self.fed += reports
        return [True] * len(reports)


def test_every_audience_has_a_plan_with_a_clearly_higher_gain(ads: Any) -> None:
    audiences = ads["audience"].AUDIENCES
    plans = [sm.optimal_gain(audience.mdp()) for audience in audiences]
    assert all(0.5 < plan.gain < 0.7 for plan in plans)
    for other in audiences[1:]:
        kept = sm.policy_gain(other.mdp(), plans[0].policy)
        assert np.max(kept) < 0.6 * sm.optimal_gain(other.mdp()).gain


def test_favourites_have_the_highest_click_rates(ads: Any) -> None:
    audience = ads["audience"]
    for shown in audience.AUDIENCES:
        best = [audience.OFFERS[offer] for offer in shown.clicks().argmax(axis=1)]
        assert tuple(best) == shown.favourites
        assert all(one != two for one, two in zip(shown.favourites, shown.seconds, strict=True))
    assert np.allclose(np.sum(audience.WITHOUT_CLICK, axis=1), 1)


@pytest.mark.parametrize("offer", range(4))
def test_visitors_behave_as_their_mdp_says(ads: Any, offer: int) -> None:
    audience, mdp = ads["audience"], ads["audience"].AUDIENCES[0].mdp()
    service = RecordingClient(offer)
    clicks = ads["shop"].visited(service, "shop", np.zeros(40_000, np.int64), seed=3)
    assert clicks.mean() == pytest.approx(np.max(sm.policy_gain(mdp, [offer] * 6)), abs=0.02)
    states = np.array([audience.STATES.index(asked["state"]) for asked in service.asked])
    nexts = np.array([audience.STATES.index(state) for _, _, state in service.fed])
    for state in range(len(audience.STATES)):
        here = states == state
        if here.sum() > 1000:
            assert clicks[here].mean() == pytest.approx(mdp.rewards[state, offer], abs=0.05)
            seen = np.bincount(nexts[here], minlength=6) / here.sum()
            assert np.abs(seen - np.asarray(mdp.transitions)[state, offer]).max() < 0.05


def test_all_sessions_get_an_offer_before_any_click_is_reported(ads: Any) -> None:
    service = RecordingClient(0)
    ads["shop"].visited(service, "shop", np.zeros(20, np.int64), seed=0)
    assert service.calls == ["decide", "feedback"] * 3
    assert [asked["session"] for asked in service.asked[:8]] == [f"visitor {i}" for i in range(8)]
    assert [decision.id for decision, _, _ in service.fed] == [str(i) for i in range(20)]
    nexts = [state for _, _, state in service.fed[:8]]
    assert [asked["state"] for asked in service.asked[8:16]] == nexts


def test_the_table_is_by_audience(ads: Any) -> None:
    audiences, names = np.array([0, 0, 1, 1]), ["summer", "back", "to", "school"]
    clicks = {"an agent": np.array([True, False, True, True])}
    rows = ads["shop"].table(clicks, audiences).splitlines()
    assert rows[0].split() == ["clicks", "per", "100", "offers", *names, "all"]
    assert rows[1].split() == ["an", "agent", "50.0", "100.0", "75.0"]


def test_the_example_runs_over_http_and_cleans_up(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, str(FOLDER / "shop.py"), "--steps", "400", "--out", "ads.svg"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "400 offers each, 8 visitors at a time, seed 0" in done.stdout
    for name in ("EvidencePSRL", "SW-UCRL", "UCRL2", "fixed policy", "the best policy"):
        assert re.search(rf"^{name}( +\d+\.\d){{5}}$", done.stdout, re.M)
    assert "SW-UCRL's window 100: as long as an audience stays" in done.stdout
    assert (tmp_path / "ads.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        ("shop", ["--steps", "3"], "--steps must be at least 4, got 3"),
        ("shop", ["--seed", "-1"], "--seed must be at least 0, got -1"),
        ("shop", ["--out", "ads.txt"], "--out must end in .svg, .pdf, .png, got ads.txt"),
        ("shop", ["--out", "none/ads.svg"], "--out: there is no folder none"),
        ("traffic", ["--problems", "0"], "--problems must be at least 1, got 0"),
        ("traffic", ["--decisions", "249"], "--decisions must be at least 250, got 249"),
        ("traffic", ["--decisions", "1e6"], "argument --decisions: invalid int value: '1e6'"),
    ],
)
def test_wrong_options_are_reported_before_anything_runs(
    ads: Any, module: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        ads[module].main(options)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f": error: {message}\n")


@pytest.mark.parametrize("module", ["shop", "traffic"])
def test_the_help_describes_every_option_with_its_default(
    ads: Any, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ads[module].main(["--help"])
    told = " ".join(capsys.readouterr().out.split()).partition("options:")[2]
    options = re.findall(r"--(?!help)\w+ [A-Z]+ .*?(?= --|$)", told)
    assert len(options) == {"shop": 3, "traffic": 2}[module]
    assert all("(default: " in option for option in options)


def test_a_service_is_stopped_when_its_caller_fails(ads: Any, tmp_path: Path) -> None:
    addresses: list[str] = []

    def fail() -> None:
        with ads["serving"].serving(tmp_path / "shop.sqlite") as address, Client(address) as client:
            addresses.append(address)
            with pytest.raises(NotFound):
                client.model("shop")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with Client(addresses[0], retries=Retries(most=0)) as client, pytest.raises(ConnectionFailed):
        client.model("shop")
    assert (tmp_path / "shop.sqlite").exists()


def test_a_service_that_does_not_start_says_why(ads: Any, tmp_path: Path) -> None:
    (tmp_path / "shop.sqlite").write_text("not a database")
    with (
        pytest.raises(RuntimeError, match="the service did not start: error: "),
        ads["serving"].serving(tmp_path / "shop.sqlite"),
    ):
        pass


def test_the_traffic_of_easy_shops_is_small_and_grows_with_rare_clicks(
    ads: Any,
) -> None:
    traffic = ads["traffic"]
    shop = traffic.shop(5, 3, 0.5, seed=0)
    best = sm.optimal_gain(shop)
    assert 0.25 < best.gain < 0.75
    easy = traffic.decisions_needed(shop, 8000, seed=0)
    assert 250 <= easy < 2000
    assert traffic.decisions_needed(traffic.shop(5, 3, 0.005, seed=0), 8000, seed=0) == np.inf
    rare = traffic.shop(5, 3, 0.05, seed=0)
    assert np.allclose(rare.rewards, shop.rewards / 10), "the same shop with fewer clicks"


def test_within_ten_percent_refers_to_all_later_steps(ads: Any) -> None:
    first_within = ads["traffic"].first_within
    assert first_within(np.array([0.46, 0.47]), 0.5) == 0
    assert first_within(np.array([0.46, 0.44, 0.46]), 0.5) == 2
    assert first_within(np.array([0.46, 0.44]), 0.5) is None
