"""The base class of agents that follow a policy for a while, then plan a new one.

`quota[s]` is the number of visits to state s that remain before a new plan is due. Between two
plans the policy is fixed, and steps are only logged. So a simulation keeps the policy, the quotas
and the log in local variables, and a service answers from the policy at once.

The protocol, which the simulation loop and the decision service share:

    advance()             carry out what is due before a decision: a restart, a change of instance
    plan_is_due(state)    must the agent plan before it acts in this state?
    start_episode()       plan, and set the quotas
    probe_if_due(state)   replace the policy's action for one step, where the agent does so
    prepare(state)        all of the above, before a step
    patience()            the steps until `prepare` must be called again, quotas permitting
    absorb()              move the logged steps to the memory

A service also calls

    decide(state, ...)    as `prepare`, and choose among the available actions
    spend_visit(...)      use up quota when an action is taken
    credit(...)           log a step when its feedback arrives
    plan(), adopt(copy)   plan in a copy of the agent, then follow its plan

In a simulation `act` and `observe` alternate. In a service many decisions may wait for feedback, so
a step has two halves. The quota is used up at the decision, so that an episode has its length
however late the feedback arrives. Time and counts advance at the feedback. If each feedback arrives
before the next decision, this is the algorithm of the paper, action by action.

**Calls from Python.** At most steps the agent only follows its policy: Python looks up the action
and writes the step to the log. All other tasks (advance, plan, probe, absorb) run as machine code,
in one call of `PolicyAgent.do_tasks`.

**When nothing is due.** After each such call, `patience` is the number of steps until the next one.
Until then the agent is *calm*: in a state with quota left, `prepare` would do nothing. (The
simulation loop uses the same rule.) An agent with a pending probe or alarm is never calm. Anything
that changes the agent ends the calm: a simulation and an adopted plan start a new episode, and
`start_over` and `grow` call `end_calm`.

**Before there is machine code.** Compiling takes seconds, and interpreted code gives the same
bits. So machine code that is on disk is loaded at once. Otherwise the agents of a
class run interpreted until that has taken `PATIENT_SECONDS` in total. Then they are compiled.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.protocol import Agent, check_act, check_observe
from switchmdp.compiled import (
    JIT,
    Caller,
    caller,
    class_tree,
    compiled,
    door,
    is_interpreting,
    is_loaded,
    is_on_disk,
    jit,
)
from switchmdp.concurrency import exclusive
from switchmdp.mdp.pairs import find_pair

LOG_SIZE = 2048
PATIENT_SECONDS = 1.0
# The tasks of `PolicyAgent.do_tasks`, which takes a sum of them.
ADVANCE, PLAN_IF_DUE, PROBE, PLAN, ABSORB = 1, 2, 4, 8, 16
PREPARE = ADVANCE | PLAN_IF_DUE | PROBE
ARGUMENTS, RESULTS = {"tasks": 0, "state": 0}, ["replaced", "due", "patience"]


class Choice(NamedTuple):
    """An action, and information about its plan."""

    action: int
    plan_due: bool  # a new plan is due; the action is from the old one
    replaced: bool  # the policy was replaced; a plan that is being computed is void


def act_from_python(self: Any, state: int) -> int:
    """As `prepare`, and the policy's action; asks the agent only if something may be due."""
    with exclusive(self):
        if type(state) is not int or not 0 <= state < self.n_states:
            (state,) = check_act(self, state)
        if type(self).prepare is not PolicyAgent.prepare:
            self.prepare(state)
        elif self.quota[state] == 0 or not is_calm(self):
            run_tasks(self, PREPARE, state)
        return int(self.actions[self.choice[state]])


def observe_from_python(self: Any, state: int, action: int, reward: float, next_state: int) -> None:
    """As `PolicyAgent.observe`."""
    with exclusive(self):
        n = self.n_states
        if (
            type(state) is not int or type(action) is not int or type(next_state) is not int
            or type(reward) is not float
            or not (0 <= state < n and 0 <= next_state < n and 0.0 <= reward <= 1.0)
        ):  # fmt: skip
            state, action, reward, next_state = check_observe(
                self, state, action, reward, next_state
            )
        pair = self.choice[state]
        if self.actions[pair] != action:
            check_observe(self, state, action, reward, next_state)
            pair = find_pair(self.starts, self.actions, state, action)
        elif self.quota[state] > 0:
            self.quota[state] -= 1
        if self.logged == self.log_pair.size:
            run_tasks(self, ABSORB)
        self.log_step(pair, reward, next_state)


