"""The interfaces of agents and of their components.

An agent has two methods:

    action = agent.act(state)
    agent.observe(state, action, reward, next_state)

Any object with these methods can be simulated. If it has `n_states` and `n_actions`, they must
match the problem. An agent that draws random numbers also has `reseed(seed_sequence)`. States and
actions count from 0, rewards lie in [0, 1].

The agents of this package are decorated with `@compiled` and derive from `Agent`. Calls from Python
check their arguments first, and refuse bad ones before anything changes. Only one thread at a time
may call an agent. Machine code has checked already, and calls the methods directly.

**Components.** An episodic agent is made of five components:

    memory         counts what the agent has observed
    plausible      plans: from counts to a policy
    restarts       says when to start over, on schedule or because of the data
    episodes       says when an episode ends
    exploration    changes the planned policy in order to explore

A component has the methods of its interface below. Usually its class is `@compiled`. These methods
are optional:

    allocate(pairs)      make room for the state-action pairs of an agent (all components)
    grow(pairs, place)   make room for more pairs (memory, restarts, exploration)
    reseed(seed)         seed the random numbers (all components)

**Logs.** An agent collects its steps in three arrays, and passes them on in pieces: the pair, the
next state and the reward of each step.

**Suspects.** The suspects are an array with a code for each pair: 0 nothing, 1 all data,
2 the rewards, 3 the transition row.
"""

from __future__ import annotations

import inspect
import os
from typing import Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Increasing, Range, Shape, fields_of, require
from switchmdp.concurrency import OneThreadAtATime
from switchmdp.display import html_table, present
from switchmdp.errors import InvalidAction, InvalidParameter, InvalidReward, InvalidState
from switchmdp.mdp.pairs import MAX_PAIRS, Pairs, find_pair
from switchmdp.validation import check_index, check_integer

__all__ = [
    "Agent", "AgentLike", "EpisodeRule", "Exploration", "Memory", "PlausibleSet", "RestartRule",
]  # fmt: skip

# The members that `dir(agent)` lists, if the agent has them. All others are for the simulation
# loop, the decision service and machine code.
PUBLIC = (
    "act", "episode", "exploration", "episodes", "gain", "grow", "memory", "n_actions", "n_states",
    "observe", "pairs", "plausible", "plot", "policy", "reseed", "restarts", "reward_estimates",
    "reward_radii", "save", "since", "start_over", "t", "transition_counts",
    "transition_estimates", "transition_radii", "visits",
)  # fmt: skip


COMPONENTS = ("memory", "plausible", "restarts", "episodes", "exploration")
# The fields in `PUBLIC`, with the line that `help` shows.
FIELDS = {
    "memory": "The memory, which counts what the agent has observed.",
    "plausible": "The plausible set or posterior, which computes the policies.",
    "restarts": "The restart rule or detector, which says when to forget.",
    "episodes": "The episode rule, which says when an episode ends.",
    "exploration": "The component that explores beyond the plan.",
    "since": "The first step that counts after the last restart.",
    "visits": "The visits to each state-action pair.",
}


@runtime_checkable
class AgentLike(Protocol):
    """The interface of an agent: any object with the two methods."""

    n_states: int
    n_actions: int

    def act(self, state: int) -> int:
        """The action to take now, in this state.

        Parameters
        ----------
        state
            The current state.

        Returns
        -------
        int
            The action.
        """

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from the result of an action.

        Parameters
        ----------
        state
            The state before the step.
        action
            The action that was taken.
        reward
            The reward, in [0, 1].
        next_state
            The state after the step.
        """


class Memory(Protocol):
    """Counts what the agent has observed; `counts` has the result (see `memory.Counts`)."""

    counts: Any

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs.

        Parameters
        ----------
        pairs
            The state-action pairs of the agent.
        """

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the first n steps of a log.

        Parameters
        ----------
        pairs
            The pair of each step.
        nexts
            The next state of each step.
        rewards
            The reward of each step.
        n
            The number of steps in the log.
        """

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last steps of the suspects.

        Parameters
        ----------
        steps
            The number of latest steps to keep.
        suspects
            What to forget of each pair, a code from 0 to 3.

        Returns
        -------
        int
            The age of the oldest step that the memory still has.
        """


