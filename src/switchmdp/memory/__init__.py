"""Memories: counts of all steps, of a window, since a change, or with decaying weights.

`agents.protocol.Memory` is their interface.

- `counts`: visits, sums of rewards and successor counts of each pair
- `window`: all steps since the last restart, or the last W steps; both also with the empirical
  variance of the rewards
- `since`: the steps since the last change of each pair
- `discounted`: weights that decay with the age of a step
"""

from switchmdp.memory.counts import HIGH, Counts, block_size, high_part, low_part
from switchmdp.memory.discounted import Discounted, Weights
from switchmdp.memory.since import Apart, CountsApart, Since
from switchmdp.memory.window import (
    CountsWithVariance,
    Everything,
    EverythingWithVariance,
    Window,
    WindowWithVariance,
)

__all__ = [
    "HIGH", "Apart", "Counts", "CountsApart", "CountsWithVariance", "Discounted", "Everything",
    "EverythingWithVariance", "Since", "Weights", "Window", "WindowWithVariance", "block_size",
    "high_part", "low_part",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
