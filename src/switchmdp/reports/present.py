"""Figures and data frames of single objects, for methods such as `record.plot()`.

`plot` draws an MDP, a switching MDP, a plan, a record, the records of a batch, or an agent. It uses
the style and the parts of `figures`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import Agent
from switchmdp.display import counted
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.planning import Plan, optimal_gains
from switchmdp.reports.figures import (
    COLOURS,
    PAGE_WIDTH,
    TEXT,
    Panel,
    add_legend,
    make_panels,
    own_style,
    regret_figure,
)
from switchmdp.reports.page import number
from switchmdp.reports.resampling import Band
from switchmdp.simulation import Record, Records
from switchmdp.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIBRARIES = ("pandas", "polars", "pyarrow")
MOST_NODES = 12  # states of an MDP that is drawn as a graph
MOST_NUMBERS = 60  # cells of a table that also shows its numbers
NODE = 11.0  # radius of a state, in points
MOST_LINES = 100  # runs of a batch that are drawn one by one


@singledispatch
def plot(thing: Any, **options: Any) -> Figure:
    """Draw an object (extra `plot`).

    Parameters
    ----------
    thing
        An MDP, a switching MDP, a plan, a record, the records of a batch, or an agent.
    **options
        The options of the object's method `plot`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure. A notebook shows it; `reports.save_figure` writes it to a file.

    Raises
    ------
    InvalidParameter
        If there is nothing to draw.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> import switchmdp as sm
    >>> figure = sm.plot(sm.problems.riverswim())
    >>> [axis.get_title() for axis in figure.axes]
    ['transitions', 'mean rewards']
    """
    if hasattr(thing, "figure"):  # a comparison
        figure: Figure = thing.figure
        return figure
    allowed = "an MDP, a switching MDP, a plan, a record, records, an agent or a comparison"
    raise InvalidParameter("thing", thing, allowed)


def to_dataframe(columns: Mapping[str, NDArray[Any]], *, library: str | None = None) -> Any:
    """Columns as a data frame.

    Parameters
    ----------
    columns
        Arrays of equal length, by name.
    library
        `"pandas"`, `"polars"` or `"pyarrow"`; by default the first of them that is installed.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The columns, in this order.

    Raises
    ------
    InvalidParameter
        If the library is not one of the three.
    MissingExtra
        If the library is not installed, or none of them is.

    Examples
    --------
    >>> to_dataframe({"step": np.arange(3)}, library="pyarrow").num_rows
    3
    """
    if library is not None and library not in LIBRARIES:
        raise InvalidParameter("library", library, f"one of {', '.join(LIBRARIES)}, or None")
    for name in LIBRARIES if library is None else (library,):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        content = {column: np.asarray(values) for column, values in columns.items()}
        return module.table(content) if name == "pyarrow" else module.DataFrame(content)
    wanted = "pandas, polars or pyarrow" if library is None else library
    raise MissingExtra(f"data frames need {wanted}: pip install {library or LIBRARIES[0]}")


# Regret and gains over time.


@plot.register(Record)
def _plot_record(record: Record) -> Figure:
    curves = {"regret": record.regret, "pseudo-regret": record.pseudo_regret}
    bands = {name: Band(record.times, y, y, y).from_zero() for name, y in curves.items()}
    restarts = record.episodes.restarts if record.episodes is not None else ()
    points = record.problem.change_points
    title = f"{record.agent}, seed {record.seed}"
    title += " (no change in this run)" if len(points) and points[0] >= record.horizon else ""
    return regret_figure([Panel(title, bands, points, restarts=restarts)])


@plot.register(Records)
def _plot_records(records: Records) -> Figure:
    mean = records.regret.mean(axis=0)
    low, high = records.regret.min(axis=0), records.regret.max(axis=0)
    points = records[0].problem.change_points if len(records) else ()
    band = Band(records.times, mean, low, high).from_zero()
    curves = {"mean, with the range of all runs": band}
    figure = regret_figure([Panel(counted(len(records), "run"), curves, points)])
    for run in records.regret[:MOST_LINES]:
        line = np.concatenate([[0.0], run])
        figure.axes[0].plot(band.times, line, color=COLOURS[0], lw=0.4, alpha=0.5)
    return figure


@plot.register(SwitchingMDP)
@own_style()
def _plot_problem(problem: SwitchingMDP, *, horizon: int | None = None) -> Figure:
    points = problem.change_points.tolist()
    if horizon is None:
        last = points[-1] if points else 1
        horizon = max(2, last + math.ceil(last / max(1, len(points))))
    horizon = check_integer("horizon", horizon, 1)
    points = [point for point in points if point <= horizon]
    gains = optimal_gains(problem, len(points))
    sizes = f"{counted(problem.n_states, 'state')}, {counted(problem.n_actions, 'action')}"
    title = f"{sizes}, {counted(len(points), 'change')}"
    figure, (axis,) = make_panels([title], "optimal gain", 2.0)
    if len(points) <= 50:
        axis.vlines(points, 0, 1, "0.8", lw=0.7, zorder=0, transform=axis.get_xaxis_transform())
    axis.step([1, *points, horizon], [*gains, gains[-1]], where="post", color=COLOURS[0])
    axis.set_xlim(0, horizon)
    room = max(0.02, 0.15 * float(np.ptp(gains)))
    axis.set_ylim(max(0.0, gains.min() - room), min(1.0, gains.max() + room) + 1e-3)
    axis.set_xlabel("time step")
    figure.draw_without_rendering()
    return figure


# States and actions.


@plot.register(Plan)
@own_style()
def _plot_plan(plan: Plan) -> Figure:
    figure, (axis,) = make_panels([f"gain {plan.gain:.4g}"], "bias", 2.2)
    states, actions = np.arange(len(plan.policy)), np.unique(plan.policy)
    entries = []
    for action in actions:
        taken = plan.policy == action
        colour = COLOURS[int(action) % len(COLOURS)]
        bars = axis.bar(states[taken], plan.bias[taken], color=colour, width=0.8)
        entries.append((f"action {action}", bars[0]))
    axis.set_xlabel("state")
    return add_legend(figure, entries[:12])


@plot.register(MDP)
@own_style()
def _plot_mdp(mdp: MDP) -> Figure:
    titles = ["transitions", "mean rewards"] if mdp.n_states <= MOST_NODES else ["mean rewards"]
    figure, axes = make_panels(titles, "", 3.2)
    _table(axes[-1], mdp.rewards, mdp.state_labels, mdp.action_labels)
    if len(axes) == 1:
        figure.draw_without_rendering()
        return figure
    figure.set_size_inches(PAGE_WIDTH, 3.4)
    _graph(axes[0], mdp)
    names = mdp.action_labels or [f"action {a}" for a in range(mdp.n_actions)]
    lines = [axes[0].plot([], [], color=COLOURS[a % len(COLOURS)])[0] for a in range(len(names))]
    entries = list(zip(names, lines, strict=True))[:12]
    for p in (0.1, 1.0):
        look = {"color": "0.3", **_strength(p)}
        entries.append((f"probability {p:g}", axes[0].plot([], [], **look)[0]))
    return add_legend(figure, entries)


@plot.register(Agent)
@own_style()
def _plot_agent(agent: Agent) -> Figure:
    if not hasattr(type(agent), "reward_estimates"):
        raise InvalidParameter("agent", agent, "an agent with visits and estimates")
    chosen: Any = agent
    titles = ["visits", "estimated mean rewards"]
    figure, axes = make_panels(titles, "", 3.0)
    visits = chosen.visits
    means = np.where(visits > 0, chosen.reward_estimates, np.nan)
    for axis, table in zip(axes, (visits, means), strict=True):
        _table(axis, table)
        for s, a in enumerate(chosen.policy.tolist()):
            axis.plot([a, a + 1, a + 1, a, a], [s, s, s + 1, s + 1, s], color="black", lw=1.2,
                      clip_on=False)  # fmt: skip
    name = type(agent).__name__
    figure.suptitle(f"{name} at step {number(chosen.t)} (frames: current policy)", fontsize=TEXT)
    figure.draw_without_rendering()
    return figure


def _table(axis: Axes, values: NDArray[Any], states: Any = None, actions: Any = None) -> None:
    """Colour the (S, A) cells of an array; a small one also shows its numbers."""
    shown = np.asarray(values, np.float64)
    n_states, n_actions = shown.shape
    mesh: Any = axis.pcolormesh(
        np.ma.masked_invalid(shown), cmap="cividis", edgecolors="white",
        linewidth=0.6 if n_states <= 40 else 0.0, rasterized=n_states > 200,
    )  # fmt: skip
    axis.invert_yaxis()
    axis.set_xlabel("action")
    axis.set_ylabel("state")
    for size, names, set_ticks in (
        (n_actions, actions, axis.set_xticks), (n_states, states, axis.set_yticks),
    ):  # fmt: skip
        step = max(1, math.ceil(size / 12))
        labels = [str(names[i] if names else i)[:12] for i in range(0, size, step)]
        set_ticks(np.arange(0, size, step) + 0.5, labels)
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    if shown.size > MOST_NUMBERS:
        axis.figure.colorbar(mesh, ax=axis, shrink=0.8, aspect=25).outline.set_visible(False)
        return
    low, high = (np.nanmin(shown), np.nanmax(shown)) if np.isfinite(shown).any() else (0.0, 1.0)
    for (s, a), value in np.ndenumerate(shown):
        if not np.isnan(value):
            share = (value - low) / (high - low) if high > low else 0.0
            colour = "black" if share > 0.55 else "white"
            axis.text(a + 0.5, s + 0.5, _cell(value), ha="center", va="center", color=colour)


def _cell(value: float) -> str:
    """A number in a cell.

    >>> [_cell(value) for value in (11_428.0, 0.0, 1.0, 0.5, 1 / 3)]
    ['11 428', '0', '1', '0.5', '0.333']
    """
    return number(value) if abs(value) >= 1000 else f"{value:.3g}"


def _graph(axis: Axes, mdp: MDP) -> None:
    """States on a circle, transitions as arrows: colour by action, width by probability."""
    turn = 2.0 * np.pi * np.arange(mdp.n_states) / mdp.n_states
    places = max(1.0, mdp.n_states / 5.0) * np.stack([np.sin(turn), np.cos(turn)], axis=1)
    for axis_line in (axis.xaxis, axis.yaxis):
        axis_line.set_visible(False)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.set_aspect("equal")
    outer = max(1.0, mdp.n_states / 5.0) + 0.4 + 0.12 * mdp.n_actions
    axis.set_xlim(-outer, outer)
    axis.set_ylim(-outer, outer)
    for s in range(mdp.n_states):
        for a in mdp.pairs.at(s):
            colour = COLOURS[a % len(COLOURS)]
            for target, p in zip(*mdp.successors(s, a), strict=True):
                look = {"color": colour, **_strength(p)}
                if target == s:
                    _loop(axis, places[s], a, look)
                else:
                    bend = 0.12 + 0.09 * a
                    arrow = {
                        "arrowstyle": "-|>", "connectionstyle": f"arc3,rad={bend}",
                        "shrinkA": NODE, "shrinkB": NODE, "mutation_scale": 7, **look,
                    }  # fmt: skip
                    axis.annotate("", places[target], places[s], arrowprops=arrow)
    labels = mdp.state_labels or [str(s) for s in range(mdp.n_states)]
    axis.plot(*places.T, "o", ms=2 * NODE, mfc="white", mec="0.3", mew=0.9, zorder=3)
    for place, label in zip(places, labels, strict=True):
        axis.text(float(place[0]), float(place[1]), label[:4], ha="center", va="center", zorder=4)


def _strength(p: float) -> dict[str, Any]:
    """How an arrow shows its probability."""
    return {"lw": 0.4 + 1.6 * p, "alpha": 0.35 + 0.65 * p}


def _loop(axis: Axes, place: NDArray[np.float64], action: int, look: Any) -> None:
    """A transition that stays: a circle that touches the state on the outside."""
    radius = 0.2 + 0.06 * action
    middle = place * (1.0 + (0.16 + radius) / float(np.hypot(*place)))
    angle = np.linspace(0.0, 2.0 * np.pi, 60)
    axis.plot(middle[0] + radius * np.cos(angle), middle[1] + radius * np.sin(angle),
              clip_on=False, **look)  # fmt: skip
