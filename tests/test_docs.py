"""The code and the configurations in the README and the docs work as printed."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import pages

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments import check, loads
from switchmdp.problems import CHOICES, PROBLEMS

ROOT = Path(__file__).resolve().parent.parent
PREAMBLE = """
import numpy as np, switchmdp as sm
rng = np.random.default_rng(0)
other = sm.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)))
"""


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", read(page), re.S)


def shown_report() -> str:
    """What `check_agent` prints in the guide."""
    (report,) = re.findall(r"```\n(Broken violates.*?)```", read("docs/guide.md"), re.S)
    return str(report)


def test_the_home_page_has_the_first_example_of_the_readme() -> None:
    (home,) = blocks("docs/index.md", "python")
    assert blocks("README.md", "python")[0].startswith(home)
    (output,) = blocks("docs/index.md", "text")
    assert output in read("README.md")


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("README.md", ["EvidencePSRL       198 (141 … 256)\nSW-UCRL          973 (854 … 1 119)"]),
        (
            "docs/guide.md",
            [shown_report(), "Greedy keeps the contract", "Careful keeps the contract"],
        ),
        ("docs/experiments.md", []),
        ("docs/gymnasium.md", []),
        ("docs/online.md", []),
        ("docs/agents.md", []),
        ("docs/evidence-psrl.md", []),
        (
            "docs/problems.md",
            ["transition variation", "[0.429 0.386 0.347 0.312 0.281 0.253]"],
        ),
    ],
)
def test_the_code_on_a_page_runs_without_warnings(
    page: str, printed: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "page.py"
    script.write_text(PREAMBLE + "\n".join(blocks(page, "python")), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    for text in printed:
        assert text in done.stdout


def test_the_configurations_on_the_page_about_experiments_are_valid() -> None:
    configurations = blocks("docs/experiments.md", "toml")
    assert len(configurations) == 2
    for configuration in configurations:
        check(loads(configuration))


def test_the_page_about_experiments_shows_the_errors_of_a_wrong_configuration() -> None:
    first, _ = blocks("docs/experiments.md", "toml")
    wrong = first.replace("window = { sweep = [1000, 4000, 16_000] }", "windw = { sweep = [1000] }")
    with pytest.raises(InvalidExperiment) as caught:
        check(loads(wrong))
    for fault in caught.value.faults:
        assert f"  {fault}\n" in read("docs/experiments.md")


def test_the_configuration_on_the_page_about_problems_is_valid() -> None:
    (configuration,) = blocks("docs/problems.md", "toml")
    assert len(check(loads(configuration)).settings) == 4


def test_the_page_about_problems_lists_every_problem_and_every_change_operator() -> None:
    page = read("docs/problems.md")
    for name in PROBLEMS:
        assert f"`{name}`" in page
    for name in CHOICES["how"]:
        assert f'| `"{name}"` |' in page


TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
HOW_TO = sorted((ROOT / "docs/how-to").glob("*.md"))


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [*TUTORIALS, *HOW_TO], ids=lambda page: f"{page.parent.name}/{page.stem}"
)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    run = pages.blocks(text)
    for block, output in zip(run, pages.printed(run, tmp_path), strict=True):
        assert pages.agrees(block.shown, output, block.varies), (
            f"{block.code}\nprints\n{output}\nand not\n{block.shown}\n"
            f"(python -m tools.pages {page.relative_to(ROOT)} rewrites the page)"
        )
    for figure in pages.FIGURE.finditer(text):
        assert (tmp_path / figure["name"]).exists()
        assert 0 < (page.parent / figure["path"]).stat().st_size < 100_000


def test_a_compiled_agent_has_the_place_on_the_leaderboard_of_the_plain_one() -> None:
    plain = read("docs/tutorials/compare-your-algorithm.md").splitlines()
    (block,) = (
        block
        for block in pages.blocks(read("docs/tutorials/compiled-component.md"))
        if "leaderboard" in block.code
    )
    assert len(block.shown.splitlines()) == 7
    assert set(block.shown.splitlines()) <= set(plain)


def test_a_wrong_output_in_a_page_is_rewritten_and_a_right_one_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    wrong = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n```sh\necho abc\n```\n"
    page.write_text(f"# Title\n\n{wrong}\n```text\na...\n```\n", encoding="utf-8")
    assert pages.update(page, tmp_path) == ["print(1 + 1)\n"]
    right = wrong.replace("\n3\n", "\n2\n")
    assert page.read_text(encoding="utf-8") == f"# Title\n\n{right}\n```text\na...\n```\n"


def test_a_notebook_has_the_outputs_of_its_page() -> None:
    notebooks = pytest.importorskip("tools.notebooks")
    content = notebooks.notebook(
        "# Title\n\nSee [the guide](../guide.md).\n\n"
        '```python title="mine.py"\nx = 20\n```\n\n'
        "```python\nfrom mine import x\nprint(x + 1)\n```\n\n```text\n21\n```\n\n"
        "```sh\nls mine.py\n```\n\n```text\nmine.py\n```\n"
    )
    notebooks.execute(content)
    assert [cell.cell_type for cell in content.cells] == ["markdown", "code", "code", "code"]
    assert content.cells[0].source == "# Title\n\nSee the guide."
    outputs = [cell.outputs[0].text for cell in content.cells[1:]]
    assert outputs == ["Writing mine.py\n", "21\n", "mine.py\n"]


def test_a_notebook_shows_the_figures_that_its_page_saves() -> None:
    notebooks = pytest.importorskip("tools.notebooks")
    (cell,) = notebooks.notebook(
        '```python\nsm.reports.save_figure(figure, "a.svg")\n```\n\n![A](../figures/t/a.svg)\n'
    ).cells
    assert cell.source == 'sm.reports.save_figure(figure, "a.svg")\nfigure'


def test_the_page_of_problems_says_which_parameters_they_have() -> None:
    page = read("docs/problems.md")
    signatures = {name: inspect.signature(factory).parameters for name, factory in PROBLEMS.items()}

    def having(parameter: str) -> set[str]:
        return {name for name, parameters in signatures.items() if parameter in parameters}

    rows = dict(re.findall(r"^\| (`[a-z_`, ]+`) \| (.*`) \|$", page, re.MULTILINE))
    for parameters in ("`changes`, `change_points`", "`cycle`", "`every`", "`seed`"):
        named = set(re.findall("`(.+?)`", rows[parameters]))
        named = set(PROBLEMS) - named if rows[parameters].startswith("all except") else named
        for parameter in re.findall("`(.+?)`", parameters):
            assert named == having(parameter), parameter
    assert having("law") == set(PROBLEMS)
    shared = {"seed", "changes", "change_points", "cycle", "every", "law", "horizon"}
    table = page.split("In addition:")[1].split("\n\n")[1]
    own = dict(re.findall(r"^\| (`[a-z`, -]+`) \| (.*) \|$", table, re.M))
    listed = {name: own[names] for names in own for name in re.findall("`(.+?)`", names)}
    for name, signature in signatures.items():
        others = set(signature) - shared
        assert set(re.findall(r"`([a-z_]+)`", listed[name])) == others, name
        for parameter in others:
            default = signature[parameter].default
            if isinstance(default, (int, float)) and not isinstance(default, bool):
                assert f"`{parameter}` ({default:g})" in listed[name], (name, parameter)
    defaults = {name: signatures[name]["changes"].default for name in having("changes")}
    other = {name: default for name, default in defaults.items() if default != 2}
    assert other == {
        "grid": 4, "deterministic-graph": 4, "contextual-bandit": 0, "concentrated-rows": 0,
    }  # fmt: skip
    defaults_of_changes = (
        "The default of `changes` is 2, except for `grid` and `deterministic-graph` (4) and for "
        "`contextual-bandit` and `concentrated-rows` (0)."
    )
    text = " ".join(page.split())
    assert defaults_of_changes in text
    renamed = {
        name: factory.__name__
        for name, factory in PROBLEMS.items()
        if factory.__name__ != name.replace("-", "_")
    }
    assert renamed == {"random": "random_mdp", "random-sparse": "random_sparse_mdp"}
    assert all(f"`{name}` is `problems.{new}`" in text for name, new in renamed.items())
