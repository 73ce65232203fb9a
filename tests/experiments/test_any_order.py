"""A folder of results under any sequence of runs, kills, damage, checks and repairs.

A check always detects every damaged chunk, and running the experiment again gives the same results
as in an undisturbed folder.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.faults.workbench import MEMORY

from switchmdp.errors import DamagedFile
from switchmdp.experiments import Plan, Store, check, create, dumps, loads, open_store, run_chunks
from switchmdp.experiments.chunks import Outcome, compute
from switchmdp.experiments.results import Chunk

EXPERIMENT = loads("""
title = "any order"
horizon = 60
n_problems = 3

[problems.random]
problem = "random-switching"
parameters = { changes = { sweep = [1, 2] } }

[agents.chance]
agent = "random"

[agents.chance-again]
agent = "random"
""")


@cache
def reference() -> tuple[Plan, dict[str, Outcome]]:
    """The plan, and the expected content of every chunk."""
    plan = check(EXPERIMENT)
    with tempfile.TemporaryDirectory() as folder:
        chunks = create(folder, plan, dumps(EXPERIMENT), None).chunks()
    return plan, {chunk.id: compute(plan, chunk) for chunk in chunks}


class StoreInAnyOrder(RuleBasedStateMachine):
    """A folder, and which of its chunks are present and intact."""

    store: Store

    @initialize()
    def begin(self) -> None:
        self.plan, self.outcomes = reference()
        self.place = Path(tempfile.mkdtemp(dir=MEMORY))
        self.store = create(self.place / "folder", self.plan, dumps(EXPERIMENT), None)
        self.sound: set[str] = set()
        self.damaged: dict[str, bool] = {}  # chunk -> whether that must be noticed

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run_to_the_end()
            shutil.rmtree(self.place)

    def chunk(self, which: int) -> Chunk:
        chunks = self.store.chunks()
        return chunks[which % len(chunks)]

    @rule(which=st.integers(0, 99))
    def run_one_chunk(self, which: int) -> None:
        """Commit a chunk as a worker does, even if it is done already."""
        chunk = self.chunk(which)
        self.store.commit(chunk, self.outcomes[chunk.id])
        self.sound.add(chunk.id)
        self.damaged.pop(chunk.id, None)

    @rule(which=st.integers(0, 99), size=st.integers(0, 500))
    def a_writer_is_killed(self, which: int, size: int) -> None:
        """An interrupted writer leaves part of its file under a temporary name."""
        path = self.store.chunk_path(self.chunk(which))
        path.with_name(f".{path.name}.{'0123456789ab'}").write_bytes(b"P" * size)

    @rule(which=st.integers(0, 99), where=st.floats(0, 1), bit=st.integers(0, 7))
    def flip_a_bit(self, which: int, where: float, bit: int) -> None:
        """The bit may be irrelevant, such as the time of a file in an archive."""
        self.damage(which, lambda content: _flipped(content, where, bit), notable=False)

    @rule(which=st.integers(0, 99), share=st.floats(0, 0.999))
    def truncate(self, which: int, share: float) -> None:
        self.damage(which, lambda content: content[: int(share * len(content))])

    @rule(which=st.integers(0, 99), more=st.binary(min_size=1, max_size=30))
    def append(self, which: int, more: bytes) -> None:
        self.damage(which, lambda content: content + more)

    @rule(which=st.integers(0, 99), other=st.integers(0, 99))
    def put_another_chunk_in_its_place(self, which: int, other: int) -> None:
        source = self.store.chunk_path(self.chunk(other))
        if source.exists() and self.chunk(which) != self.chunk(other):
            self.damage(which, lambda content: source.read_bytes())

    def damage(self, which: int, change: Any, notable: bool = True) -> None:
        chunk = self.chunk(which)
        path = self.store.chunk_path(chunk)
        if path.exists():
            path.write_bytes(change(path.read_bytes()))
            self.sound.discard(chunk.id)
            again = chunk.id in self.damaged  # which may even undo what was done first
            self.damaged[chunk.id] = notable and not again

    @rule(which=st.integers(0, 99))
    def delete(self, which: int) -> None:
        chunk = self.chunk(which)
        self.store.chunk_path(chunk).unlink(missing_ok=True)
        self.sound.discard(chunk.id)
        self.damaged.pop(chunk.id, None)

    @rule()
    def open_again(self) -> None:
        self.store = open_store(self.store.path)

    @rule()
    def run_to_the_end(self) -> None:
        progress = run_chunks(self.store, self.plan, jobs=1, executor="threads")
        assert progress.complete
        assert progress.failed == 0
        assert not list(self.store.path.rglob(".*"))
        for chunk in self.store.chunks():
            assert self.is_right(chunk)
        self.sound = set(self.outcomes)
        self.damaged = {}

    @invariant()
    def every_chunk_is_right_or_known_to_be_wrong(self) -> None:
        if not hasattr(self, "store"):
            return
        for chunk in self.store.chunks():
            if chunk.id in self.sound:
                assert self.is_right(chunk)
            elif self.damaged.get(chunk.id, True):
                assert not self.store.is_done(chunk)
            else:
                assert not self.store.is_done(chunk) or self.is_right(chunk)

    def is_right(self, chunk: Chunk) -> bool:
        """Whether a chunk exists and has the expected arrays."""
        try:
            _, arrays = self.store.load(chunk)
        except (FileNotFoundError, DamagedFile):
            return False
        wanted = self.outcomes[chunk.id].arrays
        return arrays.keys() == wanted.keys() and all(
            np.array_equal(arrays[name], wanted[name], equal_nan=True) for name in wanted
        )


def _flipped(content: bytes, where: float, bit: int) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[min(int(where * len(changed)), len(changed) - 1)] ^= 1 << bit
    return bytes(changed)


TestStoreInAnyOrder = StoreInAnyOrder.TestCase
