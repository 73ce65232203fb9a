"""Reports of results: measures, tables, figures, a page, and export to CSV and Parquet.

    >>> import tempfile
    >>> import switchmdp as sm
    >>> comparison = sm.compare(
    ...     lambda seed: sm.problems.random_switching(5, 3, changes=1, horizon=1000, seed=seed),
    ...     {"random": sm.agents.Random}, horizon=1000, n_problems=3,
    ... )
    >>> results = comparison.results
    >>> setting = results.settings["problems"]
    >>> mean = sm.reports.final_regret(setting, "random")
    >>> mean.low <= mean.middle <= mean.high
    True
    >>> print(sm.reports.summary(results).splitlines()[2])
    problems: regret after 1 000 steps on 3 problems
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = sm.reports.export_tables(results, folder, ["csv"])
    ...     [path.name for path in paths]
    ['regret.csv', 'runs.csv', 'problems.csv', 'agents.csv']

- Whole reports: `write_report`, `summary`, `export_tables`, `write_leaderboard`.
- Measures of an agent in a setting: `regret_band`, `final_regret`, `final_quantiles`,
  `segment_regret`, `bumps`, `adaptation_by_segment`, `detection`.
- Comparisons of two agents: `difference`, `ratio`, `probability_of_improvement`.
- Regret against a swept parameter: `regret_by_parameter`. Verdicts on claims: `judge_all`.
- Figures: `regret_figure`, `parameter_figure`, `distribution_figure`, `save_figure`.
- `as_setting` makes a setting from regret curves that were computed elsewhere.

Means come with 95 % bootstrap intervals over problems. Figures and the page need the extra `plot`,
Parquet needs the extra `parquet`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from switchmdp.reports.curves import regret_by_parameter
from switchmdp.reports.figures import (
    Panel,
    distribution_figure,
    parameter_figure,
    regret_figure,
    save_figure,
)
from switchmdp.reports.measures import (
    Adaptation,
    Detection,
    adaptation_by_segment,
    as_setting,
    bumps,
    detection,
    difference,
    final_quantiles,
    final_regret,
    probability_of_improvement,
    ratio,
    regret_band,
    segment_regret,
)
from switchmdp.reports.page import Table
from switchmdp.reports.report import summary, write_report, write_tables
from switchmdp.reports.resampling import Band, Interval
from switchmdp.reports.tables import Verdict, judge_all, summary_table

if TYPE_CHECKING:
    from switchmdp.reports.export import export_tables
    from switchmdp.reports.leaderboard import Leaderboard, write_leaderboard

# Imported when first used: a report does not need them.
_LAZY = {
    "export_tables": "export",
    "Leaderboard": "leaderboard",
    "write_leaderboard": "leaderboard",
}

__all__ = [
    "Adaptation", "Band", "Detection", "Interval", "Leaderboard", "Panel", "Table", "Verdict",
    "adaptation_by_segment", "as_setting", "bumps", "detection", "difference",
    "distribution_figure", "export_tables", "final_quantiles", "final_regret", "judge_all",
    "parameter_figure", "probability_of_improvement", "ratio", "regret_band", "regret_by_parameter",
    "regret_figure", "save_figure", "segment_regret", "summary", "summary_table",
    "write_leaderboard", "write_report", "write_tables",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"switchmdp.reports.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
