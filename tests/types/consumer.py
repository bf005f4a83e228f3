"""A caller of the rules in strict mode: the type of each result is asserted. Checked, never run.

`make static` checks it against the source; `tests/e2e/test_wheel.py` against the installed wheel.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import assert_type
from uuid import UUID

from meetcore.domain import errors, ids
from meetcore.domain.meetings import schedule
from meetcore.domain.money import holds, ledger, pricing, rows
from meetcore.domain.money.ledger import Funds
from meetcore.domain.requests import idempotency, rate_window
from meetcore.domain.webhooks import addresses, deliveries, endpoints, events, retry_schedule, signature, urls


class ShopKind(StrEnum):
    """Transfers of an embedder."""

    ORDER = "order"
    RETURN = "return"


class ShopEvent(StrEnum):
    """Events of an embedder."""

    ORDER_PAID = "order.paid"


def money(account: UUID, at: datetime) -> None:
    funds = ledger.open_account(account, low_threshold=20)
    assert_type(funds, Funds)
    assert_type(funds.available, int)
    assert_type(funds.last_at, datetime | None)
    posting = ledger.top_up(funds, account, "INV-7", 100, at)
    assert_type(posting, ledger.Posting)
    assert_type(posting.facts, tuple[ledger.CreditsFellLow, ...])
    if posting.entry is None:
        return
    assert_type(posting.entry, ledger.Entry)
    assert_type(posting.entry.transfer, ledger.Transfer)
    assert_type(posting.entry.transfer.kind, StrEnum)
    assert_type(ledger.legs(posting.entry.transfer), tuple[ledger.Leg, ledger.Leg])
    assert_type(ledger.refund(funds, posting.entry.transfer, account, at), ledger.Posting)
    assert_type(rows.from_row(rows.to_row(posting.entry), ShopKind), ledger.Entry)
    about = ledger.Reference("ticket", "T-1")
    assert_type(ledger.adjust(funds, account, "adjust:1", -5, about, at), ledger.Posting)
    assert_type(ledger.first_broken(account, [posting.entry]), int | None)
    assert_type(ledger.ChainVerifier(account).extended(posting.entry), ledger.ChainVerifier | None)
    assert_type(ledger.is_proven(funds, ledger.ChainVerifier(account)), bool)


def reservations(funds: Funds, key: UUID, at: datetime) -> None:
    assert_type(schedule.cap_day(at), date)
    usage = holds.CapUsage(key, schedule.cap_day(at))
    assert_type(usage.used, int)
    about = ledger.Reference("meeting", "m-1")
    hold = holds.Hold(key, "meeting:m-1", ShopKind.ORDER, 10, about, key, usage.day)
    reserved = holds.take(funds, usage, None, hold)
    assert_type(reserved, holds.Reserved)
    assert_type(holds.release(reserved.funds, reserved.usage, hold), holds.Reserved)
    settled = holds.settle(reserved.funds, reserved.usage, hold, 9, key, at)
    assert_type(settled, holds.Settled)
    assert_type(settled.posting, ledger.Posting)
    assert_type(settled.usage, holds.CapUsage)
    assert_type(holds.charge(funds, usage, 20, key, "meeting:m-2", 5, about, at), holds.Settled)
    charge = ledger.Transfer(
        key, "meeting:m-1", hold.kind, 5, ledger.Book.CUSTOMER, ledger.Book.MEETINGS, about
    )
    assert_type(holds.refund(funds, usage, charge, key, at, kind=ShopKind.RETURN), holds.Settled)


def prices() -> None:
    tier = pricing.DEFAULT_TIERS.find("standard-100")
    assert_type(tier, pricing.PricingTier)
    assert_type(pricing.DEFAULT_TIERS.on_sale(), tuple[pricing.PricingTier, ...])
    assert_type(pricing.TierCatalogue.of([tier]), pricing.TierCatalogue)
    quote = pricing.quote_meeting(tier, pricing.RecordingFlags(auto_notulen=True))
    assert_type(quote, pricing.Quote)
    assert_type(quote.items, tuple[pricing.QuoteItem, ...])
    assert_type(quote.credits, int)
    assert_type(pricing.quote_notulen(1, 61), pricing.Quote)


def requests(now: datetime, body: object) -> None:
    assert_type(rate_window.window_start(now), int)
    verdict = rate_window.decide(5, 1, now)
    assert_type(verdict, rate_window.RateVerdict)
    assert_type(verdict.is_allowed, bool)
    assert_type(rate_window.Quotas().of(rate_window.OperationClass.CREDIT), int)

    fingerprint = idempotency.fingerprint("POST", "/orders", body)
    assert_type(fingerprint, bytes)
    record = idempotency.IdempotencyRecord("order-1", fingerprint)
    assert_type(record.encoded_outcome, bytes | None)
    assert_type(idempotency.state_of(None, now), idempotency.IdempotencyState)
    assert_type(idempotency.decide(record, fingerprint, now), idempotency.Verdict)


def webhooks(account: UUID, now: datetime, body: bytes) -> None:
    secret = signature.new_secret(bytes(32))
    assert_type(secret, str)
    assert_type(signature.sign(secret, body, 1), str)
    assert_type(signature.signing_headers(secret, "e-1", body, 1), dict[str, str])
    signature.verify([secret], body, "t=1,v1=", 1)

    url = urls.parse_webhook_url("https://example.com/hook")
    assert_type(url.address, addresses.Address | None)
    endpoint = endpoints.register(
        id=account, account_id=account, url=url, description=None, created_by="alice", created_at=now,
        event_types=(events.EventKind.MEETING_CREATED, ShopEvent.ORDER_PAID), secret=secret,
    )  # fmt: skip
    assert_type(endpoint, endpoints.Endpoint)
    assert_type(endpoint.state, endpoints.EndpointState)
    assert_type(endpoints.pause(endpoint), endpoints.Endpoint)
    ordered = deliveries.open_delivery(
        id=account,
        endpoint=endpoint,
        event_id=account,
        event_kind=ShopEvent.ORDER_PAID,
        created_at=now,
        now=now,
    )
    assert_type(ordered.event_kind, StrEnum)
    changes = endpoints.EndpointChanges(description=None, is_active=True)
    assert_type(changes.event_types, tuple[StrEnum, ...] | endpoints.Unset)
    assert_type(endpoints.update(endpoint, changes), endpoints.Endpoint)
    assert_type(
        endpoints.TRANSITIONS,
        dict[tuple[endpoints.EndpointState, endpoints.EndpointEvent], endpoints.EndpointState],
    )


def sending(delivery: deliveries.Delivery, endpoint: endpoints.Endpoint, now: datetime) -> None:
    plan = retry_schedule.RetrySchedule()
    assert_type(plan.delays_s, tuple[int, ...])
    assert_type(retry_schedule.next_attempt(plan, 1, now, 0.5), datetime | None)
    attempt = deliveries.Attempt(now, 80, status_code=204)
    assert_type(deliveries.judge(attempt), bool)
    done = deliveries.record_attempt(delivery, endpoint, attempt, plan, 0.5, now)
    assert_type(done, tuple[deliveries.Delivery, endpoints.Endpoint])
    assert_type(deliveries.hold(delivery, now).status, deliveries.DeliveryStatus)


def refusals(error: errors.DomainError, now: datetime) -> None:
    assert_type(error.code, str)
    assert_type(error.is_final, bool)
    assert_type(error.details, Mapping[str, object])
    assert_type(ids.uuid7(now, bytes(10)), UUID)
