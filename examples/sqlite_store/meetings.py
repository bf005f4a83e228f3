"""Meetings in SQLite: fenced while in progress, charged or given back, cancelled, taken over.

The first half of making one is in `creations`; this module owns the later states of a meeting.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds, Transfer
from meetcore.domain.webhooks.events import Event
from meetcore.ports.clock import Clock
from meetcore.ports.entropy import Entropy
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

from . import creations, rows
from .connection import Connection
from .idempotency import claim_key, end_claim, finish_key, load_key, prolong_claim
from .ledger import append_entry, load_funds, write_funds, write_usage
from .orphan_checks import move_check
from .outbox import write_events

__all__ = ["SqliteMeetingRepository"]

# A meeting in any state.
_LOAD = "SELECT * FROM meetings WHERE account_id = :account_id AND id = :id"

# A meeting in progress, for the holder of its lease only.
_LOAD_LEASED = """
SELECT m.*, coalesce(h.provider_user_id, '') AS provider_user_id
FROM meetings m LEFT JOIN hosts h ON h.id = m.host_id
WHERE m.account_id = :account_id AND m.id = :id AND m.lease_token = :token
"""

# The hold that a meeting in progress is paid from, and the charge of one that is paid.
_HOLD = "SELECT * FROM holds WHERE account_id = :account_id AND id = :hold_id"
_CHARGE = "SELECT * FROM entries WHERE account_id = :account_id AND transfer_id = :charge_id"

# A hold that was settled or released.
_END_HOLD = "DELETE FROM holds WHERE account_id = :account_id AND id = :hold_id"

# What became of a meeting. The work on it ends; `due_at` is when the clock sees to it, if it still has to.
_END_WORK = """
UPDATE meetings SET status = :status, provider_meeting_id = :provider_meeting_id, join_url = :join_url,
    password = :password, charge_id = :charge_id, credits_refunded = :credits_refunded, hold_id = NULL,
    idempotency_key = NULL, lease_token = NULL, lease_until = NULL, due_at = :due_at
