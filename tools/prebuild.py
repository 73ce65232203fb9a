"""Make the machine code that a platform wheel ships: `make wheel`.

    python tools/prebuild.py FOLDER                      everything
    python tools/prebuild.py FOLDER --only ucrl2 psrl    only what these agents need

Everything is compiled for Numba's processor `generic`, so that it runs on any processor of this
architecture. What is compiled is what a user's first calls need: for each agent, the simulation and
the calls from Python; the planning functions; the functions that make problems. The tasks are
independent, and run in one process per core. FOLDER gets the layout of `switchmdp/prebuilt` (see
`switchmdp/compiled/cache.py`), and `tools/build_hook.py` puts it into the wheel.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HORIZON = 100
# A value for each parameter that some agent requires. Machine code does not depend on them.
REQUIRED_VALUES: dict[str, Any] = {
    "change_points": [20, 60],
    "changes": 2,
    "diameter": 2.0,
    "horizon": HORIZON,
    "period": 40,
    "reward_variation": 0.1,
    "steps": 40,
    "transition_variation": 0.1,
    "window": 40,
}


def main() -> None:
    """Compile in an empty cache, and move the result to where the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", help="names of agents (default: all, and more)")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        # Set before Numba is imported here or in another process.
        os.environ |= {
            "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "",
            "SWITCHMDP_CACHE": str(Path(scratch) / "cache"), "SWITCHMDP_NATIVE": "1",
        }  # fmt: skip
        from switchmdp.agents import AGENTS
        from switchmdp.compiled.cache import cache_folder, prebuilt_folder

        compiled, target = cache_folder(), options.folder / prebuilt_folder().name
        _run_all(options.only or [*WITHOUT_AGENT, *AGENTS])
        shutil.rmtree(options.folder, ignore_errors=True)
        target.mkdir(parents=True)
        files = [file for file in compiled.iterdir() if file.is_file()]
        for file in files:
            shutil.copyfile(file, target / file.name)
    size = sum(file.stat().st_size for file in target.iterdir()) / 2**20
    print(f"{len(files)} functions, {size:.1f} MiB, {time.perf_counter() - began:.0f} s")


def _run_all(tasks: list[str]) -> None:
    spawn = multiprocessing.get_context("spawn")
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ProcessPoolExecutor(n_cores, mp_context=spawn) as pool:
        for task, seconds in zip(tasks, pool.map(_run, tasks), strict=True):
            print(f"{task}: {seconds:.1f} s", file=sys.stderr)


def _run(task: str) -> float:
    from switchmdp.compiled import compiler

    compiler.PATIENCE = 0.0  # compile at once
    began = time.process_time()
    if task in WITHOUT_AGENT:
        WITHOUT_AGENT[task]()
    else:
        _use_agent(task)
    return time.process_time() - began


def _use_agent(name: str) -> None:
    """Simulate an agent, and call it from Python."""
    import switchmdp as sm
    from switchmdp.agents.policy_agent import follows_policy
    from switchmdp.simulation.bad_steps import count_bad_steps

    problem = sm.problems.random_switching(5, 3, changes=2, horizon=HORIZON, seed=0)
    for choices in _choices(name):
        agent = _new_agent(name, problem, choices)
        record = sm.simulate(agent, problem, HORIZON, seed=0, episodes=True)
        count_bad_steps(record, problem, 0.05)
        agent = _new_agent(name, problem, choices)
        if follows_policy(agent):
            agent.update_memory()


def _choices(name: str) -> list[dict[str, Any]]:
    """The optional parameters on which the classes of an agent's components depend."""
    from switchmdp.agents import agent_info

    takes_window = agent_info(name).parameters.get("window", "") is None
    return [{}, {"window": REQUIRED_VALUES["window"]}] if takes_window else [{}]


def _new_agent(name: str, problem: Any, choices: dict[str, Any]) -> Any:
    from switchmdp.agents import AGENTS, agent_info
    from switchmdp.agents.registry import REQUIRED

    info = agent_info(name)
    needed = [key for key, default in info.parameters.items() if default is REQUIRED]
    cls: Any = AGENTS[name]
    if info.needs_problem:
        return cls(problem)
    values = {key: REQUIRED_VALUES[key] for key in needed}
    return cls(problem.n_states, problem.n_actions, **values, **choices)


class _Plain:
    """An agent that is not compiled."""

    def act(self, state: int) -> int:
        return state % 2

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        pass


def _run_plain_agent() -> None:
    """The parts of the loop that Python calls."""
    import switchmdp as sm

    problem = sm.problems.random_switching(5, 3, changes=2, horizon=HORIZON, seed=0)
    sm.simulate(_Plain(), problem, HORIZON, episodes=True, trajectory=True)
    sm.simulate(sm.agents.Random(5, 3), problem, HORIZON, interpreted=True)


def _plan_small() -> None:
    """All that planning offers for a small problem."""
    import switchmdp as sm

    mdp = sm.MDP([[[0.5, 0.5], [0.1, 0.9]], [[0.5, 0.5], [0.9, 0.1]]], [[1, 0], [0, 0.5]])
    sm.SwitchingMDP([mdp, sm.MDP(mdp.transitions, 1.0 - mdp.rewards)], [50])
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=HORIZON, seed=0)
    mdp = problem.configuration(0)
    plan = sm.optimal_gain(mdp)
    sm.policy_gain(mdp, plan.policy)
    sm.diameter(mdp)
    sm.is_communicating(mdp)
    sm.hardness(problem)
    sm.clairvoyant_reward(problem, HORIZON)
    sm.planning.optimal_gain_brackets(problem)
    sm.planning.optimal_policies(problem)


def _plan_large() -> None:
    """The methods for many states."""
    import switchmdp as sm

    for n_states in (100, 2100):
        mdp = sm.problems.ring_with_shortcuts(n_states)
        plan = sm.optimal_gain(mdp, tolerance=1e-6)
        sm.policy_gain(mdp, plan.policy)
    sm.diameter(sm.problems.ring_with_shortcuts(100), tolerance=1e-6)


WITHOUT_AGENT = {
    "small problems": _plan_small,
    "large problems": _plan_large,
    "plain agents": _run_plain_agent,
}

if __name__ == "__main__":
    main()
