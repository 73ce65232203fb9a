"""How calls from Python reach an agent that follows a policy.

Most steps follow the policy: Python looks up the action and writes the step to the log. All else
(to advance, plan, probe and absorb) is one function, `do`, which runs as machine code.

**When nothing is due.** After each such call the agent says how many steps may pass until the next
(`patience`). Before that it is *calm*: `prepare` would do nothing in a state that has quota left.
This is the rule by which the simulation loop works. An agent that has to be asked at every step,
because of a probe or an alarm, is never calm. A new episode ends the calm, and so does all else
that changes the agent: a simulation or an adopted plan by its new episode, `start_over` and `grow`
explicitly.

**When there is no machine code yet.** Compiling takes seconds, interpreted planning gives the same
result to the bit. So machine code that is on disk is loaded at once. Otherwise the agents of a
class run interpreted until that has taken `PATIENT_SECONDS` in total, and are compiled then.
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
    interpreted,
    is_interpreting,
    is_loaded,
    is_on_disk,
    jit,
)
from switchmdp.concurrency import exclusive

PATIENT_SECONDS = 1.0
ADVANCE, PLAN_IF_DUE, PROBE, PLAN, ABSORB, OWN_METHOD = 1, 2, 4, 8, 16, 32
PREPARE = ADVANCE | PLAN_IF_DUE | PROBE | OWN_METHOD  # interpreted: the agent's method `prepare`
ARGUMENTS, RESULTS = ["what", "state"], ["replaced", "due", "patience"]


class Outcome(NamedTuple):
    """What a call has led to."""

    replaced: bool  # the policy was replaced, not counting a new plan
    due: bool  # a plan is still due


@jit
def do(agent: Any, what: int, state: int) -> Any:
    """Do what the sum of the tasks above says. Returns (replaced, due)."""
    replaced, due = False, False
    if what & ADVANCE != 0:
        replaced = agent.advance()
    if what & PROBE != 0:
        due = agent.plan_is_due(state)
    if what & PLAN != 0 or (due and what & PLAN_IF_DUE != 0):
        agent.start_episode()
        due = False
    elif replaced and not due and what & PROBE != 0:
        agent.resume_policy()
    elif what & ABSORB != 0 or agent.logged == agent.log_pair.size:
        agent.absorb()
    if what & PROBE != 0:
        agent.probe_if_due(state)
    return replaced, due


@jit
def carry_out(agent: Any, what: int, state: int) -> Any:
    """`do`, and the agent's patience then."""
    replaced, due = do(agent, what, state)
    return replaced, due, agent.patience()


class Turns:
    """What is known of one agent between two calls from Python."""

    __slots__ = ("_agent", "calm_until", "code", "episode", "tree")

    def __init__(self, agent: Any) -> None:
        key = id(agent)
        self._agent = weakref.ref(agent, lambda _: _turns.pop(key, None))
        self.tree: Any = None
        self.code: Caller | None = None
        self.calm_until, self.episode = 0, -1


_turns: dict[int, Turns] = {}  # by the id of the agent
_seconds: dict[Any, float] = {}  # interpreted so far, by class tree
_on_disk: dict[Any, bool] = {}  # by class tree


def is_calm(agent: Any) -> bool:
    """Whether `prepare` would do nothing now in a state that has quota left."""
    turns = _turns.get(id(agent))
    return (
        turns is not None
        and agent.clock < turns.calm_until
        and agent.episode_count == turns.episode
    )


def end_calm(agent: Any) -> None:
    """The agent was changed by other means."""
    _turns.pop(id(agent), None)


def take_turn(agent: Any, what: int, state: int = 0, *, at_once: bool = False) -> Outcome:
    """`do` as machine code if possible, with the same result to the bit.

    `at_once` compiles where there is no machine code yet.
    """
    with exclusive(agent):
        turns = _turns.get(id(agent))
        if turns is None:
            turns = _turns[id(agent)] = Turns(agent)
        code = turns.code
        if is_interpreting():
            return _interpreted(agent, what, state)
        if code is None or not code.fits():
            code = _find_code(turns, agent, at_once)
        if turns.tree is None:
            return _interpreted(agent, what, state)
        if code is None:
            began = time.perf_counter()
            outcome, patience = _interpreted(agent, what, state), agent.patience()
            _seconds[turns.tree] = _seconds.get(turns.tree, 0.0) + time.perf_counter() - began
        else:
            code(what, state)
            results = code.results
            outcome, patience = Outcome(results["replaced"], results["due"]), results["patience"]
        if what & PROBE:  # all that is due was done
            turns.episode = agent.episode_count
            turns.calm_until = agent.clock + patience if patience > 1 else 0
        return outcome


def _find_code(turns: Turns, agent: Any, at_once: bool) -> Caller | None:
    """The agent's machine code; None where there is none, or none that is worth waiting for."""
    tree = (
        class_tree(agent) if JIT and agent.follows_policy and not _has_own_prepare(agent) else None
    )
    turns.code, turns.tree = None, tree
    if tree is None:
        return None
    waited = at_once or _seconds.get(tree, 0.0) >= PATIENT_SECONDS
    if tree not in _on_disk:
        _on_disk[tree] = is_on_disk(carry_out, agent)
    if waited or _on_disk[tree] or is_loaded(carry_out, agent):
        code = caller(carry_out, agent, ARGUMENTS, RESULTS)
        code.compile(0, 0)
        turns.code = code
    return turns.code


def _has_own_prepare(agent: Any) -> bool:
    return bool(type(agent).prepare.__qualname__ != "PolicyAgent.prepare")


def _interpreted(agent: Any, what: int, state: int) -> Outcome:
    if what & OWN_METHOD:
        agent.prepare(state)
        return Outcome(False, False)
    replaced, due = interpreted(do)(agent, what, state)
    return Outcome(bool(replaced), bool(due))
