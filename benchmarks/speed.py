"""Speed of planning at ordinary sizes: extended value iteration, exact gains and diameters."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import switchmdp as sm
from switchmdp.compiled import freeze, machine, pack, thaw
from switchmdp.planning import optimism
from timing import Row, at_most, median_seconds, run_rival


def _repeat(
    state: Any, starts: Any, offset: Any, used: Any, target: Any, full: bool,
    reward: Any, radius: Any, precision: float, choice: Any, n: int,
) -> Any:  # fmt: skip
    work = thaw(state)
    for _ in range(n):
        work.iterate(starts, offset, used, target, full, reward, radius, precision, choice)
    return freeze(work)


def extended_value_iteration() -> list[Row]:
    """One call to precision 0.01 with radii .05 and .2, as agents make it: inside machine code."""
    cases = [
        ("S=5 A=3 dense", sm.problems.random_mdp(5, 3, seed=0), 6e-6),
        ("S=50 A=5 dense", sm.problems.random_mdp(50, 5, seed=0), 0.25e-3),
        ("S=500 A=4, 10 successors", sm.problems.random_sparse_mdp(500, 4, 10, seed=0), 0.7e-3),
        ("S=10 000 A=4, 10 successors", sm.problems.random_sparse_mdp(10_000, 4, 10), 25e-3),
    ]
    rows = []
    for name, mdp, limit in cases:
        work, arguments = optimism.prepare(mdp, 0.05, 0.2)
        choice = np.zeros(mdp.n_states, np.int64)
        function, n = machine(_repeat, work), max(1, int(20_000 / mdp.n_states))
        packed = pack(work)

        def run(
            function: Any = function, packed: Any = packed, arguments: Any = arguments,
            choice: Any = choice, n: int = n,
        ) -> None:  # fmt: skip
            function(packed, *arguments, 0.01, choice, n)

        rows.append(at_most(f"extended value iteration, {name}", median_seconds(run) / n, limit))
    return rows


def relative_value_iteration(matrix: Any, rewards: Any, tolerance: float) -> float:
    """The plain one, on a SciPy CSR matrix, to a span of `tolerance`."""
    n_states, n_actions = rewards.shape
    h = np.zeros(n_states)
    while True:
        new = (matrix @ h).reshape(n_states, n_actions)
        new += rewards
        best = new.max(axis=1)
        change = best - h
        if change.max() - change.min() < tolerance:
            return float((change.max() + change.min()) / 2)
        h = best - best[0]


def best_of_both(
    one: Callable[[], Any], other: Callable[[], Any], rounds: int = 25
) -> tuple[float, float]:
    """The best times of two calls, made in turn, so that both see the same machine.

    It is processor time: of wall times on a busy machine, only the shorter call would have a best
    time without interruptions.
    """
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for i, call in enumerate((one, other)):
            began = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - began)
    return best[0], best[1]


def gain(rivals: str | None) -> list[Row]:
    """The optimal gain at S=10 000, A=4, 10 successors, to 1e-6, certified in our case."""
    mdp = sm.problems.random_sparse_mdp(10_000, 4, 10, seed=0)
    model = mdp.model
    indptr = np.append(model.start, model.stop[-1])
    matrix = csr_array(
        (model.probabilities, model.successors.astype(np.int32), indptr), (40_000, 10_000)
    )
    rewards = mdp.rewards
    plain, ours = best_of_both(
        lambda: relative_value_iteration(matrix, rewards, 1e-6),
        lambda: sm.optimal_gain(mdp, tolerance=1e-6),
    )
    certified = sm.optimal_gain(mdp, tolerance=1e-6)
    title = "optimal_gain, S=10 000 A=4, 10 successors, 1e-6"
    rows = [
        at_most(title, ours, 0.5 * plain),
        Row("  SciPy CSR relative value iteration, not certified", f"{plain * 1e3:.2f} ms",
            f"we: {plain / ours:.2f} x as fast"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mdp.npz")
        np.savez(path, indptr=indptr, indices=matrix.indices, data=matrix.data, rewards=mdp.rewards)
        for rival in run_rival(rivals, "gain_solvers.py", path):
            label = f"  {rival['package']} {rival.get('version', '')}"
            if "seconds" not in rival:
                rows.append(Row(label, "no answer", rival.get("note", "")[:60]))
                continue
            off = abs(rival["gain"] - certified.gain)
            ratio = f"we: {rival['seconds'] / ours:.2f} x as fast"
            measured = f"{rival['seconds'] * 1e3:.2f} ms"
            faster = ours < rival["seconds"]
            rows.append(Row(f"{label}, off by {off:.0e}", measured, ratio, faster))
    for rival in run_rival(rivals, "two_cycle.py", "--timeout", "5"):
        label = f"  the two-cycle (gain 1/2): {rival['package']}"
        said = rival.get("gain")
        rows.append(Row(label, "no answer" if said is None else f"says {said:.3g}"))
    return rows


def diameter_and_changes() -> list[Row]:
    """The diameter of a thousand states; a hundred thousand changes."""
    mdp = sm.problems.random_sparse_mdp(1000, 4, 10, seed=0)
    seconds = median_seconds(lambda: sm.diameter(mdp, tolerance=1e-6), repeats=3, warm_up=1)
    rows = [at_most("diameter, S=1000 A=4, 10 successors, 1e-6 relative", seconds, 10.0)]
    rng = np.random.default_rng(0)
    n = 100_000
    rows_of = rng.dirichlet(np.ones(5), (n, 2))
    patches = (
        [(i % 5, i % 3, rows_of[i, 0], None), ((i + 2) % 5, i % 2, rows_of[i, 1], 0.5)]
        for i in range(n)
    )
    base = sm.problems.random_mdp(5, 3, seed=0)
    problem = sm.SwitchingMDP.from_patches(base, range(2, n + 2), patches)
    arrays: list[Any] = [*problem.model, *problem.patches, problem.change_points]
    megabytes = sum(a.nbytes for a in arrays) / 1e6
    rows.append(Row("100 000 changes of two rows, S=5 A=3: memory", f"{megabytes:.1f} MB"))
    sm.optimal_gains(sm.problems.random_switching(horizon=10))
    seconds = median_seconds(lambda: sm.optimal_gains(problem), repeats=1, warm_up=0)
    rows.append(at_most("  their optimal gains, certified to 1e-9", seconds, 10.0))
    return rows
