"""Fast calls from Python to an agent that follows a policy.

At most steps the agent only follows its policy: Python looks up the action and writes the step to
the log. All other tasks (advance, plan, probe, absorb) run as machine code, in one call of
`PolicyAgent.do_tasks`.

**When nothing is due.** After each such call, `patience` is the number of steps until the next one.
Until then the agent is *calm*: in a state with quota left, `prepare` would do nothing. (The
simulation loop uses the same rule.) An agent with a pending probe or alarm is never calm. Anything
that changes the agent ends the calm: a simulation and an adopted plan start a new episode, and
`start_over` and `grow` call `end_calm`.

**Before there is machine code.** Compiling takes seconds, and interpreted code gives the same
result to the bit. So machine code that is on disk is loaded at once. Otherwise the agents of a
class run interpreted until that has taken `PATIENT_SECONDS` in total. Then they are compiled.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, NamedTuple

from switchmdp.compiled import (
    JIT,
    Caller,
    caller,
    class_tree,
    is_interpreting,
    is_loaded,
    is_on_disk,
    jit,
)
from switchmdp.concurrency import exclusive

PATIENT_SECONDS = 1.0
# The tasks of `PolicyAgent.do_tasks`, which takes a sum of them.
ADVANCE, PLAN_IF_DUE, PROBE, PLAN, ABSORB = 1, 2, 4, 8, 16
PREPARE = ADVANCE | PLAN_IF_DUE | PROBE
ARGUMENTS, RESULTS = ["tasks", "state"], ["replaced", "due", "patience"]


class Outcome(NamedTuple):
    """What `do_tasks` returned."""

    replaced: bool  # the policy was replaced, not counting a new plan
    due: bool  # a plan is still due


@jit
def called_from_python(agent: Any, tasks: int, state: int) -> Any:
    """Do the tasks. Returns (replaced, due, patience)."""
    replaced, due = agent.do_tasks(tasks, state)
    return replaced, due, agent.patience()


class CallState:
    """What is remembered about one agent between two calls from Python."""

    __slots__ = ("_agent", "calm_until", "code", "episode", "tree")

    def __init__(self, agent: Any) -> None:
        key = id(agent)
        self._agent = weakref.ref(agent, lambda _: _states.pop(key, None))
        self.tree: Any = None
        self.code: Caller | None = None
        self.calm_until, self.episode = 0, -1


_states: dict[int, CallState] = {}  # by the id of the agent
_seconds: dict[Any, float] = {}  # interpreted so far, by class tree
_on_disk: dict[Any, bool] = {}  # by class tree


def is_calm(agent: Any) -> bool:
    """Whether `prepare` would do nothing now in a state that has quota left."""
    known = _states.get(id(agent))
    return (
        known is not None
        and agent.clock < known.calm_until
        and agent.episode_count == known.episode
    )


def end_calm(agent: Any) -> None:
    """Forget that nothing is due, because the agent was changed by other means."""
    _states.pop(id(agent), None)


def run_tasks(agent: Any, tasks: int, state: int = 0, *, at_once: bool = False) -> Outcome:
    """Call `do_tasks`, as machine code if possible, with the same result to the bit.

    `at_once` compiles where there is no machine code yet.
    """
    with exclusive(agent):
        known = _states.get(id(agent))
        if known is None:
            known = _states[id(agent)] = CallState(agent)
        code = known.code
        if is_interpreting():
            return _interpreted(agent, tasks, state)
        if code is None or not code.fits():
            code = _find_code(known, agent, at_once)
        if known.tree is None:
            return _interpreted(agent, tasks, state)
        if code is None:
            began = time.perf_counter()
            outcome, patience = _interpreted(agent, tasks, state), agent.patience()
            _seconds[known.tree] = _seconds.get(known.tree, 0.0) + time.perf_counter() - began
        else:
            code(tasks, state)
            results = code.results
            outcome, patience = Outcome(results["replaced"], results["due"]), results["patience"]
        if tasks & PROBE:  # all that is due was done
            known.episode = agent.episode_count
            known.calm_until = agent.clock + patience if patience > 1 else 0
        return outcome


def _find_code(known: CallState, agent: Any, at_once: bool) -> Caller | None:
    """The agent's machine code; None where there is none, or none that is worth waiting for."""
    tree = class_tree(agent) if JIT and agent.follows_policy else None
    known.code, known.tree = None, tree
    if tree is None:
        return None
    waited = at_once or _seconds.get(tree, 0.0) >= PATIENT_SECONDS
    if tree not in _on_disk:
        _on_disk[tree] = is_on_disk(called_from_python, agent)
    if waited or _on_disk[tree] or is_loaded(called_from_python, agent):
        code = caller(called_from_python, agent, ARGUMENTS, RESULTS)
        code.compile(0, 0)
        known.code = code
    return known.code


def _interpreted(agent: Any, tasks: int, state: int) -> Outcome:
    replaced, due = agent.do_tasks(tasks, state)
    return Outcome(bool(replaced), bool(due))
