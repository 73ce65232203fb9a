"""Decisions under random sequences of calls, crashes, reopenings and restored backups.

The machine keeps what was acknowledged in plain dictionaries, and checks the service against them:
nothing acknowledged is lost, nothing counts twice, and no answer is credited to another decision.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.faults.workbench import MEMORY
from tests.online.workbench import Clock, bits_of, copied, kill, sw_ucrl

from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    InvalidParameter,
    UnknownDecision,
)
from switchmdp.online import Decisions, verify

Answer = tuple[float, int]


class DecisionsInAnyOrder(RuleBasedStateMachine):
    """A folder, its decisions, and the answers that they must give."""

    decisions: Decisions

    @initialize()
    def begin(self) -> None:
        self.place = Path(tempfile.mkdtemp(dir=MEMORY))
        self.folder, self.clock = self.place / "folder", Clock()
        self.open(sw_ucrl())
        self.pending: dict[str, int] = {}  # decision -> its state
        self.answered: dict[str, Answer] = {}
        self.lost: set[str] = set()  # given out after the backup that was restored
        self.backup: tuple[Path, dict[str, int], dict[str, Answer]] | None = None
        self.copies = 0

    def open(self, agent: Any = None, **settings: Any) -> None:
        self.decisions = Decisions(
            agent, self.folder, sync=False, clock=self.clock, snapshot_every=7, **settings
        )

    def teardown(self) -> None:
        if hasattr(self, "decisions"):
            self.decisions.close()
            replayed = verify(self.folder)
            assert replayed.same
            assert replayed.differing == 0
            shutil.rmtree(self.place)

    @property
    def learned(self) -> int:
        """The number of steps that the agent has learned from."""
        return int(self.decisions.learner.agent.t) - 1

    @rule(state=st.integers(0, 3), session=st.sampled_from(("", "a", "b")))
    def decide(self, state: int, session: str) -> None:
        decision = self.decisions.decide(state, session=session)
        assert decision.id not in {*self.pending, *self.answered, *self.lost}
        assert decision.state == state
        self.pending[decision.id] = state

    @precondition(lambda self: self.pending)
    @rule(which=st.integers(0, 99), reward=st.integers(0, 4), next_state=st.integers(0, 3))
    def answer(self, which: int, reward: int, next_state: int) -> None:
        decision = list(self.pending)[which % len(self.pending)]
        before = self.learned
        assert self.decisions.feedback(decision, reward / 4, next_state)
        assert self.learned == before + 1
        del self.pending[decision]
        self.answered[decision] = reward / 4, next_state

    @precondition(lambda self: self.answered)
    @rule(which=st.integers(0, 99), same=st.booleans())
    def answer_again(self, which: int, same: bool) -> None:
        decision = list(self.answered)[which % len(self.answered)]
        reward, target = self.answered[decision]
        before = self.learned
        if same:
            assert not self.decisions.feedback(decision, reward, target)
        else:
            with pytest.raises(ConflictingFeedback):
                self.decisions.feedback(decision, 1.0 - reward / 2, target)
        assert self.learned == before

    @rule(made_up=st.text(max_size=40) | st.integers(0, 9).map("{}-000000000000".format))
    def answer_what_was_never_decided(self, made_up: str) -> None:
        before = self.learned
        with pytest.raises(UnknownDecision):
            self.decisions.feedback(made_up, 0.5, 0)
        assert self.learned == before

    @precondition(lambda self: self.lost)
    @rule(which=st.integers(0, 99))
    def answer_what_the_backup_does_not_know(self, which: int) -> None:
        decision = sorted(self.lost)[which % len(self.lost)]
        before = self.learned
        with pytest.raises((UnknownDecision, ForgottenDecision)):
            self.decisions.feedback(decision, 0.5, 0)
        assert self.learned == before

    @precondition(lambda self: self.pending)
    @rule(state=st.sampled_from((-1, 99, True, "0", None)), reward=st.sampled_from((-0.1, 2, None)))
    def refuse_bad_values(self, state: Any, reward: Any) -> None:
        before = bits_of(self.decisions)
        decision = next(iter(self.pending))
        with pytest.raises(InvalidParameter):
            self.decisions.feedback(decision, reward, 0)
        with pytest.raises(InvalidParameter):
            self.decisions.feedback(decision, 0.5, state)
        assert bits_of(self.decisions) == before

    @rule(crash=st.booleans(), window=st.none() | st.integers(1, 50))
    def reopen(self, crash: bool, window: int | None) -> None:
        before = bits_of(self.decisions)
        kill(self.decisions) if crash else self.decisions.close()
        self.open(signal_window=window)
        if window is None:
            assert bits_of(self.decisions) == before

    @rule()
    def start_over(self) -> None:
        self.decisions.start_over()

    @rule(rows=st.lists(st.integers(0, 3), max_size=3))
    def learn_from_history(self, rows: list[int]) -> None:
        before = self.learned
        assert self.decisions.learn_from([(s, 0, 0.5, s) for s in rows]) == len(rows)
        assert self.learned == before + len(rows)

    @rule()
    def make_a_backup(self) -> None:
        """A copy of the folder while nothing is written to it."""
        self.decisions.close()
        self.copies += 1
        copy = copied(self.folder, self.place / f"backup-{self.copies}")
        self.backup = copy, dict(self.pending), dict(self.answered)
        self.open()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore_the_backup(self) -> None:
        assert self.backup is not None
        copy, pending, answered = self.backup
        self.decisions.close()
        shutil.rmtree(self.folder)
        copied(copy, self.folder)
        self.open()
        given_out = {*self.pending, *self.answered}
        self.pending, self.answered = dict(pending), dict(answered)
        self.lost |= given_out - {*pending, *answered}


TestDecisionsInAnyOrder = DecisionsInAnyOrder.TestCase
