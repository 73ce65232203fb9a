"""How much traffic EvidencePSRL needs: decisions until it is within 10 % of the best policy.

    python examples/ads/traffic.py                                   the table in docs/operations.md
    python examples/ads/traffic.py --problems 5 --decisions 50000    a quick look

Shops like the one in `audience`, drawn at random, with S states, A offers and a click rate c. Each
state has a favourite offer, a second one, and the rest, clicked on with probability c, c/2 and c/6,
times a factor of the state between 1/2 and 3/2. A click on an offer leads to the state of that
offer. Visitors who do not click move at random, in a way that depends on their state. Nothing
changes over time: after a change, count again.

Checkpoints are 250 · 2^(k/2) decisions. Between two checkpoints, compare the expected clicks of the
offers that were shown, per decision, with the gain of the best policy. The answer for a shop is the
first checkpoint that ends a stretch within 10 %, such that all later stretches are within 10 %,
too. The table shows the median over the shops, and in brackets the 10 % and 90 % quantiles.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import switchmdp as sm

STATES, OFFERS, RATES = (5, 20), (3, 10), (0.5, 0.05, 0.005)
SECOND, OTHER = 1 / 2, 1 / 6  # of the favourite's click rate
FACTORS = (0.5, 1.5)  # by which the click rates of states differ
WITHIN = 0.9
FIRST = 250  # the first checkpoint


def shop(n_states: int, n_offers: int, rate: float, seed: int) -> sm.MDP:
    """A shop at random, as described above."""
    rng = np.random.default_rng([n_states, n_offers, seed])
    clicks = np.full((n_states, n_offers), OTHER)
    for row in clicks:
        favourite, second = rng.choice(n_offers, 2, replace=False)
        row[favourite], row[second] = 1, SECOND
    clicks *= rate * rng.uniform(*FACTORS, (n_states, 1))
    leads_to = np.eye(n_states)[rng.integers(n_states, size=n_offers)]
    wanders = rng.dirichlet(np.ones(n_states), n_states)
    moves = clicks[:, :, None] * leads_to + (1 - clicks)[:, :, None] * wanders[:, None, :]
    return sm.MDP(moves, clicks)


def checkpoints(most: int) -> NDArray[np.int64]:
    """The numbers of decisions after which clicks are compared.

    >>> checkpoints(1000).tolist()
    [250, 354, 500, 707, 1000]
    """
    count = 1 + int(2 * np.log2(most / FIRST) + 1e-9)
    return np.rint(FIRST * 2 ** (np.arange(count) / 2)).astype(np.int64)


def first_within(earned: NDArray[np.float64], best: float) -> int | None:
    """The first stretch from which on all earn 90 % of the best; None if the last does not.

    >>> first_within(np.array([0.1, 0.48, 0.3, 0.46, 0.49]), 0.5)
    3
    """
    short = np.flatnonzero(earned < WITHIN * best)
    first = int(short[-1]) + 1 if len(short) else 0
    return first if first < len(earned) else None


def decisions_needed(mdp: sm.MDP, most: int, seed: int) -> float:
    """The answer for one shop; infinity if it is more than `most`."""
    best = sm.optimal_gain(mdp).gain
    agent = sm.agents.EvidencePSRL(mdp.n_states, mdp.n_actions)
    record = sm.simulate(agent, mdp, most, seed=seed, every=1)
    ends = checkpoints(most)
    lost = np.concatenate([[0], record.pseudo_regret[ends - 1]])
    lengths = np.diff(ends, prepend=0)
    first = first_within(best - np.diff(lost) / lengths, best)
    return np.inf if first is None else float(ends[first])


def cell(needed: Sequence[float], most: int) -> str:
    """Median and quantiles, with two digits.

    >>> cell([1000.0, 1414.0, 2000.0, 2828.0, float("inf")], 16_000)
    '2,000 (1,000 to more than 16,000)'
    """

    def said(value: float) -> str:
        return f"more than {most:,}" if np.isinf(value) else f"{float(f'{value:.2g}'):,.0f}"

    low, middle, high = np.quantile(needed, (0.1, 0.5, 0.9), method="nearest")
    return said(middle) if np.isinf(low) else f"{said(middle)} ({said(low)} to {said(high)})"


def main(given: Sequence[str] | None = None) -> None:
    """Simulate, and print the table as Markdown, row by row."""
    parser = argparse.ArgumentParser(
        description="Simulate random shops, and print how many decisions EvidencePSRL needs until "
        "it is within 10 % of the best policy. It needs no service. The table in "
        "docs/operations.md, with the defaults, takes five minutes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--problems", type=int, default=20, metavar="N", help="random shops for each cell"
    )
    parser.add_argument(
        "--decisions", type=int, default=4_096_000, metavar="N",
        help=f"decisions after which the simulation of a shop stops, at least {FIRST}",
    )  # fmt: skip
    options = parser.parse_args(given)
    if options.problems < 1:
        parser.error(f"--problems must be at least 1, got {options.problems}")
    if options.decisions < FIRST:
        parser.error(f"--decisions must be at least {FIRST}, got {options.decisions}")
    print(f"| states | offers | {' | '.join(f'click rate {rate}' for rate in RATES)} |")
    print("| --- " * (2 + len(RATES)) + "|")
    for n_states in STATES:
        for n_offers in OFFERS:
            row = []
            for rate in RATES:
                shops = [shop(n_states, n_offers, rate, seed) for seed in range(options.problems)]
                needed = [
                    decisions_needed(mdp, options.decisions, seed) for seed, mdp in enumerate(shops)
                ]
                row.append(cell(needed, options.decisions))
            print(f"| {n_states} | {n_offers} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
