"""EvidencePSRL piece by piece: valid configurations, and each variant lacks only its piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from switchmdp.agents import DirectedProbes, Recall
from switchmdp.experiments.names import AGENT, find_factory
from switchmdp.experiments.plan import check, make_agent
from switchmdp.experiments.results import expand
from switchmdp.experiments.spec import load
from switchmdp.plausible import Posterior
from switchmdp.problems import random_switching
from switchmdp.restarts import Calibrated

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pieces"
PIECES = {
    "memory": Recall,
    "plausible": Posterior,
    "restarts": Calibrated,
    "exploration": DirectedProbes,
}
OTHER = {
    "EvidencePSRL": set(),
    "without probes": {"exploration"},
    "plain posterior": set(),
    "fixed prior": set(),
    "without restarts": {"restarts"},
    "all pairs alike": {"restarts"},
    "nothing kept": {"memory"},
    "without recall": {"memory"},
    "ratios for evidence": {"restarts", "memory"},
    "optimism for posterior": {"plausible"},
    "episodes of TSDE": {"episodes"},
}


@pytest.mark.parametrize("name", ["pieces", "paper", "price", "stationary", "families"])
def test_the_configurations_are_in_order(name: str) -> None:
    experiment, _ = load(FOLDER / f"{name}.toml")
    assert check(experiment, FOLDER, trust=True).agents


def test_each_variant_differs_in_its_piece_alone() -> None:
    experiment, _ = load(FOLDER / "pieces.toml")
    problem = random_switching(5, 3, changes=1, horizon=100, seed=0)
    differences = {}
    for variant in expand(experiment.agents):
        kind = find_factory("agent", variant.source, AGENT, FOLDER, trust=True)
        agent: Any = make_agent(variant, kind, problem, 100, 0)[0]
        agent.observe(0, agent.act(0), 1.0, 3)
        if variant.base != "PSRL with known change points":
            differences[variant.base] = {
                name for name, piece in PIECES.items() if type(getattr(agent, name)) is not piece
            } | ({"episodes"} if type(agent.episodes).__name__ != "Rooted" else set())
    assert differences == OTHER
