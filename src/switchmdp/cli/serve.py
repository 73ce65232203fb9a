"""serve: run the decision service."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from switchmdp.agents.protocol import check_observe
from switchmdp.cli import DAMAGED, FINE, INTERRUPTED, TERMINATED
from switchmdp.cli.output import say, say_json, tell
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.online import Decisions, Signal, check, history, import_folder
from switchmdp.online.database import SUFFIXES, database_in, is_new
from switchmdp.online.evaluation import create, parameters_of

COLUMNS = ["state", "action", "reward", "next_state"]
Row = tuple[int, int, float, int]


def serve_database(
    data: Path | None, database: Path | None, *, agent: str | None, states: int | None,
    actions: int | None, parameters: dict[str, Any], host: str, port: int, token_file: Path | None,
    warm_start: Path | None, rate: float, max_body: int, sync: bool, **settings: Any,
) -> int:  # fmt: skip
    """Serve the decisions of a database, or of a folder with one, until a signal arrives."""
    from switchmdp.online.server import address_of, compile_agent, listen, serve
    from switchmdp.online.service import application

    place = place_of(data, database)
    token = _token(token_file)
    made = None if agent is None else _new_agent(agent, states, actions, parameters)
    new = is_new(place)
    if new and made is None:
        allowed = f"set, with --states and --actions: {place} contains no agent yet"
        raise InvalidParameter("--agent", None, allowed)
    if made is None and (states, actions, parameters) != (None, None, {}):
        allowed = "set together with --states, --actions and parameters of the agent"
        raise InvalidParameter("--agent", None, allowed)
    rows = [] if warm_start is None else list(_warm(warm_start, made, new))
    bound = listen(host, port, token)
    with bound, Decisions(made, place, sync=sync, on_alert=_alert, **settings) as decisions:
        if rows:
            tell(f"learned from {decisions.learn_from(rows)} steps of {warm_start}")
        tell("compiling the agent ...")
        compile_agent(decisions)
        app = application(decisions, token=token, rate=rate, max_body=max_body)
        asked = serve(app, bound, ready=lambda: say(f"listening on {address_of(bound)}"))
    tell(f"stopped; all acknowledged events are in {place}")
    return TERMINATED if asked == signal.SIGTERM else INTERRUPTED


def place_of(data: Path | None, database: Path | None) -> Path:
    """The database that the options --data and --database give; exactly one must be set."""
    if data is not None and database is not None:
        raise InvalidParameter("--database", str(database), "omitted if --data is set")
    place = data or database
    if place is None:
        raise InvalidParameter("--database", None, "set (or --data, a folder)")
    return place


def check_database(database: Path, as_json: bool) -> int:
    """Check a database, and print what is damaged."""
    report = check(database)
    damaged = any(report.values())
    code = DAMAGED if damaged else FINE
    if as_json:
        say_json("checked", damage=report, exit=code)
        return code
    for part, problems in report.items():
        say(f"{part}: {'damaged' if problems else 'ok'}")
        for problem in problems:
            say(f"  {problem}")
    return code


def import_old_folder(folder: Path, database: Path | None, model: str) -> int:
    """Convert a folder of an earlier version."""
    target = database_in(database or folder)
    verified = import_folder(folder, target, model=model)
    say(f"imported {verified.records} events as the model {model!r} of {target}:")
    say("  same learner, bit for bit, as in the folder")
    if verified.differing:
        say(f"  {verified.differing} replayed actions differ from the log; the log was used")
    say(f"{folder} is unchanged; its old files are no longer needed")
    return FINE


def _token(file: Path | None) -> str | None:
    """The token from a file or from SWITCHMDP_TOKEN. Other users can see command lines."""
    if file is not None:
        if os.name == "posix" and file.stat().st_mode & 0o044:
            tell(f"warning: other users can read {file}; to prevent this, run: chmod 600 {file}")
        return file.read_text("utf-8", errors="replace").strip()
    return os.environ.get("SWITCHMDP_TOKEN", "").strip() or None


def _new_agent(
    name: str, states: int | None, actions: int | None, parameters: dict[str, Any]
) -> Any:
    parameters_of(name)  # an unknown agent is reported first
    for option, value in (("--states", states), ("--actions", actions)):
        if value is None:
            raise InvalidParameter(option, None, "set together with --agent")
    assert states is not None
    assert actions is not None
    return create(name, states, actions, parameters)


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE, where the value is JSON or a string.

    >>> parsed(("changes=4", "delta=0.1"))
    {'changes': 4, 'delta': 0.1}
    """
    values = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidParameter("--set", text, "NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except (ValueError, RecursionError):
            values[name] = value
    return values


def _warm(source: Path, agent: Any, new: bool) -> Iterator[Row]:
    """Read and check the steps of a warm start."""
    if not new or agent is None:
        raise InvalidParameter("--warm-start", str(source), "omitted: the database is not new")
    is_database = source.is_dir() or source.suffix in SUFFIXES
    rows = history(source) if is_database else _table(source)
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
            raise DamagedFile(f"the first line of {source} must be {','.join(COLUMNS)}")
        for line in lines:
            try:
                state, action, reward, next_state = line
                yield int(state), int(action), float(reward), int(next_state)
            except ValueError:
                raise DamagedFile(f"{source}, line {lines.line_num}: not a step: {line}") from None


def _alert(change: Signal) -> None:
    to = change.next_state
    what = "the mean reward" if to is None else f"the share of moves to state {to}"
    tell(
        f"alert: in state {change.state} with action {change.action}, {what} changed from "
        f"{change.before:.3f} to {change.now:.3f} (signal {change.strength:.2f} at step "
        f"{change.step})"
    )
