"""Ctrl-C stops a simulation soon, leaves the agent consistent, and loses no step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulation.interruptions import PROBLEM, Interrupter, must_be_equal

import switchmdp as sm
from switchmdp.errors import Interrupted

ROOT = Path(__file__).parents[2]


def delays_of_campaign(signals: int, seed: int) -> list[float]:
    program = [sys.executable, "-m", "tests.simulation.interruptions", str(signals), str(seed)]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:])
    delays: list[float] = json.loads(ended.stdout)
    assert len(delays) == signals
    return delays


@pytest.mark.long
def test_thirty_interruptions_of_all_agents_crash_nothing_and_resume_to_the_same_bytes() -> None:
    delays = delays_of_campaign(30, 1)
    assert np.median(delays) < 0.2
    assert max(delays) < 2.0  # other tests run at the same time


@pytest.mark.soak
def test_three_hundred_interruptions_crash_nothing_and_resume_to_the_same_bytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    delays = delays_of_campaign(300, 2)
    with capsys.disabled():
        print(f"\n300 interruptions: median {np.median(delays):.3f} s, most {max(delays):.3f} s")
    assert np.quantile(delays, 0.99) < 0.2


class Slow:
    """A plain Python agent that takes a while and counts its steps; Ctrl-C comes in one of them."""

    n_states, n_actions = 4, 3

    def __init__(self, interrupted_at: int = 0) -> None:
        self.acted = self.observed = 0
        self.interrupted_at = interrupted_at

    def act(self, state: int) -> int:
        self.acted += 1
        if self.acted == self.interrupted_at:
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.001)
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        time.sleep(0.001)
        self.observed += 1


def test_a_plain_python_agent_is_interrupted_between_two_steps() -> None:
    agent = Slow(interrupted_at=33)
    with pytest.raises(Interrupted, match="interrupted after") as stopped:
        sm.simulate(agent, PROBLEM, 10**6, seed=7, every=10, episodes=True)
    record = stopped.value.record
    assert agent.acted == agent.observed == record.horizon >= 33
    horizon = record.horizon + 5
    continued = sm.simulate(agent, PROBLEM, horizon, resume=record, episodes=True)
    whole = sm.simulate(Slow(), PROBLEM, horizon, seed=7, every=10, episodes=True)
    must_be_equal(continued, whole)


class Hangs(Slow):
    def act(self, state: int) -> int:
        signal.raise_signal(signal.SIGINT)
        self.acted += 1
        signal.raise_signal(signal.SIGINT)
        while True:
            time.sleep(0.001)


def test_a_second_ctrl_c_interrupts_an_agent_that_hangs() -> None:
    agent = Hangs()
    with pytest.raises(KeyboardInterrupt) as stopped:
        sm.simulate(agent, PROBLEM, 100)
    assert agent.acted == 1  # it went on after the first
    assert not isinstance(stopped.value, Interrupted)  # no record could be trusted


def test_a_trajectory_is_cut_where_the_run_was_interrupted() -> None:
    problem = sm.problems.random_switching(4, 3, changes=2, horizon=1000, seed=3)

    def interrupt(done: int, horizon: int) -> None:
        raise KeyboardInterrupt

    agent = sm.agents.Random(4, 3)
    options: dict[str, Any] = {"every": 7, "trajectory": True}
    with pytest.raises(Interrupted) as stopped:
        sm.simulate(agent, problem, 10**7, seed=1, progress=interrupt, **options)
    record = stopped.value.record
    assert 0 < record.horizon < 10**7
    assert len(record.trajectory) == record.horizon
    assert record.times[-1] == record.horizon
    whole = sm.simulate(sm.agents.Random(4, 3), problem, record.horizon, seed=1, **options)
    assert whole.regret.tobytes() == record.regret.tobytes()
    assert whole.trajectory is not None
    assert whole.trajectory.actions.tobytes() == record.trajectory.actions.tobytes()


def test_other_raising_handlers_are_delayed_too() -> None:
    """Time limits are often made of SIGALRM and a handler that raises."""

    def expire(number: int, frame: Any) -> None:
        raise TimeoutError

    agent = sm.agents.Random(4, 3)
    before = signal.signal(signal.SIGALRM, expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeoutError):
            sm.simulate(agent, PROBLEM, 10**9)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert agent.act(0) in (0, 1, 2)


def test_handlers_are_restored_whatever_happens() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    sm.simulate(sm.agents.Random(4, 3), PROBLEM, 100)
    Interrupter(0.1).start()
    with pytest.raises(Interrupted):
        sm.simulate(sm.agents.Random(4, 3), PROBLEM, 10**9)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_compare_is_interrupted_at_once_and_its_threads_end() -> None:
    makers = {"chance": lambda problem: sm.agents.Random(4, 3)}
    sm.compare([PROBLEM] * 2, makers, horizon=10)  # a thread that compiles ends later
    threads = threading.active_count()
    interrupter = Interrupter(0.4)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        sm.compare([PROBLEM] * 4, makers, horizon=10**9)
    assert time.perf_counter() - interrupter.sent < 0.5  # 0.06 on an idle machine
    deadline = time.monotonic() + 10
    while threading.active_count() > threads + 1 and time.monotonic() < deadline:  # the pulse
        time.sleep(0.05)
    assert threading.active_count() <= threads + 1
    assert "chance" in str(sm.compare([PROBLEM] * 2, makers, horizon=1000))


def test_the_copy_of_a_batch_that_was_interrupted_continues() -> None:
    """Ctrl-C comes from the progress function, between two calls into machine code."""
    agent, horizon = sm.agents.Random(4, 3), 20_000_000

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"simulate.error.agent, problem, horizon") as stopped:
        sm.simulate_batch(agent, PROBLEM, horizon, [5, 6], every=horizon, progress=stop)
    error = stopped.value
    assert agent.t == 1
    assert 0 < error.record.horizon == error.agent.t - 1 < horizon
    end = error.record.horizon + 1000
    continued = sm.simulate(error.agent, PROBLEM, end, resume=error.record)
    seed = error.record.seed
    whole = sm.simulate(sm.agents.Random(4, 3), PROBLEM, end, seed, every=horizon)
    assert continued == whole


def test_an_interruption_after_the_last_step_says_that_the_record_is_complete() -> None:
    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    agent = Slow()
    with pytest.raises(
        Interrupted, match=r"after all 20 steps; error.record is complete"
    ) as stopped:
        sm.simulate(agent, PROBLEM, 20, progress=stop)
    assert stopped.value.record.horizon == 20
    assert stopped.value.agent is agent