def start_over_from_python(self: Any) -> tuple[()]:
    """Before `start_over`."""
    end_calm(self)
    return ()


def grow_from_python(
    self: Any, n_states: Any, n_actions: Any, available: Any = None
) -> tuple[Any, Any, Any]:
    """Before `grow`, which checks its arguments itself."""
    end_calm(self)
    return n_states, n_actions, available


@compiled
class PolicyAgent(Agent):
    """Base class of the agents that plan.

    A subclass implements `plan_is_due`, `start_episode`, `start_over`, `patience` and `absorb`,
    and where needed `restart_if_due`, `advance`, `probe_if_due` and `adopt`.

    `follows_policy` declares that the loop and the service may use this protocol. A subclass with
    its own `act`, `observe` or `prepare` gets False unless it declares otherwise: it is then called
    through `act` and `observe` at every step.
    """

    follows_policy: ClassVar[bool] = True
    __doors__: ClassVar[dict[str, Any]] = {
        **Agent.__doors__, "start_over": start_over_from_python, "grow": grow_from_python,
    }  # fmt: skip

    plausible: Any
    clock: int
    started: int
    episode_count: int
    choice: NDArray[np.int64]
    quota: NDArray[np.int64]
    log_pair: NDArray[np.uint32]
    log_next: NDArray[np.uint32]
    log_reward: NDArray[np.float64]
    logged: int

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls).keys()
        if "follows_policy" not in own and own & {"act", "observe", "prepare"}:
            cls.follows_policy = False

    def begin(self) -> None:
        """Set the state before the first step: an arbitrary policy without any quota."""
        self.clock, self.started, self.episode_count = 1, 1, 0
        self.choice = self.starts[:-1].copy()
        self.quota = np.zeros(self.n_states, np.int64)
        self.log_pair = np.zeros(LOG_SIZE, np.uint32)
        self.log_next = np.zeros(LOG_SIZE, np.uint32)
        self.log_reward = np.zeros(LOG_SIZE)
        self.logged = 0

    def restart_if_due(self) -> bool:
        """Restart if the schedule or the data require it. True if the policy was replaced."""
        return False

    def advance(self) -> bool:
        """Do the due tasks before a decision. True if the policy was replaced."""
        return self.restart_if_due()

    def plan_is_due(self, state: int) -> bool:
        """Whether the agent must plan before it acts in this state."""
        raise NotImplementedError

    def start_episode(self) -> None:
        """Plan, and set the quotas."""
        raise NotImplementedError

    def start_over(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def probe_if_due(self, state: int) -> None:
        """Replace the policy's action in this state for one step. By default there is no probe."""

    def patience(self) -> int:
        """The number of steps until `prepare` must be called again, quotas permitting."""
        raise NotImplementedError

    def absorb(self) -> None:
        """Move the logged steps to the memory."""
        raise NotImplementedError

    def prepare(self, state: int) -> None:
        """Make sure that the policy can be followed in this state for at least one step."""
        self.do_tasks(PREPARE, state)

    def do_tasks(self, tasks: int, state: int) -> tuple[bool, bool]:
        """Do the tasks, a sum of those above.

        Returns whether the policy was replaced (not counting a new plan) and whether a plan is
        still due in this state.
        """
        replaced, due = False, False
        if tasks & ADVANCE != 0:
            replaced = self.advance()
        if tasks & PROBE != 0:
            due = self.plan_is_due(state)
        if tasks & PLAN != 0 or (due and tasks & PLAN_IF_DUE != 0):
            self.start_episode()
            due = False
        elif replaced and not due and tasks & PROBE != 0:
            self.resume_policy()
        elif tasks & ABSORB != 0 or self.logged == self.log_pair.size:
            self.absorb()
        if tasks & PROBE != 0:
            self.probe_if_due(state)
        return replaced, due

    def resume_policy(self) -> None:
        """Count an episode that continues an earlier policy."""
        self.started = self.clock
        self.episode_count += 1

    @door(act_from_python)
    def act(self, state: int) -> int:
        """The policy's action. Plans first if a plan is due."""
        self.prepare(state)
        return int(self.actions[self.choice[state]])

    @door(observe_from_python)
    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Log a step. The agent also learns from actions that its policy did not choose."""
        pair = find_pair(self.starts, self.actions, state, action)
        if pair == self.choice[state] and self.quota[state] > 0:
            self.quota[state] -= 1
        if self.logged == self.log_pair.size:
            self.absorb()
        self.log_step(pair, reward, next_state)

    def log_step(self, pair: int, reward: float, next_state: int) -> None:
        """Append a step to the log, which must have room for it."""
        self.log_pair[self.logged] = pair
        self.log_next[self.logged] = next_state
        self.log_reward[self.logged] = reward
        self.credit_logged(1)

    def credit_logged(self, steps: int) -> None:
        """Advance the time by steps that the caller has written to the log."""
        self.logged += steps
        self.clock += steps

    # The following methods are called from Python only.

    def plan(self) -> None:
        """Plan now, as machine code if possible, with the same result to the bit.

        >>> from switchmdp.agents import SWUCRL
        >>> agent = SWUCRL(2, 2, window=100)
        >>> agent.plan()
        >>> agent.episode
        1
        """
        run_tasks(self, PLAN, at_once=True)

    def update_memory(self) -> None:
        """Call `absorb`, as machine code if possible."""
        run_tasks(self, ABSORB, at_once=True)

    def decide(
        self, state: int, available: Sequence[int] | None = None, *, replan: bool = True
    ) -> Choice:
        """Choose among the available actions (None: all).

        Unless `replan`, a plan that is due is left to the caller, except for the first one.
        """
        replan = replan or self.episode_count == 0
        if is_calm(self) and not (replan and self.quota[state] == 0):
            replaced, due = False, bool(self.quota[state] == 0)
        else:
            tasks = ADVANCE | PROBE | (PLAN_IF_DUE if replan else 0)
            replaced, due = run_tasks(self, tasks, state)
        action = int(self.actions[self.choice[state]])
        if available is not None and action not in available:
            action = max(sorted(available), key=lambda other: self.worth(state, other))
        return Choice(action, due, replaced)

    def worth(self, state: int, action: int) -> float:
        """The value of an action, for a choice among those that are available.

        By default all values are equal, and the lowest action is chosen.
        """
        return 0.0

    def spend_visit(self, state: int, action: int) -> None:
        """Reduce the quota by one visit, if the action is that of the policy."""
        if action == self.actions[self.choice[state]] and self.quota[state] > 0:
            self.quota[state] -= 1

    def credit(self, state: int, action: int, reward: float, next_state: int) -> bool:
        """Log a step whose visit was spent at the decision. True if the agent restarted first."""
        # After a plan at this very step, `advance` was called already. If planning has raised an
        # alarm, the restart comes after the step, as in a simulation.
        planned_now = self.episode_count > 0 and self.started == self.clock
        restarted = not planned_now and not is_calm(self) and self._restart()
        if self.logged == self.log_pair.size:
            run_tasks(self, ABSORB)
        pair = int(find_pair(self.starts, self.actions, state, action))
        self.log_step(pair, reward, next_state)
        return restarted

    def adopt(self, planned: Self) -> None:
        """Follow the plan that a copy of this agent has computed."""
        self.choice, self.quota = planned.choice, planned.quota
        self.plausible = planned.plausible
        self.resume_policy()

    def _restart(self) -> bool:
        """`restart_if_due`, as machine code where that is all there is to advance."""
        if type(self).advance is PolicyAgent.advance:
            return run_tasks(self, ADVANCE).replaced
        return self.restart_if_due()

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock

    @property
    def episode(self) -> int:
        """The number k of the current episode, with one policy; 0 before the first."""
        return self.episode_count

    @property
    def episode_start(self) -> int:
        """The step t_k at which the current episode started."""
        return self.started

    @property
    def policy(self) -> NDArray[np.int64]:
        """The current policy: an action for each state."""
        policy = self.actions[self.choice]
        policy.flags.writeable = False
        return policy

    @property
    def gain(self) -> float:
        """The gain that the current policy's plan promises; NaN before the first."""
        return float(self.plausible.gain()) if self.episode_count else math.nan

    @property
    def sweeps(self) -> int:
        """The sweeps of value iteration that the current policy's plan took."""
        return int(self.plausible.sweeps())


def follows_policy(agent: Any) -> TypeGuard[PolicyAgent]:
    """Whether the agent may be driven by the protocol of `PolicyAgent`.

    >>> from switchmdp.agents import GLRUCRL, Random
    >>> follows_policy(GLRUCRL(2, 2)), follows_policy(Random(2, 2))
    (True, False)
    """
    return bool(getattr(type(agent), "follows_policy", False))


# Calls from Python.


class Outcome(NamedTuple):
    """The result of `do_tasks`."""

    replaced: bool  # the policy was replaced, not counting a new plan
    due: bool  # a plan is still due


@jit
def called_from_python(agent: Any, tasks: int, state: int) -> Any:
    """Do the tasks. Returns (replaced, due, patience)."""
    replaced, due = agent.do_tasks(tasks, state)
    return replaced, due, agent.patience()


class CallState:
    """The data stored about one agent between two calls from Python.

    `ahead` is for agents that are called at every step: (time, state, action) of the next `act`,
    if it is already known.
    """

    __slots__ = ("_agent", "ahead", "calm_until", "code", "episode", "tree")

    def __init__(self, agent: Any) -> None:
        key = id(agent)
        self._agent = weakref.ref(agent, lambda _: _states.pop(key, None))
        self.tree: Any = None
        self.code: Caller | None = None
        self.calm_until, self.episode = 0, -1
        self.ahead = (-1, -1, -1)


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
        known = call_state_of(agent)
        if is_interpreting() or not agent.follows_policy:
            return _interpreted(agent, tasks, state)
        code = find_code(known, agent, called_from_python, ARGUMENTS, RESULTS, at_once=at_once)
        if known.tree is None:
            return _interpreted(agent, tasks, state)
        if code is None:
            began = time.perf_counter()
            outcome, patience = _interpreted(agent, tasks, state), agent.patience()
            add_interpreted(known, time.perf_counter() - began)
        else:
            code(tasks, state)
            results = code.results
            outcome, patience = Outcome(results["replaced"], results["due"]), results["patience"]
        if tasks & PROBE:  # all that is due was done
            known.episode = agent.episode_count
            known.calm_until = agent.clock + patience if patience > 1 else 0
        return outcome


def call_state_of(agent: Any) -> CallState:
    """What is stored about an agent between two calls from Python."""
    known = _states.get(id(agent))
    if known is None:
        known = _states[id(agent)] = CallState(agent)
    return known


def find_code(
    known: CallState, agent: Any, function: Any, arguments: dict[str, Any], results: list[str],
    *, at_once: bool = False,
) -> Caller | None:  # fmt: skip
    """The machine code of `function` for the agent; None where it is not worth waiting for.

    `arguments` has an example of each. If there can be no machine code, `known.tree` is None.
    """
    if known.code is not None and known.code.fits():
        return known.code
    tree = class_tree(agent) if JIT else None
    known.code, known.tree = None, tree
    if tree is None:
        return None
    waited = at_once or _seconds.get(tree, 0.0) >= PATIENT_SECONDS
    if tree not in _on_disk:
        _on_disk[tree] = is_on_disk(function, agent)
    if waited or _on_disk[tree] or is_loaded(function, agent):
        code = caller(function, agent, list(arguments), results)
        code.compile(*arguments.values())
        known.code = code
    return known.code


def add_interpreted(known: CallState, seconds: float) -> None:
    """Add the time of an interpreted call to those of all agents of these classes."""
    _seconds[known.tree] = _seconds.get(known.tree, 0.0) + seconds


def _interpreted(agent: Any, tasks: int, state: int) -> Outcome:
    with np.errstate(all="ignore"):  # machine code does not warn
        replaced, due = agent.do_tasks(tasks, state)
    return Outcome(bool(replaced), bool(due))
