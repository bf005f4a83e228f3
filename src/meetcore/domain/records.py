"""The records of spec 2, as customers see them in answers and in event payloads.

Owns the names, the order and the text forms of their fields. Does not encode: the driving
adapters turn these dicts into JSON.
"""

from collections.abc import Sequence
from datetime import datetime

from meetcore.domain.meetings.meetings import Meeting, shown_host_key, shown_status
from meetcore.domain.meetings.schedule import cap_day_ends_at, utc_text, wib_text
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.money.pricing import PricingTier, Quote, started_minutes
from meetcore.domain.notes import recordings
from meetcore.domain.notes.notes import Note, NoteStatus
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.webhooks.deliveries import Attempt, Delivery
from meetcore.domain.webhooks.endpoints import Endpoint

__all__ = [
    "Record",
    "balance_record",
    "cancellation_record",
    "credits_record",
    "delivery_record",
    "endpoint_record",
    "estimate_record",
    "meeting_event_record",
    "meeting_record",
    "note_record",
    "recording_record",
    "tier_record",
    "transaction_record",
]

Record = dict[str, object]
DURATION_UNIT = "minutes"


def meeting_record(meeting: Meeting, now: datetime) -> Record:
    """The 17 fields of spec 2.1 in order (rule 2.1/fields)."""
    return {
        "id": str(meeting.id),
        "title": meeting.title,
        "status": shown_status(meeting, now).value,
        "start_at": utc_text(meeting.start_at),
        "start_at_wib": wib_text(meeting.start_at),
        "end_at": utc_text(meeting.end_at),
        "duration": meeting.duration,
        "duration_unit": DURATION_UNIT,
        "capacity": meeting.capacity,
        "join_url": meeting.join_url,
        "password": meeting.password,
        "host_key": shown_host_key(meeting, now),
        "provider_meeting_id": meeting.provider_meeting_id,
        "auto_notulen": meeting.options.auto_notulen,
        "created_at": utc_text(meeting.created_at),
        "with_recording": meeting.options.with_recording,
        "credits_deducted": meeting.credits,
    }


def meeting_event_record(meeting: Meeting, now: datetime) -> Record:
    """The meeting as events contain it: `password` and `host_key` are null.

    A receiver needs no more than `webhooks:write`; these secrets are read with a meeting
    scope.
    """
    return meeting_record(meeting, now) | {"password": None, "host_key": None}


def cancellation_record(meeting: Meeting, now: datetime) -> Record:
    """The answer to cancelling: what became of the meeting, and the credits returned."""
    return {
        "id": str(meeting.id),
        "status": shown_status(meeting, now).value,
        "credits_refunded": meeting.credits_refunded or 0,
    }


def recording_record(recording: Recording, now: datetime) -> Record:
    """A recording: what there is of a meeting, and until when. Begun minutes count, as notes are paid by."""
    return {
        "id": str(recording.id),
        "meeting_id": str(recording.meeting_id),
        "status": recordings.shown_status(recording, now).value,
        "duration": started_minutes(recording.duration_s),
        "duration_unit": DURATION_UNIT,
        "size_bytes": recording.size_bytes,
        "recorded_at": utc_text(recording.recorded_at),
        "expires_at": utc_text(recording.expires_at),
    }


def note_record(note: Note) -> Record:
    """A note: its content once it is completed, why it failed if it did.

    Seconds count from the beginning of the recording. `duration` is in begun minutes, those that were paid
    for.
    """
    draft = note.draft if note.status is NoteStatus.COMPLETED else None
    transcript = note.transcript if draft is not None else ()
    return {
        "id": str(note.id),
        "recording_id": str(note.recording_id),
        "meeting_id": str(note.meeting_id),
        "status": note.status.value,
        "language": note.language.value,
        "summary": None if draft is None else draft.summary,
        "decisions": [
            {"text": one.text, "quote": one.quote, "at": int(one.at_s)}
            for one in (() if draft is None else draft.decisions)
        ],
        "action_items": [
            {
                "task": one.task,
                "owner": one.owner,
                "due": one.due,
                "quote": one.quote,
                "at": int(one.at_s),
            }
            for one in (() if draft is None else draft.action_items)
        ],
        "topics": [] if draft is None else list(draft.topics),
        "transcript": [{"speaker": one.speaker, "at": int(one.at_s), "text": one.text} for one in transcript],
        "duration": None if draft is None else started_minutes(note.duration_s),
        "credits_charged": note.credits_charged,
        "error": note.error,
        "created_at": utc_text(note.created_at),
        "completed_at": None if note.completed_at is None else utc_text(note.completed_at),
    }


