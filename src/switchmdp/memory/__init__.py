"""What an agent remembers: everything, the last W steps, or all with weights that fade."""

from switchmdp.memory.counts import HIGH, Counts, block_size, high_part, low_part
from switchmdp.memory.discounted import Discounted, Weights
from switchmdp.memory.window import Everything, Window

__all__ = [
    "HIGH", "Counts", "Discounted", "Everything", "Weights", "Window", "block_size", "high_part",
    "low_part",
]  # fmt: skip
