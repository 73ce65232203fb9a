"""Invalid arguments raise a typed error and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import A, S, bits_of, live

import switchmdp as sm
from switchmdp.errors import (
    InvalidAction,
    InvalidMDP,
    InvalidParameter,
    InvalidReward,
    InvalidState,
    SwitchmdpError,
)
from switchmdp.online import Decisions

Call = Callable[[Any], Any]


class Text(str):
    """A user's subclass of str."""


BAD: dict[str, tuple[Call, type[SwitchmdpError]]] = {
    "state too large": (lambda d: d.decide(S), InvalidState),
    "state negative": (lambda d: d.decide(-1), InvalidState),
    "state a float": (lambda d: d.decide(1.0), InvalidState),
    "state a bool": (lambda d: d.decide(True), InvalidState),
    "state a text": (lambda d: d.decide("1"), InvalidState),
    "state a list": (lambda d: d.decide([1]), InvalidState),
    "state an array": (lambda d: d.decide(np.array([1])), InvalidState),
    "state huge": (lambda d: d.decide(10**5000), InvalidState),
    "no state": (lambda d: d.decide(session="never seen"), InvalidState),
    "session a number": (lambda d: d.decide(0, session=5), InvalidParameter),
    "session nothing": (lambda d: d.decide(0, session=None), InvalidParameter),
    "session a list": (lambda d: d.decide(0, session=[]), InvalidParameter),
    "session too long": (lambda d: d.decide(0, session="x" * 201), InvalidParameter),
    "none available": (lambda d: d.decide(0, available=[]), InvalidParameter),
    "available a number": (lambda d: d.decide(0, available=1), InvalidParameter),
    "available a text": (lambda d: d.decide(0, available="01"), InvalidParameter),
    "available a mask": (lambda d: d.decide(0, available=[True, False, True]), InvalidAction),
    "available out of range": (lambda d: d.decide(0, available=[0, A]), InvalidAction),
    "available not there": (lambda d: d.decide(3, available=[0, 2]), InvalidAction),
    "available floats": (lambda d: d.decide(0, available=np.array([0.0, 1.0])), InvalidAction),
    "available nested": (lambda d: d.decide(0, available=[[0]]), InvalidAction),
    "available a generator": (lambda d: d.decide(0, available=iter([0])), InvalidParameter),
    "taken out of range": (lambda d: d.decide(0, taken=A), InvalidAction),
    "taken not there": (lambda d: d.decide(3, taken=2), InvalidAction),
    "taken a float": (lambda d: d.decide(0, taken=1.0), InvalidAction),
    "taken a list": (lambda d: d.decide(0, taken=[1]), InvalidAction),
    "reward above 1": (lambda d: d.feedback(d._id(1), 1.1, 0), InvalidReward),
    "reward below 0": (lambda d: d.feedback(d._id(1), -0.1, 0), InvalidReward),
    "reward NaN": (lambda d: d.feedback(d._id(1), float("nan"), 0), InvalidReward),
    "reward infinite": (lambda d: d.feedback(d._id(1), float("inf"), 0), InvalidReward),
    "reward a bool": (lambda d: d.feedback(d._id(1), True, 0), InvalidReward),
    "reward a text": (lambda d: d.feedback(d._id(1), "1", 0), InvalidReward),
    "reward nothing": (lambda d: d.feedback(d._id(1), None, 0), InvalidReward),
    "reward a list": (lambda d: d.feedback(d._id(1), [1], 0), InvalidReward),
    "reward complex": (lambda d: d.feedback(d._id(1), np.complex128(1), 0), InvalidReward),
    "reward huge": (lambda d: d.feedback(d._id(1), 10**5000, 0), InvalidReward),
    "next state too large": (lambda d: d.feedback(d._id(1), 1, S), InvalidState),
    "next state a float": (lambda d: d.feedback(d._id(1), 1, 0.0), InvalidState),
    "next state nothing": (lambda d: d.feedback(d._id(1), 1, None), InvalidState),
    "row too short": (lambda d: d.learn_from([(0, 0, 1.0, 1), (0, 0, 1.0)]), InvalidParameter),
    "row too long": (lambda d: d.learn_from([(0, 0, 1.0, 1, 1)]), InvalidParameter),
    "row a number": (lambda d: d.learn_from([5]), InvalidParameter),
    "row a text": (lambda d: d.learn_from(["abcd"]), InvalidParameter),
    "rows a number": (lambda d: d.learn_from(5), InvalidParameter),
    "row of a bad state": (lambda d: d.learn_from([(0, 0, 1.0, 1), (S, 0, 1.0, 1)]), InvalidState),
    "row of a bad action": (lambda d: d.learn_from([(3, 2, 1.0, 1)]), InvalidAction),
    "row of a bad reward": (lambda d: d.learn_from([(0, 0, 2.0, 1)]), InvalidReward),
    "rows of floats": (lambda d: d.learn_from(np.zeros((3, 4))), InvalidState),
    "mode unknown": (lambda d: d.set_mode("off"), InvalidParameter),
    "mode a list": (lambda d: d.set_mode(["agent"]), InvalidParameter),
    "mode nothing": (lambda d: d.set_mode(None), InvalidParameter),
    "no policy": (lambda d: d.set_mode("fixed"), InvalidParameter),
    "policy too short": (lambda d: d.set_mode("fixed", [0] * (S - 1)), InvalidParameter),
    "policy a number": (lambda d: d.set_mode("shadow", 0), InvalidParameter),
    "policy a text": (lambda d: d.set_mode("shadow", "0000"), InvalidParameter),
    "policy out of range": (lambda d: d.set_mode("fixed", [A] * S), InvalidAction),
    "policy not there": (lambda d: d.set_mode("fixed", [2] * S), InvalidAction),
    "policy of floats": (lambda d: d.set_mode("fixed", [0.0] * S), InvalidAction),
    "new state with none": (lambda d: d.add_state([]), InvalidMDP),
    "new state out of range": (lambda d: d.add_state([0, A]), InvalidAction),
    "new state of a number": (lambda d: d.add_state(1), InvalidParameter),
    "new state of a text": (lambda d: d.add_state("01"), InvalidParameter),
    "new state of a mask": (lambda d: d.add_state([True]), InvalidAction),
    "new action out of range": (lambda d: d.add_action([S]), InvalidState),
    "new action of a number": (lambda d: d.add_action(1), InvalidParameter),
    "new action of a dict": (lambda d: d.add_action({0: True}), InvalidParameter),
}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decisions]:
    """One pending decision, steps that are not absorbed yet, and an unavailable pair."""
    available = np.ones((S, A), bool)
    available[3, 2] = False
    agent = sm.agents.SWUCRL(S, A, window=60, available=available)
    with Decisions(agent, tmp_path_factory.mktemp("lived"), sync=False) as decisions:
        decisions.decide(0)
        live(decisions, 41)
        assert decisions.learner.agent.logged > 0
        yield decisions


@pytest.mark.parametrize("what", BAD)
def test_invalid_arguments_are_rejected_and_change_nothing(what: str, lived: Decisions) -> None:
    call, error = BAD[what]
    before, number = bits_of(lived), lived.records
    with pytest.raises(error) as refused:
        call(lived)
    assert type(refused.value) is error
    assert str(refused.value)
    assert bits_of(lived) == before
    assert lived.records == number


def test_numpy_numbers_and_any_collection_are_accepted(lived: Any) -> None:
    collections: list[Any] = [
        [np.int64(1)], (0, 1), {0, 1}, frozenset([1]), range(2), np.arange(2, dtype=np.uint8),
    ]  # fmt: skip
    for available in collections:
        decision = lived.decide(np.int32(1), available=available, session=Text("me"))
        assert decision.action in (0, 1)
        assert lived.feedback(decision.id, np.float32(0.5), np.uint8(1))
    decision = lived.decide(0, taken=np.int64(2))
    assert lived.feedback(decision.id, np.longdouble(1), 1)
    assert lived.learn_from([np.array([0, 0, 1, 1]), (np.int8(0), 0, np.float16(0.5), 1)]) == 2
    lived.set_mode("fixed", [np.int64(0)] * S)
    lived.set_mode("agent", None)
