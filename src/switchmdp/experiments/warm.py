"""Compiling before the clock runs: on two cores, each agent once.

Machine code is made once per machine and kept on disk. Where more than one kind of agent is still
to be compiled, a second process does half of them, and what the facts about problems need; what it
should leave undone is compiled here in the end.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from switchmdp.compiled import is_compiled, is_on_disk
from switchmdp.experiments.build import make_agent
from switchmdp.experiments.check import Plan
from switchmdp.experiments.chunks import compute
from switchmdp.experiments.kept import problem_of
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.store import Store, open_store
from switchmdp.experiments.worker import TRUSTED, end_with_the_coordinator, program
from switchmdp.simulation import loop, simulate
from switchmdp.simulation.bad_steps import count_bad_steps


def warm_up(store: Store, plan: Plan, jobs: int) -> None:
    """Compile every agent that is not yet on disk."""
    new: dict[type, int] = {}
    for a in range(len(plan.agents)):
        agent = _agent(plan, a)
        if agent is not None and is_compiled(agent) and not is_on_disk(loop.run, agent):
            new.setdefault(type(agent), a)
    if not new:
        return
    mine = list(new.values())
    theirs = mine[(len(mine) + 1) // 2 :]
    helper = None
    if jobs > 1 and theirs:
        command = program(__name__, store.path, plan.trusted, *map(str, theirs))
        with contextlib.suppress(OSError):  # then we do all of it
            helper = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        compile_agents(plan, mine[: len(mine) - len(theirs)])
        if helper is not None:
            helper.wait()
        compile_agents(plan, theirs)
    finally:
        if helper is not None:
            helper.kill()
            helper.communicate()


def compile_agents(plan: Plan, agents: Sequence[int]) -> None:
    """Run each for one step, and look at it as at any run."""
    for a in agents:
        agent = _agent(plan, a)
        if agent is not None:
            with contextlib.suppress(Exception):  # its runs will tell
                problem = problem_of(plan, 0, 0)
                record = simulate(agent, problem, 1, seed=0, episodes=True)
                count_bad_steps(record, problem, plan.experiment.epsilon)


def _agent(plan: Plan, a: int) -> Any:
    variant = plan.agents[a]
    try:
        problem = problem_of(plan, 0, 0)
        factory = plan.factories[variant.source]
        return make_agent(variant, factory, problem, plan.experiment.horizon, 0)[0]
    except Exception:  # its runs will tell
        return None


def main() -> None:
    """The second process: sys.argv holds the folder, whether it is trusted, and agents' numbers."""
    threading.Thread(target=end_with_the_coordinator, daemon=True).start()
    plan = open_store(sys.argv[1]).plan(trust=sys.argv[2] == TRUSTED)
    compile_agents(plan, [int(a) for a in sys.argv[3:]])
    compute(plan, Chunk(setting=0, agent=None, block=0, first=0, last=1))
