"""What an agent remembers: everything, a window, what came since a change, or all but fading."""

from switchmdp.memory.counts import HIGH, Counts, block_size, high_part, low_part
from switchmdp.memory.discounted import Discounted, Weights
from switchmdp.memory.since import Since
from switchmdp.memory.window import Everything, Window

__all__ = [
    "HIGH", "Counts", "Discounted", "Everything", "Since", "Weights", "Window", "block_size",
    "high_part", "low_part",
]  # fmt: skip
