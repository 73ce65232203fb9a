"""What a run leaves behind: regret on a grid and, where asked for, its episodes and its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.simulation.loop import Position


@dataclass(frozen=True)
class Episodes:
    """One entry per episode, in order."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    gain: NDArray[np.float64]
    sweeps: NDArray[np.int64]
    policy: NDArray[np.int32]
    since: NDArray[np.int64]  # the step from which on the agent remembered

    @property
    def restarts(self) -> NDArray[np.int64]:
        """The steps at which the agent started over, or forgot a part."""
        steps: NDArray[np.int64] = self.start[np.diff(self.since, prepend=1) != 0]
        return steps

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Trajectory:
    """Every step: the state, the action taken in it, the reward earned."""

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True)
class Record:
    """A run up to `horizon`.

    `regret[i]` is Σ(ρ*_t - r_t) up to step `times[i]`; `pseudo_regret` has the mean r̄(s_t, a_t) in
    place of the reward r_t, and so far less noise. Both may be negative: Σρ* is not the most that
    can be earned in finite time.
    """

    times: NDArray[np.int64]
    regret: NDArray[np.float64]
    pseudo_regret: NDArray[np.float64]
    episodes: Episodes | None
    trajectory: Trajectory | None
    agent: str
    agent_t: int | None
    seed: int
    every: int
    final_state: int
    # Where and with which randomness `resume` goes on.
    position: Position = field(repr=False)
    words: tuple[Any, Any] = field(repr=False)
    problem: Any = field(repr=False)

    @property
    def horizon(self) -> int:
        """The number of steps run."""
        return self.position.t - 1

    @property
    def total_reward(self) -> float:
        """The sum of all rewards."""
        settled = self.position.settled
        return settled.rewards + settled.rewards_rest + self.position.rewards
