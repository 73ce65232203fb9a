"""Hands one sparse MDP to mdpsolver and to mdptoolbox-hiive, and times only their solve.

The MDP is an .npz with the CSR arrays indptr, indices, data of an (S*A) x S matrix, row
s*A + a, and rewards (S, A).
"""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[np.float64]
TOLERANCE = 1e-6
MAX_ITERATIONS = 100_000  # asked of mdptoolbox-hiive; mdpsolver has its own fixed limit
Solved = tuple[float, float | None, Array, str]  # seconds, gain, values, note


class Clock:
    """The seconds since it was made: wall time or processor time, whichever is less.

    Wall time is less where a package uses several cores, processor time where other programs do.
    """

    def __init__(self) -> None:
        self.wall, self.busy = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return min(time.perf_counter() - self.wall, time.process_time() - self.busy)


def load(path: str) -> tuple[sp.csr_matrix, Array]:
    with np.load(path) as file:
        rewards = file["rewards"]
        shape = (rewards.size, rewards.shape[0])
        csr = sp.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
    return csr, rewards


def save_two_cycle(path: str) -> None:
    """The cycle between two states, one action, with rewards 1 and 0."""
    np.savez(path, indptr=[0, 1, 2], indices=[1, 0], data=[1.0, 1.0], rewards=[[1.0], [0.0]])


def gain_bounds(csr: sp.csr_matrix, rewards: Array, values: Array) -> tuple[float, float]:
    """The least and greatest change in one Bellman backup: the optimal gain lies between."""
    change = (rewards + (csr @ values).reshape(rewards.shape)).max(axis=1) - values
    return float(change.min()), float(change.max())


def solve_mdpsolver(csr: sp.csr_matrix, rewards: Array, algorithm: str, parallel: bool) -> Solved:
    """Its average criterion with standard updates; its other updates do not converge there."""
    import mdpsolver

    states, actions = rewards.shape
    rows = [slice(*csr.indptr[i : i + 2]) for i in range(states * actions)]
    pairs = [rows[s * actions : (s + 1) * actions] for s in range(states)]
    probabilities = [[csr.data[row].tolist() for row in pair] for pair in pairs]
    columns = [[csr.indices[row].tolist() for row in pair] for pair in pairs]
    model = mdpsolver.model()  # a new one per solve: a second solve starts from the first
    model.mdp(rewards=rewards.tolist(), tranMatProbs=probabilities, tranMatColumns=columns)
    clock = Clock()
    model.solve(algorithm, TOLERANCE, criterion="average", parallel=parallel)
    seconds = clock.seconds()
    return seconds, None, np.array(model.getValueVector()), "gives no gain"


def solve_mdptoolbox(csr: sp.csr_matrix, rewards: Array) -> Solved:
    """Its relative value iteration."""
    from hiive.mdptoolbox.mdp import RelativeValueIteration

    actions = rewards.shape[1]
    matrices = [csr[a::actions] for a in range(actions)]
    # Its check of sparse input makes a dense S x S array per action, so it is skipped.
    solver = RelativeValueIteration(matrices, rewards, TOLERANCE, MAX_ITERATIONS, skip_check=True)
    notes = []
    if not hasattr(solver, "gamma"):
        solver.gamma = 1.0
        notes.append("run() fails as published (no attribute 'gamma'); gamma = 1 set by hand")
    clock = Clock()
    solver.run()
    seconds = clock.seconds()
    if solver.iter >= MAX_ITERATIONS:
        notes.append(f"stopped at its limit of {solver.iter} iterations")
    return seconds, float(solver.average_reward), np.array(solver.V), "; ".join(notes)


def measure(package: str, algorithm: str, path: str, repeats: int) -> dict[str, Any]:
    """Best seconds, gain and a note, with the gain checked against one backup of the values."""
    csr, rewards = load(path)
    best = float("inf")
    for repeat in range(repeats):
        if package == "mdpsolver":
            # In turn parallel (its default) and serial: on a busy machine serial is faster.
            parallel = repeat % 2 == 0
            seconds, gain, values, note = solve_mdpsolver(csr, rewards, algorithm, parallel)
        else:
            seconds, gain, values, note = solve_mdptoolbox(csr, rewards)
        best = min(best, seconds)
    low, high = gain_bounds(csr, rewards, values)
    if high - low > 10 * TOLERANCE:
        note += f"; not converged, its values bound the gain by [{low:.6g}, {high:.6g}] only"
    elif gain is None:
        gain = (low + high) / 2
        note += ", read off its values by one backup"
    elif not low - TOLERANCE <= gain <= high + TOLERANCE:
        note += f"; wrong, its values bound the gain by [{low:.6g}, {high:.6g}]"
    return {"seconds": float(f"{best:.4g}"), "gain": gain, "note": note.removeprefix("; ")}
