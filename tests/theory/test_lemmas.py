"""Lemmas 1 and 2 against the episode process itself, Proposition 1, E₁ and E₂."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from switchmdp import theory
from switchmdp.errors import InvalidParameter, OutsideValidity

Pair = tuple[int, int]
Episode = tuple[Counter[Pair], Counter[Pair]]


def play(
    horizon: int,
    window: int,
    next_state: Callable[[int], int],
    policy: Callable[[Counter[Pair]], Callable[[int], int]],
) -> list[Episode]:
    """Figure 1 without rewards: (N_k, v_k) of each episode, whatever states and policies come.

    `next_state` takes the state before; `policy` takes N_k and returns an action for each state.
    """
    history: list[Pair] = []
    episodes = []
    state = next_state(0)
    while len(history) < horizon:
        earlier, now = Counter(history[-window:]), Counter[Pair]()
        act = policy(earlier)
        while len(history) < horizon:
            pair = (state, act(state))
            if now[pair] >= max(1, earlier[pair]):
                break
            now[pair] += 1
            history.append(pair)
            state = next_state(state)
        episodes.append((earlier, now))
    return episodes


def adversary(
    seed: int, n_states: int, n_actions: int
) -> tuple[Callable[[int], int], Callable[[Counter[Pair]], Callable[[int], int]]]:
    """States that stick more or less, policies random, starved (rarest action) or greedy."""
    rng = random.Random(seed)
    stickiness = rng.choice([0, 0.3, 0.9, 0.99, 1])
    taste = rng.choice([-1, 0, 1])

    def next_state(state: int) -> int:
        return state if rng.random() < stickiness else rng.randrange(n_states)

    def policy(earlier: Counter[Pair]) -> Callable[[int], int]:
        actions = [
            max(range(n_actions), key=lambda a: (taste * earlier[s, a], rng.random()))
            for s in range(n_states)
        ]
        return actions.__getitem__

    return next_state, policy


def runs() -> Iterator[tuple[dict[str, int], list[Episode]]]:
    """Sizes and episodes, over random sizes with T, W ≥ SA and every kind of adversary."""
    rng = random.Random(0)
    for seed in range(1000):
        S, A = rng.randint(1, 5), rng.randint(1, 4)
        W = S * A + rng.choice([0, 1, 5, 40])
        T = max(S * A, W + rng.choice([-W // 2, 0, 1, 2 * W, 300]))
        sizes = {"horizon": T, "n_states": S, "n_actions": A, "window": W}
        yield sizes, play(T, W, *adversary(seed, S, A))


def play_states(states: Iterable[int], window: int) -> list[Episode]:
    """The episodes of one sequence of states, where there is one action."""
    sequence = list(states)
    to_come = iter([*sequence, 0])
    return play(len(sequence), window, lambda _: next(to_come), lambda _: lambda _: 0)


def visits_sum(episodes: list[Episode]) -> float:
    return sum(
        v / math.sqrt(max(1, earlier[pair])) for earlier, now in episodes for pair, v in now.items()
    )


def batches(episodes: list[Episode], window: int) -> list[int]:
    """The sizes of Lemma 2's batches: each ends with the first episode to bring it to W steps."""
    sizes = [0]
    for _, now in episodes:
        if sizes[-1] >= window:
            sizes.append(0)
        sizes[-1] += now.total()
    return sizes


# The lemmas


def test_lemma_1_bounds_the_episodes_of_any_process() -> None:
    assert all(len(episodes) <= theory.episodes_bound(**sizes) for sizes, episodes in runs())


def test_lemma_2_repaired_bounds_the_visits_of_any_process() -> None:
    for sizes, episodes in runs():
        assert visits_sum(episodes) <= theory.repaired_visits_bound(**sizes)


@pytest.mark.parametrize(("n_states", "horizon"), [(1, 20), (2, 10), (3, 7)])
@pytest.mark.parametrize("extra", [0, 1, 3])
def test_both_lemmas_hold_for_every_chain_of_a_few_steps(
    n_states: int, horizon: int, extra: int
) -> None:
    window = n_states + extra
    sizes = {"horizon": horizon, "n_states": n_states, "n_actions": 1, "window": window}
    most_episodes = most_visits = 0.0
    for states in itertools.product(range(n_states), repeat=horizon):
        episodes = play_states(states, window)
        most_episodes = max(most_episodes, len(episodes))
        most_visits = max(most_visits, visits_sum(episodes))
    assert most_episodes <= theory.episodes_bound(**sizes)
    assert most_visits <= theory.repaired_visits_bound(**sizes)


