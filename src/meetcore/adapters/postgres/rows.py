"""Rows to records: the one place where a column's name meets a field's.

Sealed columns are opened here, each under the context it was sealed for.
"""

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import structlog
from attrs import evolve

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Book, Entry, Funds, Reference, Transfer, TransferKind
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointState
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.cipher import Cipher, CipherRefused

__all__ = [
    "HOST_COLUMNS",
    "answer_context",
    "attempt",
    "delivery",
    "endpoint",
    "endpoint_context",
    "entry",
    "event_context",
    "funds",
    "hold",
    "host",
    "host_key_context",
    "idempotency",
    "join_url_context",
    "key",
    "meeting",
    "meeting_with_key",
    "open_text",
    "password_context",
    "provider_event_context",
    "seal_text",
    "transfer",
    "usage",
    "utc",
]

log = structlog.get_logger("meetcore.postgres")

Row = dict[str, Any]

HOST_COLUMNS = """
    h.id AS host_id, h.provider_user_id, h.capacity, h.max_concurrent, h.uses, h.is_active, h.creations,
    h.creations_on, h.unavailable_until"""


def password_context(account_id: UUID, meeting_id: UUID) -> str:
    """What a meeting's password is sealed for."""
    return f"{account_id}/meetings/{meeting_id}/password"


def join_url_context(account_id: UUID, meeting_id: UUID) -> str:
    """What a meeting's link is sealed for; Zoom's holds the password."""
    return f"{account_id}/meetings/{meeting_id}/join-url"


def host_key_context(host_id: UUID) -> str:
    """What a host's key is sealed for."""
    return f"hosts/{host_id}/key"


def endpoint_context(account_id: UUID, endpoint_id: UUID) -> str:
    """What a webhook secret is sealed for."""
    return f"{account_id}/webhooks/{endpoint_id}/secret"


def event_context(account_id: UUID, event_id: UUID) -> str:
    """What an event's payload is sealed for."""
    return f"{account_id}/events/{event_id}/payload"


def answer_context(account_id: UUID, key_: str) -> str:
    """The sealing context of a stored answer."""
    return f"{account_id}/idempotency/{key_}"


def provider_event_context(event_id: UUID) -> str:
    """What a provider's event is sealed for; it is no account's."""
    return f"provider-events/{event_id}/payload"


def seal_text(cipher: Cipher, text: str | None, context: str) -> bytes | None:
    """Seal a text that may be absent."""
    return None if text is None else cipher.seal(text.encode(), context)


def open_text(cipher: Cipher, sealed: bytes | None, context: str) -> str | None:
    """Open a text that may be absent."""
    return None if sealed is None else cipher.open(sealed, context).decode()


def _readable(cipher: Cipher, sealed: bytes | None, context: str) -> str | None:
    """A text of a record, or `None`, logged, where it does not open; other records are unaffected."""
    try:
        return open_text(cipher, sealed, context)
    except CipherRefused as error:
        # No traceback (TRY400): a page of a list can hold a hundred of them, all alike.
        log.error("value does not open", context=context, cause=str(error))  # noqa: TRY400
        return None


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.replace(tzinfo=UTC)


def utc(at: datetime) -> datetime:
    """An instant as the domain has it."""
    # The connection's time zone is UTC: only the object changes, to the one the domain uses.
    return at.replace(tzinfo=UTC)


def funds(row: Row) -> Funds:
    """An account's funds."""
    return Funds(
        row["account_id"],
        row["balance"],
        row["held"],
        row["low_threshold"],
        row["is_low"],
        row["entries"],
        row["last_hash"],
        _utc(row["last_at"]),
    )


def usage(row: Row, api_key_id: UUID, day: date) -> CapUsage:
    """A key's usage on a day; a day without a row is unused."""
    return CapUsage(api_key_id, day, row["usage_spent"] or 0, row["usage_held"] or 0)


def hold(row: Row) -> Hold | None:
    """An open hold, if the row has one."""
    if row["hold_id"] is None:
        return None
    return Hold(
        row["hold_id"],
        row["hold_operation"],
        TransferKind(row["hold_kind"]),
        row["hold_amount"],
        Reference(row["hold_reference_type"], row["hold_reference_id"]),
        row["hold_api_key_id"],
        row["hold_cap_day"],
    )


def transfer(row: Row) -> Transfer | None:
    """A transfer, if the row has one."""
    if row["transfer_id"] is None:
        return None
    return Transfer(
        row["transfer_id"],
        row["operation"],
        TransferKind(row["kind"]),
        row["amount"],
        Book(row["source"]),
        Book(row["destination"]),
        Reference(row["reference_type"], row["reference_id"]),
        row["reverses"],
        row["transfer_api_key_id"],
        row["cap_day"],
    )


