"""EvidencePSRL for a million steps where nothing changes: no family of problems raises alarms.

python -m tests.soak.test_false_alarms 10 5 20      ten runs per family, with 5 and 20 states
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

import switchmdp as sm
from switchmdp.mdp import SwitchingMDP

pytestmark = pytest.mark.soak

HORIZON = 1_000_000
SEED = 20_261_140
ACTIONS = 3


def rows(concentration: float) -> Callable[[int, int], SwitchingMDP]:
    """Problems whose rows are drawn from a symmetric Dirichlet law."""
    return lambda n_states, seed: sm.problems.concentrated_rows(
        n_states, ACTIONS, concentration=concentration, horizon=HORIZON, seed=seed
    )


def contexts(zipf: bool) -> Callable[[int, int], SwitchingMDP]:
    """Contextual bandits with equally likely contexts, or with Zipf's law."""
    return lambda n_states, seed: sm.problems.contextual_bandit(
        n_states, ACTIONS, zipf=zipf, horizon=HORIZON, seed=seed
    )


def graph(n_states: int, seed: int) -> SwitchingMDP:
    """A deterministic graph."""
    return sm.problems.deterministic_graph(n_states, ACTIONS, changes=0, horizon=HORIZON, seed=seed)


FAMILIES: dict[str, Callable[[int, int], SwitchingMDP]] = {
    "flat": rows(1e6),
    "Dirichlet(30)": rows(30.0),
    "Dirichlet(5)": rows(5.0),
    "Dirichlet(1)": rows(1.0),
    "Dirichlet(0.05)": rows(0.05),
    "contextual bandit": contexts(zipf=False),
    "contextual bandit, Zipf": contexts(zipf=True),
    "deterministic": graph,
}


def false_alarms(family: str, n_states: int, seed: int) -> int:
    """The number of restarts, complete or in part, of a run without changes."""
    agent = sm.agents.EvidencePSRL(n_states, ACTIONS)
    problem = FAMILIES[family](n_states, seed)
    record = sm.simulate(agent, problem, horizon=HORIZON, seed=seed, episodes=True)
    assert record.episodes is not None
    return len(record.episodes.restarts)


@pytest.mark.parametrize("n_states", [5, 20, 64])
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_forgotten_where_nothing_changes(family: str, n_states: int) -> None:
    assert [false_alarms(family, n_states, SEED + i) for i in range(2)] == [0, 0]


def main(runs: int, sizes: list[int]) -> None:
    """Print the number of runs and of false alarms of each family."""
    for n_states in sizes:
        for family in FAMILIES:
            began = time.process_time()
            found = [false_alarms(family, n_states, SEED + i) for i in range(runs)]
            spent = time.process_time() - began
            alarmed = sum(count > 0 for count in found)
            print(
                f"S = {n_states}, {family}: {runs} runs, {alarmed} with an alarm, "
                f"{sum(found)} alarms, {spent:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(size) for size in sys.argv[2:]])
