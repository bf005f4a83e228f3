"""Meetings in PostgreSQL: fenced work in progress, cancellation, and takeover after a crash.

Making a meeting has its statements in `creations`; this module owns the later states of a meeting.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.creations import (
    SAVE_ABANDONED,
    SAVE_SCHEDULED,
    load_creation,
    save_provisioning,
)
from meetcore.adapters.postgres.endings import (
    SAVE_CANCEL_FAILED,
    SAVE_CANCELLING,
    SAVE_ENDED,
    SAVE_LIFECYCLE,
    SAVE_REFUNDED,
)
from meetcore.adapters.postgres.idempotency import KEY_COLUMNS
from meetcore.adapters.postgres.ledger import (
    LOCK_ACCOUNT,
    TRANSFER_COLUMNS,
    entry_parameters,
    fetch_locked,
    funds_parameters,
    usage_parameters,
)
from meetcore.adapters.postgres.outbox import event_parameters
from meetcore.adapters.postgres.pool import Connection
from meetcore.adapters.postgres.takeovers import (
    CLAIM_EXPIRED,
    CLAIM_ONE_EXPIRED,
    SCHEDULE_NEXT_CHECK,
    claim_due,
)
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.webhooks.events import Event
from meetcore.ports.cipher import Cipher
from meetcore.ports.idempotency import Claim, KeyView
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import (
    CreationQuery,
    CreationView,
    DueMeeting,
    ExpiredLease,
    LeaseView,
    MeetingView,
    Provisioning,
)

__all__ = ["MEETING_COLUMNS", "PostgresMeetingRepository"]

MEETING_COLUMNS = """
    m.id, m.api_key_id, m.status, m.title, m.description, m.start_at, m.end_at, m.duration, m.capacity,
    m.pricing_tier_id, m.credits, m.with_recording, m.auto_notulen, m.must_login, m.mic_off, m.email_notification,
    m.host_id, m.provider, m.created_at, m.password, m.join_url, m.sealed_join_url, m.provider_meeting_id, m.charge_id,
    m.credits_refunded"""

# The meeting in progress with its money, under the account's lock, for the holder of the lease only.
# The meeting's row is locked too, because an expired lease is taken over without the account's lock.
_LOAD_LEASED = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
       {MEETING_COLUMNS}, COALESCE(h.provider_user_id, '') AS provider_user_id, {TRANSFER_COLUMNS},
       hold.id AS hold_id, hold.operation AS hold_operation, hold.kind AS hold_kind, hold.amount AS hold_amount,
       hold.reference_type AS hold_reference_type, hold.reference_id AS hold_reference_id,
       hold.api_key_id AS hold_api_key_id, hold.cap_day AS hold_cap_day,
       u.spent AS usage_spent, u.held AS usage_held, i.key, i.fingerprint
FROM locked
JOIN meetings m ON m.account_id = locked.account_id AND m.id = %(meeting_id)s AND m.lease_token = %(token)s
LEFT JOIN hosts h ON h.id = m.host_id
LEFT JOIN ledger_holds hold ON hold.account_id = locked.account_id AND hold.id = m.hold_id
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.id = m.charge_id
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(hold.api_key_id, t.api_key_id) AND u.day = COALESCE(hold.cap_day, t.cap_day)
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = m.idempotency_key
FOR NO KEY UPDATE OF m
"""

# A meeting and an idempotency key under the account's lock.
_LOAD_FOR_CANCEL = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.account_id, locked.version, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
       clock_timestamp() AS now, COALESCE(m.lease_until > clock_timestamp(), false) AS is_leased,
       {MEETING_COLUMNS}, {KEY_COLUMNS}
