"""What computes one chunk and commits it: the same function in a thread, a process or a cluster.

Nothing but the folder's path, a chunk's id and whether the folder is trusted reaches a worker, and
nothing but a short account leaves it: the results go straight to disk. Run as a program (`main`),
this module serves a coordinator: chunk ids come in on standard input, accounts go out as lines of
JSON. When the input ends, the coordinator is gone, and the worker ends at once, whatever it was
doing.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from switchmdp.errors import ForeignFolder
from switchmdp.experiments.check import Plan
from switchmdp.experiments.chunks import compute
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.sources import search_path
from switchmdp.experiments.store import Store, open_store

STOPPED = "stopped"
TRUSTED = "trusted"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Account:
    """What is said of a chunk that was worked on."""

    chunk: str
    runs: int = 0
    failed: int = 0
    error: str = ""  # why it could not be committed
    disk_full: bool = False


def work(
    store: Store, plan: Plan, chunk: Chunk, cancelled: threading.Event | None = None
) -> Account:
    """Compute a chunk and commit it, unless it is cancelled before."""
    runs = 0 if chunk.agent is None else len(chunk)
    try:
        outcome = compute(plan, chunk, cancelled)
        store.commit(chunk, outcome)
    except KeyboardInterrupt:
        return Account(chunk.id, error=STOPPED)
    except (OSError, MemoryError) as error:
        full = isinstance(error, OSError) and error.errno in FULL
        return Account(chunk.id, error=f"{type(error).__name__}: {error}", disk_full=full)
    return Account(chunk.id, runs, len(outcome.failures) if runs else 0)


_opened: dict[tuple[str, bool], tuple[bytes, Store, Plan, dict[str, Chunk]]] = {}
_lock = threading.Lock()


def work_on(folder: str, chunk_id: str, trust: bool) -> Account:
    """The same for a worker that knows only the folder, and whether its user trusts it."""
    key = (folder, trust)
    with _lock:
        manifest = (Path(folder) / "experiment.json").read_bytes()
        if key not in _opened or _opened[key][0] != manifest:
            store = open_store(folder)
            known = {chunk.id: chunk for chunk in store.chunks()}
            _opened[key] = (manifest, store, store.plan(trust=trust), known)
        _, store, plan, chunks = _opened[key]
    if chunk_id not in chunks:
        raise ForeignFolder(f"{folder} has no chunk {chunk_id}")
    return work(store, plan, chunks[chunk_id])


def program(module: str, folder: Path, trust: bool, *arguments: str) -> list[str]:
    """The command that runs a module's `main` in another process, which finds the same modules.

    Python would search the folder in which a process starts first of all. That may be a folder of
    results from elsewhere, so it is not searched unless this process does.
    """
    code = f"import sys; sys.path[:] = {search_path()!r}; from {module} import main; main()"
    return [sys.executable, "-c", code, str(folder), TRUSTED if trust else "", *arguments]


def main() -> None:
    """Serve a coordinator until it is gone; sys.argv holds the folder and whether it is trusted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when to stop
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an agent prints must not be taken for a reply
    folder, trust = sys.argv[1], sys.argv[2] == TRUSTED
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=end_with_the_coordinator, args=(asked.put,), daemon=True).start()
    while True:
        chunk = asked.get()
        try:
            account = work_on(folder, chunk, trust)
        except Exception as error:  # told to the coordinator, who decides
            account = Account(chunk, error=f"{type(error).__name__}: {error}")
        replies.write(json.dumps(asdict(account)) + "\n")
        replies.flush()


def end_with_the_coordinator(heard: Callable[[str], None] = lambda line: None) -> None:
    """Hear what comes in; when the input ends, the coordinator is gone, and so are we."""
    asking = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what we are told is not for an agent to read
    for line in asking:
        heard(line.strip())
    os._exit(0)
