"""Our signing and counting, one call each, in a process of its own as `rules_load` is.

Prints the µs of a call.
"""

import argparse
import json

from benchmarks.report import middle
from benchmarks.rules import own_signature, own_window

ROUNDS = 9  # as `rules_load` has them, which runs without this package


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("secret")
    parser.add_argument("number", type=int, help="calls of a round")
    asked = parser.parse_args()
    found = {
        "sign": middle([own_signature(asked.secret, asked.number) for _ in range(ROUNDS)]),
        "count": middle([own_window(asked.number) for _ in range(ROUNDS)]),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