class PlausibleSet(Protocol):
    """Computes a policy from counts: a confidence set with optimism, or a posterior."""

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs.

        Parameters
        ----------
        pairs
            The state-action pairs of the agent.
        """

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Compute a policy.

        Parameters
        ----------
        starts
            The first pair of each state, and the number of pairs.
        counts
            The counts of the memory.
        t
            The time since the last restart, from 1.
        choice
            The array that receives the pair chosen in each state.
        """

    def gain(self) -> float:
        """The gain that the last plan promises."""

    def sweeps(self) -> int:
        """The sweeps of value iteration that the last plan took."""


class EpisodeRule(Protocol):
    """Says when an episode ends. An agent calls `end` first, then `quota` for each state."""

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode.

        Parameters
        ----------
        visits
            The visits to the pair when the episode starts.

        Returns
        -------
        int
            The number of visits, at least 1.
        """

    def end(self, t: int, since: int) -> int:
        """The step at which an episode must end.

        Parameters
        ----------
        t
            The step at which the episode starts.
        since
            The step of the last restart; 1 before the first.

        Returns
        -------
        int
            The first step of the next episode; `restarts.NEVER` if there is no limit.
        """


class RestartRule(Protocol):
    """Says when the agent forgets. `restarts.Schedule` is a base for rules that use no data."""

    def after(self, t: int) -> int:
        """The next restart that is known beforehand.

        Parameters
        ----------
        t
            The current step.

        Returns
        -------
        int
            The step of the restart, after t; `restarts.NEVER` if there is none.
        """

    def look_at(self) -> int:
        """The step at which `watch` must be called next."""

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Read the steps of the log that the rule has not read yet.

        Parameters
        ----------
        pairs
            The pair of each step.
        nexts
            The next state of each step.
        rewards
            The reward of each step.
        n
            The number of steps in the log.
        """

    def log_emptied(self) -> None:
        """Note that the log was emptied: the next step will be its first."""

    def alarmed(self) -> bool:
        """Whether the data show a change."""

    def suspect(self, suspects: Any) -> int:
        """Mark what has changed, after an alarm.

        Parameters
        ----------
        suspects
            The array that receives a code from 0 to 3 for each pair.

        Returns
        -------
        int
            The number of steps since the change.
        """

    def start_over(self, suspects: Any) -> None:
        """Start over for the suspects, which the agent forgets now.

        Parameters
        ----------
        suspects
            A code from 0 to 3 for the forgotten data of each pair.
        """


class Exploration(Protocol):
    """Changes the planned policy in order to explore, and may find changes that way."""

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """Change the policy of the episode that was just planned.

        Parameters
        ----------
        starts
            The first pair of each state, and the number of pairs.
        counts
            The counts of the memory.
        t
            The time since the last restart, from 1.
        choice
            The pair chosen in each state, to be changed in place.
        quota
            The visits to each state until the episode ends, to be changed in place.
        """

    def alarmed(self) -> bool:
        """Whether exploration has found a change."""

    def suspect(self, suspects: Any, t: int) -> int:
        """Mark what has changed, after an alarm.

        Parameters
        ----------
        suspects
            The array that receives a code from 0 to 3 for each pair.
        t
            The time since the last restart, from 1.

        Returns
        -------
        int
            The number of steps since the change.
        """

    def start_over(self, suspects: Any) -> None:
        """Start over for the suspects, which the agent forgets now.

        Parameters
        ----------
        suspects
            A code from 0 to 3 for the forgotten data of each pair.
        """

    def destination(self) -> int:
        """The state to which the agent travels for a probe; -1 if there is none."""


def check_act(agent: Any, state: Any) -> tuple[int]:
    """Check the arguments of `act`."""
    return (check_index(state, agent.n_states, "state", InvalidState),)


