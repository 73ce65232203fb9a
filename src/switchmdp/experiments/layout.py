"""Which runs there are, and how they are cut into chunks of about a second of work.

A chunk is one agent, or the facts about the problems themselves, on consecutive problems of one
setting.
"""

from __future__ import annotations

from dataclasses import dataclass

from switchmdp.experiments.check import Plan

SECONDS = 1.0
MOST_PROBLEMS = 500
Blocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Chunk:
    """Problems first..last-1 of a setting, met by an agent; no agent: facts about the problems."""

    setting: int
    agent: int | None
    block: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A short name, the same in every run of the experiment."""
        who = "facts" if self.agent is None else f"a{self.agent:03d}"
        return f"s{self.setting:03d}-{who}-b{self.block:05d}"

    def __len__(self) -> int:
        return self.last - self.first


def block_sizes(plan: Plan) -> Blocks:
    """How many runs take about a second, for each setting and agent.

    A guess from sizes alone, so that it is always the same.
    """
    lanes = range(len(plan.agents))
    return tuple(tuple(_block(plan, s, a) for a in lanes) for s in range(len(plan.settings)))


def _block(plan: Plan, setting: int, agent: int) -> int:
    steps = plan.experiment.horizon
    if plan.compiled[agent]:
        seconds = 1e-3 + steps * 3e-8 * (1.0 + plan.pairs[setting] / 100.0)
    else:
        seconds = 1e-3 + steps * 5e-6
    return int(min(max(1.0, SECONDS / seconds), MOST_PROBLEMS))


def layout(n_problems: int, blocks: Blocks) -> list[Chunk]:
    """All chunks, those that share problems close together.

    >>> [chunk.id for chunk in layout(3, ((2, 3),))]
    ['s000-facts-b00000', 's000-a000-b00000', 's000-a001-b00000', 's000-a000-b00001']
    """
    chunks = []
    for s, sizes in enumerate(blocks):
        lanes: list[tuple[int | None, int]] = [(None, MOST_PROBLEMS), *enumerate(sizes)]
        for lane, size in lanes:
            for block, first in enumerate(range(0, n_problems, size)):
                chunks.append(Chunk(s, lane, block, first, min(first + size, n_problems)))
    return sorted(chunks, key=lambda c: (c.setting, c.first, -1 if c.agent is None else c.agent))
