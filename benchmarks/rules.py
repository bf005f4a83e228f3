"""The rules that every request or delivery applies, one call each without I/O, and the import of the domain.

Two are compared with common packages: the rate window with `limits` on its memory storage, the signature with
`standardwebhooks`. Both sides count or sign the same.
"""

import os
import pkgutil
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from standardwebhooks.webhooks import Webhook

import meetcore.domain
from benchmarks.report import Result, alternate, medians
from meetcore.domain.money import holds, pricing
from meetcore.domain.money.ledger import Funds, Reference
from meetcore.domain.requests import rate_window
from meetcore.domain.webhooks import signature

__all__ = ["measure_import", "measure_rules"]

_ID = UUID("0192a3b4-c5d6-7e8f-9012-345678901234")
_NOW = datetime(2026, 11, 2, 3, 4, 5, 678901, tzinfo=UTC)
_UNIX = 1_793_588_645
_ROUNDS = 25
_LIMIT = 10**9
_SECRET = signature.new_secret(bytes(range(32)))
_BODY = b"x" * 1024

Call = Callable[[], object]


def measure_rules(seconds: float) -> list[Result]:
    """Measure µs of a call, each rule for so many seconds."""
    tier = pricing.DEFAULT_TIERS.find("standard-100")
    flags = pricing.RecordingFlags(auto_notulen=True)
    funds, usage = Funds(_ID, balance=10**6, last_at=_NOW), holds.CapUsage(_ID, _NOW.date())
    reference = Reference("meeting", str(_ID))
    charge = partial(holds.charge, funds, usage, 10**6, _ID, "meeting:1", 10, reference, _NOW)
    cases: list[tuple[str, str, Call, Call | None]] = [
        ("rate decision", "≤ 2 µs", partial(rate_window.decide, 300, 17, _NOW), None),
        ("count and decide, beside `limits`", "ratio ≤ 1", *_rate_windows()),
        ("sign 1 KB", "≤ 8 µs", partial(signature.sign, _SECRET, _BODY, _UNIX), None),
        ("sign 1 KB, beside `standardwebhooks`", "ratio ≤ 1", *_signatures()),
        ("charge", "≤ 15 µs", charge, None),
        ("quote", "≤ 4 µs", partial(pricing.quote_meeting, tier, flags), None),
    ]
    return [_compared(*case, seconds) for case in cases]


def _rate_windows() -> tuple[Call, Call]:
    counts: dict[tuple[UUID, int], int] = {}

    def ours() -> object:
        name = (_ID, rate_window.window_start(_NOW))
        counts[name] = hits = counts.get(name, 0) + 1
        return rate_window.decide(_LIMIT, hits, _NOW)

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), RateLimitItemPerMinute(_LIMIT)
    # It returns only yes or no; remaining quota and reset time would be a second call.
    return ours, partial(limiter.hit, item, str(_ID))


def _signatures() -> tuple[Call, Call]:
    webhook, text, at = Webhook(_SECRET), _BODY.decode(), datetime.fromtimestamp(_UNIX, UTC)
    ours = partial(signature.standard_webhooks_headers, _SECRET, str(_ID), _BODY, _UNIX)
    assert ours()["webhook-signature"] == webhook.sign(str(_ID), at, text)
    return ours, partial(webhook.sign, str(_ID), at, text)


def _compared(name: str, goal: str, ours: Call, other: Call | None, seconds: float) -> Result:
    sides = {"ours": ours} | ({} if other is None else {"floor": other})

    def mean_us(call: Call, calls: int) -> float:
        return timeit.timeit(call, number=calls) / calls * 1e6

    calls = max(1, int(seconds * 1e6 / _ROUNDS / len(sides) / mean_us(ours, 100)))
    taken = medians(alternate(_ROUNDS, {side: partial(mean_us, call, calls) for side, call in sides.items()}))
    return Result(name, taken["ours"], taken.get("floor"), "µs", goal)


def measure_import(rounds: int) -> list[Result]:
    """Measure the start of Python with the package, and with every module of it, against Python alone."""
    modules = [each.name for each in pkgutil.walk_packages(meetcore.domain.__path__, "meetcore.domain.")]
    codes = {
        "python": "pass", "import meetcore.domain": "import meetcore.domain",
        "import every module of it": f"import {', '.join(modules)}",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        # Compiled, as an installed package is, whatever the environment says; the first round compiles.
        clean = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

        def start_ms(code: str) -> float:
            started = time.perf_counter()
            command = [sys.executable, "-c", code]
            subprocess.run(command, check=True, env=clean | {"PYTHONPYCACHEPREFIX": directory})
            return (time.perf_counter() - started) * 1000

        sides = {name: partial(start_ms, code) for name, code in codes.items()}
        alternate(1, sides)
        taken = medians(alternate(rounds, sides))
    goals = {"import meetcore.domain": "adds ≤ 40 ms", "import every module of it": ""}
    return [Result(name, taken[name], taken["python"], "ms", goal) for name, goal in goals.items()]
