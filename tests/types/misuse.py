"""Mistakes that a type checker must refuse; the comment of each line names the error.

Checked with `--warn-unused-ignores`, so that a mistake that passes is an error of this file. Never run.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from meetcore import domain
from meetcore.domain.errors import InsufficientCredits
from meetcore.domain.money import holds, ledger, pricing
from meetcore.domain.requests import idempotency, rate_window
from meetcore.domain.webhooks import deliveries, endpoints, events, signature


def money(funds: ledger.Funds, at: datetime, id_: UUID, usage: holds.CapUsage) -> None:
    ledger.top_up(funds, id_, "INV-7", 9.5, at)  # type: ignore[arg-type]
    ledger.top_up(funds, "an-id", "INV-7", 9, at)  # type: ignore[arg-type]
    ledger.top_up(funds, id_, "INV-7", 9, at.date())  # type: ignore[arg-type]
    ledger.top_up(funds, id_, "INV-7", 9)  # type: ignore[call-arg]
    funds.balance = 7  # type: ignore[misc]
    funds.available = 7  # type: ignore[misc]
    print(ledger.top_up(funds, id_, "INV-7", 9, at).entry.number)  # type: ignore[union-attr]
    ledger.Transfer(id_, "x", "topup", 1, ledger.Book.TOPUPS, ledger.Book.CUSTOMER, ledger.Reference("", ""))  # type: ignore[arg-type]
    holds.charge(funds, usage, 20, id_, "x", 1, "meeting:m-1", at)  # type: ignore[arg-type]
    holds.take(funds, usage, None, holds.charge)  # type: ignore[arg-type]
    print(holds.charge(funds, usage, 20, id_, "x", 1, ledger.Reference("", ""), at).funds)  # type: ignore[attr-defined]
    InsufficientCredits("too little")  # type: ignore[call-arg, arg-type]


def prices(tier: pricing.PricingTier) -> None:
    pricing.quote_meeting(tier.id, pricing.RecordingFlags())  # type: ignore[arg-type]
    pricing.quote_meeting(tier, True)  # type: ignore[arg-type]
    tier.credits += 1  # type: ignore[misc]
    print(pricing.quote_meeting(tier, pricing.RecordingFlags()).total)  # type: ignore[attr-defined]


def requests(now: datetime) -> None:
    rate_window.decide(5, 1, 1_795_000_000)  # type: ignore[arg-type]
    rate_window.Quotas().of("credit")  # type: ignore[arg-type]
    idempotency.decide(None, "fingerprint", now)  # type: ignore[arg-type]
    idempotency.IdempotencyRecord("order-1")  # type: ignore[call-arg]


def webhooks(endpoint: endpoints.Endpoint, delivery: deliveries.Delivery, now: datetime) -> None:
    signature.sign("whsec_", "a parsed body", 1)  # type: ignore[arg-type]
    signature.sign("whsec_", b"", now)  # type: ignore[arg-type]
    signature.verify([b"whsec_"], b"", "", 1)  # type: ignore[list-item]
    verified = signature.verify(["whsec_"], b"", "", 1)  # type: ignore[func-returns-value]
    endpoint.state = endpoints.EndpointState.PAUSED  # type: ignore[misc]
    endpoints.EndpointChanges(url="https://example.com")  # type: ignore[call-arg]
    endpoints.EndpointChanges(event_types=("meeting.created",))  # type: ignore[arg-type]
    endpoints.record_failure(endpoint)  # type: ignore[call-arg]
    deliveries.release(delivery)  # type: ignore[call-arg]
    event: events.EventKind = "meeting.created"  # type: ignore[assignment]
    print(event, verified)


def modules() -> object:
    return domain.ledgre  # type: ignore[attr-defined]  # modules are loaded when named, and yet known by name
