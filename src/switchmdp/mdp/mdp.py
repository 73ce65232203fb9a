"""MDPs and switching MDPs: data, validated when they are made.

**MDP** M(S, A, p, F). In state s an action a of A(s) earns a reward of mean r̄(s, a) in [0, 1], and
leads to s' with probability p(s' | s, a).

**Reward law**: how a reward scatters around its mean.

    Bernoulli       1 with probability r̄, else 0                     variance r̄(1 - r̄)
    Deterministic   r̄ itself                                         variance 0
    Beta            Beta(ν r̄, ν(1 - r̄)), ν = r̄(1 - r̄)/variance - 1   the requested variance

A law on [0, 1] with mean m has a variance of at most m(1 - m), and Beta's is below that. So its
variance is given either outright or, for means anywhere in [0, 1], as a share of m(1 - m).

**Switching MDP**: configurations M_0 … M_l and change points c_1 < … < c_l.

    M_i is active for c_i <= t < c_{i+1},  t = 1, 2, …   (c_0 = 1, c_{l+1} = ∞)

Changes are patches. All rows of all configurations live in one pool; a change point is a list of
(pair, old row, new row). So 100,000 changes of a few rows each take megabytes, recurring rows are
stored once, and changes can be applied forwards and backwards.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import inlined, jit, patient
from switchmdp.display import counted, few, html_table, present
from switchmdp.errors import (
    DamagedFile,
    InvalidMDP,
    InvalidParameter,
    InvalidProblem,
    NotCommunicating,
)
from switchmdp.mdp.model import Model, is_connected, unconnected_states
from switchmdp.mdp.pairs import OverPairs, Pairs
from switchmdp.mdp.parse import check_means, numbers, parse_means, parse_rows, place
from switchmdp.mdp.pool import Patches, Pool, RowChange, build_from_stack, check_stored
from switchmdp.randomness import beta, uniform
from switchmdp.storage import load_arrays, save_arrays
from switchmdp.validation import check_increasing_steps, check_integer, is_number

CHECKED_AT_ONCE = 20_000_000
_STORED = "switching-mdp"
BERNOULLI, DETERMINISTIC, BETA, BETA_SHARE = 0, 1, 2, 3
SMALLEST = 1e-300  # variance or share: below it ν overflows, and drawing a reward never ends


@dataclass(frozen=True)
class RewardLaw:
    """The distribution of rewards around their mean: one of the laws below.

    Parameters
    ----------
    code
        The kind of law.
    parameter
        Its parameter.
    """

    code: int
    parameter: float = 0.0

    def largest_variance(self, mean: float) -> float:
        """The largest variance of a law with this mean.

        Parameters
        ----------
        mean
            The mean of the reward.

        Returns
        -------
        float
            The variance m(1 - m).
        """
        return mean * (1.0 - mean)


class Bernoulli(RewardLaw):
    """Rewards 0 and 1.

    Examples
    --------
    >>> Bernoulli()
    Bernoulli()
    """

    def __init__(self) -> None:
        super().__init__(BERNOULLI)

    def __repr__(self) -> str:
        return "Bernoulli()"


class Deterministic(RewardLaw):
    """Every reward is the mean.

    Examples
    --------
    >>> Deterministic()
    Deterministic()
    """

    def __init__(self) -> None:
        super().__init__(DETERMINISTIC)

    def __repr__(self) -> str:
        return "Deterministic()"


class Beta(RewardLaw):
    """Rewards in [0, 1] with this variance, or with this share of the largest possible variance.

    Parameters
    ----------
    variance
        The variance of every reward, below 0.25.
    share
        The variance as a share of the largest one for the mean, below 1.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Beta(variance=0.01), Beta(share=0.25)
    (Beta(variance=0.01), Beta(share=0.25))
    """

    def __init__(self, variance: float | None = None, *, share: float | None = None) -> None:
        if (variance is None) == (share is None):
            raise InvalidParameter(
                "Beta", (variance, share), "given exactly one of variance and share"
            )
        if variance is not None:
            super().__init__(BETA, _inside("variance", variance, 0.25))
        else:
            super().__init__(BETA_SHARE, _inside("share", share, 1.0))

    def __repr__(self) -> str:
        name = "variance" if self.code == BETA else "share"
        return f"Beta({name}={self.parameter!r})"


def _inside(field: str, value: Any, top: float) -> float:
    if not is_number(value) or not SMALLEST <= value < top:
        raise InvalidParameter(field, value, f"a number from {SMALLEST} to below {top}")
    return float(value)


def law_from_code(code: int, parameter: float) -> RewardLaw:
    """The law with this code and parameter, as stored in files."""
    if code == BERNOULLI:
        return Bernoulli()
    if code == DETERMINISTIC:
        return Deterministic()
    if code == BETA:
        return Beta(variance=parameter)
    if code == BETA_SHARE:
        return Beta(share=parameter)
    raise InvalidParameter("law code", code, "one of 0, 1, 2, 3")


@inlined
def draw_reward(code: int, parameter: float, mean: float, words: Any) -> float:
    """One reward of the law with this mean."""
    if code == BERNOULLI:
        return 1.0 if uniform(words) < mean else 0.0
    if code == DETERMINISTIC:
        return mean
    return _draw_beta(code, parameter, mean, words)


@jit
def _draw_beta(code: int, parameter: float, mean: float, words: Any) -> float:
    if mean <= 0.0 or mean >= 1.0:
        return mean
    variance_share = parameter / (mean * (1.0 - mean)) if code == BETA else parameter
    concentration = 1.0 / variance_share - 1.0
    return beta(words, concentration * mean, concentration * (1.0 - mean))


def variance_of(law: RewardLaw, mean: float) -> float:
    """The variance of a reward with this mean.

    >>> variance_of(Bernoulli(), 0.5), variance_of(Beta(share=0.5), 0.5)
    (0.25, 0.125)
    """
    if law.code == DETERMINISTIC or math.isclose(mean * (1.0 - mean), 0.0, abs_tol=0.0):
        return 0.0
    return {
        BERNOULLI: mean * (1.0 - mean),
        BETA: law.parameter,
        BETA_SHARE: law.parameter * mean * (1.0 - mean),
    }[law.code]


# MDPs.


class MDP(OverPairs):
    """A finite MDP.

    `transitions` is an (S, A, S) array; or a `scipy.sparse` matrix with a row s·A + a for each
    state and action; or a list of A sparse (S, S) matrices; or `transitions[s][a]` as a mapping or
    list of (next state, probability).

    Parameters
    ----------
    transitions
        The transition probabilities, in any of the forms above.
    rewards
        The (S, A) array of mean rewards in [0, 1].
    available
        The (S, A) mask of available actions; by default all are.
    law
        The reward law; Bernoulli by default.
    state_labels
        A name for each state.
    action_labels
        A name for each action.

    Raises
    ------
    InvalidMDP
        If the data does not describe an MDP; the message names the state, the action and the value.

    Examples
    --------
    >>> two_cycle = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> two_cycle
    MDP(2 states, 1 action, 2 transitions, Bernoulli())
    >>> two_cycle.successors(0, 0)
    ([1], [1.0])
    """

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        *,
        available: Any = None,
        law: RewardLaw | None = None,
        state_labels: Sequence[str] | NDArray[np.str_] | None = None,
        action_labels: Sequence[str] | NDArray[np.str_] | None = None,
    ) -> None:
        means = parse_means(rewards)
        pairs = Pairs.of(means.shape[0], means.shape[1], available)
        mean = check_means(means, pairs)
        rows = parse_rows(transitions, pairs)
        model = Model.of(
            starts=pairs.starts, row=np.arange(pairs.n_pairs, dtype=np.int64),
            start=rows.indptr[:-1].copy(), stop=rows.indptr[1:].copy(), mean=mean,
            successors=rows.successors, probabilities=rows.probabilities,
        )  # fmt: skip
        self._set(pairs, model, Bernoulli() if law is None else law)
        check_law(self.law, mean, pairs)
        self.state_labels = check_labels("state_labels", state_labels, pairs.n_states)
        self.action_labels = check_labels("action_labels", action_labels, pairs.n_actions)

    def _set(self, pairs: Pairs, model: Model, law: RewardLaw) -> None:
        if not isinstance(law, (Bernoulli, Deterministic, Beta)):
            raise InvalidMDP(f"law must be Bernoulli(), Deterministic() or Beta(...), got {law!r}")
        self.pairs = pairs
        self.model = model
        self.law = law

    @classmethod
    def of_model(cls, pairs: Pairs, model: Model, law: RewardLaw) -> MDP:
        """An MDP of rows that are already validated.

        Parameters
        ----------
        pairs
            The state-action pairs.
        model
            The rows.
        law
            The reward law.

        Returns
        -------
        MDP
            The MDP.

        Raises
        ------
        InvalidMDP
            If `law` is not a reward law.
        """
        self = cls.__new__(cls)
        self._set(pairs, model, law)
        return self

    def __repr__(self) -> str:
        stored = int((self.model.stop - self.model.start)[self.model.row].sum())
        sizes = f"{counted(self.n_states, 'state')}, {counted(self.n_actions, 'action')}"
        return f"MDP({sizes}, {counted(stored, 'transition')}, {self.law})"

    def _repr_html_(self) -> str:
        stored = int((self.model.stop - self.model.start)[self.model.row].sum())
        means = self.model.mean[self.model.row]
        rows = {
            "states": self.n_states, "actions": few(self.action_labels or range(self.n_actions)),
            "transitions": stored, "mean rewards": f"{means.min():.4g} to {means.max():.4g}",
            "reward law": self.law,
        }  # fmt: skip
        return html_table("MDP", rows)

    def plot(self) -> Any:
        """Draw the MDP: up to 12 states as a graph, and its mean rewards (extra `plot`).

        Returns
        -------
        matplotlib.figure.Figure
            The figure. A notebook shows it; `reports.save_figure` writes it to a file.

        Examples
        --------
        >>> figure = MDP([[[0, 1]], [[1, 0]]], [[1], [0]]).plot()
        >>> [axis.get_title() for axis in figure.axes]
        ['transitions', 'mean rewards']
        """
        return present("plot", self)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The (S, A) array of means, NaN for unavailable actions."""
        means = np.full((self.n_states, self.n_actions), np.nan)
        means[self.pairs.states, self.pairs.actions] = self.model.mean[self.model.row]
        return means

    @property
    def transitions(self) -> NDArray[np.float64]:
        """The dense (S, A, S) array, zero for unavailable actions."""
        dense = np.zeros((self.n_states, self.n_actions, self.n_states))
        m = self.model
        for pair, (s, a) in enumerate(zip(self.pairs.states, self.pairs.actions, strict=True)):
            part = slice(m.start[m.row[pair]], m.stop[m.row[pair]])
            dense[s, a, m.successors[part]] = m.probabilities[part]
        return dense

    @cached_property
    def unconnected(self) -> str | None:
        """A text that names states which no policy connects; None if all can reach each other."""
        return unconnected_states(self.model)

    def successors(self, state: int, action: int) -> tuple[list[int], list[float]]:
        """The next states of an action, and their probabilities.

        Parameters
        ----------
        state
            The state.
        action
            The action.

        Returns
        -------
        tuple of list
            The states and the probabilities.

        Raises
        ------
        InvalidState
            If the state does not exist.
        InvalidAction
            If the action is not available.
        """
        y = self.model.row[self.pairs.pair(state, action)]
        part = slice(self.model.start[y], self.model.stop[y])
        return self.model.successors[part].tolist(), self.model.probabilities[part].tolist()