def check_observe(
    agent: Any, state: Any, action: Any, reward: Any, next_state: Any
) -> tuple[int, int, float, int]:
    """Check the arguments of `observe`."""
    state = check_index(state, agent.n_states, "state", InvalidState)
    action = check_index(action, agent.n_actions, "action", InvalidAction)
    pair = find_pair(agent.starts, agent.actions, state, action)
    if pair < 0:
        known = agent.actions[agent.starts[state] : agent.starts[state + 1]].tolist()
        raise InvalidAction(f"action in state {state}", action, f"one of {known}")
    if (
        isinstance(reward, (bool, np.bool_))
        or not isinstance(reward, (int, float, np.integer, np.floating))
        or not 0.0 <= reward <= 1.0
    ):
        raise InvalidReward("reward", reward, "a finite number in [0, 1]")
    next_state = check_index(next_state, agent.n_states, "next_state", InvalidState)
    return state, action, float(reward), next_state


def as_given(agent: Any, *arguments: Any) -> tuple[Any, ...]:
    """Pass the arguments on to methods that check them themselves."""
    return arguments


def grow_as_given(
    agent: Any, n_states: Any, n_actions: Any, available: Any = None
) -> tuple[Any, Any, Any]:
    """Pass the arguments on to `grow`, which checks them itself."""
    return n_states, n_actions, available


class FixedSize:
    """A size that is set once: machine code uses arrays of this size without checking indices.

    It has no `__get__`, so that Python reads the number from the instance, at full speed.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = f"The number of {name.removeprefix('n_')}; a method `grow` may increase it."

    def __set__(self, instance: Any, value: Any) -> None:
        size = vars(instance).setdefault(self._name, value)
        if value != size:
            allowed = f"{size}, with which this agent was made (a method grow may increase it)"
            raise InvalidParameter(self._name, value, allowed)


class DocumentedField:
    """A field that `help` shows with one line. Instances keep the value, as without it.

    Like `FixedSize` it has no `__get__`.
    """

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self.__doc__ = text

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value


class ParameterOfConstructor:
    """A parameter that is stored under another name, or in a component.

    To assign it to an agent of this package would have no effect, so it is an error. A user's own
    subclass may have an attribute of this name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = "A parameter, which is set when the agent is made."

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if self._name in vars(instance):
            return vars(instance)[self._name]
        parts = [part for part in COMPONENTS if hasattr(getattr(instance, part, None), self._name)]
        advice = f"; it has {parts[0]}.{self._name}" if parts else ""
        message = f"{type(instance).__name__!r} object has no attribute {self._name!r}{advice}"
        raise AttributeError(message, name=self._name, obj=instance)

    def __set__(self, instance: Any, value: Any) -> None:
        cls = type(instance)
        if _is_of_package(cls) and self._name not in fields_of(cls):
            how = f"{cls.__name__}(..., {self._name}=...)"
            raise InvalidParameter(self._name, value, f"set when the agent is made: {how}")
        vars(instance)[self._name] = value


