"""Results that may never change by a bit, whatever is rearranged around them.

The digests below were computed once. A test that fails here says that a computed number has
changed: then the change must be intended, documented in CHANGELOG.md, and measured anew.
"""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.every_agent import new_agent

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.experiments import loads, open_store, run, shipped
from switchmdp.reports.export import export_tables

HORIZON = 60_000
PROBLEM = sm.problems.random_switching(
    2, 2, changes=3, horizon=HORIZON, seed=2, law=sm.Beta(share=0.5)
)
# Windows and bonuses with which these agents learn something in so many steps.
LONG: dict[str, dict[str, Any]] = {
    "sw-ucrl": {"window": 20_000, "delta": 0.5},
    "ucrl2-r": {"changes": 1, "delta": 0.5},
    "ucrl2-rw": {"period": 25_000, "delta": 0.5},
    "swucrl2-cw": {"horizon": HORIZON, "window": 20_000, "widening": 0.0, "delta": 0.5},
    "variation-aware": {
        "reward_variation": 0.001, "transition_variation": 0.001, "diameter": 2, "delta": 0.5,
    },
    "borl": {"horizon": HORIZON, "delta": 0.5},
    "borl-full-grid": {"horizon": HORIZON, "delta": 0.9},
    "master-ucrl": {"horizon": HORIZON, "diameter": 2, "confidence": 0.3},
}  # fmt: skip


def digest(*arrays: Any) -> str:
    """One short digest of the types, shapes and bytes of arrays."""
    sha = hashlib.sha256()
    for array in map(np.asarray, arrays):
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]


@pytest.fixture(scope="module")
def figure_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The paper's experiment, on few problems."""
    folder = tmp_path_factory.mktemp("figure-1") / "small"
    experiment = loads(shipped()["figure-1"]).model_copy(update={"n_problems": 3})
    run(experiment, folder, jobs=1)
    return folder


def test_the_chunks_of_figure_1_keep_their_bits(figure_1: Path) -> None:
    store = open_store(figure_1)
    actual = {}
    for chunk in store.chunks():
        _, arrays = store.load(chunk)
        actual[chunk.id] = digest(*(arrays[name] for name in sorted(arrays)))
    assert actual == CHUNKS


def test_the_tables_of_figure_1_keep_their_numbers(figure_1: Path, tmp_path: Path) -> None:
    """Numbers only: names of agents and columns are prose, and may be rewritten."""
    from switchmdp.experiments import load_results

    files = export_tables(load_results(open_store(figure_1)), tmp_path, ("csv",))
    actual = {}
    for file in files:
        rows = list(csv.reader(io.StringIO(file.read_text("utf-8"))))
        numbers = [cell for row in rows[1:] for cell in row if _is_number(cell)]
        if "seconds" not in rows[0]:
            actual[file.name] = hashlib.sha256(" ".join(numbers).encode()).hexdigest()[:16]
    assert actual == TABLES


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_keeps_its_bits(name: str) -> None:
    agent = new_agent(name, PROBLEM, **LONG.get(name, {}))
    record = sm.simulate(agent, PROBLEM, HORIZON, seed=5, trajectory=True)
    assert record.trajectory is not None
    steps = record.trajectory
    actual = digest(record.regret, record.pseudo_regret, steps.states, steps.actions, steps.rewards)
    assert actual == RECORDS[name]


CHUNKS: dict[str, str] = {
    "s000-facts-b00000": "3072d4b413428a97",
    "s000-a000-b00000": "71951ebdeb4cd8f8",
    "s000-a001-b00000": "3ecc21e21506916b",
    "s000-a002-b00000": "02db3e6af25b42be",
    "s000-a003-b00000": "f50e1f8e6f8e084c",
    "s000-a004-b00000": "0b1c6ac07b6fb1a7",
    "s001-facts-b00000": "b8ce2933f0ed58c4",
    "s001-a000-b00000": "269bf2269a798880",
    "s001-a001-b00000": "30ff823411ad3ad8",
    "s001-a002-b00000": "5fbcc6829483915a",
    "s001-a003-b00000": "efcfa827503f36a3",
    "s001-a004-b00000": "4b83787f02af5fa9",
}
TABLES: dict[str, str] = {
    "regret.csv": "f8ae909bab6c5370",
    "problems.csv": "fe6d24b0fb968ff0",
    "agents.csv": "8046d22c01513644",
}
RECORDS: dict[str, str] = {
    "sw-ucrl": "e196e75bc8692ae8",
    "ucrl2": "92cfde16ce2d0391",
    "ucrl2-r": "6e2f98c3a239aa58",
    "ucrl2-rw": "1c2738992395f148",
    "evidence-psrl": "d43e3cb2fcff335a",
    "ucrl2b": "46b18ac4c9aeb22c",
    "ucrl3": "a53d2aeef8f6dfbb",
    "glr-ucrl3": "13ae21eb096cd59a",
    "oracle-pairs-psrl": "8306fbbb69c063b3",
    "kl-ucrl": "791d3d0af832cd15",
    "swucrl2-cw": "3d1c268bf53b10e5",
    "variation-aware": "e37418e23d3e3495",
    "borl": "9903d8b52533a93b",
    "borl-full-grid": "75fb2aed99eb8eac",
    "master-ucrl": "cb5009a836accd50",
    "oracle-ucrl2": "e94b30877b5dd986",
    "glr-ucrl": "6471698e6b0763f8",
    "r-bocpd-ucrl2": "2cadda622f8b9d85",
    "calibrated-ucrl3": "70a9c3670bfb4248",
    "imed-rl": "55516946630e90b8",
    "psrl": "9320fc52caa44cbb",
    "sw-psrl": "5703d7f4595567ec",
    "fading-psrl": "20fe620a75d0a8ca",
    "glr-psrl": "37439167364ef478",
    "oracle-psrl": "8306fbbb69c063b3",
    "oracle-ucrl2b": "4ffd4998e57fcbf6",
    "oracle-ucrl3": "03d65d528a438ddc",
    "oracle-kl-ucrl": "42731e50316467a4",
    "q-learning": "0a0291cb433cb8aa",
    "omniscient": "4e2ab8efccb26dad",
    "random": "8513ecf8a00eec91",
}
