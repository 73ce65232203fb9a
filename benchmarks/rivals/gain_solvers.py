"""Times mdpsolver and mdptoolbox-hiive on the optimal average reward of a sparse MDP.

Each package solves the MDP of an .npz file (its arrays: see adapters.py) to 1e-6, in a child
process with a time limit; only its solve is timed, the best of a few. Prints one JSON line
per package.

    python gain_solvers.py MDP.npz [--timeout SECONDS] [--repeats N]
"""

import argparse
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import adapters

METHODS = ["mdpsolver:vi", "mdptoolbox-hiive:rvi"]


def in_child(method: str, path: str, timeout: float, repeats: int) -> dict[str, Any]:
    """The JSON line of one package, or why there is none, within the time limit."""
    package, algorithm = method.split(":")
    states, actions = adapters.load(path)[1].shape
    what = f"optimal average reward, S={states} A={actions}, {algorithm}"
    about = {"package": package, "version": version(package), "what": what}
    child = [sys.executable, str(Path(__file__).resolve()), path, "--one", method]
    child += ["--repeats", str(repeats)]
    try:
        done = subprocess.run(child, check=False, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {**about, "note": f"no answer within {timeout:g} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {**about, "note": f"failed with status {done.returncode}: {last}"}
    return {**about, **json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--one", metavar="METHOD", help="measure one in this process, no limit")
    args = parser.parse_args()
    if args.one:
        package, algorithm = args.one.split(":")
        print(json.dumps(adapters.measure(package, algorithm, args.path, args.repeats)))
        return
    for method in METHODS:
        print(json.dumps(in_child(method, args.path, args.timeout, args.repeats)), flush=True)


if __name__ == "__main__":
    main()
