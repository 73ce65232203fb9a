"""The components of an episodic agent: what a memory, a plausible set and the others must offer.

    memory         counts what the agent has observed
    plausible      plans: from counts to a policy
    restarts       says when to start over, on schedule or because of the data
    episodes       says when an episode ends
    exploration    changes the planned policy in order to explore

A component is an object with these methods, usually of a `@compiled` class. An optional method is
called if the component has it:

    allocate(pairs)      make room for the state-action pairs of an agent (all components)
    grow(pairs, place)   make room for more pairs (memory, restarts, exploration)
    reseed(seed)         seed the random numbers (all components)

**Logs.** An agent collects its steps in three arrays, and passes them on in pieces: the pair, the
next state and the reward of each step.

**Suspects.** What is to be forgotten is an array with a code for each pair: 0 nothing, 1 all data,
2 the rewards, 3 the transition row.
"""

from __future__ import annotations

from typing import Any, Protocol

from switchmdp.mdp.pairs import Pairs


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
            What is forgotten of each pair, a code from 0 to 3.
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
            What is forgotten of each pair, a code from 0 to 3.
        """

    def destination(self) -> int:
        """The state to which the agent travels for a probe; -1 if there is none."""