FROM locked
JOIN meetings m ON m.account_id = locked.account_id AND m.id = %(meeting_id)s
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s::text
"""

# The account of the meeting that a provider names, the latest that had the id; nothing is locked yet.
_FIND_AT_PROVIDER = """
SELECT account_id, id FROM meetings WHERE provider = %(provider)s AND provider_meeting_id = %(provider_meeting_id)s ORDER BY id DESC LIMIT 1
"""

# Takes the meetings whose time has come, the longest due first; each comes again unless it is ended.
_CLAIM_DUE = claim_due(MEETING_COLUMNS)


class PostgresMeetingRepository:
    """Meetings, their hosts and their money, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def load_creation(self, query: CreationQuery) -> CreationView:
        """Everything that the decision on a new meeting needs, in one locked read."""
        return await load_creation(self._connection, self._cipher, query)

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        """Write meeting, hold, reservation, lease and claim; `None` when the host was taken."""
        return await save_provisioning(self._connection, self._cipher, provisioning)

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        """The meeting in progress, if the lease is still held."""
        parameters = {"account_id": account_id, "meeting_id": meeting_id, "token": token}
        row = await fetch_locked(self._connection, _LOAD_LEASED, parameters)
        if row is None:
            return None
        meeting = rows.meeting(row, self._cipher)
        hold, charge = rows.hold(row), rows.transfer(row)
        if hold is not None:
            usage = rows.usage(row, hold.api_key_id, hold.cap_day)
        elif charge is not None and charge.api_key_id is not None and charge.cap_day is not None:
            usage = rows.usage(row, charge.api_key_id, charge.cap_day)
        else:
            raise LookupError(f"meeting {meeting_id} has neither a hold nor a charge")
        claim = None if row["key"] is None else Claim(row["key"], row["fingerprint"], meeting_id)
        return LeaseView(
            token,
            row["version"],
            meeting,
            row["provider_user_id"],
            rows.funds(row),
            usage,
            hold,
            charge,
            claim,
        )

    async def save_scheduled(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event], answer: bytes | None,
    ) -> int | None:  # fmt: skip
        """Turn the hold into the charge and complete the meeting; `None` when the view is outdated."""
        context = rows.password_context(meeting.account_id, meeting.id)
        link_context = rows.join_url_context(meeting.account_id, meeting.id)
        parameters = (
            self._ending(view, meeting, answer)
            | funds_parameters(funds)
            | usage_parameters(usage)
            | entry_parameters(entry)
            | event_parameters(events, self._cipher)
            | {
                "token": view.token,
                "version": view.version,
                "hold_id": None if view.hold is None else view.hold.id,
                "provider_meeting_id": meeting.provider_meeting_id,
                "join_url": rows.seal_text(self._cipher, meeting.join_url, link_context),
                "password": rows.seal_text(self._cipher, meeting.password, context),
            }
        )
        cursor = await self._connection.execute(SAVE_SCHEDULED, parameters)
        row = await cursor.fetchone()
        return None if row is None else int(row["due"])

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None, was_made: bool = False,
    ) -> None:  # fmt: skip
        """The hold and the host are released; the idempotency key may try again."""
        hold_id = None if view.hold is None else view.hold.id
        parameters = (
            self._ending(view, meeting, None)
            | funds_parameters(funds)
            | usage_parameters(usage)
            | {
                "hold_id": hold_id,
                "today": meeting.created_at.astimezone(UTC).date(),
                "unavailable_until": host_unavailable_until,
                "look_again_s": look_again_s,
                "was_made": was_made,
            }
        )
        await self._connection.execute(SAVE_ABANDONED, parameters)

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        """Take the account's lock and read a meeting in any state."""
        parameters = {"account_id": account_id, "meeting_id": meeting_id, "key": idempotency_key}
        row = await fetch_locked(self._connection, _LOAD_FOR_CANCEL, parameters)
        if row is None:
            return None
        known = KeyView(rows.idempotency(row, self._cipher), row["now"])
        return MeetingView(rows.meeting(row, self._cipher), known, row["is_leased"])

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None:
        """Mark a meeting as being cancelled or ended, under a lease."""
        parameters = {
            "account_id": meeting.account_id,
            "meeting_id": meeting.id,
            "status": meeting.status.value,
            "key": None if claim is None else claim.key,
            "fingerprint": None if claim is None else claim.fingerprint,
            "lease_token": lease.token,
            "lease_s": lease.seconds,
        }
        await self._connection.execute(SAVE_CANCELLING, parameters)

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: tuple[Funds, CapUsage, Entry] | None,
        events: Sequence[Event], answer: bytes | None, *, invalidates_host_key: bool,
    ) -> int:  # fmt: skip
        """Write the end of a cancellation: the refund where there is one, the host free, the key done."""
        parameters = (
            self._ending(view, meeting, answer)
            | event_parameters(events, self._cipher)
            | {"is_over": True, "invalidates_host_key": invalidates_host_key}
        )
        if refund is None:
            return await self._count(SAVE_ENDED, parameters)
        funds, usage, entry = refund
        parameters |= funds_parameters(funds) | usage_parameters(usage) | entry_parameters(entry)
        return await self._count(SAVE_REFUNDED, parameters)

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        """Put a meeting back that the provider would not let go of; its key may try again."""
        await self._connection.execute(SAVE_CANCEL_FAILED, self._ending(view, meeting, None))

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """Find the meeting that a provider names, take its account's lock and read it again."""
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        cursor = await self._connection.execute(_FIND_AT_PROVIDER, parameters)
        row = await cursor.fetchone()
        if row is None:
            return None
        view = await self.load_locked(row["account_id"], row["id"], None)
        return None if view is None else view.meeting

    async def save_lifecycle(
        self, meeting: Meeting, events: Sequence[Event], *, invalidates_host_key: bool
    ) -> int:
        """Write a status that the provider or the clock brought; a meeting that ended frees its host."""
        parameters = {
            "account_id": meeting.account_id,
            "meeting_id": meeting.id,
            "status": meeting.status.value,
            "is_over": meeting.status is MeetingStatus.ENDED,
            "invalidates_host_key": invalidates_host_key,
        } | event_parameters(events, self._cipher)
        return await self._count(SAVE_LIFECYCLE, parameters)

    async def claim_due(self, limit: int, again_s: float) -> Sequence[DueMeeting]:
        """Meetings that the clock must see to; each comes again unless it is seen to."""
        cursor = await self._connection.execute(_CLAIM_DUE, {"limit": limit, "again_s": again_s})
        return [
            DueMeeting(rows.meeting(row, self._cipher), row["provider_user_id"], row["recording_checks"])
            for row in await cursor.fetchall()
        ]

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None = None) -> None:
        """The clock need not see to this meeting again, or not before so many seconds."""
        parameters = {"account_id": meeting.account_id, "meeting_id": meeting.id, "again_s": again_s}
        await self._connection.execute(SCHEDULE_NEXT_CHECK, parameters)

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[ExpiredLease]:
        """Take over meetings whose lease ran out."""
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        cursor = await self._connection.execute(CLAIM_EXPIRED, parameters)
        return [_expired_lease(row) for row in await cursor.fetchall()]

    async def lease_expired(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        """Take over one meeting if its lease ran out."""
        parameters = {
            "account_id": account_id,
            "meeting_id": meeting_id,
            "token": lease.token,
            "lease_s": lease.seconds,
        }
        cursor = await self._connection.execute(CLAIM_ONE_EXPIRED, parameters)
        row = await cursor.fetchone()
        return None if row is None else _expired_lease(row)

    def _ending(self, view: LeaseView, meeting: Meeting, answer: bytes | None) -> dict[str, Any]:
        key = None if view.claim is None else view.claim.key
        if answer is not None and key is not None:
            answer = self._cipher.seal(answer, rows.answer_context(meeting.account_id, key))
        return {
            "account_id": meeting.account_id,
            "meeting_id": meeting.id,
            "status": meeting.status.value,
            "credits_refunded": meeting.credits_refunded,
            "key": key,
            "answer": answer,
        }

    async def _count(self, query: str, parameters: dict[str, Any]) -> int:
        cursor = await self._connection.execute(query, parameters)
        row = await cursor.fetchone()
        return 0 if row is None else int(row["due"])


def _expired_lease(row: rows.Row) -> ExpiredLease:
    return ExpiredLease(row["account_id"], row["id"], row["lease_token"])