def _is_of_package(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "switchmdp"


class Agent(OneThreadAtATime):
    """Base class of the compiled agents: their state-action pairs, and checked calls from Python.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> from switchmdp.agents import SWUCRL
    >>> isinstance(SWUCRL(5, 3, window=100), Agent)
    True
    """

    __doors__: ClassVar[dict[str, Any]] = {
        "act": check_act, "observe": check_observe, "grow": grow_as_given,
        "reseed": as_given, "start_over": as_given,
    }  # fmt: skip

    n_states: Annotated[int, Range(1, MAX_PAIRS)] = cast("int", FixedSize())
    n_actions: Annotated[int, Range(1, MAX_PAIRS)] = cast("int", FixedSize())
    starts: Annotated[NDArray[np.int64], Shape("states + 1"), Range(0, "pairs"), Increasing()]
    actions: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, below="actions")]

    def __init__(self, n_states: Any, n_actions: Any, available: Any = None) -> None:
        self.know(Pairs.of(n_states, n_actions, available))

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Document the public fields, and protect the parameters that are no fields."""
        super().__init_subclass__(**arguments)
        if not _is_of_package(cls):
            return
        for name in inspect.get_annotations(cls).keys() & FIELDS.keys():
            setattr(cls, name, DocumentedField(name, FIELDS[name]))
        if "__init__" not in vars(cls):
            return
        declared = {name for base in cls.__mro__ for name in inspect.get_annotations(base)}
        for name in list(inspect.signature(cls.__init__).parameters)[1:]:
            if name not in declared and not hasattr(cls, name):
                setattr(cls, name, ParameterOfConstructor(name))

    def dimensions(self) -> dict[str, int]:
        """The dimensions by which fields of the agent and of its components are declared."""
        return {"states": self.n_states, "actions": self.n_actions, "pairs": self.actions.size}

    def check_invariants(self) -> None:
        """The actions of each state are a range of pairs, in increasing order."""
        starts, actions = self.starts, self.actions
        require(self.n_states * self.n_actions <= MAX_PAIRS, "the number of pairs is too large")
        require(starts[0] == 0 and starts[-1] == actions.size, "starts must end at all pairs")
        inner = np.ones(actions.size, bool)
        inner[starts[:-1]] = False
        increase = (actions[1:] > actions[:-1])[inner[1:]].all()
        require(increase, "the actions of a state must increase")

    def larger(
        self, n_states: Any, n_actions: Any, available: Any = None
    ) -> tuple[Pairs, NDArray[np.int64]]:
        """The pairs of a larger agent, and the new number of each known pair.

        `available` is a mask of the new size that includes all known pairs. Without it new states
        have all actions, and new actions are available in all states.
        """
        old = self.pairs
        n_actions = check_integer("n_actions", n_actions, old.n_actions, MAX_PAIRS)
        n_states = check_integer("n_states", n_states, old.n_states, MAX_PAIRS // n_actions)
        mask: Any = available
        if mask is None:
            mask = np.ones((n_states, n_actions), bool)
            mask[: old.n_states, : old.n_actions] = old.available
        pairs = Pairs.of(n_states, n_actions, mask)
        before, after = (p.states * n_actions + p.actions for p in (old, pairs))
        if not np.isin(before, after, assume_unique=True).all():
            raise InvalidParameter("available", available, "true for all pairs known so far")
        place: NDArray[np.int64] = np.searchsorted(after, before)
        return pairs, place

    def know(self, pairs: Pairs) -> None:
        """Set the state-action pairs, also where they were set before."""
        vars(self).update(n_states=pairs.n_states, n_actions=pairs.n_actions)
        self.starts, self.actions = pairs.starts, pairs.actions

    @property
    def pairs(self) -> Pairs:
        """The state-action pairs that the agent knows."""
        return Pairs(self.n_states, self.n_actions, self.starts, self.actions)

    def __dir__(self) -> list[str]:
        """The members in `PUBLIC`, and all that a user's own class adds."""
        listed = {name for name in object.__dir__(self) if name.startswith("_") or name in PUBLIC}
        for cls in type(self).__mro__:
            if not _is_of_package(cls):
                listed.update(vars(cls))
        return sorted(listed)

    def _repr_html_(self) -> str:
        rows: dict[str, Any] = {"states": self.n_states, "actions": self.n_actions}
        names = ("t", "memory", "plausible", "restarts", "episodes", "exploration")
        rows |= {name: getattr(self, name) for name in names if hasattr(self, name)}
        return html_table(type(self).__name__, rows)

    def plot(self) -> Any:
        """Draw visits and estimated rewards of each state and action (extra `plot`).

        Returns
        -------
        matplotlib.figure.Figure
            The figure. A frame marks the action of the current policy in each state.

        Raises
        ------
        InvalidParameter
            If the agent has no estimates.
        """
        return present("plot", self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file that `agents.load` reads.

        The file that was there is kept as `PATH.previous`.

        Parameters
        ----------
        path
            The file to write.

        Raises
        ------
        InvalidParameter
            If the agent could not be loaded again, for example because a field is not declared.
        OSError
            If the file cannot be written.
        """
        from switchmdp.agents.saving import save_agent

        save_agent(self, path)

    def _table(self, per_pair: Any, missing: Any) -> NDArray[Any]:
        """A value per pair as a read-only (S, A) array."""
        values = np.asarray(per_pair)
        table = np.full((self.n_states, self.n_actions), missing, values.dtype)
        pairs = self.pairs
        table[pairs.states, pairs.actions] = values
        table.flags.writeable = False
        return table