def test_the_printed_lemma_2_is_no_smaller_than_the_repaired_one_for_two_states() -> None:
    two = {"horizon": 1000, "n_actions": 3, "window": 50, "n_states": 2}
    assert theory.visits_bound(**two) == pytest.approx(theory.repaired_visits_bound(**two))
    five = two | {"n_states": 5}
    kappa = math.sqrt(1 + 3 / 100)
    assert theory.repaired_visits_bound(**five) == pytest.approx(
        kappa * theory.visits_bound(**five)
    )


def test_batches_are_as_few_and_as_long_as_lemma_2_counts_them() -> None:
    for sizes, episodes in runs():
        S, W = sizes["n_states"], sizes["window"]
        lengths = batches(episodes, W)
        assert len(lengths) <= math.ceil(sizes["horizon"] / W)
        assert all(size >= W for size in lengths[:-1])
        assert max(lengths) <= 2 * W + S - 2


def test_a_batch_can_be_longer_than_the_two_windows_that_lemma_2_allows() -> None:
    window, n_states = 9, 4
    # Eight steps in state 0, then an episode of eight more and one in each other state.
    episodes = play_states([0] * 9 + [1, 2, 3] + [0] * 13, window)
    assert [now.total() for _, now in episodes][:5] == [1, 1, 2, 4, 11]
    assert 2 * window < batches(episodes, window)[0] == 19 <= 2 * window + n_states - 2


def test_no_episode_outlasts_the_window_by_the_number_of_states() -> None:
    for sizes, episodes in runs():
        longest = theory.longest_episode(window=sizes["window"], n_states=sizes["n_states"])
        assert max(now.total() for _, now in episodes) <= longest


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_an_episode_can_outlast_the_window_by_every_other_state(n_states: int) -> None:
    window = 10
    # State 0 until the window is full of it, then one visit to each other state, then 0 again.
    filling = 1 + 1 + 2 + 4 + 8
    episodes = play_states([0] * (filling + 1) + list(range(1, n_states)) + [0] * 20, window)
    lengths = [now.total() for _, now in episodes]
    assert lengths[:5] == [1, 1, 2, 4, 8]
    assert lengths[5] == theory.longest_episode(window=window, n_states=n_states)


# Proposition 1