WHERE account_id = :account_id AND id = :id
"""

# A meeting that is being cancelled or ended: whose work it is, and which request it answers.
_START_WORK = """
UPDATE meetings SET status = :status, idempotency_key = :key, lease_token = :token, lease_until = :until
WHERE account_id = :account_id AND id = :id
"""

# The meeting that a provider names, the latest that had the id.
_FIND_AT_PROVIDER = """
SELECT * FROM meetings WHERE provider = :provider AND provider_meeting_id = :provider_meeting_id
ORDER BY id DESC LIMIT 1
"""

# A status that the provider or the clock brought; work on the meeting goes on.
_WRITE_STATUS = """
UPDATE meetings SET status = :status, due_at = CASE WHEN :status = 'ended' THEN :looked_for_at ELSE due_at END
WHERE account_id = :account_id AND id = :id
"""

# What the clock must see to, the longest due first; when it comes again; and when it need not any more.
_DUE = """
SELECT m.*, coalesce(h.provider_user_id, '') AS provider_user_id
FROM meetings m LEFT JOIN hosts h ON h.id = m.host_id
WHERE m.due_at <= :now ORDER BY m.due_at LIMIT :limit
"""
_SET_DUE = "UPDATE meetings SET due_at = :due_at WHERE account_id = :account_id AND id = :id"
_COUNT_LOOK = """
UPDATE meetings SET recording_looks = recording_looks + 1
WHERE account_id = :account_id AND id = :id AND status = 'ended'
"""

# Work with an expired lease, the longest expired first; and one meeting of it.
_EXPIRED = "SELECT account_id, id FROM meetings WHERE lease_until <= :now ORDER BY lease_until LIMIT :limit"
_TAKE_OVER = """
UPDATE meetings SET lease_token = :token, lease_until = :until
WHERE account_id = :account_id AND id = :id AND lease_until <= :now
"""


class SqliteMeetingRepository:
    """Meetings, their hosts and their money, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock, entropy: Entropy) -> None:
        self._connection = connection
        self._clock = clock
        self._entropy = entropy

    async def load_creation(self, query: CreationQuery) -> CreationView:
        """Everything that the decision on a new meeting needs."""
        return await creations.load_creation(self._connection, query, self._clock.now())

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        """Write meeting, hold, reservation, lease and claim; `None` when the host was taken."""
        if not await creations.save_provisioning(self._connection, provisioning, self._clock.now()):
            return None
        meeting = provisioning.meeting
        return await self.load_leased(meeting.account_id, meeting.id, provisioning.lease.token)

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        """The meeting in progress, if the lease is still held."""
        bearer = {"account_id": account_id, "id": meeting_id, "token": token}
        row = await self._connection.fetch_one(_LOAD_LEASED, bearer)
        if row is None:
            return None
        held = await self._connection.fetch_one(_HOLD, row)
        paid = await self._connection.fetch_one(_CHARGE, row)
        hold = None if held is None else rows.hold(held)
        charge = None if paid is None else rows.transfer(paid)
        key = await load_key(self._connection, account_id, row["idempotency_key"])
        return LeaseView(
            token=token,
            version=0,  # the view itself is compared: see `save_scheduled`
            meeting=rows.record(Meeting, row),
            provider_user_id=row["provider_user_id"],
            funds=await load_funds(self._connection, account_id),
            usage=await creations.load_usage(self._connection, account_id, _unused(hold, charge)),
            hold=hold,
            charge=charge,
            claim=None if key is None else Claim(key.key, key.fingerprint, meeting_id),
        )

    async def save_scheduled(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event], answer: bytes | None,
    ) -> int | None:  # fmt: skip
        """Turn the hold into the charge and complete the meeting; `None` when the view is outdated.

        A store whose statements do not stand alone compares a version of the account instead.
        """
        if await self.load_leased(meeting.account_id, meeting.id, view.token) != view:
            return None
        await append_entry(self._connection, entry)
        await self._end_hold(view, funds, usage)
        await self._end_work(meeting, due_at=meeting.end_at)
        await finish_key(self._connection, meeting.account_id, view.claim, answer)
        return await self._add_events(events)

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> None:  # fmt: skip
        """The hold and the host are released; the idempotency key may try again."""
        now = self._clock.now()
        await self._end_hold(view, funds, usage)
        await self._end_work(meeting, due_at=None)
        await move_check(self._connection, meeting, now, look_again_s)
        await creations.free_host(self._connection, meeting, now, invalidates_host_key=False)
        if not was_made:
            await creations.give_back_host(self._connection, meeting)
        if host_unavailable_until is not None:
            await creations.mark_host_unavailable(self._connection, meeting, host_unavailable_until)
        await end_claim(self._connection, meeting.account_id, view.claim)

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        """A meeting in any state, and the record of a key."""
        row = await self._connection.fetch_one(_LOAD, {"account_id": account_id, "id": meeting_id})
        if row is None:
            return None
        now = self._clock.now()
        is_leased = row["lease_until"] is not None and row["lease_until"] > rows.microseconds(now)
        key = KeyView(await load_key(self._connection, account_id, idempotency_key), now)
        return MeetingView(rows.record(Meeting, row), key, is_leased)

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None:
        """Mark a meeting as being cancelled or ended, under a lease."""
        now = self._clock.now()
        until = now + timedelta(seconds=lease.seconds)
        work = {"key": None if claim is None else claim.key, "token": lease.token, "until": until}
        await self._connection.change(_START_WORK, rows.fields_of(meeting) | work)
        await claim_key(self._connection, meeting.account_id, claim, now, until)

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: tuple[Funds, CapUsage, Entry] | None,
        events: Sequence[Event], answer: bytes | None, *, invalidates_host_key: bool,
    ) -> int:  # fmt: skip
        """Write the end of a cancellation: the refund where there is one, the host free, the key done."""
        if refund is not None:
            funds, usage, entry = refund
            await append_entry(self._connection, entry)
            await write_funds(self._connection, funds)
            await write_usage(self._connection, meeting.account_id, usage)
        await self._end_work(meeting, due_at=self._looked_for_at(meeting))
        now = self._clock.now()
        await creations.free_host(self._connection, meeting, now, invalidates_host_key=invalidates_host_key)
        await finish_key(self._connection, meeting.account_id, view.claim, answer)
        return await self._add_events(events)

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        """Put a meeting back that the provider would not let go of; its key may try again."""
        await self._end_work(meeting, due_at=meeting.end_at)
        await end_claim(self._connection, meeting.account_id, view.claim)

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """Find the meeting that a provider names."""
        known = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._connection.fetch_one(_FIND_AT_PROVIDER, known)
        return None if row is None else rows.record(Meeting, row)

    async def save_lifecycle(
        self, meeting: Meeting, events: Sequence[Event], *, invalidates_host_key: bool
    ) -> int:
        """Write a status that the provider or the clock brought; a meeting that ended frees its host."""
        looked_for = {"looked_for_at": self._looked_for_at(meeting)}
        await self._connection.change(_WRITE_STATUS, rows.fields_of(meeting) | looked_for)
        if meeting.status is MeetingStatus.ENDED:
            now = self._clock.now()
            await creations.free_host(
                self._connection, meeting, now, invalidates_host_key=invalidates_host_key
            )
        return await self._add_events(events)

    async def claim_due(self, limit: int, again_s: float) -> Sequence[DueMeeting]:
        """Meetings that the clock must see to, the longest due first; each comes again unless seen to."""
        now = self._clock.now()
        found = await self._connection.fetch(_DUE, {"now": now, "limit": limit})
        for row in found:
            await self._connection.change(_SET_DUE, row | {"due_at": now + timedelta(seconds=again_s)})
            row["recording_looks"] += await self._connection.change(_COUNT_LOOK, row)
        return [
            DueMeeting(rows.record(Meeting, row), row["provider_user_id"], row["recording_looks"])
            for row in found
        ]

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None = None) -> None:
        """The clock need not see to this meeting again, or not before so many seconds."""
        due_at = None if again_s is None else self._clock.now() + timedelta(seconds=again_s)
        await self._set_due(meeting, due_at)

    def _looked_for_at(self, meeting: Meeting) -> datetime | None:
        """When the recording of a meeting that is over is looked for first."""
        is_sought = meeting.status is MeetingStatus.ENDED and meeting.with_recording
        return self._clock.now() if is_sought else None

    async def _set_due(self, meeting: Meeting, due_at: datetime | None) -> None:
        await self._connection.change(_SET_DUE, rows.fields_of(meeting) | {"due_at": due_at})

    async def _end_work(self, meeting: Meeting, *, due_at: datetime | None) -> None:
        await self._connection.change(_END_WORK, rows.fields_of(meeting) | {"due_at": due_at})

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[ExpiredLease]:
        """Take over meetings whose lease ran out, the longest expired first."""
        now = self._clock.now()
        found = await self._connection.fetch(_EXPIRED, {"now": now, "limit": limit})
        names = [(UUID(row["account_id"]), UUID(row["id"])) for row in found]
        taken = [await self._take_over(*name, lease, now) for name in names]
        return [expired for expired in taken if expired is not None]

    async def lease_expired(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        """Take over one meeting if its lease ran out."""
        return await self._take_over(account_id, meeting_id, lease, self._clock.now())

    async def _take_over(
        self, account_id: UUID, meeting_id: UUID, lease: Lease, now: datetime
    ) -> ExpiredLease | None:
        until = now + timedelta(seconds=lease.seconds)
        bearer = {"account_id": account_id, "id": meeting_id, "token": lease.token, "until": until}
        if not await self._connection.change(_TAKE_OVER, bearer | {"now": now}):
            return None
        await prolong_claim(self._connection, account_id, meeting_id, until)
        return ExpiredLease(account_id, meeting_id, lease.token)

    async def _end_hold(self, view: LeaseView, funds: Funds, usage: CapUsage) -> None:
        account_id = funds.account_id
        hold_id = None if view.hold is None else view.hold.id
        await self._connection.change(_END_HOLD, {"account_id": account_id, "hold_id": hold_id})
        await write_funds(self._connection, funds)
        await write_usage(self._connection, account_id, usage)

    async def _add_events(self, events: Sequence[Event]) -> int:
        return await write_events(self._connection, self._entropy, events, self._clock.now())


def _unused(hold: Hold | None, charge: Transfer | None) -> CapUsage:
    """The key and the day that a meeting in progress counts for, as if nothing had been spent there."""
    if hold is not None:
        return CapUsage(hold.api_key_id, hold.cap_day)
    if charge is not None and charge.api_key_id is not None and charge.cap_day is not None:
        return CapUsage(charge.api_key_id, charge.cap_day)
    raise LookupError("a meeting in progress has neither a hold nor a charge")
