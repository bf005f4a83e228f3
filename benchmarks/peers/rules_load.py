"""Signing and counting by the peers, one call each: `svix`, `standardwebhooks` and `limits`.

Runs in the virtual environment of the peers. Prints the µs of a call for each, as the median of rounds.
"""

import argparse
import json
import statistics
import timeit
from collections.abc import Callable
from datetime import UTC, datetime

import limits
import standardwebhooks
import svix.webhooks
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

ROUNDS = 9
_AT = datetime.fromtimestamp(1_793_588_645, UTC)
_ID = "0192a3b4-c5d6-7e8f-9012-345678901234"


def _calls(secret: str, body: str) -> dict[str, Callable[[], object]]:
    ours, theirs = standardwebhooks.Webhook(secret), svix.webhooks.Webhook(secret)
    limiter, item = FixedWindowRateLimiter(MemoryStorage()), limits.RateLimitItemPerMinute(10**9)
    return {
        "standardwebhooks": lambda: ours.sign(_ID, _AT, body),
        "svix": lambda: theirs.sign(_ID, _AT, body),
        "limits": lambda: limiter.hit(item, _ID),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("secret")
    parser.add_argument("number", type=int, help="calls of a round")
    asked = parser.parse_args()
    found = {
        name: statistics.median(timeit.repeat(call, number=asked.number, repeat=ROUNDS)) / asked.number * 1e6
        for name, call in _calls(asked.secret, "x" * 1024).items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