def hypotheses(episodes: int, most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All (z, y) with y falling from at most `most` and z_k ≤ max(1, x_k + y_k)."""
    for older in itertools.product(range(most + 1), repeat=episodes):
        if list(older) == sorted(older, reverse=True):
            stack: list[tuple[int, ...]] = [()]
            while stack:
                visits = stack.pop()
                if len(visits) == episodes:
                    yield visits, older
                    continue
                room = max(1, sum(visits) + older[len(visits)])
                stack.extend((*visits, z) for z in range(room + 1))


@pytest.mark.parametrize(("episodes", "most"), [(1, 40), (2, 12), (3, 6), (4, 3)])
def test_proposition_1_holds_for_all_small_counts(episodes: int, most: int) -> None:
    for visits, older in hypotheses(episodes, most):
        left, right = theory.proposition_1(visits=visits, older=older)
        assert left <= right * (1 + 1e-12)


def test_proposition_1_holds_for_long_random_counts() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        older = sorted((rng.randrange(200) for _ in range(rng.randint(1, 30))), reverse=True)
        visits: list[int] = []
        for y in older:
            room = max(1, sum(visits) + y)
            visits.append(rng.choice([room, rng.randint(0, room), 0, 1]))
        left, right = theory.proposition_1(visits=visits, older=older)
        assert left <= right * (1 + 1e-12)


def test_proposition_1_states_both_terms_of_its_right_side() -> None:
    left, right = theory.proposition_1(visits=[4, 9, 3], older=[9, 5, 0])
    assert left == pytest.approx(4 / 3 + 9 / 3 + 3 / math.sqrt(13))
    assert right == pytest.approx(3 + (math.sqrt(2) + 1) * 4)


def test_proposition_1_holds_even_without_its_first_term() -> None:
    # √(x+z) + √x ≤ (√2 + 1) √Z wherever x ≤ Z and z ≤ Z, so that each episode pays for itself.
    for visits, older in hypotheses(3, 6):
        left, right = theory.proposition_1(visits=visits, older=older)
        assert left <= (right - math.sqrt(older[0])) * (1 + 1e-12)


def test_the_first_visit_to_a_pair_breaks_the_printed_hypothesis() -> None:
    visits, older = [1], [0]
    assert not visits[0] <= 0 + older[0]
    assert theory.proposition_1(visits=visits, older=older) == (1, math.sqrt(2) + 1)


def test_proposition_1_takes_arrays() -> None:
    visits, older = [4, 9, 3], [9, 5, 0]
    expected = theory.proposition_1(visits=visits, older=older)
    arrays: Any = {"visits": np.array(visits), "older": np.array(older)}
    assert theory.proposition_1(**arrays) == expected


@pytest.mark.parametrize("nonsense", [5, None, "12"])
def test_proposition_1_rejects_what_is_not_a_list_of_integers(nonsense: Any) -> None:
    with pytest.raises(InvalidParameter, match="visits"):
        theory.proposition_1(visits=nonsense, older=[0])


def test_doubling_visits_show_that_proposition_1s_constant_is_the_least() -> None:
    visits = [1] + [2**k for k in range(40)]
    left, right = theory.proposition_1(visits=visits, older=[0] * len(visits))
    assert 0.99999 < left / right < 1


def test_proposition_1_rejects_what_its_hypotheses_exclude() -> None:
    with pytest.raises(OutsideValidity, match=r"visits\[1\] .* = 4, got 5"):
        theory.proposition_1(visits=[2, 5], older=[2, 2])
    with pytest.raises(OutsideValidity, match="never to grow, got 2 then 3 at 1"):
        theory.proposition_1(visits=[1, 1], older=[2, 3])
    for number in (0, 1):
        with pytest.raises(InvalidParameter, match="older"):
            theory.proposition_1(visits=[1] * number, older=[])
    bad: list[Any] = [-1, 1.0, True]
    for value in bad:
        with pytest.raises(InvalidParameter, match="visits"):
            theory.proposition_1(visits=[value], older=[2])
        with pytest.raises(InvalidParameter, match="older"):
            theory.proposition_1(visits=[0], older=[value])


# E₁ and E₂


def covered(number: int) -> Iterator[dict[str, Any]]:
    """Random settings inside Theorem 1's conditions, near their edge as well as far from it."""
    rng = random.Random(2)
    while number:
        S, A = rng.randint(1, 30), rng.randint(1, 20)
        sizes: dict[str, Any] = {
            "horizon": math.ceil(10 ** rng.uniform(0, 9)),
            "n_states": S,
            "n_actions": A,
            "window": math.ceil(S * A * 10 ** rng.uniform(0, 5)),
            "delta": rng.choice([0.999, 0.1, 1e-6]),
        }
        if theory.theorem_1_holds(**sizes) and sizes["horizon"] >= S * A:
            number -= 1
            yield sizes | {"diameter": rng.choice([1, 1.5, 100])}


def test_e1_stays_below_its_bound() -> None:
    tightest = 0.0
    for setting in covered(2000):
        one = {k: setting[k] for k in ("horizon", "diameter", "delta")}
        tightest = max(tightest, theory.e1(**one) / theory.e1_bound(**one))
    assert 0.6 < tightest <= 1


def test_e2_repaired_stays_below_its_repaired_bound() -> None:
    tightest = 0.0
    for setting in covered(2000):
        repaired = theory.repaired_e2(**setting)
        assert repaired >= theory.e2(**setting) * (1 - 1e-12) or setting["n_states"] == 1
        tightest = max(tightest, repaired / theory.repaired_e2_bound(**setting))
    assert 0.6 < tightest <= 1


def test_e2_stays_below_its_printed_bound_where_the_window_divides_the_horizon() -> None:
    for setting in covered(2000):
        W, T = setting["window"], setting["horizon"]
        setting["horizon"] = W * max(1, T // W)
        assert theory.e2(**setting) <= theory.e2_bound(**setting)


def test_the_printed_step_from_t_over_w_to_t_over_root_w_fails() -> None:
    T, W = 1001, 1000
    assert math.ceil(T / W) * math.sqrt(W) > math.ceil(T / math.sqrt(W))
    assert math.ceil(T / W) * math.sqrt(W) <= T / math.sqrt(W) + math.sqrt(W)


def test_e2_exceeds_its_printed_bound_one_step_past_a_window() -> None:
    setting: dict[str, Any] = {
        "horizon": 1001,
        "diameter": 1,
        "n_states": 2,
        "n_actions": 2,
        "window": 1000,
        "delta": 0.1,
    }
    assert theory.e2(**setting) > 1.3 * theory.e2_bound(**setting)
    assert theory.e2(**setting) < theory.repaired_e2_bound(**setting)


def test_two_a_delta_is_too_short_a_horizon_for_e2() -> None:
    # log(T/δ) = log 2 < 1, which the last step of the simplification needs to exceed.
    setting: dict[str, Any] = {
        "horizon": 1,
        "diameter": 1,
        "n_states": 1,
        "n_actions": 1,
        "window": 200,
        "delta": 0.5,
    }
    repaired_form = 61.76 * (1 / math.sqrt(200) + math.sqrt(200)) * math.sqrt(math.log(2))
    assert theory.e2(**setting) > repaired_form
    with pytest.raises(OutsideValidity, match="max"):
        theory.repaired_e2_bound(**setting)
