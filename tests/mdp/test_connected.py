"""Disconnected configurations are rejected, at once or when they are first needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import NotCommunicating
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.mdp import mdp as mdp_module
from switchmdp.planning import optimal_gains
from switchmdp.simulation import simulate

SWAP = [[[0.0, 1.0]], [[1.0, 0.0]]]
STAY = [[[1.0, 0.0]], [[0.0, 1.0]]]


def swap(mean: float) -> MDP:
    return MDP(SWAP, [[mean], [0.0]])


def test_a_disconnected_configuration_is_named_with_its_states() -> None:
    configurations = [swap(i / 100) for i in range(60)]
    configurations[41] = MDP(STAY, [[0.5], [0.0]])
    message = "configuration 41 has infinite diameter: no policy leads from state 0 to state 1"
    with pytest.raises(NotCommunicating, match=re.escape(message)):
        SwitchingMDP(configurations, range(2, 61))


def test_a_disconnected_first_configuration_is_rejected_even_if_a_change_connects_it() -> None:
    broken = MDP([[[0.0, 1.0]], [[0.0, 1.0]]], [[0.5], [0.0]])
    message = "configuration 0 has infinite diameter: no policy leads from state 1 to state 0"
    with pytest.raises(NotCommunicating, match=re.escape(message)):
        SwitchingMDP([broken, swap(0.5)], [5])


def test_a_change_that_removes_one_of_many_edges_is_detected() -> None:
    rows = np.full((4, 1, 4), 0.25)
    cut = rows.copy()
    cut[:, 0] = [1 / 3, 1 / 3, 1 / 3, 0.0]
    means = np.zeros((4, 1))
    with pytest.raises(NotCommunicating, match=r"configuration 1 .* from state 0 to state 3"):
        SwitchingMDP([MDP(rows, means), MDP(cut, means)], [5])
    patch = [(s, 0, {0: 0.5, 1: 0.5} if s != 3 else None, None) for s in range(4)]
    with pytest.raises(NotCommunicating, match=r"configuration 2 .* from state 0 to states 2, 3"):
        SwitchingMDP.from_patches(MDP(rows, means), [5, 6], [[], patch])


class First:
    """An agent that always takes action 0."""

    n_states, n_actions = 2, 1

    def act(self, state: int) -> int:
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        pass


NEEDS: dict[str, Callable[[SwitchingMDP], Any]] = {
    "check_connected": lambda problem: problem.check_connected(),
    "optimal_gains": optimal_gains,
    "simulate": lambda problem: simulate(First(), problem, horizon=20),
}


@pytest.mark.parametrize("need", NEEDS)
def test_a_deferred_check_is_made_where_it_is_first_needed(
    need: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mdp_module, "CHECKED_AT_ONCE", 0)
    problem = SwitchingMDP([swap(0.1), MDP(STAY, [[0.5], [0.0]])], [10])
    problem.check_connected(0)
    assert optimal_gains(problem, 0).tolist() == pytest.approx([0.05])
    for _ in range(2):
        with pytest.raises(NotCommunicating, match="configuration 1 has infinite diameter"):
            NEEDS[need](problem)


def test_a_deferred_check_that_succeeds_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mdp_module, "CHECKED_AT_ONCE", 0)
    problem = SwitchingMDP([swap(0.1), swap(0.2)], [10])
    problem.check_connected()
    monkeypatch.setattr(mdp_module, "_first_disconnected", lambda *_: pytest.fail("checked again"))
    problem.check_connected()
    assert optimal_gains(problem).tolist() == pytest.approx([0.05, 0.1])


def test_an_index_beyond_the_last_configuration_is_rejected() -> None:
    # In a process of its own: machine code that follows such an index may end the process.
    script = (
        "from switchmdp import MDP, SwitchingMDP, optimal_gains\n"
        "from switchmdp.errors import InvalidParameter\n"
        "m = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])\n"
        "problem = SwitchingMDP([m, m], [5])\n"
        "for ask in (problem.check_connected, lambda i: optimal_gains(problem, i)):\n"
        "    try:\n"
        "        ask(3)\n"
        "    except InvalidParameter as error:\n"
        "        print('rejected')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.stdout.split() == ["rejected", "rejected"]
