"""A learner on disk: two generations of snapshots, so that opening need not replay the whole log.

A snapshot is a checksummed file (`storage`) named by the last record of the log that it holds. The
first of all, number 0, is the agent as it was given; it is kept for ever, for a replay from the
beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from switchmdp.agents.stored import described, known_classes, rebuilt
from switchmdp.errors import DamagedFile
from switchmdp.online.learner import Learner, Pending
from switchmdp.online.settings import Settings
from switchmdp.online.signal import ChangeSignal, Signal
from switchmdp.storage import Arrays, load_arrays, save_arrays

KIND = "decisions"
PLAIN = (
    "at", "decided", "counted", "expired", "agreed", "shadowed", "mode", "policy", "wants_plan",
    "alarmed",
)  # fmt: skip
GENERATIONS = 2


def snapshots_of(folder: Path) -> dict[int, Path]:
    """Those that are there by number, the newest first."""
    names = {int(p.stem[9:]): p for p in folder.glob("snapshot-*.npz") if p.stem[9:].isdigit()}
    return dict(sorted(names.items(), reverse=True))


def file_of(folder: Path, number: int) -> Path:
    """Where the snapshot of this number lies; number 0 is the first of all."""
    return folder / f"snapshot-{number:012d}.npz"


def parts_of(learner: Learner) -> tuple[dict[str, Any], Arrays]:
    """All of a learner; the fields are a copy, the arrays its own."""
    agent, arrays = described(learner.agent)
    signal, signal_arrays = learner.signal.state()
    fields = {
        "settings": asdict(learner.settings), "agent": agent, "signal": signal,
        "pending": [[n, *entry] for n, entry in learner.pending.items()],
        "answered": [[n, *given] for n, given in learner.answered.items()],
        "sessions": [[key, *seen] for key, seen in learner.sessions.items()],
        "alerts": [asdict(alert) for alert in learner.alerts],
        "rewards": [learner.rewards.size, [list(b) for b in learner.rewards.buckets]],
        **{name: getattr(learner, name) for name in PLAIN},
    }  # fmt: skip
    arrays = {f"agent.{name}": array for name, array in arrays.items()}
    arrays |= {f"signal.{name}": array for name, array in signal_arrays.items()}
    return fields, arrays | {"last_step": learner.last_step, "last_at": learner.last_at}


def save(folder: Path, number: int, fields: dict[str, Any], arrays: Arrays) -> None:
    """Write a snapshot, and remove those that are no longer needed."""
    save_arrays(file_of(folder, number), KIND, fields, arrays)
    for old in list(snapshots_of(folder))[GENERATIONS:]:
        if old:
            file_of(folder, old).unlink(missing_ok=True)


def alike(one: tuple[dict[str, Any], Arrays], other: tuple[dict[str, Any], Arrays]) -> bool:
    """Whether two learners, or two agents, are the same in every bit, by their parts."""
    (fields, arrays), (others, more) = one, other

    def bits(array: Any) -> tuple[Any, ...]:
        return array.dtype, array.shape, array.tobytes()

    same = fields == others and arrays.keys() == more.keys()
    return same and all(bits(arrays[name]) == bits(more[name]) for name in arrays)


def load(path: Path, classes: Iterable[type] = ()) -> Learner:
    """The learner that a snapshot holds."""
    fields, arrays = load_arrays(path, KIND)
    inner = {name[6:]: array for name, array in arrays.items() if name.startswith("agent.")}
    try:
        agent = rebuilt(path, fields["agent"], inner, known_classes(classes))
        learner = Learner(agent, Settings(**fields["settings"]))
        for name in PLAIN:
            setattr(learner, name, fields[name])
        learner.pending = OrderedDict((n, Pending(*entry)) for n, *entry in fields["pending"])
        learner.answered = OrderedDict((n, (r, s)) for n, r, s in fields["answered"])
        learner.sessions = OrderedDict((key, (s, n)) for key, s, n in fields["sessions"])
        learner.alerts = [Signal(**alert) for alert in fields["alerts"]]
        learner.rewards.size, learner.rewards.buckets = fields["rewards"]
        ring = {"ring": arrays["signal.ring"], "rewards": arrays["signal.rewards"]}
        learner.signal = ChangeSignal.from_state(fields["signal"], ring)
        learner.last_step, learner.last_at = arrays["last_step"], arrays["last_at"]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path} does not describe decisions: {error!r}") from None
    return learner