def check_law(law: RewardLaw, mean: NDArray[np.float64], pairs: Pairs) -> None:
    """Raise an error if a Beta law of fixed variance does not exist for some mean."""
    if law.code != BETA:
        return
    bad = np.nonzero(mean * (1.0 - mean) <= law.parameter)[0]
    if len(bad):
        m = mean[bad[0]]
        raise InvalidMDP(
            f"{place(pairs, bad[0])}: a reward in [0, 1] of mean {m} has a variance below "
            f"{m * (1.0 - m):.6g}, but {law} was requested (Beta(share=...) suits every mean)"
        )


LABELS = ("state_labels", "action_labels")


def check_labels(
    field: str, labels: Sequence[str] | NDArray[np.str_] | None, size: int
) -> tuple[str, ...] | None:
    """Check that labels are different strings, one for each state or action."""
    if labels is None:
        return None
    is_list = isinstance(labels, Sequence) or hasattr(labels, "__array__")  # NumPy, pandas
    given = tuple(labels) if is_list and not isinstance(labels, str) else ()
    if not all(isinstance(x, str) for x in given) or not len(given) == len(set(given)) == size:
        raise InvalidMDP(f"{field} must be {size} different strings, got {labels!r}")
    return tuple(map(str, given))


class SwitchingMDP(OverPairs):
    """Configurations and the change points at which they become active.

    Parameters
    ----------
    configurations
        The MDPs M_0, M_1, …, with the same states and actions.
    change_points
        The first step of each configuration but the first, increasing, from 2 on.

    Raises
    ------
    InvalidProblem
        If configurations and change points do not fit together.
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
    >>> first = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> second = MDP([[[0, 1]], [[1, 0]]], [[0], [0]])
    >>> problem = SwitchingMDP([first, second], change_points=[50_000])
    >>> problem.at(49_999).rewards.tolist(), problem.at(50_000).rewards.tolist()
    ([[1.0], [0.0]], [[0.0], [0.0]])
    """

    def __init__(
        self, configurations: Iterable[MDP], change_points: Sequence[int] | NDArray[Any] = ()
    ) -> None:
        if isinstance(configurations, MDP) or not isinstance(configurations, Iterable):
            raise InvalidProblem(f"configurations must be a list of MDPs, got {configurations!r}")
        iterator = iter(configurations)
        base = next(iterator, None)
        if base is None:
            raise InvalidProblem("at least one configuration is needed")
        _must_be_mdp(base, 0)
        points = _checked_points(change_points)
        pool = Pool(base.pairs, base.model)
        labels = {field: getattr(base, field) for field in LABELS}
        count = 1
        for count, mdp in enumerate(iterator, start=2):
            _must_be_mdp(mdp, count - 1)
            if not mdp.pairs.same_as(base.pairs):
                raise InvalidProblem(
                    f"configuration {count - 1} ({mdp}) differs from configuration 0 ({base}) in "
                    "its states or actions; only rewards and transitions may change"
                )
            if mdp.law != base.law:
                raise InvalidProblem(
                    f"configuration {count - 1} has rewards of law {mdp.law}, configuration 0 "
                    f"of law {base.law}"
                )
            for field, known in labels.items():
                own = getattr(mdp, field)
                if None not in (own, known) and own != known:
                    raise InvalidProblem(
                        f"configuration {count - 1} has {field} {own}, an earlier one {known}: all "
                        "configurations of a problem have the same"
                    )
                labels[field] = known or own
            pool.change_to(mdp.model)
        if count != len(points) + 1:
            need = "configuration needs" if count == 1 else "configurations need"
            wanted = counted(count - 1, "change point")
            raise InvalidProblem(f"{count} {need} {wanted}, got {len(points)}")
        self._set(base.pairs, base.law, *pool.finish(), points)
        self.state_labels, self.action_labels = (labels[field] for field in LABELS)

    @classmethod
    def from_arrays(
        cls, transitions: Any, rewards: Any, change_points: Sequence[int] | NDArray[Any] = (), *,
        law: RewardLaw | None = None,
    ) -> SwitchingMDP:  # fmt: skip
        """k configurations as (k, S, A, S) transitions and (k, S, A) mean rewards.

        Parameters
        ----------
        transitions
            The (k, S, A, S) array of probabilities.
        rewards
            The (k, S, A) array of mean rewards.
        change_points
            The k - 1 change points.
        law
            The reward law; Bernoulli by default.

        Returns
        -------
        SwitchingMDP
            The problem.

        Raises
        ------
        InvalidMDP
            If the data does not describe an MDP; the message names the state, the action and the
            value.
        InvalidProblem
            If configurations and change points do not fit together.
        NotCommunicating
            If some states cannot reach each other.

        Examples
        --------
        >>> stay, go = [[[1, 0]], [[0, 1]]], [[[0, 1]], [[1, 0]]]
        >>> SwitchingMDP.from_arrays([go, go], [[[1], [0]], [[0], [1]]], [10]).changes
        1
        """
        rows, means = numbers(transitions, "transitions"), numbers(rewards, "rewards")
        if means.ndim != 3 or 0 in means.shape or rows.shape != (*means.shape, means.shape[1]):
            raise InvalidProblem(
                f"transitions must be (k, S, A, S) and rewards (k, S, A), got {rows.shape} and "
                f"{means.shape}"
            )
        points = _checked_points(change_points)
        built = build_from_stack(rows, means) if len(points) == len(means) - 1 else None
        if built is None:
            pieces = zip(rows, means, strict=True)
            return cls([MDP(row, mean, law=law) for row, mean in pieces], points)
        pairs, model, patches = built
        law = Bernoulli() if law is None else law
        MDP.of_model(pairs, model, law)  # raises an error if `law` is not a reward law
        return cls._of(pairs, law, model, patches, points)

    @classmethod
    def from_patches(
        cls, base: MDP, change_points: Sequence[int] | NDArray[Any],
        patches: Iterable[Sequence[RowChange]],
    ) -> SwitchingMDP:  # fmt: skip
        """A base configuration and, for each change point, the rows that change.

        A row change is (state, action, transitions, mean): transitions as a vector, a mapping or a
        list of (next state, probability); None keeps the transitions, or the mean.

        Parameters
        ----------
        base
            The first configuration.
        change_points
            The change points.
        patches
            For each change point a list of row changes.

        Returns
        -------
        SwitchingMDP
            The problem.

        Raises
        ------
        InvalidMDP
            If the data does not describe an MDP; the message names the state, the action and the
            value.
        InvalidProblem
            If configurations and change points do not fit together.
        NotCommunicating
            If some states cannot reach each other.

        Examples
        --------
        >>> base = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
        >>> problem = SwitchingMDP.from_patches(base, [10, 20], [[(0, 0, None, 0.5)], []])
        >>> float(problem.at(10).rewards[0, 0]), problem.changes
        (0.5, 2)
        """
        _must_be_mdp(base, 0)
        points = _checked_points(change_points)
        pool = Pool(base.pairs, base.model)
        if not isinstance(patches, Iterable):
            raise InvalidProblem(f"patches must be a list of lists, got {patches!r}")
        given = 0
        for patch in patches:
            pool.apply(patch)
            given += 1
        if given != len(points):
            raise InvalidProblem(f"{len(points)} change points need as many patches, got {given}")
        return cls._of(base.pairs, base.law, *pool.finish(), points).label_like(base)

    @classmethod
    def _of(cls, *parts: Any) -> SwitchingMDP:
        self = cls.__new__(cls)
        self._set(*parts)
        return self

    def _set(
        self, pairs: Pairs, law: RewardLaw, model: Model, patches: Patches,
        points: NDArray[np.int64],
    ) -> None:  # fmt: skip
        self.pairs = pairs
        self.law = law
        self.model = model
        self.patches = patches
        self.change_points = points
        self.change_points.flags.writeable = False
        self._connected_up_to = -1
        try:
            check_law(law, model.mean, Pairs.of(len(model.mean), 1))
        except InvalidMDP:
            for i in range(len(points) + 1):
                check_law(law, model.mean[self.configuration(i).model.row], pairs)
        if (len(points) + 1) * len(model.row) <= CHECKED_AT_ONCE:
            self.check_connected()

    def __repr__(self) -> str:
        sizes = f"{counted(self.n_states, 'state')}, {counted(self.n_actions, 'action')}"
        changes, rows = counted(self.changes, "change"), counted(len(self.model.mean), "row")
        return f"SwitchingMDP({sizes}, {changes}, {rows}, {self.law})"

    def _repr_html_(self) -> str:
        rows = {
            "states": self.n_states, "actions": few(self.action_labels or range(self.n_actions)),
            "changes": self.changes, "change points": few(self.change_points.tolist()) or "none",
            "different rows": len(self.model.mean), "reward law": self.law,
        }  # fmt: skip
        return html_table("Switching MDP", rows)

    def plot(self, horizon: int | None = None) -> Any:
        """Draw the optimal gain of the active configuration over time (extra `plot`).

        Parameters
        ----------
        horizon
            The last step that is drawn. By default the figure ends a while after the last change.

        Returns
        -------
        matplotlib.figure.Figure
            The figure. A notebook shows it; `reports.save_figure` writes it to a file.

        Examples
        --------
        >>> cycle = [MDP([[[0, 1]], [[1, 0]]], [[x], [0]]) for x in (1.0, 0.5)]
        >>> SwitchingMDP(cycle, [50]).plot(horizon=100).axes[0].get_ylabel()
        'optimal gain'
        """
        return present("plot", self, horizon=horizon)

    @cached_property
    def full_rows(self) -> bool:
        """Whether every row lists all states in order."""
        return self.model.has_full_rows()

    @property
    def changes(self) -> int:
        """The number l of change points."""
        return len(self.change_points)

    def active(self, t: int) -> int:
        """The index i of the configuration M_i that is active at step t.

        Parameters
        ----------
        t
            The step, from 1.

        Returns
        -------
        int
            The index.

        Raises
        ------
        InvalidParameter
            If a parameter has the wrong type or is out of range.
        """
        t = check_integer("t", t, 1)
        return int(np.searchsorted(self.change_points, t, side="right"))

    def at(self, t: int) -> MDP:
        """The configuration that is active at step t.

        Parameters
        ----------
        t
            The step, from 1.

        Returns
        -------
        MDP
            The MDP.

        Raises
        ------
        InvalidParameter
            If a parameter has the wrong type or is out of range.
        """
        return self.configuration(self.active(t))

    def configuration(self, i: int) -> MDP:
        """Configuration M_i.

        Parameters
        ----------
        i
            The index of the configuration.

        Returns
        -------
        MDP
            The MDP.

        Raises
        ------
        InvalidParameter
            If a parameter has the wrong type or is out of range.
        """
        return self._mdp(self.model_at(check_integer("configuration", i, 0, self.changes)).row)

    def model_at(self, i: int) -> Model:
        """The model of configuration M_i, with rows that the caller may change.

        Parameters
        ----------
        i
            The index of the configuration.

        Returns
        -------
        Model
            The model.
        """
        row = self.model.row.copy()
        if i > 0:
            last = self.patches.offsets[i]
            row[self.patches.pair[:last]] = self.patches.new[:last]
        return self.model._replace(row=row)

    def _mdp(self, row: NDArray[np.int64]) -> MDP:
        return MDP.of_model(self.pairs, self.model._replace(row=row), self.law).label_like(self)

    def configurations(self, first: int = 0, last: int | None = None) -> Iterator[MDP]:
        """Iterate over M_first … M_last (default: all).

        Parameters
        ----------
        first
            The first index.
        last
            The last index.

        Returns
        -------
        iterator of MDP
            The configurations.

        Raises
        ------
        InvalidParameter
            If a parameter has the wrong type or is out of range.
        """
        mdp = self.configuration(first)
        last = self.changes if last is None else check_integer("last", last, first, self.changes)
        yield mdp
        for i in range(first, last):
            row = mdp.model.row.copy()
            part = slice(self.patches.offsets[i], self.patches.offsets[i + 1])
            row[self.patches.pair[part]] = self.patches.new[part]
            mdp = self._mdp(row)
            yield mdp

    def check_connected(self, up_to: int | None = None) -> None:
        """Raise `NotCommunicating` if one of configurations 0..up_to has infinite diameter.

        Called when the problem is made; for very many configurations, when their gains or diameters
        are first needed. Configurations are checked only once.

        Parameters
        ----------
        up_to
            The last configuration that is checked.

        Raises
        ------
        NotCommunicating
            If some states cannot reach each other.
        """
        last = self.changes if up_to is None else check_integer("up_to", up_to, 0, self.changes)
        if last <= self._connected_up_to:
            return
        fault = _first_disconnected(
            self.model._replace(row=self.model.row.copy()), self.patches, last
        )
        if fault >= 0:
            words = self.configuration(fault).unconnected
            raise NotCommunicating(f"configuration {fault} has infinite diameter: {words}")
        self._connected_up_to = last

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the problem to a file, atomically.

        Parameters
        ----------
        path
            The file.
        """
        arrays = {**self.model._asdict(), **self.patches._asdict()}
        arrays |= {"actions": self.pairs.actions, "change_points": self.change_points}
        del arrays["cumulative"], arrays["rewires"]  # made anew when loaded
        fields = {
            "n_actions": self.n_actions,
            "law": [self.law.code, self.law.parameter],
            "state_labels": self.state_labels,
            "action_labels": self.action_labels,
        }
        save_arrays(path, _STORED, fields, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SwitchingMDP:
        """Read a problem from a file, with all checks of a new one.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        SwitchingMDP
            The problem.

        Raises
        ------
        DamagedFile
            If the file is damaged or holds something else.
        """
        fields, arrays = load_arrays(path, _STORED)
        try:
            check_stored(fields, arrays)
            n_states = len(arrays["starts"]) - 1
            pairs = Pairs(n_states, fields["n_actions"], arrays["starts"], arrays["actions"])
            model = Model.of(**{name: arrays[name] for name in Model._fields[:-1]})
            patches = Patches.of(model, *(arrays[name] for name in Patches._fields[:-1]))
            points = _checked_points(arrays["change_points"])
            self = cls._of(pairs, law_from_code(*fields["law"]), model, patches, points)
            states, actions = fields["state_labels"], fields["action_labels"]
            self.state_labels = check_labels("state_labels", states, pairs.n_states)
            self.action_labels = check_labels("action_labels", actions, pairs.n_actions)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DamagedFile(f"{path} does not describe a switching MDP: {error}") from None
        return self


@patient
def _first_disconnected(model: Any, patches: Any, last: int) -> int:
    for i in range(last + 1):
        if i > 0:
            for k in range(patches.offsets[i - 1], patches.offsets[i]):
                model.row[patches.pair[k]] = patches.new[k]
        # A change that alters only numbers leaves the graph as it was.
        if (i == 0 or patches.rewires[i - 1]) and not is_connected(model):
            return i
    return -1


def _must_be_mdp(value: Any, index: int) -> None:
    if not isinstance(value, MDP):
        wrong = InvalidParameter(f"configuration {index}", value, "an MDP")
        raise InvalidProblem(str(wrong))


def _checked_points(change_points: Any) -> NDArray[np.int64]:
    try:
        return check_increasing_steps(change_points)
    except ValueError as error:
        raise InvalidProblem(f"change points {error}") from None


def as_switching(problem: SwitchingMDP | MDP) -> SwitchingMDP:
    """A problem as a `SwitchingMDP`; an `MDP` becomes one without changes.

    Parameters
    ----------
    problem
        An MDP or a switching MDP.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> as_switching(MDP([[[0, 1]], [[1, 0]]], [[1], [0]])).changes
    0
    """
    if isinstance(problem, MDP):
        return SwitchingMDP([problem])
    if not isinstance(problem, SwitchingMDP):
        raise InvalidParameter("problem", problem, "an MDP or a SwitchingMDP")
    return problem
