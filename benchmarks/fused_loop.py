"""The yardstick: SW-UCRL and its simulation as one hand-written Numba function.

No classes, no components, no choices: full action sets, full rows, Bernoulli rewards. It draws the
same random numbers and computes the same plans as `simulate`, and must return the same regret, bit
for bit; `make bench` checks that before it compares times. A window of at least the horizon makes
it UCRL2.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

import numba
import numpy as np

import switchmdp as sm
from agents import made
from switchmdp.planning.gain import optimal_gains
from switchmdp.randomness import run_seeds, stream
from timing import Row, best_in_turns, show

U = np.uintp  # Numba checks a signed index for being negative
MAX_SWEEPS = 1_000_000
CALLED_AT_EVERY_STEP = {"random": 20e6, "omniscient": 20e6, "q-learning": 8e6}


@numba.njit(forceinline=True)  # type: ignore[untyped-decorator]  # Numba ships no types
def uniform(w: Any) -> float:
    s0, s1, s2, s3 = w[0], w[1], w[2], w[3]
    total = s0 + s3
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    w[0], w[1], w[2], w[3] = s0, s1, s2, (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return float(result >> np.uint64(11)) * 2.0**-53


@numba.njit(forceinline=True)  # type: ignore[untyped-decorator]  # Numba ships no types
def optimistic(
    row: Any, p: Any, first: int, S: int, best: int, order: Any, d: float, u: Any
) -> Any:
    """max Σ p u over the L1 ball of radius d around a row."""
    for k in range(S):
        row[U(k)] = p[U(first + k)]
    raised = min(1.0, row[U(best)] + d / 2.0)
    excess = raised - row[U(best)]
    row[U(best)] = raised
    for i in range(S):
        if excess <= 0.0:
            break
        s = order[U(i)]
        if s != best:
            taken = min(excess, row[U(s)])
            row[U(s)] -= taken
            excess -= taken
    total = 0.0
    for k in range(S):
        total += row[U(k)] * u[U(k)]
    return total


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]  # Numba ships no types
def sw_ucrl(
    cumulative: Any, mean: Any, change_points: Any, gains: Any, S: int, A: int, window: int,
    delta: float, horizon: int, every: int, reward_words: Any, move_words: Any,
) -> Any:  # fmt: skip
    """Regret and pseudo-regret at every `every` steps and at the horizon."""
    n_pairs, room = S * A, min(window, horizon)
    regret, pseudo = np.empty(-(-horizon // every)), np.empty(-(-horizon // every))
    visits, wins = np.zeros(n_pairs, np.int64), np.zeros(n_pairs, np.int64)
    count, p = np.zeros(n_pairs * S, np.int64), np.zeros(n_pairs * S)
    ring_pair, ring_next = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
    ring_reward = np.zeros(room)
    reward, radius = np.zeros(n_pairs), np.zeros(n_pairs)
    u, next_u, row = np.zeros(S), np.zeros(S), np.zeros(S)
    order, choice, quota = np.zeros(S, np.int64), np.zeros(S, np.int64), np.zeros(S, np.int64)
    t, state, at, absorbed, point, change, segment = 1, 0, 0, 1, 0, 0, 1
    before, rewards, means = 0.0, 0.0, 0.0
    grid = min(every, horizon)
    stop = change_points[0] - 1 if change_points.size > 0 else horizon
    while t <= horizon:
        # Counts: the steps since the last plan enter. What leaves the ring was removed on the way.
        i = (absorbed - 1) % room
        for _ in range(absorbed, t):
            x = U(ring_pair[U(i)])
            visits[x] += 1
            wins[x] += np.int64(ring_reward[U(i)])
            count[x * U(S) + U(ring_next[U(i)])] += 1
            i = i + 1 if i + 1 < room else 0
        absorbed = t
        # Eq. 1 and Eq. 2.
        c_r = 3.5 * math.log(2.0 * S * A * t / delta)
        c_p = 14.0 * S * math.log(2.0 * A * t / delta)
        for i in range(n_pairs):
            x = U(i)
            n = visits[x]
            if n == 0:
                reward[x], radius[x] = 1.0, max(2.0, math.sqrt(c_p))
            else:
                reward[x] = min(1.0, float(wins[x]) / n + math.sqrt(c_r / n))
                radius[x] = math.sqrt(c_p / n)
                if radius[x] < 2.0:
                    for k in range(S):
                        p[x * U(S) + U(k)] = count[x * U(S) + U(k)] / n
        # Extended value iteration.
        for s in range(S):
            u[U(s)], order[U(s)], choice[U(s)] = 0.0, s, s * A
        best = 0
        precision = 1.0 / math.sqrt(t)
        for _ in range(MAX_SWEEPS):
            top, largest, smallest = u[U(best)], -np.inf, np.inf
            for s in range(S):
                kept = choice[U(s)]
                chosen, value = kept, reward[U(kept)] + top
                if radius[U(kept)] < 2.0 and top > 0.0:
                    value = reward[U(kept)] + optimistic(
                        row, p, kept * S, S, best, order, radius[U(kept)], u
                    )
                for i in range(s * A, s * A + A):
                    if i == kept or reward[U(i)] + top < value:
                        continue
                    total = reward[U(i)] + top
                    if radius[U(i)] < 2.0 and top > 0.0:
                        ceiling = radius[U(i)] / 2.0 * top
                        for k in range(S):
                            ceiling += p[U(i * S + k)] * u[U(k)]
                        if reward[U(i)] + ceiling + 1e-9 < value:
                            continue
                        total = reward[U(i)] + optimistic(
                            row, p, i * S, S, best, order, radius[U(i)], u
                        )
                    if total > value or (total == value and i < chosen):
                        chosen, value = i, total
                choice[U(s)], next_u[U(s)] = chosen, value
                largest = max(largest, value - u[U(s)])
                smallest = min(smallest, value - u[U(s)])
            if largest - smallest < precision:
                break
            lowest = np.inf
            for s in range(S):
                lowest = min(lowest, next_u[U(s)])
            for s in range(S):
                u[U(s)] = next_u[U(s)] - lowest
            for i in range(1, S):
                s, j = order[U(i)], i - 1
                while j >= 0 and (
                    u[U(order[U(j)])] > u[U(s)]
                    or (u[U(order[U(j)])] == u[U(s)] and order[U(j)] > s)
                ):
                    order[U(j + 1)] = order[U(j)]
                    j -= 1
                order[U(j + 1)] = s
            best = order[U(S - 1)]
        for s in range(S):
            quota[U(s)] = max(1, visits[U(choice[U(s)])])
        # Execute the policy.
        while t <= horizon and quota[U(state)] > 0:
            if t > stop:
                before += gains[change] * (t - segment)
                segment, change = t, change + 1
                stop = change_points[change] - 1 if change < change_points.size else horizon
            pair = choice[U(state)]
            y = U(change * n_pairs + pair)
            expected = mean[y]
            won = 1.0 if uniform(reward_words) < expected else 0.0
            draw = uniform(move_words)
            first = y * U(S)
            target: Any = 0
            if S <= 16:
                k = 0
                while k + 4 < S:
                    target += (
                        np.int64(draw >= cumulative[first + U(k)])
                        + np.int64(draw >= cumulative[first + U(k + 1)])
                        + np.int64(draw >= cumulative[first + U(k + 2)])
                        + np.int64(draw >= cumulative[first + U(k + 3)])
                    )
                    k += 4
                while k + 1 < S:
                    target += np.int64(draw >= cumulative[first + U(k)])
                    k += 1
            else:
                high = S - 1
                while target < high:
                    middle = (target + high) // 2
                    if draw < cumulative[first + U(middle)]:
                        high = middle
                    else:
                        target = middle + 1
            if t > room:  # the oldest step leaves; plans see it only once this episode has ended
                old = U(ring_pair[U(at)])
                if t - room < absorbed:
                    visits[old] -= 1
                    wins[old] -= np.int64(ring_reward[U(at)])
                    count[old * U(S) + U(ring_next[U(at)])] -= 1
            ring_pair[U(at)], ring_next[U(at)], ring_reward[U(at)] = pair, target, won
            at = at + 1 if at + 1 < room else 0
            quota[U(state)] -= 1
            rewards += won
            means += expected
            state = target
            t += 1
            if t > grid:
                earned = before + gains[change] * (t - segment)
                regret[U(point)], pseudo[U(point)] = earned - rewards, earned - means
                point += 1
                grid = min(grid + every, horizon)
        absorbed = max(absorbed, t - room)  # steps that have left again before this plan
    return regret, pseudo


def arguments(problem: Any, window: int, delta: float, horizon: int, every: int, seed: int) -> Any:
    """What the function takes, for a problem with full rows."""
    cumulative, mean, n_states = [], [], problem.n_states
    for i in range(problem.changes + 1):
        model = problem.configuration(i).model
        rows = model.start[model.row, None] + np.arange(n_states)
        cumulative.append(model.cumulative[rows].ravel())
        mean.append(model.mean[model.row])
    words = [stream(role) for role in run_seeds(seed)[:2]]
    points = problem.change_points
    gains = optimal_gains(problem, len(points))
    return (
        np.concatenate(cumulative), np.concatenate(mean), points, gains, n_states,
        problem.n_actions, window, delta, horizon, every, *words,
    )  # fmt: skip


def ratio(n_states: int, n_actions: int, window: int | None, horizon: int, repeats: int) -> Row:
    """The time of `simulate`, the whole call, by that of the yardstick, alternating."""
    problem = sm.problems.random_switching(n_states, n_actions, changes=2, horizon=horizon, seed=0)
    every, ours, yardstick = max(1, horizon // 1000), [], []
    for seed in range(repeats):
        agent: Any
        if window is None:
            agent = sm.agents.UCRL2(n_states, n_actions, delta=0.1)
        else:
            agent = sm.agents.SWUCRL(n_states, n_actions, window=window, delta=0.1)
        began = time.perf_counter()
        record = sm.simulate(agent, problem, horizon, seed=seed)
        ours.append(time.perf_counter() - began)
        given = arguments(problem, window or horizon, 0.1, horizon, every, seed)
        began = time.perf_counter()
        regret, pseudo = sw_ucrl(*given)
        yardstick.append(time.perf_counter() - began)
        same = np.array_equal(record.regret, regret) and np.array_equal(
            record.pseudo_regret, pseudo
        )
        assert same, "the yardstick computes something else"
    typical = statistics.median(ours[2:]) / statistics.median(yardstick[2:])
    least, rate = min(ours) / min(yardstick), horizon / min(yardstick) / 1e6
    limit = 1.15 if horizon <= 100_000 else 1.05
    name = "UCRL2" if window is None else "SW-UCRL"
    return Row(
        f"{name}, S={n_states} A={n_actions} T={horizon:,}: simulate / hand-fused loop",
        f"{typical:.2f} x (best {least:.2f} x of {rate:.0f} M/s)",
        f"<= {limit} x", typical <= limit,
    )  # fmt: skip


def ratios() -> list[Row]:
    """SW-UCRL and UCRL2, short and long, small and larger; and what is done at every step."""
    rows = [
        ratio(n_states, n_actions, window, horizon, repeats)
        for n_states, n_actions in ((5, 3), (20, 5))
        for horizon, repeats in ((100_000, 41), (1_000_000, 11))
        for window in (20_000, None)
    ]
    return rows + at_every_step()


def at_every_step() -> list[Row]:
    """Agents that are called at every step, and a point of the grid at every step.

    The agents' targets are rates on a machine where the yardstick makes 45 M steps/s.
    """
    horizon, every = 100_000, 100
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=horizon, seed=0)
    given = arguments(problem, 20_000, 0.1, horizon, every, 0)
    swucrl = {
        f"every={n}": lambda n=n: sm.simulate(made("sw-ucrl", problem), problem, horizon, every=n)
        for n in (every, 1)
    }
    stepwise = {
        name: lambda name=name: sm.simulate(made(name, problem), problem, horizon)
        for name in CALLED_AT_EVERY_STEP
    }
    best = best_in_turns({"yardstick": lambda: sw_ucrl(*given), **swucrl, **stepwise}, 25)
    slower = best["every=1"] / best[f"every={every}"]
    rows = [
        Row("SW-UCRL, every=1 by the default grid", f"{slower:.2f} x ({show(best['every=1'])})",
            "<= 1.5 x", slower <= 1.5)
    ]  # fmt: skip
    for name, rate in CALLED_AT_EVERY_STEP.items():
        share, least = best["yardstick"] / best[name], rate / 45e6
        measured = f"{share:.2f} x ({horizon / best[name] / 1e6:.1f} M/s)"
        rows.append(
            Row(
                f"{name}, its rate by the yardstick's",
                measured,
                f">= {least:.2f} x",
                share >= least,
            )
        )
    return rows


if __name__ == "__main__":
    for line in ratios():
        print(line)
