"""The example runs, prints its table and saves its figure."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "examples" / "frozen_lake.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("frozen_lake_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_prints_a_table_and_saves_a_figure(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = tmp_path / "lake.svg"
    example.main(["--steps", "1600", "--changes", "2", "--out", str(figure)])
    output = capsys.readouterr().out
    assert "1600 steps, a change at step 1000, window 400" in output
    assert re.search(r"SW-UCRL +\d+\.\d +\d+\.\d +\d+ \d+\n", output)
    assert re.search(r"UCRL2 +\d+\.\d +\d+\.\d +\d+ \d+\n", output)
    assert re.search(r"the best policy +333\.3 +333\.3\n", output)
    assert figure.read_text(encoding="utf-8").count("<svg") == 1


def test_the_table_counts_the_step_of_the_change_as_after_it(example: Any) -> None:
    rewards = np.array([[1.0, 1.0, 0.0, 0.5], [1.0, 1.0, 0.0, 0.0]])
    row = example.table({"an agent": rewards}, change=3).splitlines()[1]
    assert row.split() == ["an", "agent", "1000.0", "125.0", "250", "0"]


def test_the_agents_fit_the_lake(example: Any) -> None:
    n_states, n_actions = example.lake().observation_space.n, example.lake().action_space.n
    for make in example.agents(100).values():
        assert (make().n_states, make().n_actions) == (n_states, n_actions)
