"""Offers for a changing audience: one service, four models, one stream of visitors each.

    python examples/ads/shop.py                  24 000 offers each: about a minute
    python examples/ads/shop.py --steps 4000     too short to learn much

Starts `switchmdp serve` and creates four models: EvidencePSRL, SW-UCRL, UCRL2, and a fixed policy
(the best one for the first audience). Sends the same visitors (`audience`) to each over HTTP, with
`switchmdp.client`. Prints a table and draws the click rate over time. README.md explains the
numbers. Needs `switchmdp[serve,client,plot]`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from audience import AUDIENCES, LEADS_TO, NEW, OFFERS, STATES, WITHOUT_CLICK
from numpy.typing import NDArray
from serving import serving

import switchmdp as sm
from switchmdp.client import Client, Decision
from switchmdp.reports import Band, Panel, regret_figure, save_figure

SESSIONS = 8  # visitors on the page at the same time
DELTA = 0.05
ENDINGS = (".svg", ".pdf", ".png")  # of a figure
POINTS = 64  # of each curve
FIXED = "fixed policy"
NAMES = ("EvidencePSRL", "SW-UCRL", "UCRL2", FIXED)


def agent_of(name: str, window: int) -> tuple[str, dict[str, float]]:
    """The agent of a model, and its parameters. EvidencePSRL needs none."""
    if name == "EvidencePSRL":
        return "evidence-psrl", {}
    if name == "SW-UCRL":
        return "sw-ucrl", {"window": window, "delta": DELTA}
    return "ucrl2", {"delta": DELTA}


def create_models(client: Client, window: int) -> None:
    """Create a model for each row of the table."""
    for name in NAMES:
        agent, parameters = agent_of(name, window)
        client.create_model(
            model_of(name), agent=agent, parameters=parameters, states=STATES, actions=OFFERS
        )
    policy = sm.optimal_gain(AUDIENCES[0].mdp()).policy
    client.set_mode(model_of(FIXED), "fixed", [OFFERS[offer] for offer in policy])


def model_of(name: str) -> str:
    """The name of a model, which must not contain spaces."""
    return name.lower().replace(" ", "-")


def visited(
    client: Client, model: str, audiences: NDArray[np.int64], seed: int
) -> NDArray[np.bool_]:
    """Send visitors to a model, several at once. Returns whether each offer was clicked.

    In every round all sessions get an offer before any click is reported, so that several decisions
    are pending at a time. The random numbers depend on the seed only, not on the offers.
    """
    rng = np.random.default_rng(seed)
    clicks = [audience.clicks() for audience in AUDIENCES]
    moves = np.cumsum(WITHOUT_CLICK, axis=1)
    states = [NEW] * SESSIONS
    found = np.zeros(len(audiences), bool)
    for begin in range(0, len(audiences), SESSIONS):
        here = range(begin, min(begin + SESSIONS, len(audiences)))
        sessions = [
            {"session": f"visitor {i}", "state": STATES[states[i]]} for i in range(len(here))
        ]
        reports = []
        for t, shown in zip(here, client.decide_batch(model, sessions), strict=True):
            assert isinstance(shown, Decision), shown
            session, (click, move) = t - begin, rng.random(2)
            state = states[session]
            found[t] = click < clicks[audiences[t]][state, shown.action]
            wandered = min(int(np.searchsorted(moves[state], move, "right")), len(STATES) - 1)
            states[session] = LEADS_TO[shown.action] if found[t] else wandered
            reports.append((shown, float(found[t]), STATES[states[session]]))
        assert all(told is True for told in client.feedback_batch(model, reports))
    return found


def table(found: dict[str, NDArray[np.bool_]], audiences: NDArray[np.int64]) -> str:
    """Click rates in percent, by audience."""
    seen = np.unique(audiences)
    names = [AUDIENCES[i].name for i in seen]
    rows = [f"{'clicks per 100 offers':<24}" + "".join(f"{n:>20}" for n in [*names, "all"])]
    for name, clicks in found.items():
        rates = [100 * clicks[audiences == i].mean() for i in seen]
        cells = [*rates, 100 * clicks.mean()]
        rows.append(f"{name:<24}" + "".join(f"{rate:>20.1f}" for rate in cells))
    best = 100 * best_rates()[audiences]
    cells = [*(best[audiences == i].mean() for i in seen), best.mean()]
    return "\n".join([*rows, f"{'the best policy':<24}" + "".join(f"{x:>20.1f}" for x in cells)])


def best_rates() -> NDArray[np.float64]:
    """The gain of the optimal policy for each audience."""
    return np.array([sm.optimal_gain(audience.mdp()).gain for audience in AUDIENCES])


def figure(found: dict[str, NDArray[np.bool_]], audiences: NDArray[np.int64]) -> Any:
    """The click rate over time, in 64 averages."""
    curves = {}
    for name, values in {**found, "the best policy": best_rates()[audiences]}.items():
        parts = np.array_split(np.arange(len(audiences)), min(POINTS, len(audiences)))
        rates = np.array([values[part].mean() for part in parts])
        times = np.array([part.mean() for part in parts])
        curves[name] = Band(times, rates, rates, rates)
    shifts = (np.flatnonzero(np.diff(audiences)) + 1).tolist()
    title = "An audience that shifts"
    return regret_figure([Panel(title, curves, shifts)], ylabel="clicks per offer")


def told(database: Path, window: int, steps: int) -> str:
    """How the window of SW-UCRL was chosen, and alternatives."""
    diameter = max(sm.diameter(audience.mdp()) for audience in AUDIENCES)
    theory = sm.theory.optimal_window(
        horizon=steps, diameter=diameter, n_states=len(STATES), n_actions=len(OFFERS),
        changes=len(AUDIENCES) - 1, delta=DELTA,
    )  # fmt: skip
    log = list(sm.online.history(database, model_of("UCRL2")))
    scale = [max(1, steps >> halves) for halves in range(6)]
    agents = {w: sm.agents.SWUCRL(len(STATES), len(OFFERS), window=w) for w in scale}
    errors = {w: sm.online.evaluate(log, agents[w], plan=False).reward_error for w in scale}
    return (
        f"SW-UCRL's window {window}: as long as an audience stays. The theory would take {theory} "
        f"of {steps} steps;\nUCRL2's log is predicted best with "
        f"{min(errors, key=lambda w: errors[w])}"
    )


def main(given: Sequence[str] | None = None) -> None:
    """Serve, print the table, save the figure."""
    parser = argparse.ArgumentParser(
        description="Start a service with four models, send the same visitors to each, print "
        "their click rates, and draw them over time.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--steps", type=int, default=24_000, metavar="N",
        help=f"offers shown by each model, at least {len(AUDIENCES)}",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the visitors' random numbers, from 0"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("ads.svg"), metavar="FILE",
        help=f"the figure: a file that ends in {', '.join(ENDINGS)}",
    )  # fmt: skip
    options = parser.parse_args(given)
    if options.steps < len(AUDIENCES):
        parser.error(f"--steps must be at least {len(AUDIENCES)}, got {options.steps}")
    if options.seed < 0:
        parser.error(f"--seed must be at least 0, got {options.seed}")
    # The figure is drawn last, so its place is checked first.
    if options.out.suffix not in ENDINGS:
        parser.error(f"--out must end in {', '.join(ENDINGS)}, got {options.out}")
    if not options.out.parent.is_dir():
        parser.error(f"--out: there is no folder {options.out.parent}")
    audiences = np.arange(options.steps) * len(AUDIENCES) // options.steps
    window = options.steps // len(AUDIENCES)
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "shop.sqlite"
        with serving(database) as address, Client(address) as client:
            create_models(client, window)
            found = {
                name: visited(client, model_of(name), audiences, options.seed) for name in NAMES
            }
        print(f"{options.steps} offers each, {SESSIONS} visitors at a time, seed {options.seed}\n")
        print(table(found, audiences))
        print(f"\n{told(database, window, options.steps)}")
    save_figure(figure(found, audiences), options.out)
    print(f"\nfigure: {options.out}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service stops
    main()
