"""The end of a meeting: cancelled, refunded, or put back because the provider refused.

Each is one write under the account's lock. What occupied the host is freed here, and here alone it is
decided that the host's key was exposed and must be replaced.
"""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import utc
from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.idempotency import CLAIM_KEY, KEY_COLUMNS, KEY_LOST, RELEASE_KEY, key_record
from meetcore.adapters.postgres.ledger.parts import (
    APPEND_ENTRY,
    FUNDS,
    LOCK_ACCOUNT,
    USAGE,
    WRITE_FUNDS,
    WRITE_USAGE,
    entry_parameters,
)
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, ending_parameters, meeting
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.requests.restores import key_made_at
from meetcore.domain.webhooks.events import Event
from meetcore.ports.idempotency import Claim, KeyView
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import LeaseView, MeetingView

# A meeting in any state and an idempotency key, under the account's lock.
_LOAD_LOCKED = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.account_id, locked.version, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    clock_timestamp() AS now, COALESCE(m.lease_until > clock_timestamp(), false) AS is_leased,
    {MEETING_COLUMNS}, {KEY_COLUMNS}, {KEY_LOST} AS is_key_lost
FROM locked
JOIN meetings m ON m.account_id = locked.account_id AND m.id = %(meeting_id)s
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s::text
"""

# Marks a meeting as being cancelled, under a lease, and claims the request's key for it.
_SAVE_CANCELLING = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, idempotency_key = %(key)s, lease_token = %(lease_token)s,
        lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), {CLAIM_KEY}
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""

# Frees the host of a meeting that is over. Its key was this meeting's to show, unless an earlier meeting of the
# host is not over: then it is deleted, and a replacement under way has no effect.
FREE_HOST = """
    freed AS (
        DELETE FROM host_reservations
        WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND %(is_over)s
        RETURNING host_id, lower(during) AS start_at
    ), exposed AS (
        UPDATE hosts h SET host_key = NULL, key_token = NULL, key_due_at = clock_timestamp()
        FROM freed
        WHERE %(invalidates_host_key)s AND h.id = freed.host_id AND h.max_concurrent = 1 AND NOT EXISTS (
            SELECT FROM host_reservations r
            WHERE r.host_id = freed.host_id AND r.during && tstzrange(NULL, freed.start_at))
    )"""

# What was recorded of a meeting that took place is looked for from its end on; otherwise it needs no further check.
LOOKED_FOR = """due_at = CASE
            WHEN %(meeting_status)s = 'ended' AND with_recording THEN clock_timestamp()
            WHEN %(is_over)s THEN NULL
            ELSE due_at END"""

# The end of a cancellation: the meeting's last state, its host free, its key done, its events out.
_END_MEETING = f"""
    {WRITE_EVENTS}, meeting AS (
        UPDATE meetings SET status = %(meeting_status)s, credits_refunded = %(meeting_credits_refunded)s,
            idempotency_key = NULL, lease_token = NULL, lease_until = NULL, {LOOKED_FOR}
        WHERE account_id = %(account_id)s AND id = %(meeting_id)s
    ), {FREE_HOST}, done AS (
        UPDATE idempotency_keys SET is_done = true, answer = %(answer)s, lease_until = NULL
        WHERE account_id = %(account_id)s AND key = %(key)s::text
    )"""

# The end of a cancellation with the refund of the charge.
_SAVE_REFUNDED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {APPEND_ENTRY}, {WRITE_FUNDS}, {_END_MEETING}, {WRITE_USAGE}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# The end of a cancellation without a refund, or of a meeting that is ended by its owner.
_SAVE_ENDED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {_END_MEETING}, account AS (
    UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# Puts a meeting back whose cancellation the provider refused; the request's key may try again.
_SAVE_CANCEL_FAILED = f"""
WITH meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, idempotency_key = NULL, lease_token = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), {RELEASE_KEY}
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""


class MeetingCancellation(Repository):
    """From a request to cancel or end a meeting to its last state."""

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        parameters = {
            "account_id": account_id, "meeting_id": meeting_id, "key": idempotency_key,
            "key_made_at": key_made_at(idempotency_key),
        }  # fmt: skip
        row = await self._locked(_LOAD_LOCKED, parameters)
        if row is None:
            return None
        known = KeyView(key_record(row, self._cipher), utc(row["now"]), row["is_key_lost"])
        return MeetingView(meeting(row, self._cipher), known, row["is_leased"])

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None:
        parameters = {
            "account_id": meeting.account_id,
            "meeting_id": meeting.id,
            "meeting_status": meeting.status.value,
            "key": None if claim is None else claim.key,
            "fingerprint": None if claim is None else claim.fingerprint,
            "lease_token": lease.token,
            "lease_s": lease.seconds,
        }
        await self._connection.execute(_SAVE_CANCELLING, parameters)

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: tuple[Funds, CapUsage, Entry] | None,
        events: Sequence[Event], encoded_outcome: bytes | None, *, invalidates_host_key: bool,
    ) -> int:  # fmt: skip
        parameters = (
            ending_parameters(view, meeting, encoded_outcome, self._cipher)
            | event_parameters(events, self._cipher)
            | {"is_over": True, "invalidates_host_key": invalidates_host_key}
        )
        if refund is None:
            return await self._due(_SAVE_ENDED, parameters)
        funds, usage, entry = refund
        parameters |= FUNDS.parameters(funds) | USAGE.parameters(usage) | entry_parameters(entry)
        return await self._due(_SAVE_REFUNDED, parameters)

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        parameters = ending_parameters(view, meeting, None, self._cipher)
        await self._connection.execute(_SAVE_CANCEL_FAILED, parameters)
