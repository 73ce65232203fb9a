"""Signals wait for the end of a block, flags are set in time, one thread at a time has an agent."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.concurrency import delayed_signals, exclusive, pulse, whole_steps
from switchmdp.errors import SharedAgent


def test_ctrl_c_in_a_block_is_raised_at_its_end() -> None:
    done = []

    @delayed_signals()
    def block() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("the block")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["the block"]


def test_a_second_ctrl_c_is_raised_at_once_where_that_is_wanted() -> None:
    done = []

    @delayed_signals(until_repeated=True)
    def block() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("first")
        signal.raise_signal(signal.SIGINT)
        done.append("second")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["first"]


def test_an_error_in_a_block_does_not_lose_the_signal() -> None:
    @delayed_signals()
    def block() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError("in the block")

    with pytest.raises(KeyboardInterrupt) as raised:
        block()
    assert isinstance(raised.value.__context__, ValueError)


def test_handlers_that_are_not_python_functions_are_left_alone() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with delayed_signals():
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_blocks_in_other_threads_and_inside_each_other_work() -> None:
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with delayed_signals():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert errors == []
    order = []

    @delayed_signals()
    def outer() -> None:
        with delayed_signals():
            signal.raise_signal(signal.SIGINT)
            order.append("inner")
        order.append("outer")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert order == ["inner", "outer"]


def test_a_loop_of_whole_steps_is_interrupted_between_two_of_them() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def loop() -> None:
        with whole_steps(10**6) as steps:
            for i in steps:
                begun.append(i)
                if i == 3:
                    signal.raise_signal(signal.SIGINT)
                time.sleep(0.001)
                ended.append(i)

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert begun == ended
    assert len(begun) > 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_every_flag_is_pulsed_and_a_forked_process_has_its_own_pulse() -> None:
    with pulse() as one, pulse() as two:
        deadline = time.monotonic() + 10
        while not (one[0] and two[0]) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert one[0]
        assert two[0]
        child = os.fork()
        if child == 0:  # pragma: no cover
            with pulse() as three:
                while not three[0]:
                    time.sleep(0.01)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_a_process_that_is_forked_during_a_simulation_finishes_its_own_copy() -> None:
    """A progress function may start processes, which then leave the simulation as well."""
    parent = os.getpid()
    children: list[int] = []

    def fork_once(done: int, horizon: int) -> None:
        if not children and os.getpid() == parent:
            children.append(os.fork())

    try:
        record = sm.simulate(
            sm.agents.Random(4, 3), sm.problems.random_mdp(4, 3, seed=0), 100, progress=fork_once
        )
    finally:
        if os.getpid() != parent:  # pragma: no cover
            os._exit(sys.exc_info()[0] is not None)
    assert record.horizon == 100
    assert os.waitpid(children[0], 0)[1] == 0


def test_another_thread_is_rejected_while_an_agent_is_in_use() -> None:
    agent = sm.agents.SWUCRL(3, 2, window=50)
    rejected: list[str] = []

    def elsewhere() -> None:
        calls: list[Any] = [
            lambda: agent.act(0),
            lambda: agent.observe(0, 0, 0.5, 1),
            lambda: agent.grow(4, 2),
            lambda: agent.visits,
            lambda: agent.start_over(),
            lambda: agent.save(Path(os.devnull)),
            lambda: copy.copy(agent),
            lambda: copy.deepcopy(agent),
            lambda: pickle.dumps(agent),
            lambda: sm.simulate(agent, sm.problems.random_mdp(3, 2, seed=0), 10, experienced=True),
        ]
        for call in calls:
            try:
                call()
            except SharedAgent as error:
                rejected.append(str(error))

    agent.observe(0, 0, 1.0, 1)
    with exclusive(agent):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        agent.observe(1, 1, 1.0, 2)  # its own thread may enter again
        assert copy.deepcopy(agent).t == 3
    assert len(rejected) == 10
    assert "give each thread its own agent" in rejected[0]
    assert agent.t == 3
    assert agent.n_states == 3
    assert agent.visits.sum() == 2


def test_a_pickle_has_the_state_of_one_moment() -> None:
    """Pickle writes what it was given after the agent is free again."""
    agent = sm.agents.SWUCRL(3, 2, window=50)
    reduced = agent.__reduce_ex__(4)
    agent.observe(0, 0, 1.0, 1)
    assert reduced[2]["clock"] == 1
    assert pickle.loads(pickle.dumps(agent)).t == 2


def test_every_copy_of_an_agent_or_a_detector_is_independent() -> None:
    agent, detector = sm.agents.SWUCRL(3, 2, window=50), sm.DriftDetector(3, 2)
    duplicates: list[Any] = [
        copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)),
    ]  # fmt: skip
    for duplicate in duplicates:
        twin, second = duplicate(agent), duplicate(detector)
        twin.observe(2, 1, 1.0, 2)
        second.update(2, 1, 1.0, 2)
        assert (agent.t, agent.visits.sum(), agent.log_pair[0]) == (1, 0, 0)
        assert (twin.t, twin.visits.sum()) == (2, 1)
        assert (detector.steps, detector._pairs[0], second.steps) == (0, 0, 1)


def test_no_step_is_lost_when_two_threads_simulate_with_one_agent() -> None:
    """One of them runs; the other is rejected, whoever comes first."""
    problem = sm.problems.random_switching(4, 3, changes=1, horizon=1000, seed=0)
    agent = sm.agents.Random(4, 3)
    sm.simulate(sm.agents.Random(4, 3), problem, 10)
    outcomes: list[Any] = []
    together = threading.Barrier(2)

    def run() -> None:
        together.wait()
        try:
            outcomes.append(sm.simulate(agent, problem, 3_000_000).horizon)
        except SharedAgent as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["SharedAgent", "int"]


def test_threads_that_take_turns_may_share_an_agent() -> None:
    """A caller with a lock of its own is not rejected, and every step counts."""
    agent = sm.agents.UCRL2(3, 2)
    lock = threading.Lock()
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def live(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(200):
            state, target = (int(s) for s in rng.integers(0, 3, 2))
            with lock:
                agent.observe(state, agent.act(state), float(rng.random()), target)

    threads = [threading.Thread(target=live, args=(seed,)) for seed in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert agent.t == 801
    assert agent.visits.sum() == 800