def entry(row: Row) -> Entry | None:
    """A customer's entry with its transfer, if the row has one."""
    moved = transfer(row)
    if moved is None:
        return None
    return Entry(
        row["account_id"],
        row["number"],
        moved,
        row["entry_amount"],
        row["balance_after"],
        utc(row["entry_at"]),
        row["hash"],
        row["chain_key"] or b"",
    )


def host(row: Row) -> Host:
    """A licensed host."""
    return Host(
        row["host_id"],
        row["provider_user_id"],
        row["capacity"],
        row["max_concurrent"],
        row["uses"],
        row["is_active"],
        row["creations"],
        row["creations_on"],
        _utc(row["unavailable_until"]),
    )


def key(row: Row) -> ApiKey:
    """An API key, without the key."""
    return ApiKey(
        row["key_id"],
        row["account_id"],
        tuple(Scope(text) for text in row["scopes"]),
        row["daily_cap"],
        utc(row["key_created_at"]),
        _utc(row["expires_at"]),
        _utc(row["revoked_at"]),
    )


def idempotency(row: Row, cipher: Cipher) -> IdempotencyRecord | None:
    """The record of a key, if any, with its answer opened."""
    if row["fingerprint"] is None:
        return None
    answer = row["answer"]
    if answer is not None:
        answer = cipher.open(answer, answer_context(row["account_id"], row["key"]))
    return IdempotencyRecord(
        row["key"],
        row["fingerprint"],
        row["is_done"],
        row["subject_id"],
        _utc(row["key_lease_until"]),
        answer,
    )


def meeting(row: Row, cipher: Cipher) -> Meeting:
    """A meeting, its password and link opened; null where they do not open."""
    return Meeting(
        id=row["id"],
        account_id=row["account_id"],
        api_key_id=row["api_key_id"],
        status=MeetingStatus(row["status"]),
        title=row["title"],
        description=row["description"],
        start_at=utc(row["start_at"]),
        end_at=utc(row["end_at"]),
        duration=row["duration"],
        capacity=row["capacity"],
        pricing_tier_id=row["pricing_tier_id"],
        credits=row["credits"],
        with_recording=row["with_recording"],
        auto_notulen=row["auto_notulen"],
        must_login=row["must_login"],
        mic_off=row["mic_off"],
        email_notification=row["email_notification"],
        host_id=row["host_id"],
        provider=row["provider"],
        created_at=utc(row["created_at"]),
        password=_readable(cipher, row["password"], password_context(row["account_id"], row["id"])),
        join_url=_join_url(row, cipher),
        provider_meeting_id=row["provider_meeting_id"],
        charge_id=row["charge_id"],
        credits_refunded=row["credits_refunded"],
    )


def meeting_with_key(row: Row, cipher: Cipher) -> Meeting:
    """A meeting with the key of its host, if the row has one."""
    found = meeting(row, cipher)
    if row["host_key"] is None:
        return found
    context = host_key_context(row["host_id"])
    return evolve(found, host_key=_readable(cipher, row["host_key"], context))


def _join_url(row: Row, cipher: Cipher) -> str | None:
    if row["sealed_join_url"] is None:
        text: str | None = row["join_url"]  # in the clear, until it is sealed
        return text
    return _readable(cipher, row["sealed_join_url"], join_url_context(row["account_id"], row["id"]))


def endpoint(row: Row, cipher: Cipher) -> Endpoint:
    """A webhook endpoint, its secret opened; `None` where it does not open."""
    context = endpoint_context(row["account_id"], row["endpoint_id"])
    return Endpoint(
        id=row["endpoint_id"],
        account_id=row["account_id"],
        url=row["url"],
        url_key=row["url_key"],
        description=row["description"],
        event_types=tuple(EventKind(text) for text in row["event_types"]),
        state=EndpointState(row["state"]),
        consecutive_failures=row["consecutive_failures"],
        disabled_at=_utc(row["disabled_at"]),
        created_by=row["created_by"],
        created_at=utc(row["endpoint_created_at"]),
        secret=_readable(cipher, row["secret"], context),
    )


def delivery(row: Row) -> Delivery:
    """A delivery."""
    return Delivery(
        row["delivery_id"],
        row["account_id"],
        row["endpoint_id"],
        row["event_id"],
        EventKind(row["event_kind"]),
        DeliveryStatus(row["delivery_status"]),
        row["attempts_made"],
        _utc(row["due_at"]),
        utc(row["delivery_created_at"]),
        _utc(row["held_at"]),
    )


def attempt(row: Row) -> Attempt:
    """An attempt as its customer may see it: without the address that was dialled."""
    return Attempt(
        utc(row["attempt_at"]),
        row["duration_ms"],
        row["status_code"],
        row["error"],
        row["response_excerpt"],
    )
