"""Artificial results, and names that contain markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from switchmdp.experiments.results import HARDNESS, Results, Runs, Setting
from switchmdp.experiments.spec import Claim

HORIZON = 10_000
CHANGES = (2_501, 7_501)
Maker = Callable[..., Results]


def _setting(name: str, agents: Sequence[str], n: int, points: int, seed: int) -> Setting:
    """A setting in which regret grows faster after each change, with noise."""
    rng = np.random.default_rng(seed)
    times = np.arange(1, points + 1) * (HORIZON // points)
    since = times[:, None] - np.array([0, *CHANGES])
    age = np.where(since >= 0, since, HORIZON).min(axis=1)
    runs = {}
    for k, agent in enumerate(agents):
        rate = (0.1 + np.exp(-age / 1000)) * (1 + 0.3 * k) * HORIZON / points
        steps = rate * rng.gamma(9, 1 / 9, size=(n, 1)) + rng.normal(0, 2, size=(n, points))
        regret = np.cumsum(steps, axis=1)
        counts = np.full(n, 10 + k, dtype=np.int64)
        runs[agent] = Runs(
            regret, regret + 1.0, counts, counts, np.full(n, 5.0),
            np.zeros(n, dtype=np.bool_), np.full(n, 0.01), base=agent,
        )  # fmt: skip
    hardness = {each: rng.gamma(4, 1, n) + 1 for each in HARDNESS}
    points_of_change = (np.array(CHANGES, dtype=np.int64),) * n
    gains = (np.full(3, 0.7),) * n
    return Setting(name, times, points_of_change, gains, hardness, runs, base=name)


def _results(
    *,
    agents: Sequence[str] = ("window", "restarts"),
    settings: Sequence[str] = ("two changes",),
    n: int = 8,
    points: int = 50,
    claims: bool = True,
    **rest: Any,
) -> Results:
    by_name = {name: _setting(name, agents, n, points, i) for i, name in enumerate(settings)}
    first = Claim(
        quote="The window wins.", reading="its mean final regret is lower", measure="better",
        setting=settings[0], agent=agents[0], than=agents[-1],
    )  # fmt: skip
    fields: dict[str, Any] = {
        "title": "A window against restarts", "epsilon": 0.1, "settings": by_name,
        "claims": (first,) if claims else (), "configuration": "horizon = 10_000\n",
        "provenance": {"rerun": "switchmdp run experiment.toml", "version": "1.2.3"},
    }  # fmt: skip
    return Results(**fields | rest)


@pytest.fixture
def make_results() -> Maker:
    """A function that makes results from names of agents and settings, and fields of `Results`."""
    return _results


@pytest.fixture
def hostile() -> tuple[str, str]:
    """Two names that contain markup."""
    return "</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>'


@pytest.fixture
def hostile_results(hostile: tuple[str, str]) -> Results:
    """Results with these names in every place where text comes from a configuration."""
    both = "".join(hostile)
    failure = {
        "setting": both, "agent": both, "problem": 0, "error": both, "traceback": both,
    }  # fmt: skip
    results = _results(
        title=both, agents=hostile, settings=hostile, configuration=both,
        provenance={"rerun": both, both: both}, failures=(failure,),
    )  # fmt: skip
    (claim,) = results.claims
    quoted = claim.model_copy(update={"quote": both, "reading": both})
    swept = {
        name: _swept(setting, hostile[i], i)
        for i, (name, setting) in enumerate(results.settings.items())
    }
    return Results(**vars(results) | {"claims": (quoted,), "settings": swept})


def _swept(setting: Setting, parameter: str, i: int) -> Setting:
    return Setting(**vars(setting) | {"swept": {parameter: i}, "parameters": {parameter: i}})
