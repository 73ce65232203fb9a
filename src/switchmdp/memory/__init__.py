"""Memories: all steps, a window, the steps since a change, or all steps with decaying weights."""

from switchmdp.memory.counts import HIGH, Counts, block_size, high_part, low_part
from switchmdp.memory.discounted import Discounted, Weights
from switchmdp.memory.since import Apart, CountsApart, Since
from switchmdp.memory.variance import (
    CountsWithVariance,
    EverythingWithVariance,
    WindowWithVariance,
)
from switchmdp.memory.window import Everything, Window

__all__ = [
    "HIGH", "Apart", "Counts", "CountsApart", "CountsWithVariance", "Discounted", "Everything",
    "EverythingWithVariance", "Since", "Weights", "Window", "WindowWithVariance", "block_size",
    "high_part", "low_part",
]  # fmt: skip
