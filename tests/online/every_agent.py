"""Every servable agent: served over HTTP, shown, reopened, replayed, killed, and simulated.

Run as a program without machine code (`NUMBA_DISABLE_JIT=1`), because compiling all agents takes
minutes. It prints one line of JSON per agent: the results, or the traceback.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, cast

import numpy as np
from tests.online.serving import Client, serving
from tests.online.workbench import A, Clock, Life, S, bits, kill, reopened

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.agents.registry import servable_agents
from switchmdp.cli import output_mode
from switchmdp.cli.online import replay_log
from switchmdp.compiled import JIT
from switchmdp.online import Decisions, rebuild, verify
from switchmdp.online.arms import parameters_of

STEPS = 60
SIMULATED = 2000
EXTRA: dict[str, dict[str, Any]] = {
    "glr-ucrl": {"explore": 0.05}, "evidence-psrl": {"share": 1.0},
    "master-ucrl": {"scale": 1e-4, "confidence": 0.1},
}  # fmt: skip # so that probes are tried and tests fail
VALUES: dict[str, Any] = {
    "window": 25, "period": 20, "changes": 2, "horizon": 40, "diameter": 2.0, "steps": 30,
    "reward_variation": 0.1, "transition_variation": 0.1,
}  # fmt: skip # of the parameters that agents need


def needed(name: str) -> dict[str, Any]:
    """A value for each required parameter."""
    takes = parameters_of(name)
    return {key: VALUES[key] for key, kind in takes.items() if kind.default is kind.empty}


def served_as_simulated(name: str, folder: Path) -> dict[str, Any]:
    """Serve the trajectory of a simulation with immediate feedback. Returns the differences."""
    problem = sm.problems.random_switching(4, 3, changes=3, horizon=SIMULATED, seed=7)
    parameters = (
        needed(name) | {"horizon": SIMULATED} if "horizon" in needed(name) else needed(name)
    )
    kind: Any = AGENTS[name]
    simulated, agent = (kind(4, 3, **parameters, **EXTRA.get(name, {})) for _ in range(2))
    record = sm.simulate(simulated, problem, SIMULATED, seed=3, trajectory=True, interpreted=True)
    assert record.trajectory is not None
    states = [*record.trajectory.states.tolist(), record.final_state]
    if hasattr(agent, "reseed"):
        agent.reseed(np.random.SeedSequence(3).spawn(3)[2])
    differing = []
    with Decisions(agent, folder, sync=False) as decisions:
        for t in range(SIMULATED):
            decision = decisions.decide(states[t])
            if decision.action != record.trajectory.actions[t]:
                differing.append(t)
            decisions.feedback(decision.id, float(record.trajectory.rewards[t]), states[t + 1])
        numbers = [_position(one) for one in (simulated, decisions.learner.agent)]
    return {"differing": differing[:5], "simulated": numbers[0], "served": numbers[1]}


def _position(agent: Any) -> dict[str, int]:
    names = ("t", "episode", "episode_start", "since", "restart_count")
    return {name: int(getattr(agent, name)) for name in names if hasattr(agent, name)}


def lived(name: str, folder: Path) -> dict[str, Any]:
    """Serve the agent, reopen its folder and replay it. Returns the results."""
    kind: Any = AGENTS[name]
    decisions = Decisions(kind(3, 2, **needed(name)), folder, sync=False, snapshot_every=50)
    with decisions, serving(decisions) as client:
        before = client.ask("GET", "/agent")
        _live(client, 0, STEPS)
        statuses = [client.ask("GET", path).status for path in ("/", "/metrics")]
        told = client.ask("GET", "/agent")
        explained = [client.ask("GET", f"/explain?state={state}").json for state in range(3)]
    with Decisions(None, folder, sync=False) as decisions, serving(decisions) as client:
        _live(client, STEPS, STEPS + 5)
    with redirect_stdout(io.StringIO()) as said, output_mode(as_json=True):
        code = replay_log(folder, name, others=needed(name))
    again = verify(folder)
    return {
        "statuses": [before.status, *statuses, told.status], "told": told.json,
        "class": kind.__name__, "replayed": code, "same": again.same, "differing": again.differing,
        "explained": explained,
        "evaluations": [json.loads(line) for line in said.getvalue().splitlines()][1:-1],
    }  # fmt: skip


def survives(name: str, scratch: Path) -> None:
    """Apply random events with both kinds of planning. The log must give the same learner."""
    for seed, replan in enumerate(("inline", "background")):
        clock, folder = Clock(), scratch / f"{name}-{replan}"
        life, kind = Life(seed, clock, 8), cast(Any, AGENTS[name])
        decisions = Decisions(
            kind(S, A, **needed(name), **EXTRA.get(name, {})), folder, sync=False, replan=replan,
            expiry=40, clock=clock, timer=clock, most_pending=25, snapshot_every=40,
            signal_window=20,
        )  # fmt: skip
        life.goes_on(decisions, 60)
        kill(decisions)
        decisions = reopened(folder, clock=clock, timer=clock)
        life.goes_on(decisions, 30)
        decisions.close()
        assert bits(decisions.learner) == bits(rebuild(folder))


def _live(client: Client, first: int, last: int) -> None:
    for i in range(first, last):
        asked = client.decide(state=i % 3)
        assert client.feedback(asked["id"], (i % 4) / 4, (i + 1) % 3).json == {"counted": True}


def main(scratch: Path) -> None:
    """Print one line of JSON per agent."""
    assert not JIT
    for name in servable_agents():
        try:
            found = lived(name, scratch / name)
            survives(name, scratch)
            found["as simulated"] = served_as_simulated(name, scratch / f"{name}-simulated")
        except Exception:
            found = {"failure": traceback.format_exc()}
        print(json.dumps({"agent": name, **found}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
