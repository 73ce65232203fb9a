"""Check that an agent or a problem keeps its contract.

`check_agent` distinguishes two kinds of findings:

- *Errors*: the agent violates what `simulate` relies on. It needs the methods `act` and `observe`
  and must choose available actions. Runs with the same seed must be equal: repeated, resumed in
  pieces, continued with a copy of the agent, and (for compiled classes) as machine code and
  interpreted. An agent with a method `reseed` must use the seed.
- *Advice*: `simulate` works, but other uses may not. The agent does not validate its input, cannot
  be pickled, or its memory grows with the number of steps.

Errors raise `ContractViolation`, which lists all of them. With `strict=True`, advice counts as
errors; the agents of this package are tested that way.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re
import tempfile
import textwrap
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from switchmdp.compiled import JIT, is_compiled
from switchmdp.errors import ContractViolation, InvalidInteraction, InvalidParameter
from switchmdp.mdp import MDP, Beta, SwitchingMDP, as_switching
from switchmdp.planning.gain import optimal_gain_brackets
from switchmdp.simulation import Record, simulate
from switchmdp.validation import check_integer

DEFAULT_SIZES = {"n_states": 3, "n_actions": 2}
BAD_INDICES: list[Any] = [-1, 10**9, 1.0, "0", None, True, float("nan"), [0], np.zeros(1, int), 1j]
BAD_REWARDS: list[Any] = [
    float("nan"), float("inf"), -float("inf"), -0.1, 1.1, "1", None, True, [0.5], np.ones(1), 1j,
]  # fmt: skip
WIDTH = 88  # columns of a printed finding
REFUSED, CHANGED, ACCEPTED = "refused", "changed", "accepted"
HOW_TO_REFUSE = "; switchmdp.validation has checks that refuse it"


@dataclass(frozen=True, repr=False)
class AgentReport:
    """What `check_agent` found. `print(report)` lists every finding.

    Parameters
    ----------
    agent
        The name of the class.
    passed
        The checks without findings.
    errors
        Violations of what `simulate` relies on.
    advice
        All other findings.
    """

    agent: str
    passed: tuple[str, ...]  # the checks without findings
    errors: tuple[str, ...]  # violations of what `simulate` relies on
    advice: tuple[str, ...]  # everything else

    def __repr__(self) -> str:
        counts = f"{len(self.passed)} checks passed, {len(self.errors)} errors"
        return f"AgentReport({self.agent}: {counts}, {len(self.advice)} pieces of advice)"

    def __str__(self) -> str:
        verdict = "violates the contract" if self.errors else "keeps the contract"
        lines = [f"{self.agent} {verdict}; {len(self.passed)} checks passed"]
        lines += [_item(f"error: {error}") for error in self.errors]
        lines += [_item(f"advice: {advice}") for advice in self.advice]
        return "\n".join(lines)


def _item(text: str) -> str:
    """Indent a finding, in lines of at most WIDTH columns that break no call such as act(-1, 0).

    >>> print(_item("advice: " + "observe(0, 0, 0.5, -1), " * 4 + "and others"))
      advice: observe(0, 0, 0.5, -1), observe(0, 0, 0.5, -1), observe(0, 0, 0.5, -1),
        observe(0, 0, 0.5, -1), and others
    """
    kept = re.sub(r"\([^()]*\)", lambda call: call[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        kept, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines).replace("\0", " ")


def check_agent(
    make: Any,
    *,
    problem: SwitchingMDP | MDP | None = None,
    steps: int = 2000,
    memory_steps: int = 20_000,
    seed: int = 0,
    strict: bool = False,
) -> AgentReport:
    """Check that an agent keeps the contract; raise `ContractViolation` if it does not.

    A class or function receives `n_states`, `n_actions`, `available` and `problem` as far as it
    requires them, and a function of one argument receives the problem. An agent's memory may grow
    only within the first `memory_steps` steps: choose a window that is full by then.

    Parameters
    ----------
    make
        A class, a function that returns a new agent, or an agent, which is copied.
    problem
        The problem of the runs; by default a random switching MDP with Beta rewards.
    steps
        The number of steps of a run.
    memory_steps
        The number of steps within which the memory may grow.
    seed
        The seed of the runs.
    strict
        Whether advice (input that is not validated, for example) counts as an error.

    Returns
    -------
    AgentReport
        What was checked and found.

    Raises
    ------
    ContractViolation
        If the agent violates the contract; `report` is the report.
    InvalidParameter
        If `make` cannot be called with what is offered, or an option is invalid.

    Examples
    --------
    >>> class Cycle:
    ...     def __init__(self, n_states, n_actions):
    ...         self.n_actions, self.t = n_actions, 0
    ...
    ...     def act(self, state):
    ...         return self.t % self.n_actions
    ...
    ...     def observe(self, state, action, reward, next_state):
    ...         self.t += 1
    >>> report = check_agent(Cycle, steps=300, memory_steps=2000)
    >>> report.errors, "bad input is accepted: act(-1)" in str(report)
    ((), True)
    """
    steps = check_integer("steps", steps, 10)
    memory_steps = check_integer("memory_steps", memory_steps, 10)
    seed = check_integer("seed", seed, 0)
    problem = None if problem is None else as_switching(problem)
    new = _factory(make, problem, steps, seed)
    findings = _Findings()
    agents: list[Any] = []
    findings.check("the agent can be made", lambda: _construct(new, agents))
    if agents:
        shown = problem or _random_problem(agents[0], steps, seed)
        _run_checks(_Case(new, shown, steps, memory_steps, seed), agents[0], findings)
        findings.advice.extend(_seed_without_reseed(make, agents[0]))
    made = type(agents[0]) if agents else make
    name = made.__qualname__ if isinstance(made, type) else repr(made)
    errors, advice = tuple(findings.errors), tuple(findings.advice)
    if strict:
        errors, advice = errors + advice, ()
    report = AgentReport(name, tuple(findings.passed), errors, advice)
    if errors:
        message = "\n".join([f"{name} violates the contract:", *(f"  {error}" for error in errors)])
        if agents and problem is None and findings.cause is not None:
            message += (
                f"\n  (the checks use a problem with {shown.n_states} states and {shown.n_actions} "
                "actions; pass `problem=` if your agent is for another size)"
            )
        raise ContractViolation(message, report) from findings.cause
    return report


def check_problem(problem: SwitchingMDP) -> None:
    """Check that a problem is communicating, solvable, reversible and storable.

    Parameters
    ----------
    problem
        A switching MDP.

    Raises
    ------
    ContractViolation
        If the problem violates the contract.
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
    >>> from switchmdp.problems import random_switching
    >>> check_problem(random_switching(changes=2, horizon=100))
    """
    _require(isinstance(problem, SwitchingMDP), f"{problem!r} is not a SwitchingMDP")
    problem.check_connected()
    brackets = optimal_gain_brackets(problem)
    _require(((brackets >= -1e-9) & (brackets <= 1 + 1e-9)).all(), "a gain lies outside [0, 1]")
    row, patches = problem.model.row.copy(), problem.patches
    for k in range(len(patches.pair)):
        expected = f"patch {k} does not replace the row that its pair has"
        _require(row[patches.pair[k]] == patches.old[k], expected)
        row[patches.pair[k]] = patches.new[k]
    for k in range(len(patches.pair) - 1, -1, -1):
        row[patches.pair[k]] = patches.old[k]
    _require(np.array_equal(row, problem.model.row), "the patches cannot be undone")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        problem.save(path)
        loaded = SwitchingMDP.load(path)
    arrays: list[tuple[Any, Any]] = list(zip(problem.model, loaded.model, strict=True))
    arrays += zip(problem.patches, loaded.patches, strict=True)
    arrays.append((problem.change_points, loaded.change_points))
    same = all(np.array_equal(x, y) for x, y in arrays)
    _require(same and loaded.law == problem.law, "saving and loading changes the problem")


def _require(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ContractViolation(otherwise)


# Making agents -----------------------------------------------------------------------------------


def _factory(make: Any, problem: SwitchingMDP | None, steps: int, seed: int) -> Callable[[], Any]:
    """Return a function without parameters that makes a new agent."""
    if not isinstance(make, type) and all(hasattr(make, verb) for verb in ("act", "observe")):
        return lambda: copy.deepcopy(make)
    allowed = "a class, a function that returns a new agent, or an agent"
    if not callable(make):
        raise InvalidParameter("make", make, allowed)
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # some built-in callables have no signature
        return lambda: make()
    shown = problem or _random_problem(None, steps, seed)
    offered = {
        "n_states": shown.n_states, "n_actions": shown.n_actions, "problem": shown,
        "available": shown.available,
    }  # fmt: skip
    passed_if_optional = set() if problem is None else {"n_states", "n_actions"}
    if not shown.available.all():
        passed_if_optional.add("available")
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [p for p in signature.parameters.values() if p.kind not in variadic]
    required = [p for p in parameters if p.default is p.empty]
    unknown = [p for p in required if p.name not in offered]
    by_position = [p for p in unknown if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(required) == len(by_position) == 2:  # two sizes under other names
        return lambda: make(shown.n_states, shown.n_actions)
    if len(required) == len(by_position) == 1 and not isinstance(make, type):
        return lambda: make(shown)  # the problem under another name
    if unknown:
        missing = ", ".join(sorted(p.name for p in unknown))
        raise InvalidParameter(
            "make", make,
            f"{allowed}; this one also requires {missing}: pass a function that sets it, such as "
            "lambda: Agent(3, 2, ...)",
        )  # fmt: skip
    names = [p.name for p in parameters if p in required or p.name in passed_if_optional]
    bound = inspect.BoundArguments(signature, OrderedDict((name, offered[name]) for name in names))
    return lambda: make(*bound.args, **bound.kwargs)


def _construct(new: Callable[[], Any], agents: list[Any]) -> Iterator[str]:
    """Add a new agent to the list, or yield what it lacks for any further check."""
    agent = new()
    lacks = [
        f"the agent has no method {verb!r}"
        for verb in ("act", "observe")
        if isinstance(agent, type) or not callable(getattr(agent, verb, None))
    ]
    for name in DEFAULT_SIZES:
        size = getattr(agent, name, 1)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            lacks.append(f"the agent's {name} must be a positive integer, got {size!r}")
    if not lacks and new() is agent:
        lacks.append("the function returns the same agent again; every run needs a new one")
    if not lacks:
        agents.append(agent)
    yield from lacks


def _random_problem(agent: Any, steps: int, seed: int) -> SwitchingMDP:
    """Return a random problem with two changes of the agent's size."""
    n_states, n_actions = (int(getattr(agent, name, size)) for name, size in DEFAULT_SIZES.items())
    pairs = getattr(agent, "pairs", None)
    rng = np.random.default_rng(seed)
    configurations = (
        MDP(
            rng.dirichlet(np.ones(n_states), (n_states, n_actions)),
            rng.random((n_states, n_actions)),
            available=getattr(pairs, "available", None),
            law=Beta(share=0.5),
        )
        for _ in range(3)
    )
    return SwitchingMDP(configurations, [2 + steps // 3, 2 + 2 * steps // 3])


# Running the checks ------------------------------------------------------------------------------
# A check yields what it finds.


class _Findings:
    """Collects errors and advice, and which checks passed."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.advice: list[str] = []
        self.passed: list[str] = []
        self.cause: Exception | None = None

    def check(self, title: str, check: Callable[[], Iterable[str]], advice: bool = False) -> None:
        """Run a check; an exception is an error, and a check without findings has passed."""
        try:
            findings = list(check())
        except Exception as error:
            self.cause = self.cause or error
            self.errors.append(f"{title}: failed with {type(error).__name__}: {error}")
            return
        (self.advice if advice else self.errors).extend(findings)
        if not findings:
            self.passed.append(title)


class _Case(NamedTuple):
    """What every check needs."""

    new: Callable[[], Any]
    problem: SwitchingMDP
    steps: int
    memory_steps: int
    seed: int

    def run(self, agent: Any, steps: int | None = None, **options: Any) -> Record:
        """Simulate; a resumed run keeps its seed and grid."""
        if "resume" not in options:
            options |= {"seed": self.seed, "every": 7}
        return simulate(agent, self.problem, steps or self.steps, trajectory=True, **options)


def _run_checks(case: _Case, agent: Any, findings: _Findings) -> None:
    first: list[Record] = []
    findings.check("simulate runs the agent", lambda: _first_run(case, first))
    others: dict[str, Callable[[], Record]] = {
        "two runs with the same seed": lambda: case.run(case.new()),
        "a run in pieces and a whole run": lambda: _in_pieces(case),
        "a run with the agent pickled in the middle and a run without that": lambda: _copied(case),
    }
    if JIT and is_compiled(agent):
        others["machine code and interpreted code"] = lambda: case.run(case.new(), interpreted=True)
    for what, run in others.items() if first else ():
        findings.check(f"{what} are equal", partial(_differences, first[0], run, what))
    draws = agent.draws() if hasattr(agent, "draws") else hasattr(agent, "reseed")
    if draws and case.problem.n_actions > 1:
        findings.check("reseed uses the seed", lambda: _seed_ignored(case))
    if first:
        findings.check("the agent can be pickled", lambda: _not_picklable(case), advice=True)
        findings.check("the memory is bounded", lambda: _memory_growth(case), advice=True)
        findings.check("bad input is refused", lambda: _bad_input_accepted(case), advice=True)


def _first_run(case: _Case, records: list[Record]) -> tuple[str, ...]:
    records.append(case.run(case.new()))
    return ()


def _differences(first: Record, run: Callable[[], Record], what: str) -> Iterator[str]:
    """Yield the first difference between two runs that must be equal."""
    other = run()
    for name in ("states", "actions", "rewards"):
        x, y = (np.asarray(getattr(record.trajectory, name)) for record in (first, other))
        differing = np.nonzero(x != y)[0] if x.shape == y.shape else np.array([0])
        if len(differing):
            yield f"{what} differ in their {name}, first at step {differing[0] + 1}"
            return
    for name in ("times", "regret", "pseudo_regret"):
        if not np.array_equal(getattr(first, name), getattr(other, name)):
            yield f"{what} differ in {name}"
            return


def _in_pieces(case: _Case) -> Record:
    agent = case.new()
    record = case.run(agent, 1)
    for stop in sorted({2, 5, case.steps // 3, case.steps // 2, case.steps}):
        record = case.run(agent, stop, resume=record)
    return record


def _copied(case: _Case) -> Record:
    agent = case.new()
    record = case.run(agent, case.steps // 2)
    try:
        agent = pickle.loads(pickle.dumps(agent))
    except Exception:
        agent = copy.deepcopy(agent)
    return case.run(agent, resume=record)


def _not_picklable(case: _Case) -> Iterator[str]:
    agent = case.new()
    case.run(agent, case.steps // 2)
    try:
        pickle.loads(pickle.dumps(agent))
    except Exception as error:
        yield f"the agent cannot be pickled ({error}); experiments with several processes need that"


def _seed_ignored(case: _Case) -> Iterator[str]:
    contents = []
    for seed in (0, 0, 1):
        agent = case.new()
        agent.reseed(np.random.SeedSequence(seed))
        contents.append(_content(agent))
    if contents[0] is None:
        return
    if contents[0] != contents[1]:
        yield "two agents reseeded with the same seed differ"
    if contents[0] == contents[2]:
        yield "two agents reseeded with different seeds are equal: reseed has no effect"


def _seed_without_reseed(make: Any, agent: Any) -> Iterator[str]:
    if isinstance(make, type) and _accepts_seed(make) and not hasattr(agent, "reseed"):
        yield "the class takes a seed, but has no reseed: it draws the same numbers in every run"


def _accepts_seed(make: type) -> bool:
    """Whether the constructor has a parameter `seed`."""
    try:
        return "seed" in inspect.signature(make).parameters
    except (TypeError, ValueError):  # some built-in classes have no signature
        return False


def _memory_growth(case: _Case) -> Iterator[str]:
    agent, steps = case.new(), case.memory_steps
    record = simulate(agent, case.problem, steps, case.seed)
    once = len(_content(agent) or b"")
    simulate(agent, case.problem, 2 * steps, resume=record)
    twice = len(_content(agent) or b"")
    if twice - once > 4096 + once // 100:
        yield (
            f"the agent's memory is not bounded: {once} bytes after {steps} steps and {twice} "
            "after twice as many (if it is only not full yet, increase memory_steps)"
        )


def _bad_input_accepted(case: _Case) -> Iterator[str]:
    """Yield what happens to bad states, actions and rewards, unless they are refused.

    All calls with the same kind of outcome are one finding, which shows one call per argument.
    """
    agent, pairs = case.new(), case.problem.pairs
    simulate(agent, case.problem, 50, case.seed)
    action = pairs.at(0)[0]
    missing = np.argwhere(~pairs.available)[:1].tolist()
    bad_calls: list[tuple[str, list[tuple[Any, ...]]]] = [
        ("act", [(bad,) for bad in BAD_INDICES]),
        ("observe", [(bad, action, 0.5, 0) for bad in BAD_INDICES]),
        ("observe", [(0, bad, 0.5, 0) for bad in BAD_INDICES]),
        ("observe", [(0, action, bad, 0) for bad in BAD_REWARDS]),
        ("observe", [(0, action, 0.5, bad) for bad in BAD_INDICES]),
        ("observe", [(s, a, 0.5, 0) for s, a in missing]),
    ]
    accepted: list[str] = []
    changed: list[str] = []
    raised: list[str] = []
    exceptions: list[str] = []
    for verb, tries in bad_calls:
        outcomes: dict[str, str] = {}  # the first call with this outcome
        before, trial = _content(agent), copy.deepcopy(agent)
        for arguments in tries:
            outcome = _outcome(trial, verb, arguments, before)
            if outcome != REFUSED:
                outcomes.setdefault(outcome, f"{verb}({', '.join(map(repr, arguments))})")
                trial = copy.deepcopy(agent)
        accepted += [outcomes.pop(ACCEPTED)] if ACCEPTED in outcomes else []
        changed += [outcomes.pop(CHANGED)] if CHANGED in outcomes else []
        raised += list(outcomes.values())[:1]
        exceptions += outcomes
    if accepted:
        yield f"bad input is accepted: {', '.join(accepted)}{HOW_TO_REFUSE}"
    if raised:
        names = ", ".join(dict.fromkeys(exceptions))
        wanted = "InvalidState, InvalidAction or InvalidReward"
        how = "" if accepted else HOW_TO_REFUSE
        yield f"bad input raises {names} instead of {wanted}: {', '.join(raised)}{how}"
    if changed:
        yield f"bad input is refused, but the agent has changed: {', '.join(changed)}"


def _outcome(agent: Any, verb: str, arguments: tuple[Any, ...], before: bytes | None) -> str:
    """Return REFUSED, CHANGED (although refused), ACCEPTED, or the name of an exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(agent, verb)(*arguments)
    except InvalidInteraction:
        return REFUSED if _content(agent) == before else CHANGED
    except Exception as error:
        return type(error).__name__
    return ACCEPTED


class _ContentPickler(pickle.Pickler):
    """Writes classes and functions by name, so that those of a notebook or a test are fine."""

    def persistent_id(self, value: Any) -> str | None:
        by_name = isinstance(value, (type, FunctionType))
        return f"{value.__module__}.{value.__qualname__}" if by_name else None


def _content(agent: Any) -> bytes | None:
    """Return an agent's state as bytes, or None if it cannot be written."""
    buffer = io.BytesIO()
    try:
        _ContentPickler(buffer).dump(copy.deepcopy(agent))
    except Exception:
        return None
    return buffer.getvalue()
