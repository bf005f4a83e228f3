"""`python -m tests.fuzz [--cases N] [--seed N] [option of schemathesis ...]`: fuzz every operation at length.

It runs a PostgreSQL server of its own. Exits 1 when an answer was not as documented.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

import structlog

from tests.fuzz.running import fuzz, target
from tests.support.own_postgres import own_postgres


async def main(arguments: list[str]) -> int:
    """Run the tool and print its output."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=5000, help="cases for each operation")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="for the same cases again")
    given, more = parser.parse_known_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with own_postgres() as server, tempfile.TemporaryDirectory() as place:
        async with target(server.url) as at:
            code, output = await fuzz(
                at, "--max-examples", str(given.cases), "--continue-on-failure", "--no-shrink", *more,
                seed=given.seed, place=Path(place),
            )  # fmt: skip
    print(output)
    print(f"fuzz: {given.cases} cases for each operation, seed {given.seed}, exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
