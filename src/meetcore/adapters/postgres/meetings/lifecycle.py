"""Save what happens to a meeting after its creation: lifecycle events, its cancellation, due checks, expired leases.

Each end of a meeting is a write under the account's lock. `save_cleared` frees the host, and decides that the host's key was
exposed and must be replaced; no other statement does.

A claimed row is taken by one caller only, by its lock. Claims lock a meeting's row without its account's lock, so after it they
lock nothing of the account but the key that waits for the meeting. Searches are bounded by the statement's time: a volatile one
could not bound the scan of an index, and all meetings still to come would be read each time.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from meetcore.adapters.postgres import columns, repository
from meetcore.adapters.postgres.meetings.create import MeetingCreation
from meetcore.adapters.postgres.meetings.rows import MEETING, ending_parameters, meeting, session
from meetcore.adapters.postgres.money.rows import FUNDS, MONEY, USAGE, entry_parameters
from meetcore.adapters.postgres.requests.idempotency import KEY, key_record
from meetcore.adapters.postgres.webhooks.rows import event_parameters
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.sessions import Session, Sessions
from meetcore.domain.meetings.views import DueMeeting, ExpiredLease, LeaseView, MeetingView
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.requests.views import Claim, KeyView
from meetcore.domain.webhooks.events import Event
from meetcore.ports.runtime import Lease

SQL = repository.load_statements(__file__, **MONEY, KEY=KEY, MEETING=MEETING)


CLEAR_AFTER_S: Final = 20.0
"""After how many seconds the provider is asked again about a meeting that is over and may run there."""

_FIRST = UUID(int=0)


class MeetingLifecycle(repository.Repository):
    """Changes of a meeting that was created at the provider, up to its last state."""

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> MeetingView | None:
        parameters = {"account_id": account_id, "meeting_id": meeting_id, "key": idempotency_key}
        row = await self._locked(SQL["load_locked"], parameters)
        if row is None:
            return None
        known = KeyView(key_record(row, self._cipher), columns.utc(row["now"]))
        return MeetingView(meeting(row, self._cipher), known, row["is_leased"], row["is_due"])

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
        if claim is not None:
            await self._run(SQL["claim_key"], parameters)
        await self._run(SQL["save_cancelling"], parameters)

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: tuple[Funds, CapUsage, Entry] | None,
        events: Sequence[Event], encoded_outcome: bytes | None,
    ) -> int:  # fmt: skip
        parameters = (
            ending_parameters(view, meeting, encoded_outcome, self._cipher)
            | event_parameters(events, self._cipher)
            | {"clear_after_s": CLEAR_AFTER_S}
        )
        if refund is None:
            return await self._due(SQL["save_ended"], parameters)
        funds, usage, entry = refund
        parameters |= FUNDS.parameters(funds) | USAGE.parameters(usage) | entry_parameters(entry)
        return await self._due(SQL["save_refunded"], parameters)

    async def save_cancel_failed(self, view: LeaseView, meeting: Meeting) -> None:
        parameters = ending_parameters(view, meeting, None, self._cipher)
        await self._run(SQL["save_cancel_failed"], parameters)

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._one(SQL["find_account_at_provider"], parameters)
        view = None if row is None else await self.load_locked(row["account_id"], row["id"], None)
        return None if view is None else view.meeting

    async def find_recorded(
        self, provider: str, provider_meeting_ids: Sequence[str], ids: Sequence[UUID]
    ) -> Sequence[Meeting]:
        parameters = {"provider": provider, "names": list(provider_meeting_ids), "ids": list(ids)}
        return [meeting(row, self._cipher) for row in await self._all(SQL["find_recorded"], parameters)]

    async def list_scheduled(
        self, provider: str, since: datetime, after: Meeting | None, limit: int
    ) -> Sequence[Meeting]:
        account_id, meeting_id = (_FIRST, _FIRST) if after is None else (after.account_id, after.id)
        parameters = {
            "provider": provider,
            "since": since,
            "account_id": account_id,
            "meeting_id": meeting_id,
            "limit": limit,
        }
        return [meeting(row, self._cipher) for row in await self._all(SQL["list_scheduled"], parameters)]

    async def save_ended(self, meeting: Meeting, events: Sequence[Event]) -> int:
        parameters = _key(meeting) | {
            "meeting_status": meeting.status.value,
            "meeting_credits_refunded": meeting.credits_refunded,
            "clear_after_s": CLEAR_AFTER_S,
            "key": None,
            "answer": None,
        }
        return await self._due(SQL["save_ended"], parameters | event_parameters(events, self._cipher))

    async def save_cleared(self, meeting: Meeting, *, invalidates_host_key: bool) -> None:
        await self._run(SQL["save_cleared"], _key(meeting), invalidates_host_key=invalidates_host_key)

    async def save_uncleared(self, meeting: Meeting) -> None:
        await self._run(SQL["save_uncleared"], _key(meeting))

    async def keep_host(self, meeting: Meeting, seconds: float) -> None:
        await self._run(SQL["keep_host"], _key(meeting), seconds=seconds)

    async def load_sessions(self, account_id: UUID, meeting_id: UUID) -> Sessions:
        rows = await self._all(SQL["load_sessions"], account_id=account_id, meeting_id=meeting_id)
        return tuple(session(row) for row in rows)

    async def save_session(self, meeting: Meeting, session: Session) -> None:
        await self._run(
            SQL["save_session"], _key(meeting),
            session_id=session.id, started_at=session.started_at, ended_at=session.ended_at,
        )  # fmt: skip

    async def save_progress(self, meeting: Meeting, due_at: datetime) -> None:
        parameters = _key(meeting) | {"meeting_status": meeting.status.value, "due_at": due_at}
        await self._run(SQL["save_progress"], parameters)

    async def claim_due(self, limit: int, again_s: float) -> Sequence[DueMeeting]:
        return [
            DueMeeting(
                meeting(row, self._cipher),
                row["provider_user_id"],
                row["recording_checks"],
                row["is_cleared"],
            )
            for row in await self._all(SQL["claim_due"], limit=limit, again_s=again_s)
        ]

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None, *, is_cleared: bool) -> None:
        parameters = _key(meeting) | {"again_s": again_s, "is_cleared": is_cleared}
        await self._run(SQL["schedule_next_check"], parameters)

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[ExpiredLease]:
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        return [_expired_lease(row) for row in await self._all(SQL["claim_expired"], parameters)]

    async def lease_expired(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        return await self._take(SQL["claim_one_expired"], account_id, meeting_id, lease)

    async def take_lease(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        return await self._take(SQL["take_one"], account_id, meeting_id, lease)

    async def _take(
        self, statement: str, account_id: UUID, meeting_id: UUID, lease: Lease
    ) -> ExpiredLease | None:
        row = await self._one(
            statement, account_id=account_id, meeting_id=meeting_id, token=lease.token, lease_s=lease.seconds
        )
        return None if row is None else _expired_lease(row)


def _key(meeting: Meeting) -> dict[str, Any]:
    return {"account_id": meeting.account_id, "meeting_id": meeting.id}


def _expired_lease(row: columns.Row) -> ExpiredLease:
    return ExpiredLease(row["account_id"], row["id"], row["lease_token"])


class PostgresMeetingRepository(MeetingCreation, MeetingLifecycle):
    """Meetings, their hosts and their money."""
