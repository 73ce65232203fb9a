"""Options that several commands share, or of which one has many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound=Callable[..., Any])

FOLDER = click.argument("folder", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Speak JSON, one object a line.")
TRUST = click.option("--trust", is_flag=True, default=None,
                     help="Import and run the modules that the configuration names "
                          "[only if SWITCHMDP_TRUST=1]. See SECURITY.md.")  # fmt: skip
MOST_PROBLEMS = 1_000_000  # as in `spec`, which help must not wait for


def out(text: str, default: str | None = None) -> Callable[[F], F]:
    """Where a command writes."""
    kind = click.Path(path_type=Path)
    return click.option("--out", type=kind, default=default, metavar="FOLDER", help=text)


def problems_option(text: str) -> Callable[[F], F]:
    """How many problems."""
    return click.option("--problems", type=click.IntRange(1, MOST_PROBLEMS), metavar="N", help=text)


def running(command: Any) -> Any:
    """The options of every command that runs experiments."""
    for option in reversed((
        click.option("--jobs", type=click.IntRange(1, 1024), metavar="N",
                     help="Workers [one for each core]."),
        click.option("--executor", type=click.Choice(["auto", "threads", "processes"]),
                     default="auto", metavar="KIND",
                     help="threads, processes, or auto: threads for compiled agents, processes "
                          "for plain Python ones [auto]."),
        click.option("--shard", metavar="I/N",
                     help="Do only the I-th of N parts: one job of many on a batch system."),
        click.option("--dask", metavar="ADDRESS",
                     help="Run on the Dask cluster with this scheduler; `local` starts one."),
        click.option("--quiet", is_flag=True, help="Say only what goes wrong."),
        JSON,
    )):  # fmt: skip
        command = option(command)
    return command


def serving(command: Any) -> Any:
    """The options of `serve`."""
    path = click.Path(path_type=Path)
    for option in reversed((
        click.option("--data", type=path, required=True, metavar="FOLDER",
                     help="The folder that holds the decisions; created if it does not exist."),
        click.option("--agent", metavar="NAME",
                     help="The agent, such as sw-ucrl (`switchmdp agents` lists them). Agents that "
                          "must be told the problem or its change points can't be served "
                          "[the agent in FOLDER]."),
        click.option("--states", type=click.IntRange(1), metavar="N",
                     help="The number of states."),
        click.option("--actions", type=click.IntRange(1), metavar="N",
                     help="The number of actions."),
        click.option("--window", type=click.IntRange(1), metavar="W",
                     help="The number of steps that the agent remembers, if it has a window."),
        click.option("--delta", type=float, metavar="P",
                     help="The agent's probability of error [0.05]."),
        click.option("--set", "others", multiple=True, metavar="NAME=VALUE",
                     help="Another parameter of the agent, such as changes=4; may be repeated."),
        click.option("--warm-start", type=path, metavar="PATH",
                     help="Before serving, learn from a CSV file with the columns "
                          "state,action,reward,next_state, or from another folder of decisions. "
                          "Only for a new FOLDER."),
        click.option("--replan", type=click.Choice(["inline", "background"]), metavar="HOW",
                     help="inline: a decision waits while the agent plans; background: the old "
                          "policy decides while the agent plans [as in FOLDER, else inline]."),
        click.option("--expiry", type=float, metavar="SECONDS",
                     help="How long a decision waits for feedback, counted while the service "
                          "runs [as in FOLDER, else 3600]."),
        click.option("--host", default="127.0.0.1", metavar="ADDRESS",
                     help="The address to listen on; other machines can connect only if there is "
                          "a token [127.0.0.1]."),
        click.option("--port", type=click.IntRange(0, 65535), default=8000, metavar="N",
                     help="The port to listen on; 0 picks a free one [8000]."),
        click.option("--token-file", type=path, metavar="FILE",
                     help="A file with the bearer token that callers must send [the environment "
                          "variable SWITCHMDP_TOKEN]."),
        click.option("--rate", type=click.FloatRange(0, min_open=True), default=5000.0,
                     metavar="N", help="The most requests per second from one client [5000]."),
        click.option("--max-body", type=click.IntRange(1), default=65536, metavar="BYTES",
                     help="The largest request body [65536]."),
        click.option("--no-sync", is_flag=True,
                     help="Answer without waiting for the disk. If the machine crashes, "
                          "acknowledged decisions may be lost; if only the process crashes, none "
                          "are."),
    )):  # fmt: skip
        command = option(command)
    return command
