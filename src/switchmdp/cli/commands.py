"""The commands, each a few lines; the work is done by the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from switchmdp.cli.options import FOLDER, JSON, TRUST, out, problems_option, running, serving
from switchmdp.version import __version__


class _InOrder(click.Group):
    """Commands in the order in which one needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return list(self.commands)


@click.group(
    cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 2 usage or configuration, 3 some runs failed, 4 a damaged or "
           "foreign folder, 5 the disk is full, 130 and 143 stopped by a signal.",
)  # fmt: skip
@click.version_option(__version__, message="switchmdp %(version)s")
def cli() -> None:
    """Reinforcement learning in finite MDPs whose rewards and transitions change."""


@cli.command()
@out("Folder for the results [results/figure-1].", "results/figure-1")
@problems_option("Problems per setting [1000].")
@click.option("--sensitivity", is_flag=True,
              help="Also vary what the paper leaves open, and scan the window.")  # fmt: skip
@running
def reproduce(out: Path, problems: int | None, sensitivity: bool, **how: Any) -> int:
    """Run the paper's experiment and judge its claims.

    Figure 1 (a) and (b) of Gajane, Ortner and Auer (2018), with tables, a verdict on every claim,
    and one page to show. The same as `switchmdp run figure-1`.
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
    """Run an experiment, and report on it.

    CONFIG is a TOML file, or one that is shipped: figure-1, sensitivity, window-scan. Runs that are
    there already are not run again. A file to begin with:

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
      agent = "my_module:MyAgent"  # a class in my_module.py, beside this file

    Modules of your own are imported, and so run, only with --trust.

    Names and parameters: `switchmdp agents`, `switchmdp problems`; all keys: `switchmdp schema`.
    """
    from switchmdp.cli.run import run_named

    folder = out or Path("results") / Path(config).stem
    return run_named(config, folder, problems, trust, **how)


@cli.command()
@FOLDER
@click.option("--retry-failed", is_flag=True, help="Run failed runs again, too.")
@TRUST
@running
def resume(folder: Path, retry_failed: bool, trust: bool | None, **how: Any) -> int:
    """Go on with an experiment that was interrupted.

    What is missing or damaged is run; all else stays as it is.
    """
    from switchmdp.cli.run import resume_folder

    return resume_folder(folder, retry_failed, trust, **how)


@cli.command()
@FOLDER
@JSON
def status(folder: Path, as_json: bool) -> int:
    """Show how far an experiment has come, and what failed."""
    from switchmdp.cli.inspect import show_status

    return show_status(folder, as_json)


@cli.command()
@FOLDER
@out("Folder for the report [FOLDER/report].")
@JSON
def report(folder: Path, out: Path | None, as_json: bool) -> int:
    """Write figures, tables and the page of an experiment.

    Of one that is not complete, too: of what is done so far.
    """
    from switchmdp.cli.run import write_and_show

    return write_and_show(folder, out, as_json=as_json)


@cli.command()
@FOLDER
@click.option("--recompute", type=click.IntRange(0), default=0, metavar="N",
              help="Also run N chunks again, and compare every byte.")  # fmt: skip
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
    help="Which files; may be given twice [both, if Parquet can be written].",
)  # fmt: skip
@out("Folder for the tables [FOLDER/export].")
@JSON
def export(folder: Path, formats: tuple[str, ...], out: Path | None, as_json: bool) -> int:
    """Write all runs as tidy tables, in CSV and Parquet."""
    from switchmdp.cli.inspect import export_folder

    return export_folder(folder, formats, out, as_json)


@cli.command()
@out("Folder for the results [results/leaderboard; with --quick, results/leaderboard-quick].")
@click.option("--quick", is_flag=True,
              help="Few rows, agents and problems, and short runs: a foretaste.")  # fmt: skip
@running
def leaderboard(out: Path | None, quick: bool, **how: Any) -> int:
    """Run the suite: every serious agent on every kind of change.

    What is to be chosen for an agent is chosen on problems of its own, and then frozen. Given
    again, it goes on where it was. With --shard, give it again once all have done their part.
    """
    from switchmdp.cli.leaderboard import play

    return play(out, quick, **how)


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
    from switchmdp.cli.serve import parsed, serve_folder

    given = {"window": window, "delta": delta}
    parameters = {name: value for name, value in given.items() if value is not None}
    return serve_folder(parameters=parsed(others) | parameters, sync=not no_sync, **how)


@cli.command()
def agents() -> None:
    """List the agents, and what they take."""
    from switchmdp.cli.catalogue import show_agents

    show_agents()


@cli.command()
def problems() -> None:
    """List the problems, and what they take."""
    from switchmdp.cli.catalogue import show_problems

    show_problems()


@cli.command()
def schema() -> None:
    """Print the JSON schema of configuration files, for editors."""
    import json

    from switchmdp.cli.say import say
    from switchmdp.experiments.spec import schema as found

    say(json.dumps(found(), indent=2))


@cli.command()
def doctor() -> int:
    """Check this installation: versions, extras, compiler, disk."""
    from switchmdp.cli.doctor import examine

    return examine()


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
    """Verify a log of decisions, and evaluate an agent on it.

    LOG is the folder of `serve` or `online.Decisions`. First, the log is applied from its
    beginning, to check that it gives the same learner, bit for bit. Then the agent predicts the
    logged steps one by one. Two baselines are shown beside it: an agent that never forgets, and one
    that remembers only the last visit to each pair.
    """
    from switchmdp.cli.replay import replay_log
    from switchmdp.cli.serve import parsed

    return replay_log(log, agent, given, delta, parsed(others), as_json)
