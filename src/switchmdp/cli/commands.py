"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from switchmdp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound=Callable[..., Any])

FOLDER = click.argument("folder", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
TRUST = click.option("--trust", is_flag=True, default=None,
                     help="Import and run the modules that the configuration names "
                          "[only if SWITCHMDP_TRUST=1]. See SECURITY.md.")  # fmt: skip
MOST_PROBLEMS = 1_000_000  # as in `spec`, which is slow to import


def out(text: str, default: str | None = None) -> Callable[[F], F]:
    """The option for the output folder."""
    kind = click.Path(path_type=Path)
    return click.option("--out", type=kind, default=default, metavar="FOLDER", help=text)


def problems_option(text: str) -> Callable[[F], F]:
    """The option for the number of problems."""
    return click.option("--problems", type=click.IntRange(1, MOST_PROBLEMS), metavar="N", help=text)


def running(command: Any) -> Any:
    """The options of every command that runs experiments."""
    for option in reversed((
        click.option("--jobs", type=click.IntRange(1, 1024), metavar="N",
                     help="The number of workers [one per core]."),
        click.option("--executor", type=click.Choice(["auto", "threads", "processes"]),
                     default="auto", metavar="KIND",
                     help="threads, processes, or auto: threads for compiled agents, processes "
                          "for plain Python ones [auto]."),
        click.option("--shard", metavar="I/N",
                     help="Run only the I-th of N parts, as one job of many on a batch system."),
        click.option("--dask", metavar="ADDRESS",
                     help="Run on the Dask cluster with this scheduler; `local` starts one."),
        click.option("--quiet", is_flag=True, help="Print only errors and warnings."),
        JSON,
    )):  # fmt: skip
        command = option(command)
    return command


def serving(command: Any) -> Any:
    """The options of `serve`."""
    path = click.Path(path_type=Path)
    for option in reversed((
        click.option("--data", type=path, metavar="FOLDER",
                     help="The folder of the database `switchmdp.sqlite`; created if it does not "
                          "exist."),
        click.option("--database", type=path, metavar="FILE",
                     help="The file of the database (.sqlite or .db), instead of --data."),
        click.option("--agent", metavar="NAME",
                     help="The agent, such as sw-ucrl (`switchmdp agents` lists them). Agents that "
                          "need the problem or its change points can't be served "
                          "[the agent in the database]."),
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
                          "state,action,reward,next_state, or from another database. Only for a "
                          "new one."),
        click.option("--replan", type=click.Choice(["inline", "background"]), metavar="HOW",
                     help="inline: a decision waits while the agent plans; background: the old "
                          "policy decides while the agent plans [as stored, else inline]."),
        click.option("--expiry", type=float, metavar="SECONDS",
                     help="How long a decision waits for feedback, counted while the service "
                          "runs [as stored, else 3600]."),
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


class _InOrder(click.Group):
    """Lists commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self.commands)


@click.group(
    cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 2 usage or configuration error, 3 some runs failed, 4 damaged "
           "or foreign folder, 5 disk full, 130 and 143 stopped by a signal.",
)  # fmt: skip
@click.version_option(__version__, message="switchmdp %(version)s")
def cli() -> None:
    """Reinforcement learning in finite MDPs whose rewards and transitions change."""


@cli.command()
@out("Folder for the results [results/figure-1].", "results/figure-1")
@problems_option("Problems per setting [1000].")
@click.option("--sensitivity", is_flag=True,
              help="Also vary what the paper does not specify, and scan the window.")  # fmt: skip
@running
def reproduce(out: Path, problems: int | None, sensitivity: bool, **how: Any) -> int:
    """Run the paper's experiment and check its claims.

    Figure 1 (a) and (b) of Gajane, Ortner and Auer (2018), with tables, a verdict on every claim,
    and a report page. The same as `switchmdp run figure-1`.
    """
    from switchmdp.cli.run import run_named

    codes = [run_named("figure-1", out, problems, **how)]
    for name in ("sensitivity", "window-scan") if sensitivity and codes == [0] else ():
        codes.append(run_named(name, Path(f"{out}-{name}"), problems, **how))
    return max(codes)


@cli.command()
@click.argument("config")
@out("Folder for the results [results/ and the name of CONFIG].")
@problems_option("Problems per setting, instead of n_problems in CONFIG.")
@TRUST
@running
def run(config: str, out: Path | None, problems: int | None, trust: bool | None, **how: Any) -> int:
    """Run an experiment and write its report.

    CONFIG is a TOML file, or one that comes with the package: figure-1, sensitivity, window-scan.
    Re-running the command resumes it. An example:

    \b
      title = "Windows"
      horizon = 20_000
      n_problems = 20

    \b
      [problems.random]
      problem = "random-switching"
      parameters = { changes = 2 }

    \b
      [agents.window]
      agent = "sw-ucrl"
      parameters = { window = { sweep = [500, 2000, 8000] } }

    \b
      [agents.mine]
      agent = "my_module:MyAgent"  # a class in my_module.py, next to this file

    Your own modules are imported, and so run, only with --trust.

    Names and parameters: `switchmdp agents`, `switchmdp problems`; all keys: `switchmdp schema`.
    """
    from switchmdp.cli.run import run_named

    folder = out or Path("results") / Path(config).stem
    return run_named(config, folder, problems, trust, **how)


@cli.command()
@FOLDER
@click.option("--retry-failed", is_flag=True, help="Also repeat failed runs.")
@TRUST
@running
def resume(folder: Path, retry_failed: bool, trust: bool | None, **how: Any) -> int:
    """Resume an interrupted experiment.

    Missing and damaged results are computed; everything else stays as it is.
    """
    from switchmdp.cli.run import resume_folder

    return resume_folder(folder, retry_failed, trust, **how)


@cli.command()
@FOLDER
@JSON
def status(folder: Path, as_json: bool) -> int:
    """Show how much of an experiment is done, and what failed."""
    from switchmdp.cli.inspect import show_status

    return show_status(folder, as_json)


@cli.command()
@FOLDER
@out("Folder for the report [FOLDER/report].")
@JSON
def report(folder: Path, out: Path | None, as_json: bool) -> int:
    """Write the figures, tables and page of an experiment.

    If the experiment is not complete, the report covers what is done so far.
    """
    from switchmdp.cli.run import write_and_show

    return write_and_show(folder, out, as_json=as_json)


@cli.command()
@FOLDER
@click.option("--recompute", type=click.IntRange(0), default=0, metavar="N",
              help="Also compute N chunks again and compare every byte.")  # fmt: skip
@TRUST
@JSON
def verify(folder: Path, recompute: int, trust: bool | None, as_json: bool) -> int:
    """Check every stored result against its checksum."""
    from switchmdp.cli.inspect import verify_folder

    return verify_folder(folder, recompute, trust, as_json)


@cli.command()
@FOLDER
@click.option(
    "--format", "formats", type=click.Choice(["csv", "parquet"]), multiple=True,
    help="The file format; may be repeated [both, if Parquet is installed].",
)  # fmt: skip
@out("Folder for the tables [FOLDER/export].")
@JSON
def export(folder: Path, formats: tuple[str, ...], out: Path | None, as_json: bool) -> int:
    """Write all runs as tables in CSV and Parquet."""
    from switchmdp.cli.inspect import export_folder

    return export_folder(folder, formats, out, as_json)


@cli.command()
@out("Folder for the results [results/leaderboard; with --quick, results/leaderboard-quick].")
@click.option("--quick", is_flag=True,
              help="A short version: few rows, agents and problems, and short runs.")  # fmt: skip
@running
def leaderboard(out: Path | None, quick: bool, **how: Any) -> int:
    """Run the suite: every serious agent on every kind of change.

    Each agent's parameter is tuned on separate problems and then fixed. Re-running the command
    resumes it. With --shard, run it again once all shards are done.
    """
    from switchmdp.cli.run import run_leaderboard

    return run_leaderboard(out, quick, **how)


@cli.command()
@serving
def serve(
    window: int | None, delta: float | None, others: tuple[str, ...], no_sync: bool, **how: Any
) -> int:
    """Serve decisions over HTTP, and learn from their outcomes.

    \b
      switchmdp serve --agent sw-ucrl --states 20 --actions 20 \\
                      --window 50000 --data shop
      curl --json '{"state": 3}' localhost:8000/decisions
      curl --json '{"reward": 1, "next_state": 7}' \\
           localhost:8000/decisions/ID/feedback

    Whatever was answered is on disk. After a stop or a crash, run the same command again, or just
    `switchmdp serve --data shop`: it continues where it stopped. / is a live page, and
    /openapi.json describes all routes.
    """
    from switchmdp.cli.serve import parsed, serve_database

    given = {"window": window, "delta": delta}
    parameters = {name: value for name, value in given.items() if value is not None}
    return serve_database(parameters=parsed(others) | parameters, sync=not no_sync, **how)


@cli.command()
def agents() -> None:
    """List the agents and their parameters."""
    from switchmdp.cli.inspect import show_agents

    show_agents()


@cli.command()
def problems() -> None:
    """List the problems and their parameters."""
    from switchmdp.cli.inspect import show_problems

    show_problems()


@cli.command()
def schema() -> None:
    """Print the JSON schema of configuration files, for editors."""
    import json

    from switchmdp.cli.output import say
    from switchmdp.experiments.spec import schema as experiment_schema

    say(json.dumps(experiment_schema(), indent=2))


@cli.command()
def doctor() -> int:
    """Check this installation: versions, extras, compiler, disk."""
    from switchmdp.cli.inspect import check_installation

    return check_installation()


@cli.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--agent", default="sw-ucrl", metavar="NAME",
              help="Which agent to evaluate: any that can be served [sw-ucrl].")  # fmt: skip
@click.option("--window", type=int, multiple=True, metavar="N",
              help="The agent's window; may be repeated to compare several [a scale, where the "
                   "agent needs one].")  # fmt: skip
@click.option("--period", type=int, multiple=True, metavar="N",
              help="Steps between the agent's restarts, likewise.")  # fmt: skip
@click.option("--changes", type=int, multiple=True, metavar="N",
              help="The number of changes that the agent expects; may be repeated.")  # fmt: skip
@click.option("--delta", type=float, metavar="P",
              help="The agent's probability of error [that of the log's agent].")  # fmt: skip
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE",
              help="Another parameter of the agent, such as horizon=10000; may be "
                   "repeated.")  # fmt: skip
@JSON
def replay(
    log: Path, agent: str, delta: float | None, others: tuple[str, ...], as_json: bool, **given: Any
) -> int:
    """Verify the events of a service, and evaluate an agent on them.

    LOG is the database of `serve` or `online.Decisions`, or its folder. First, all events are
    applied from the beginning, to check that they give the same learner, bit for bit. Then the
    agent predicts the stored steps one by one. Two baselines are shown beside it: an agent that
    never forgets, and one that remembers only the last visit to each pair.
    """
    from switchmdp.cli.replay import replay_log
    from switchmdp.cli.serve import parsed

    return replay_log(log, agent, given, delta, parsed(others), as_json)


@cli.command("import")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--database", type=click.Path(path_type=Path), metavar="FILE",
              help="The database to add to [FOLDER/switchmdp.sqlite].")  # fmt: skip
@click.option("--model", default="main", metavar="NAME",
              help="The name of the model in the database [main].")  # fmt: skip
def import_(folder: Path, database: Path | None, model: str) -> int:
    """Convert a folder of decisions of an earlier version.

    All events are replayed, from the folder and from the database. If the learners are not equal
    bit for bit, nothing is imported. FOLDER is not changed.
    """
    from switchmdp.cli.serve import import_old_folder

    return import_old_folder(folder, database, model)


@cli.command()
@click.option("--data", type=click.Path(path_type=Path), metavar="FOLDER",
              help="The folder of the database.")  # fmt: skip
@click.option("--database", type=click.Path(path_type=Path), metavar="FILE",
              help="The file of the database, instead of --data.")  # fmt: skip
@JSON
def check(data: Path | None, database: Path | None, as_json: bool) -> int:
    """Check the database of a service, and report what is damaged.

    Checks the file, that no event is missing or altered, and that every snapshot equals the replay
    of the events. It only reads, so it can run beside the service.
    """
    from switchmdp.cli.serve import check_database, place_of

    return check_database(place_of(data, database), as_json)
