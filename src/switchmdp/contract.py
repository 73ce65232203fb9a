"""The contract of agents and problems, as functions that users can run on their own.

`check_agent` simulates an agent in every way in which it may be run, and compares:

- same seed, same run; where it draws, another seed, another run
- as machine code and interpreted (for compiled classes)
- in pieces and as a whole
- pickled in the middle, and not
- bad states, actions and rewards are refused, and nothing has changed afterwards
- what it keeps does not grow with the number of steps

A broken promise raises `ContractViolation`, which says which one and how.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.compiled import JIT, is_compiled
from switchmdp.errors import ContractViolation, InvalidInteraction, InvalidParameter
from switchmdp.mdp import MDP, Beta, SwitchingMDP
from switchmdp.planning.gain import optimal_gain_brackets
from switchmdp.simulation import Record, simulate
from switchmdp.validation import check_integer

BAD_STATES: list[Any] = [-1, 10**9, 1.0, "0", None, True, float("nan"), [0], np.zeros(1, int), 1j]
BAD_REWARDS: list[Any] = [
    float("nan"), float("inf"), -float("inf"), -0.1, 1.1, "1", None, True, [0.5], np.ones(1), 1j,
]  # fmt: skip


def check_agent(
    make: Callable[[], Any],
    *,
    problem: SwitchingMDP | None = None,
    steps: int = 2000,
    memory_steps: int = 20_000,
    seed: int = 0,
) -> None:
    """Check that the agents that `make()` returns keep the contract.

    `problem` is what they are run on (a random one with Beta rewards if not given). What an agent
    keeps may grow only within the first `memory_steps` steps: give a windowed agent a window that
    is full by then.

    >>> from switchmdp.agents import SWUCRL
    >>> check_agent(lambda: SWUCRL(3, 2, window=50), steps=300, memory_steps=2000)
    """
    if not callable(make):
        raise InvalidParameter("make", make, "a function that makes an agent")
    steps, memory_steps = (
        check_integer("steps", steps, 10),
        check_integer("memory_steps", memory_steps, 10),
    )
    agent = make()
    for verb in ("act", "observe"):
        _require(callable(getattr(agent, verb, None)), f"the agent has no verb {verb!r}")
    for size in ("n_states", "n_actions"):
        has = getattr(agent, size, None)
        _require(isinstance(has, (int, np.integer)), f"the agent has no integer {size}")
    problem = _problem_for(agent, steps, seed) if problem is None else problem

    entire = _run(make(), problem, steps, seed)
    _same(entire, _run(make(), problem, steps, seed), "two runs with the same seed")
    _check_randomness(make, problem)
    if JIT and is_compiled(agent):
        plain = _run(make(), problem, steps, seed, interpreted=True)
        _same(entire, plain, "machine code and interpreted code")
    _check_pieces(make, problem, entire, seed)
    _check_pickle(make, problem, entire, seed)
    _check_refusals(make(), problem, seed)
    _check_memory(make, problem, memory_steps, seed)


def check_problem(problem: SwitchingMDP) -> None:
    """Check that a problem is what it must be: connected, solvable, reversible and storable.

    >>> from switchmdp.problems import random_switching
    >>> check_problem(random_switching(changes=2, horizon=100))
    """
    _require(isinstance(problem, SwitchingMDP), f"{problem!r} is not a SwitchingMDP")
    problem.check_connected()
    brackets = optimal_gain_brackets(problem)
    _require(((brackets >= -1e-9) & (brackets <= 1 + 1e-9)).all(), "a gain lies outside [0, 1]")
    row, patches = problem.model.row.copy(), problem.patches
    for k in range(len(patches.pair)):
        _require(row[patches.pair[k]] == patches.old[k], f"patch {k} replaces a row not there")
        row[patches.pair[k]] = patches.new[k]
    for k in range(len(patches.pair) - 1, -1, -1):
        row[patches.pair[k]] = patches.old[k]
    _require(np.array_equal(row, problem.model.row), "the patches can't be undone")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        problem.save(path)
        again = SwitchingMDP.load(path)
    arrays: list[tuple[Any, Any]] = list(zip(problem.model, again.model, strict=True))
    arrays += zip(problem.patches, again.patches, strict=True)
    arrays.append((problem.change_points, again.change_points))
    same = all(np.array_equal(x, y) for x, y in arrays)
    _require(same and again.law == problem.law, "the problem changes when saved and loaded")


def _problem_for(agent: Any, steps: int, seed: int) -> SwitchingMDP:
    n_states, n_actions = agent.n_states, agent.n_actions
    pairs = getattr(agent, "pairs", None)
    rng = np.random.default_rng(seed)
    configurations = (
        MDP(
            rng.dirichlet(np.ones(n_states), (n_states, n_actions)),
            rng.random((n_states, n_actions)),
            available=None if pairs is None else pairs.available,
            law=Beta(share=0.5),
        )
        for _ in range(3)
    )
    return SwitchingMDP(configurations, [2 + steps // 3, 2 + 2 * steps // 3])


def _run(agent: Any, problem: SwitchingMDP, steps: int, seed: int, **options: Any) -> Record:
    return simulate(agent, problem, steps, seed, every=7, trajectory=True, **options)


def _same(a: Record, b: Record, what: str) -> None:
    for name in ("states", "actions", "rewards"):
        x, y = np.asarray(getattr(a.trajectory, name)), np.asarray(getattr(b.trajectory, name))
        differing = np.nonzero(x != y)[0] if x.shape == y.shape else np.array([0])
        if len(differing):
            t = int(differing[0])
            raise ContractViolation(f"{what} differ in their {name}, first at step {t + 1}")
    for name in ("times", "regret", "pseudo_regret"):
        _require(np.array_equal(getattr(a, name), getattr(b, name)), f"{what} differ in {name}")


def _check_randomness(make: Callable[[], Any], problem: SwitchingMDP) -> None:
    agent = make()
    draws = agent.draws() if hasattr(agent, "draws") else hasattr(agent, "reseed")
    if not draws or problem.n_actions == 1:
        return
    kept = []
    for seed in (0, 0, 1):
        agent = make()
        agent.reseed(np.random.SeedSequence(seed))
        kept.append(_content(agent))
    _require(kept[0] == kept[1], "reseeded alike, the agent differs")
    _require(kept[0] != kept[2], "reseeded differently, the agent is the same")


def _check_pieces(make: Callable[[], Any], problem: SwitchingMDP, whole: Record, seed: int) -> None:
    agent, record = make(), None
    for stop in (1, 2, 5, whole.horizon // 3, whole.horizon // 2, whole.horizon):
        record = simulate(
            agent, problem, stop, seed, every=None if record else 7, trajectory=True, resume=record
        )
    assert record is not None
    _same(whole, record, "a run in pieces and as a whole")


def _check_pickle(make: Callable[[], Any], problem: SwitchingMDP, whole: Record, seed: int) -> None:
    agent = make()
    record = _run(agent, problem, whole.horizon // 2, seed)
    try:
        agent = pickle.loads(pickle.dumps(agent))
    except Exception as error:
        raise ContractViolation(f"the agent can't be pickled: {error!r}") from error
    record = simulate(agent, problem, whole.horizon, trajectory=True, resume=record)
    _same(whole, record, "a run with the agent pickled in the middle and one without")


def _check_refusals(agent: Any, problem: SwitchingMDP, seed: int) -> None:
    _run(agent, problem, 50, seed)
    action = problem.pairs.at(0)[0]
    calls: list[tuple[str, tuple[Any, ...]]] = [("act", (bad,)) for bad in BAD_STATES]
    calls += [("observe", (bad, action, 0.5, 0)) for bad in BAD_STATES]
    calls += [("observe", (0, bad, 0.5, 0)) for bad in BAD_STATES]
    calls += [("observe", (0, action, bad, 0)) for bad in BAD_REWARDS]
    calls += [("observe", (0, action, 0.5, bad)) for bad in BAD_STATES]
    unavailable = np.argwhere(~problem.available)
    calls += [("observe", (int(s), int(a), 0.5, 0)) for s, a in unavailable[:1]]
    before = _content(agent)
    for verb, arguments in calls:
        call = f"{verb}({', '.join(map(repr, arguments))})"
        try:
            getattr(agent, verb)(*arguments)
        except InvalidInteraction:
            pass
        except Exception as error:
            raise ContractViolation(
                f"{call} is refused with {error!r}, not with InvalidState, InvalidAction or "
                "InvalidReward"
            ) from error
        else:
            raise ContractViolation(f"{call} is not refused")
        _require(_content(agent) == before, f"{call} is refused, but the agent has changed")


def _check_memory(
    make: Callable[[], Any], problem: SwitchingMDP, memory_steps: int, seed: int
) -> None:
    agent = make()
    record = simulate(agent, problem, memory_steps, seed)
    once = len(_content(agent))
    simulate(agent, problem, 2 * memory_steps, resume=record)
    twice = len(_content(agent))
    if twice - once > 4096 + once // 100:
        raise ContractViolation(
            f"the agent keeps {once} bytes after {memory_steps} steps and {twice} after twice as "
            "many: its memory is not bounded (or not yet full: see memory_steps)"
        )


def _content(agent: Any) -> bytes:
    return pickle.dumps(copy.deepcopy(agent))


def _require(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ContractViolation(otherwise)
