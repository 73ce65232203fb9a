"""An agent's planning as machine code, for callers from Python.

In a simulation all of an agent is machine code. Called step by step from Python, its verbs are
interpreted, which is fast enough for all but two things: planning, and absorbing a full log. These
two functions do what the methods do, to the bit, at the speed of machine code.
"""

from __future__ import annotations

from typing import Any

from switchmdp.compiled import JIT, call_machine_code, freeze, is_compiled, thaw
from switchmdp.concurrency import exclusive


def absorb(agent: Any) -> None:
    """As `agent.absorb()`."""
    _catch_up(agent, False)


def start_episode(agent: Any) -> None:
    """As `agent.start_episode()`.

    >>> from switchmdp.agents import SWUCRL
    >>> agent = SWUCRL(2, 2, window=100)
    >>> start_episode(agent)
    >>> agent.episode
    1
    """
    _catch_up(agent, True)


def _catch_up(agent: Any, planning: bool) -> None:
    with exclusive(agent):
        if JIT and is_compiled(agent):
            call_machine_code(_run, agent, planning)
        elif planning:
            agent.start_episode()
        else:
            agent.absorb()


def _run(state: Any, planning: bool) -> Any:
    """One function for both, because planning absorbs the log too: it is compiled once."""
    agent = thaw(state)
    if planning:
        agent.start_episode()
    else:
        agent.absorb()
    return freeze(agent), 0
