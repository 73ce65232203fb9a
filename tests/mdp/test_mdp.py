"""Properties of an MDP, and invalid arguments."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidAction, InvalidMDP, InvalidParameter, InvalidState
from switchmdp.mdp import MDP, Bernoulli, Beta, Deterministic, Pairs
from switchmdp.mdp.pairs import MAX_PAIRS, find_pair

ROWS = [[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0], [0.25, 0.25, 0.5]], [[0, 1, 0]] * 2]
MEANS = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
# State 0 has both actions, state 1 only action 0, state 2 only action 1.
MASK = [[True, True], [True, False], [False, True]]


def test_an_mdp_returns_its_transitions_and_rewards() -> None:
    mdp = MDP(ROWS, MEANS)
    assert (mdp.n_states, mdp.n_actions) == (3, 2)
    assert mdp.transitions.tolist() == ROWS
    assert mdp.rewards.tolist() == MEANS
    assert mdp.available.all()
    assert mdp.law == Bernoulli()


def test_an_mdp_may_have_one_state_and_one_action() -> None:
    mdp = MDP([[[1.0]]], [[0.5]])
    assert mdp.successors(0, 0) == ([0], [1.0])


def test_successors_are_the_stored_ones_only() -> None:
    assert MDP(ROWS, MEANS).successors(1, 1) == ([0, 1, 2], [0.25, 0.25, 0.5])
    assert MDP(ROWS, MEANS).successors(0, 1) == ([2], [1.0])


def test_action_sets_may_differ_by_state() -> None:
    mdp = MDP(ROWS, MEANS, available=MASK)
    assert mdp.available.tolist() == MASK
    assert mdp.pairs.n_pairs == 4
    assert [mdp.pairs.at(s) for s in range(3)] == [[0, 1], [0], [1]]
    assert np.isnan(mdp.rewards).tolist() == np.logical_not(MASK).tolist()
    assert (mdp.transitions[~np.array(MASK)] == 0.0).all()
    assert mdp.transitions[MASK].tolist() == np.array(ROWS)[MASK].tolist()


def test_the_mask_is_not_aliased() -> None:
    mask = np.array(MASK)
    mdp = MDP(ROWS, MEANS, available=mask)
    mask[...] = True
    assert mdp.available.tolist() == MASK


def test_an_unavailable_action_is_rejected_with_those_that_exist() -> None:
    with pytest.raises(InvalidAction, match=r"action in state 1 must be one of \[0\], got 1"):
        MDP(ROWS, MEANS, available=MASK).successors(1, 1)


@pytest.mark.parametrize("state", [-1, 3, 1.0, "1", None, True, [1], np.float64(1), 10**30])
def test_a_state_that_does_not_exist_is_rejected_by_value(state: Any) -> None:
    with pytest.raises(InvalidState) as caught:
        MDP(ROWS, MEANS).successors(state, 0)
    assert repr(state) in str(caught.value)


@pytest.mark.parametrize("action", [-1, 2, 0.0, "0", None, False, np.array([0])])
def test_an_action_that_does_not_exist_is_rejected_by_value(action: Any) -> None:
    with pytest.raises(InvalidAction) as caught:
        MDP(ROWS, MEANS).successors(0, action)
    assert repr(action) in str(caught.value)


def test_numpy_integers_are_states_and_actions() -> None:
    state: Any = np.int32(0)
    action: Any = np.uint8(1)
    assert MDP(ROWS, MEANS).successors(state, action) == ([2], [1.0])


def test_labels_are_kept_as_given() -> None:
    mdp = MDP(ROWS, MEANS, state_labels=["low", "mid", "high"], action_labels=("wait", "go"))
    assert mdp.state_labels == ("low", "mid", "high")
    assert mdp.action_labels == ("wait", "go")
    assert MDP(ROWS, MEANS).state_labels is None


@pytest.mark.parametrize("law", [Bernoulli, "bernoulli", 0, [Bernoulli()]])
def test_an_invalid_law_is_rejected(law: Any) -> None:
    with pytest.raises(InvalidMDP) as caught:
        MDP(ROWS, MEANS, law=law)
    assert repr(law) in str(caught.value)


def test_the_law_is_kept_and_shown() -> None:
    mdp = MDP(ROWS, MEANS, law=Beta(share=0.25))
    assert mdp.law == Beta(share=0.25)
    assert repr(mdp) == "MDP(3 states, 2 actions, 9 transitions, Beta(share=0.25))"


def test_an_impossible_variance_is_rejected_with_its_pair_and_mean() -> None:
    with pytest.raises(InvalidMDP) as caught:
        MDP(ROWS, MEANS, law=Beta(variance=0.1))
    for words in ("state 0, action 0", "mean 0.1", "0.09", "Beta(variance=0.1)"):
        assert words in str(caught.value)


def test_the_variance_is_not_checked_for_unavailable_actions() -> None:
    means = [[0.5, 0.5], [0.5, 0.0], [1.0, 0.5]]
    assert MDP(ROWS, means, available=MASK, law=Beta(variance=0.2)).law == Beta(variance=0.2)


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_a_share_of_the_largest_variance_is_valid_for_every_mean(mean: float) -> None:
    assert MDP([[[1.0]]], [[mean]], law=Beta(share=0.9)).rewards[0, 0] == mean


def test_an_mdp_survives_pickling() -> None:
    mdp = MDP(ROWS, MEANS, available=MASK, law=Deterministic(), state_labels=["a", "b", "c"])
    copy = pickle.loads(pickle.dumps(mdp))
    arrays: Any = zip(copy.model, mdp.model, strict=True)
    assert all(np.array_equal(a, b) for a, b in arrays)
    assert (copy.law, copy.state_labels) == (mdp.law, mdp.state_labels)
    assert copy.pairs.same_as(mdp.pairs)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_numbered_state_by_state(seed: int) -> None:
    mask = np.random.default_rng(seed).random((6, 5)) < 0.5
    mask[:, seed] = True
    pairs = Pairs.of(6, 5, mask)
    listed = [(int(s), int(a)) for s, a in np.argwhere(mask)]
    assert list(zip(pairs.states.tolist(), pairs.actions.tolist(), strict=True)) == listed
    assert [pairs.pair(s, a) for s, a in listed] == list(range(len(listed)))
    assert np.array_equal(pairs.available, mask)
    for s, a in np.argwhere(~mask):
        assert find_pair(pairs.starts, pairs.actions, int(s), int(a)) == -1


def test_pairs_of_the_full_mask_are_those_of_no_mask() -> None:
    assert Pairs.of(3, 2).same_as(Pairs.of(3, 2, np.ones((3, 2), bool)))
    assert not Pairs.of(3, 2).same_as(Pairs.of(3, 2, MASK))
    assert not Pairs.of(3, 2).same_as(Pairs.of(2, 3))


@pytest.mark.parametrize("size", [0, -1, 2.0, "3", None, True, 2**63])
def test_invalid_sizes_are_rejected_by_field(size: Any) -> None:
    with pytest.raises(InvalidParameter, match="n_states must be"):
        Pairs.of(size, 2)
    with pytest.raises(InvalidParameter, match="n_actions must be"):
        Pairs.of(2, size)


def test_too_many_pairs_are_rejected_before_memory_is_allocated() -> None:
    with pytest.raises(InvalidParameter, match=str(MAX_PAIRS)):
        Pairs.of(2**20, 2**20)


def test_labels_may_be_any_sequence_of_strings() -> None:
    pandas = pytest.importorskip("pandas")
    for labels in (np.array(["a", "b", "c"]), pandas.Index(["a", "b", "c"])):
        mdp = MDP(ROWS, MEANS, state_labels=labels)
        assert mdp.state_labels == ("a", "b", "c")
        assert {type(label) for label in mdp.state_labels} == {str}
    for wrong in ("abc", np.array(["a", "b"]), np.arange(3), {"a", "b", "c"}, 3):
        with pytest.raises(InvalidMDP, match="state_labels must be 3 different strings"):
            MDP(ROWS, MEANS, state_labels=wrong)  # type: ignore[arg-type]


def test_masked_entries_are_refused() -> None:
    masked = np.ma.masked_less(np.array(MEANS, float), 2.0)
    with pytest.raises(InvalidMDP, match="rewards must be an array without masked entries"):
        MDP(ROWS, masked)
    rows = np.ma.masked_less(np.array(ROWS, float), 2.0)
    with pytest.raises(InvalidMDP, match="without masked entries"):
        MDP(rows, MEANS)
    assert MDP(ROWS, np.ma.masked_greater(np.array(MEANS, float), 2.0)).n_states == 3
