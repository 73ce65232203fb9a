"""What an experiment consists of: settings × agents, and the chunks that its runs are stored in.

Sweeps multiply: an entry with two swept parameters of three values each gives nine variants. A
variant of a problem entry is a *setting*.

Nothing here needs the agents and problems themselves, nor Numba. So a folder of results is read,
and its report written, without importing them, which would take a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from switchmdp.experiments.spec import AgentSpec, ProblemSpec, is_table

MOST_PROBLEMS = 500  # in one chunk

BlockSizes = tuple[tuple[int, ...], ...]  # problems per chunk, for each setting and agent


@dataclass(frozen=True)
class Variant:
    """An agent or a family of problems, with one value for each swept parameter."""

    name: str
    base: str  # the name of the entry in the experiment
    source: str  # a registered name, or "module:Name"
    parameters: Mapping[str, Any]
    swept: Mapping[str, Any]


@dataclass(frozen=True)
class Chunk:
    """Runs of one agent on problems first..last-1 of a setting; agent None: facts about them."""

    setting: int
    agent: int | None
    block: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A short name, the same in every execution of the experiment."""
        agent = "facts" if self.agent is None else f"a{self.agent:03d}"
        return f"s{self.setting:03d}-{agent}-b{self.block:05d}"

    @property
    def n_runs(self) -> int:
        """The number of runs; 0 for facts."""
        return 0 if self.agent is None else len(self)

    def __len__(self) -> int:
        return self.last - self.first


def expand(specs: Mapping[str, ProblemSpec] | Mapping[str, AgentSpec]) -> list[Variant]:
    """Every entry, once for each combination of its swept values.

    >>> swept = {"x": AgentSpec(agent="sw-ucrl", parameters={"window": {"sweep": [10, 20]}})}
    >>> [variant.name for variant in expand(swept)]
    ['x [window=10]', 'x [window=20]']
    """
    variants = []
    for base, spec in specs.items():
        source = spec.agent if isinstance(spec, AgentSpec) else spec.problem
        swept = {k: v["sweep"] for k, v in spec.parameters.items() if is_table(v, "sweep")}
        for combination in itertools.product(*swept.values()):
            values = dict(zip(swept, combination, strict=True))
            shown = ", ".join(f"{k}={_shown(v)}" for k, v in values.items())
            name = f"{base} [{shown}]" if shown else base
            variants.append(Variant(name, base, source, {**spec.parameters, **values}, values))
    return variants


def count_variants(specs: Mapping[str, ProblemSpec] | Mapping[str, AgentSpec]) -> int:
    """The number of variants that `expand` would make.

    >>> count_variants({"x": AgentSpec(agent="a", parameters={"b": {"sweep": [10, 20]}})})
    2
    """
    tables = [[v for v in s.parameters.values() if is_table(v, "sweep")] for s in specs.values()]
    return sum(prod(len(table["sweep"]) for table in sweeps) for sweeps in tables)


def _shown(value: Any) -> str:
    for key in ("formula", "choice"):
        if is_table(value, key):
            rest = ", ".join(f"{k}={v}" for k, v in value.items() if k != key)
            return f"{value[key]}({rest})" if rest else str(value[key])
    return str(value)


def all_chunks(n_problems: int, blocks: BlockSizes) -> list[Chunk]:
    """All chunks; those that share problems are close together.

    >>> [chunk.id for chunk in all_chunks(3, ((2, 3),))]
    ['s000-facts-b00000', 's000-a000-b00000', 's000-a001-b00000', 's000-a000-b00001']
    """
    chunks = []
    for s, sizes in enumerate(blocks):
        columns: list[tuple[int | None, int]] = [(None, MOST_PROBLEMS), *enumerate(sizes)]
        for agent, size in columns:
            for block, first in enumerate(range(0, n_problems, size)):
                chunks.append(Chunk(s, agent, block, first, min(first + size, n_problems)))
    return sorted(chunks, key=lambda c: (c.setting, c.first, -1 if c.agent is None else c.agent))
