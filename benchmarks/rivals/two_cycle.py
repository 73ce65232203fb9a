"""Asks mdpsolver and mdptoolbox-hiive for the gain of a two-state cycle.

One action moves from either state to the other; the rewards are 1 and 0, so the gain is
1/2, but the chain is periodic and plain value iteration does not converge on it. Prints one
JSON line per package and method, with a time limit for each.

    python two_cycle.py [--timeout SECONDS]
"""

import argparse
import json
import tempfile
from pathlib import Path

from adapters import save_two_cycle
from gain_solvers import in_child

TRUE_GAIN = 0.5
METHODS = ["mdpsolver:vi", "mdpsolver:mpi", "mdpsolver:pi", "mdptoolbox-hiive:rvi"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=20.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "two_cycle.npz")
        save_two_cycle(path)
        for method in METHODS:
            line = in_child(method, path, args.timeout, repeats=1)
            line["what"] = f"two-state cycle, {method.split(':')[1]}"
            print(json.dumps({**line, "true_gain": TRUE_GAIN}), flush=True)


if __name__ == "__main__":
    main()
