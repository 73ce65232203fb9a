"""Offers for a changing audience: three services, one stream of visitors each.

    python examples/ads/shop.py                  24 000 offers each: two minutes
    python examples/ads/shop.py --steps 4000     too short to learn much

Starts `switchmdp serve` three times, for SW-UCRL, for UCRL2 and for a fixed policy (the best one
for the first audience), and sends the same visitors (`audience`) to each over HTTP. Prints a
table and draws the click rate over time. README.md explains the numbers. Needs
`switchmdp[serve,plot]`.
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
from client import Client, serving
from numpy.typing import NDArray

import switchmdp as sm
from switchmdp.reports import Band, Panel, regret_figure, save_figure

SESSIONS = 8  # visitors on the page at the same time
DELTA = 0.05
POINTS = 64  # of each curve
FIXED = "fixed policy"


def visited(client: Client, audiences: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Send visitors to a service, several at once. Returns whether each offer was clicked.

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
        shown = [client.decide(f"visitor {t - begin}", states[t - begin]) for t in here]
        for t, (decision, offer) in zip(here, shown, strict=True):
            session, (click, move) = t - begin, rng.random(2)
            state = states[session]
            found[t] = click < clicks[audiences[t]][state, offer]
            wandered = min(int(np.searchsorted(moves[state], move, "right")), len(STATES) - 1)
            states[session] = LEADS_TO[offer] if found[t] else wandered
            client.feedback(decision, float(found[t]), states[session])
    return found


def served(place: Path, name: str, window: int, audiences: Any, seed: int) -> NDArray[np.bool_]:
    """Start a service, send the visitors, stop it."""
    agent = ["--agent", "sw-ucrl", "--window", str(window)]
    options = agent if name == "SW-UCRL" else ["--agent", "ucrl2"]
    sizes = ["--states", str(len(STATES)), "--actions", str(len(OFFERS)), "--delta", str(DELTA)]
    with serving(place / name, [*options, *sizes]) as address:
        client = Client(address)
        try:
            if name == FIXED:
                policy = sm.optimal_gain(AUDIENCES[0].mdp()).policy.tolist()
                client.post("/mode", {"mode": "fixed", "policy": policy})
            return visited(client, audiences, seed)
        finally:
            client.close()


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


def told(place: Path, window: int, steps: int) -> str:
    """How the window was chosen, and alternatives."""
    diameter = max(sm.diameter(audience.mdp()) for audience in AUDIENCES)
    theory = sm.theory.optimal_window(
        horizon=steps, diameter=diameter, n_states=len(STATES), n_actions=len(OFFERS),
        changes=len(AUDIENCES) - 1, delta=DELTA,
    )  # fmt: skip
    log = list(sm.online.history(place / "UCRL2"))
    scale = [max(1, steps >> halves) for halves in range(6)]
    agents = {w: sm.agents.SWUCRL(len(STATES), len(OFFERS), window=w) for w in scale}
    errors = {w: sm.online.evaluate(log, agents[w], plan=False).reward_error for w in scale}
    return (
        f"window {window}: as long as an audience stays. The theory would take {theory} of {steps} "
        f"steps;\nUCRL2's log is predicted best with {min(errors, key=lambda w: errors[w])}"
    )


def main(given: Sequence[str] | None = None) -> None:
    """Serve, print the table, save the figure."""
    parser = argparse.ArgumentParser(description="offers for a changing audience, over HTTP")
    parser.add_argument("--steps", type=int, default=24_000, help="offers shown by each service")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("ads.svg"), help="the figure")
    options = parser.parse_args(given)
    if options.steps < len(AUDIENCES):
        parser.error(f"--steps must be at least {len(AUDIENCES)}")
    audiences = np.arange(options.steps) * len(AUDIENCES) // options.steps
    window = options.steps // len(AUDIENCES)
    names = ["SW-UCRL", "UCRL2", FIXED]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found = {name: served(place, name, window, audiences, options.seed) for name in names}
        print(f"{options.steps} offers each, {SESSIONS} visitors at a time, seed {options.seed}\n")
        print(table(found, audiences))
        print(f"\n{told(place, window, options.steps)}")
    save_figure(figure(found, audiences), options.out)
    print(f"\nfigure: {options.out}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service stops
    main()
