"""Signals and threads: what other code may do while an agent is at work.

**Signals.** Python runs signal handlers in the main thread, between any two bytecodes. One that
raises there (Ctrl-C does) could separate a call into machine code from the lines that store its
result, and leave an agent half updated. `delayed_signals` makes handlers wait until a block ends.

**Pulse.** Machine code can't see a signal. `pulse` sets a flag in memory every `INTERVAL` seconds
from a separate thread; machine code polls the flag, returns when it is set, and so gives Python a
chance to run the handlers that are waiting.

**Threads.** An agent belongs to one thread at a time. `exclusive` raises `SharedAgent` when a
second thread enters while the first is still inside. To copy or to pickle an agent is to use it
(`OneThreadAtATime`).
"""

from __future__ import annotations

import copy
import itertools
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import SharedAgent

INTERVAL = 0.05  # seconds between two pulses
INTERVALS_OF_THREADS = 10  # between two pulses in threads other than the main thread

# The signals for which programs install handlers. Where one is missing (Windows), it is skipped.
_NAMES = ("SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))


@contextmanager
def delayed_signals(*, until_repeated: bool = False) -> Iterator[None]:
    """Delay the handlers of signals that arrive in the block until it ends.

    Only handlers written in Python are delayed, and only in the main thread: no other thread runs
    any. With `until_repeated` the second signal of a kind is handled at once, for blocks that may
    never end by themselves.

    Parameters
    ----------
    until_repeated
        Handle the second signal of a kind at once.

    Examples
    --------
    >>> heard = []
    >>> before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    >>> with delayed_signals():
    ...     signal.raise_signal(signal.SIGTERM)
    ...     len(heard)
    0
    >>> len(heard)
    1
    >>> _ = signal.signal(signal.SIGTERM, before)
    """
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {n: h for n in _SIGNALS if callable(h := signal.getsignal(n))}
    arrived: list[int] = []

    def remember(number: int, frame: Any) -> None:
        if until_repeated and number in arrived:
            arrived.clear()
            handlers[signal.Signals(number)](number, frame)
        else:
            arrived.append(number)

    try:
        for number in handlers:
            signal.signal(number, remember)
        yield
    finally:
        # SIGINT comes last: once its handler is back, it may raise at any moment.
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for arrival in dict.fromkeys(arrived):
            signal.raise_signal(arrival)


Flag = NDArray[np.bool_]

_flags: dict[int, tuple[Flag, int]] = {}  # each with the number of intervals between its pulses
_wanted = threading.Event()
_thread: threading.Thread | None = None


@contextmanager
def pulse() -> Iterator[Flag]:
    """A flag that is set every `INTERVAL` seconds during the block.

    Signals are handled in the main thread. In other threads the flag only lets callers report
    progress, so there it is set every `INTERVALS_OF_THREADS` intervals: a thread that leaves
    machine code waits for Python's lock, and many threads would spend most of their time so.

    Yields
    ------
    Flag
        The flag, an array of one element.

    Examples
    --------
    >>> with pulse() as flag:
    ...     while not flag[0]:
    ...         time.sleep(0.01)
    """
    global _thread
    flag = np.zeros(1, np.bool_)
    in_main = threading.current_thread() is threading.main_thread()
    _flags[id(flag)] = flag, 1 if in_main else INTERVALS_OF_THREADS
    _wanted.set()
    if _thread is None or not _thread.is_alive():  # after a fork, the thread is gone
        _thread = threading.Thread(target=_beat, name="switchmdp pulse", daemon=True)
        _thread.start()
    try:
        yield flag
    finally:
        _flags.pop(id(flag), None)  # a process that was forked in the block has forgotten it


@contextmanager
def whole_steps(n: int) -> Iterator[Iterator[int]]:
    """An iterator over 0, ..., n - 1 for a loop that signals may interrupt only between two steps.

    A signal that comes twice is handled at once, in case a step never ends.

    Parameters
    ----------
    n
        The number of steps.

    Yields
    ------
    Iterator[int]
        The steps.

    Examples
    --------
    >>> with whole_steps(3) as steps:
    ...     list(steps)
    [0, 1, 2]
    """

    def steps() -> Generator[int]:
        i = 0
        with pulse() as due:
            while i < n:
                due[0] = False
                with delayed_signals(until_repeated=True):
                    while i < n and not due[0]:
                        yield i
                        i += 1

    with closing(steps()) as iterator:
        yield iterator


def set_flags() -> None:
    """Set the flags of all threads now, so that those that are to stop notice it at once.

    Examples
    --------
    >>> with pulse() as flag:
    ...     set_flags()
    ...     bool(flag[0])
    True
    """
    for flag, _ in list(_flags.values()):
        flag[0] = True


def _beat() -> None:
    for beat in itertools.count():
        time.sleep(INTERVAL)
        for flag, intervals in list(_flags.values()):
            if beat % intervals == 0:
                flag[0] = True
        _wanted.clear()
        if not _flags:  # a flag that comes after this line sets the event
            _wanted.wait()


def _forget_the_parent() -> None:
    """A forked process has no pulse thread, and no use for its parent's flags."""
    global _wanted, _thread
    _flags.clear()
    _users.clear()
    _wanted, _thread = threading.Event(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_parent)


_users: dict[int, tuple[int]] = {}  # the id of each agent at work -> the thread it works for


class exclusive:  # noqa: N801  # read as a verb: with exclusive(agent)
    """Keep other threads out of an agent. Its own thread may enter again.

    Parameters
    ----------
    agent
        The agent.

    Raises
    ------
    SharedAgent
        Another thread is using the agent right now.

    Examples
    --------
    >>> import switchmdp as sm
    >>> agent = sm.agents.Random(2, 2)
    >>> with exclusive(agent):
    ...     agent.act(0) in (0, 1)
    True
    """

    __slots__ = ("_agent", "_entry", "_holder")

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def __enter__(self) -> None:
        self._entry = entry = (threading.get_ident(),)
        # One step, which no thread can come between.
        self._holder = holder = _users.setdefault(id(self._agent), entry)
        if holder[0] != entry[0]:
            raise SharedAgent(
                "another thread is using this agent: give each thread its own agent "
                "(copy.deepcopy makes one), or hold a lock around its calls"
            )

    def __exit__(self, *error: object) -> None:
        if self._holder is self._entry:
            _users.pop(id(self._agent), None)


class OneThreadAtATime:
    """Base class of objects that one thread at a time may use, which includes copying and pickling.

    Every copy is independent of the original, also that of `copy.copy`.

    Examples
    --------
    >>> import switchmdp as sm
    >>> agent = sm.agents.SWUCRL(2, 2, window=100)
    >>> twin = copy.copy(agent)
    >>> twin.observe(0, 0, 1.0, 1)
    >>> twin.t, agent.t
    (2, 1)
    """

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        with exclusive(self):
            twin = memo[id(self)] = object.__new__(type(self))
            vars(twin).update(copy.deepcopy(vars(self), memo))
            return twin

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # Pickle writes the state after this call, so it gets a state that no thread changes.
        return object.__reduce_ex__(copy.deepcopy(self), protocol)
