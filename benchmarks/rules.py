"""The rules that every request or delivery applies, one call each, without I/O.

Two are compared with common packages: the rate window with `limits` on its
memory storage, the signature with `standardwebhooks`. Both sides count or sign the same and alternate.
"""

import timeit
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from standardwebhooks.webhooks import Webhook

from benchmarks.report import Result, middle
from meetcore.domain.money import holds, pricing
from meetcore.domain.money.ledger import Funds, Reference
from meetcore.domain.requests import rate_window
from meetcore.domain.webhooks import signature

__all__ = ["measure_rules", "own_signature", "own_window"]

_ID = UUID("0192a3b4-c5d6-7e8f-9012-345678901234")
_NOW = datetime(2026, 11, 2, 3, 4, 5, 678901, tzinfo=UTC)
_UNIX = 1_793_588_645
_ROUNDS = 25
_LIMIT = 10**9
_SECRET = signature.new_secret(bytes(range(32)))
_BODY = b"x" * 1024

Measured = Callable[[], object]


def measure_rules(seconds: float) -> list[Result]:
    """Return the medians of rounds in which both sides alternate, in µs a call."""
    tier = pricing.DEFAULT_TIERS.find("standard-100")
    flags = pricing.RecordingFlags(auto_notulen=True)
    funds, usage = Funds(_ID, balance=10**6, last_at=_NOW), holds.CapUsage(_ID, _NOW.date())
    reference = Reference("meeting", str(_ID))
    cases: list[tuple[str, str, Measured, Measured | None]] = [
        ("rate decision", "≤ 2 µs", lambda: rate_window.decide(300, 17, _NOW), None),
        ("count and decide, beside limits", "ratio ≤ 1", *_rate_windows()),
        ("sign 1 KB", "≤ 8 µs", lambda: signature.sign(_SECRET, _BODY, _UNIX), None),
        ("sign 1 KB, beside standardwebhooks", "ratio ≤ 1", *_signatures()),
        (
            "charge", "≤ 15 µs",
            lambda: holds.charge(funds, usage, 10**6, _ID, "meeting:1", 10, reference, _NOW), None,
        ),
        ("quote", "≤ 4 µs", lambda: pricing.quote_meeting(tier, flags), None),
    ]  # fmt: skip
    return [_compared(name, goal, service, other, seconds) for name, goal, service, other in cases]


def own_signature(secret: str, calls: int) -> float:
    """µs for our headers of one body of 1 KB."""
    event_id = str(_ID)
    return _mean_us(lambda: signature.standard_webhooks_headers(secret, event_id, _BODY, _UNIX), calls)


def own_window(calls: int) -> float:
    """µs for counting one request and deciding on it."""
    return _mean_us(_rate_windows()[0], calls)


def _mean_us(call: Measured, calls: int) -> float:
    return timeit.timeit(call, number=calls) / calls * 1e6


def _rate_windows() -> tuple[Measured, Measured]:
    counts: dict[tuple[UUID, int], int] = {}

    def service() -> object:
        name = (_ID, rate_window.window_start(_NOW))
        counts[name] = hits = counts.get(name, 0) + 1
        return rate_window.decide(_LIMIT, hits, _NOW)

    limiter, item, key = FixedWindowRateLimiter(MemoryStorage()), RateLimitItemPerMinute(_LIMIT), str(_ID)
    # It returns only yes or no; remaining quota and reset time would be a second call.
    return service, lambda: limiter.hit(item, key)


def _signatures() -> tuple[Measured, Measured]:
    webhook, text, at = Webhook(_SECRET), _BODY.decode(), datetime.fromtimestamp(_UNIX, UTC)
    headers = signature.standard_webhooks_headers(_SECRET, str(_ID), _BODY, _UNIX)
    assert headers["webhook-signature"] == webhook.sign(str(_ID), at, text)
    return (
        lambda: signature.standard_webhooks_headers(_SECRET, str(_ID), _BODY, _UNIX),
        lambda: webhook.sign(str(_ID), at, text),
    )


def _compared(name: str, goal: str, service: Measured, other: Measured | None, seconds: float) -> Result:
    sides = [service] if other is None else [service, other]
    loops = [_loops(side, seconds / _ROUNDS / len(sides)) for side in sides]
    turns = [
        [_mean_us(side, count) for side, count in zip(sides, loops, strict=True)] for _ in range(_ROUNDS)
    ]
    medians = [middle(list(side)) for side in zip(*turns, strict=True)]
    return Result(name, medians[0], medians[1] if other else None, "µs", goal)


def _loops(call: Measured, seconds: float) -> int:
    return max(1, int(seconds * 1000 / (timeit.timeit(call, number=1000) + 1e-9)))
