"""The rules that every request or delivery asks, one call each, without I/O."""

import timeit
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from benchmarks.report import Result
from meetcore.domain import holds, pricing, rate_window, signature
from meetcore.domain.ledger import Funds, Reference

__all__ = ["measure_rules"]

_ID = UUID("0192a3b4-c5d6-7e8f-9012-345678901234")
_NOW = datetime(2026, 11, 2, 3, 4, 5, 678901, tzinfo=UTC)


def measure_rules(seconds: float) -> list[Result]:
    """The best of three, in µs a call."""
    secret, body = signature.new_secret(bytes(32)), b"x" * 1024
    tier = pricing.DEFAULT_TIERS.find("standard-100")
    wish = pricing.RecordingWish(auto_notulen=True)
    funds, usage = Funds(_ID, balance=10**6, last_at=_NOW), holds.CapUsage(_ID, _NOW.date())
    reference = Reference("meeting", str(_ID))
    calls: dict[str, Callable[[], object]] = {
        "rate decision": lambda: rate_window.decide(300, 17, _NOW),
        "sign 1 KB": lambda: signature.sign(secret, body, 1_793_500_000),
        "charge": lambda: holds.charge(funds, usage, 10**6, _ID, "meeting:1", 10, reference, _NOW),
        "quote": lambda: pricing.quote_meeting(tier, wish),
    }
    return [Result(name, _us(call, seconds), None, "µs") for name, call in calls.items()]


def _us(call: Callable[[], object], seconds: float) -> float:
    count = max(1, int(seconds / 3 * 1000 / (timeit.timeit(call, number=1000) + 1e-9)))
    return min(timeit.repeat(call, number=count, repeat=3)) / count * 1e6
