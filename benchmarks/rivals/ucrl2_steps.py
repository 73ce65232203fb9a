"""Times statisticalrl's UCRL2 learner: steps per second, and one extended value iteration.

The learner runs in the package's own loop, on a plain object that draws transitions and
Bernoulli rewards of a fixed random MDP. Prints one JSON line per measurement.

    python ucrl2_steps.py [--steps N] [--seed K] [--skip-evi]
"""

import argparse
import contextlib
import io
import json
import random
import time
from bisect import bisect_right
from importlib.metadata import version

import numpy as np
import numpy.typing as npt
from statisticalrl_experiments.oneRun import oneXpNoRender
from statisticalrl_learners.MDPs_discrete.UCRL2 import UCRL2

Array = npt.NDArray[np.float64]
PACKAGE = "statisticalrl"
DELTA = 0.1
WARM_UP_STEPS = 20_000
EVI_VISITS = 100_000  # of every pair: enough that the confidence sets are not everything
EVI_PRECISION = 0.01
EVI_REPEATS = 5


def random_mdp(states: int, actions: int, seed: int) -> tuple[Array, Array]:
    """Dirichlet(1) transition rows (S, A, S) and mean rewards U[0, 1] (S, A)."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    return transitions, rng.random((states, actions))


class PlainEnv:
    """The least that the package's loop asks of an environment."""

    name = "random MDP"

    def __init__(self, transitions: Array, means: Array, seed: int) -> None:
        self.cumulative = transitions.cumsum(axis=2)[:, :, :-1].tolist()
        self.means = means.tolist()
        self.uniform = random.Random(seed).random
        self.state = 0

    def reset(self) -> tuple[int, dict[str, float]]:
        self.state = 0
        return 0, {"mean": 0.0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, float]]:
        mean = self.means[self.state][action]
        reward = 1.0 if self.uniform() < mean else 0.0
        self.state = bisect_right(self.cumulative[self.state][action], self.uniform())
        return self.state, reward, False, False, {"mean": mean}


def run_ucrl2(states: int, actions: int, steps: int, seed: int) -> tuple[float, float]:
    """Seconds that a fresh learner takes for so many steps, and its mean reward per step."""
    env = PlainEnv(*random_mdp(states, actions, seed), seed=seed)
    learner = UCRL2(states, actions, DELTA)
    np.random.seed(seed)  # the learner draws its actions from the global generator
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        cumulative = oneXpNoRender(env, learner, steps, root_folder="")
        seconds = time.perf_counter() - start
    return seconds, cumulative[-1] / steps


def time_evi(states: int, actions: int, seed: int) -> float:
    """Best time of one extended value iteration, from u = 0, around a random MDP."""
    transitions, means = random_mdp(states, actions, seed)
    learner = UCRL2(states, actions, DELTA)
    learner.Nk[:] = EVI_VISITS
    learner.t = 1 + EVI_VISITS * states * actions
    learner.distances()
    best = float("inf")
    for _ in range(EVI_REPEATS):
        learner.u = np.zeros(states)
        start = time.perf_counter()
        learner.EVI(means, transitions, epsilon=EVI_PRECISION)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-evi", action="store_true")
    args = parser.parse_args()
    about = {"package": PACKAGE, "version": version(PACKAGE)}

    run_ucrl2(5, 3, WARM_UP_STEPS, args.seed)
    seconds, mean_reward = run_ucrl2(5, 3, args.steps, args.seed)
    line = {
        **about,
        "what": "UCRL2 steps/s",
        "steps": args.steps,
        "seconds": round(seconds, 3),
        "steps_per_second": round(args.steps / seconds),
        "mean_reward": round(mean_reward, 6),
    }
    print(json.dumps(line), flush=True)
    for states, actions in [] if args.skip_evi else [(5, 3), (50, 5)]:
        what = f"extended value iteration, S={states} A={actions}, precision {EVI_PRECISION}"
        best = time_evi(states, actions, args.seed)
        print(json.dumps({**about, "what": what, "seconds": float(f"{best:.4g}")}), flush=True)


if __name__ == "__main__":
    main()
