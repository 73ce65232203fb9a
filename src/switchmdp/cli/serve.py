"""serve: an agent behind HTTP, from its options to its last answer."""

from __future__ import annotations

import csv
import inspect
import json
import os
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from switchmdp.agents import AGENTS
from switchmdp.agents.protocol import check_observe
from switchmdp.cli import INTERRUPTED, TERMINATED
from switchmdp.cli.output import say, tell
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.experiments.spec import parameters_of
from switchmdp.online import Decisions, Signal, history
from switchmdp.online.folder import NAME
from switchmdp.online.offered import offered, unknowable

GIVEN = ("n_states", "n_actions", "available")  # by options of their own, or by the folder
COLUMNS = ["state", "action", "reward", "next_state"]
Row = tuple[int, int, float, int]


def serve_folder(
    data: Path, *, agent: str | None, states: int | None, actions: int | None,
    parameters: dict[str, Any], host: str, port: int, token_file: Path | None,
    warm_start: Path | None, rate: float, max_body: int, sync: bool, **settings: Any,
) -> int:  # fmt: skip
    """Serve the decisions of a folder until a signal comes."""
    from switchmdp.online.server import address_of, compile_agent, listen, serve
    from switchmdp.online.service import application

    token = _token(token_file)
    made = None if agent is None else _made(agent, states, actions, parameters)
    new = not (data / NAME).exists()
    if new and made is None:
        allowed = f"given, with --states and --actions: {data} holds no agent yet"
        raise InvalidParameter("--agent", None, allowed)
    if made is None and (states, actions, parameters) != (None, None, {}):
        allowed = "given together with --states, --actions and parameters of the agent"
        raise InvalidParameter("--agent", None, allowed)
    rows = [] if warm_start is None else list(_warm(warm_start, made, new))
    bound = listen(host, port, token)
    with bound, Decisions(made, data, sync=sync, on_alert=_alert, **settings) as decisions:
        if rows:
            tell(f"learned from {decisions.learn_from(rows)} steps of {warm_start}")
        tell("compiling the agent ...")
        compile_agent(decisions)
        app = application(decisions, token=token, rate=rate, max_body=max_body)
        asked = serve(app, bound, ready=lambda: say(f"listening on {address_of(bound)}"))
    tell(f"stopped; everything acknowledged is in {data}")
    return TERMINATED if asked == signal.SIGTERM else INTERRUPTED


def _token(file: Path | None) -> str | None:
    """The token in a file or in SWITCHMDP_TOKEN; other users could see it on a command line."""
    if file is not None:
        if os.name == "posix" and file.stat().st_mode & 0o044:
            tell(f"warning: other users can read {file}; to prevent that: chmod 600 {file}")
        return file.read_text("utf-8", errors="replace").strip()
    return os.environ.get("SWITCHMDP_TOKEN", "").strip() or None


def _made(name: str, states: int | None, actions: int | None, parameters: dict[str, Any]) -> Any:
    takes = parameters_of_agent(name)
    for option, value in (("--states", states), ("--actions", actions)):
        if value is None:
            raise InvalidParameter(option, None, "given with --agent")
    must_fit(name, parameters, takes)
    kind: Any = AGENTS[name]
    return kind(states, actions, **parameters)


def parameters_of_agent(name: str) -> dict[str, inspect.Parameter]:
    """What an agent can be given by its user, if it is one that can be served."""
    if name not in offered():
        allowed = f"one of {', '.join(offered())}"
        if name in AGENTS:
            needs = unknowable(AGENTS[name])
            allowed += f" ({name} must be told {needs}, so it can only be simulated)"
        raise InvalidParameter("--agent", name, allowed)
    kind: Any = AGENTS[name]
    takes = parameters_of(kind)
    return {p: found for p, found in takes.items() if p not in GIVEN}


def must_fit(
    name: str, parameters: Collection[str], takes: Mapping[str, inspect.Parameter]
) -> None:
    """Exactly the parameters that the agent takes, and all that it needs."""
    for given in parameters:
        if given not in takes:
            raise InvalidParameter(f"a parameter of {name}", given, f"one of {', '.join(takes)}")
    for needed, found in takes.items():
        if found.default is found.empty and needed not in parameters:
            raise InvalidParameter(needed, None, f"given for {name} (--set {needed}=VALUE)")


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """NAME=VALUE, where the value is JSON or else a text.

    >>> parsed(("changes=4", "delta=0.1"))
    {'changes': 4, 'delta': 0.1}
    """
    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidParameter("--set", text, "NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def _warm(source: Path, agent: Any, new: bool) -> Iterator[Row]:
    """Steps from elsewhere, all checked before anything is made of them."""
    if not new or agent is None:
        raise InvalidParameter("--warm-start", str(source), "left out: the folder is not new")
    rows = history(source) if source.is_dir() else _table(source)
    for number, row in enumerate(rows, 1):
        try:
            yield check_observe(agent, *row)
        except InvalidParameter as error:
            field = f"{source}, step {number}: {error.field}"
            raise type(error)(field, error.value, error.allowed) from None


def _table(source: Path) -> Iterator[tuple[Any, ...]]:
    with open(source, newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        if next(lines, None) != COLUMNS:
            raise DamagedFile(f"{source} must begin with the line {','.join(COLUMNS)}")
        for line in lines:
            try:
                state, action, reward, next_state = line
                yield int(state), int(action), float(reward), int(next_state)
            except ValueError:
                raise DamagedFile(f"{source}, line {lines.line_num}: no step: {line}") from None


def _alert(found: Signal) -> None:
    to = found.next_state
    what = "the mean reward" if to is None else f"the share of moves to state {to}"
    tell(
        f"alert: in state {found.state} with action {found.action}, {what} was {found.before:.3f} "
        f"and is {found.now:.3f} (signal {found.strength:.2f} at step {found.step})"
    )