def endpoint_record(endpoint: Endpoint, *, with_secret: bool) -> Record:
    """The webhook record of spec 2.3; the secret only where the operation gives it."""
    record: Record = {
        "id": str(endpoint.id),
        "url": endpoint.url,
        "description": endpoint.description,
        "event_types": [kind.value for kind in endpoint.event_types],
        "is_active": endpoint.is_active,
        "consecutive_failures": endpoint.consecutive_failures,
        "disabled_at": None if endpoint.disabled_at is None else utc_text(endpoint.disabled_at),
        "created_by": endpoint.created_by,
        "created_at": utc_text(endpoint.created_at),
    }
    if with_secret and endpoint.secret is not None:
        record["secret"] = endpoint.secret
    return record


def delivery_record(delivery: Delivery, attempts: Sequence[Attempt]) -> Record:
    """A delivery and every attempt at it, the first one first (rule 6/7).

    The connected address is left out: it reveals the network and is of no use to the
    customer.
    """
    due = delivery.next_attempt_at
    return {
        "id": str(delivery.id),
        "event_id": str(delivery.event_id),
        "event_type": delivery.event_kind.value,
        "status": delivery.status.value,
        "attempts": [_attempt_record(attempt) for attempt in attempts],
        "next_attempt_at": None if due is None else utc_text(due),
        "created_at": utc_text(delivery.created_at),
    }


def _attempt_record(attempt: Attempt) -> Record:
    return {
        "at": utc_text(attempt.at),
        "duration_ms": attempt.duration_ms,
        "status_code": attempt.status_code,
        "error": attempt.error,
        "response_excerpt": attempt.response_excerpt,
    }


def tier_record(tier: PricingTier) -> Record:
    """A pricing tier on sale: seats, minutes, credits."""
    return {
        "id": tier.id,
        "name": tier.name,
        "capacity": tier.capacity,
        "max_duration": tier.max_duration,
        "duration_unit": DURATION_UNIT,
        "credits": tier.credits,
        "recording_credits": tier.recording_credits,
    }


def transaction_record(entry: Entry) -> Record:
    """A ledger entry as `GET /credits/transactions` shows it. Amounts are signed credits."""
    transfer = entry.transfer
    return {
        "id": str(transfer.id),
        "kind": transfer.kind.value,
        "amount": entry.amount,
        "balance_after": entry.balance_after,
        "reference": {"type": transfer.reference.type, "id": transfer.reference.id},
        "reverses": None if transfer.reverses is None else str(transfer.reverses),
        "api_key_id": None if transfer.api_key_id is None else str(transfer.api_key_id),
        "created_at": utc_text(entry.at),
    }


def credits_record(balance: int, held: int, daily_cap: int | None, usage: CapUsage) -> Record:
    """The answer of `GET /credits`: the account's credits, and what is left of the key's cap today.

    Args:
        balance: what is held included.
        held: what open holds reserve of it.
        daily_cap: the key's, if it has one.
        usage: what the key spent and holds on the day of the request.
    """
    cap: Record | None = None
    if daily_cap is not None:
        cap = {
            "cap": daily_cap,
            "spent": usage.used,
            "remaining": max(0, daily_cap - usage.used),
            "resets_at": utc_text(cap_day_ends_at(usage.day)),
        }
    return {"balance": balance, "held": held, "available": balance - held, "daily_cap": cap}


def estimate_record(kind: str, quote: Quote, balance: int, *, is_sufficient: bool) -> Record:
    """The answer of `POST /credits/estimate`: what would be charged, item by item."""
    return {
        "type": kind,
        "credits": quote.credits,
        "items": [{"name": item.name, "credits": item.credits} for item in quote.items],
        "with_recording": quote.with_recording,
        "balance": balance,
        "sufficient": is_sufficient,
    }


def balance_record(funds: Funds, entry: Entry) -> Record:
    """The data of `credit.low` and `credit.topup.succeeded`: the balance and the transaction."""
    return {
        "balance": funds.balance,
        "held": funds.held,
        "available": funds.available,
        "transaction": transaction_record(entry),
    }
