"""Erasure of accounts in memory: ids and money stay, names and contents go."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import Tables, account_of
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.notes.notes import NoteStatus, erase
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.requests.accounts import email_key
from meetcore.domain.requests.erasures import ERASED, Erasure, erased_email, retry_delay

_OPEN = (MeetingStatus.SCHEDULED, MeetingStatus.CANCELLING, MeetingStatus.STARTED)
_ENDED = (NoteStatus.COMPLETED, NoteStatus.FAILED)

Key = TypeVar("Key", bound=tuple[Any, ...])


class MemoryErasureRepository:
    """What is erased of an account, and which erasures are under way."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def load_locked(self, account_id: UUID) -> Erasure:
        account_of(self._tables, account_id)
        opened = [
            stored
            for (owner, _), stored in self._tables.meetings.items()
            if owner == account_id and stored.meeting.status in _OPEN
        ]
        holds = [owner for owner, _ in self._tables.holds if owner == account_id]
        times = self._tables.erasures.get(account_id, (None, None))
        return Erasure(account_id, len(opened), len(holds), *times)

    async def is_requested(self, account_id: UUID) -> bool:
        return account_id in self._tables.erasures

    async def start(self, account_id: UUID, at: datetime) -> None:
        tables = self._tables
        tables.erasures.setdefault(account_id, (at, None))
        account = tables.accounts[account_id]
        tables.accounts[account_id] = evolve(
            account,
            card=evolve(account.card, email=erased_email(account_id), full_name=ERASED),
            suspended_at=account.suspended_at or at,
        )
        for key in [one for one in tables.keys.values() if one.account_id == account_id]:
            tables.keys[key.id] = evolve(key, revoked_at=key.revoked_at or at, name=ERASED)
        for one in [one for one in tables.invitations.values() if one.account_id == account_id]:
            tables.invitations[one.id] = evolve(
                one, email=erased_email(one.id), revoked_at=one.revoked_at or at
            )
        for digest in [name for name, one in tables.sessions.items() if one.account_id == account_id]:
            del tables.sessions[digest]
        self._end_memberships(account_id)

    def _end_memberships(self, account_id: UUID) -> None:
        tables = self._tables
        users = [user for owner, user in tables.memberships if owner == account_id]
        for user_id in users:
            del tables.memberships[account_id, user_id]
        removed = {
            UUID(entry.target_id)
            for entry in tables.audit_log.values()
            if entry.account_id == account_id and entry.action == "member.removed"
        }
        for user_id in (removed.union(users) & tables.users.keys()) - {
            user for _, user in tables.memberships
        }:
            user = tables.users[user_id]
            tables.users[user_id] = evolve(user, email=erased_email(user_id), full_name=ERASED)
            for passkey in [one.id for one in tables.passkeys.values() if one.user_id == user_id]:
                del tables.passkeys[passkey]
            for mail in [one.mail for one in tables.mails.values()]:
                if email_key(mail.recipient) == email_key(user.email):
                    del tables.mails[mail.id]

    async def claim_due(self, at: datetime, limit: int) -> Sequence[UUID]:
        tables = self._tables
        due = [
            (tables.erasures_due.get(id_, requested_at), id_)
            for id_, (requested_at, finished_at) in tables.erasures.items()
            if finished_at is None
        ]
        claimed = [id_ for due_at, id_ in sorted(due) if due_at <= at][:limit]
        for id_ in claimed:
            tables.erasures_due[id_] = at + retry_delay(at - tables.erasures[id_][0])
        return claimed

    async def find_recorded(self, account_id: UUID, limit: int) -> Sequence[UUID]:
        found = [
            stored.recording
            for (owner, _), stored in self._tables.recordings.items()
            if owner == account_id and stored.recording.status is not RecordingStatus.EXPIRED
        ]
        return [one.meeting_id for one in sorted(found, key=lambda one: one.id)][:limit]

    async def erase_meetings(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        keys = _next(self._tables.meetings, account_id, after, limit)
        for key in keys:
            stored = self._tables.meetings[key]
            meeting = evolve(stored.meeting, title=ERASED, description=None, password=None, join_url=None)
            self._tables.meetings[key] = evolve(stored, meeting=meeting, idempotency_key=None)
        return keys[-1][1] if keys else None

    async def erase_notes(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        keys = _next(self._tables.notes, account_id, after, limit)
        for key in keys:
            stored = self._tables.notes[key]
            if stored.note.status in _ENDED:
                self._tables.notes[key] = evolve(stored, note=erase(stored.note))
        return keys[-1][1] if keys else None

    async def delete_portion(self, account_id: UUID, limit: int) -> int:
        tables = self._tables
        deliveries = [key for key in tables.deliveries if key[0] == account_id][:limit]
        for key in [key for key in tables.attempts if key[:2] in set(deliveries)]:
            del tables.attempts[key]
        gone = _delete(tables.deliveries, deliveries)
        gone += _delete(tables.events, [key for key in tables.events if key[0] == account_id][:limit])
        mails = [id_ for id_, stored in tables.mails.items() if stored.mail.account_id == account_id]
        gone += _delete(tables.mails, mails[:limit])
        requests = [id_ for id_, one in tables.requests.items() if one.account_id == account_id]
        gone += _delete(tables.requests, requests[:limit])
        answers = [key for key in tables.idempotency if key[0] == account_id][:limit]
        _delete(tables.idempotency_since, answers)
        return gone + _delete(tables.idempotency, answers)

    async def finish(self, account_id: UUID, at: datetime) -> bool:
        tables = self._tables
        requested_at, finished_at = tables.erasures.get(account_id, (None, None))
        due = [
            stored.due_at
            for table in (tables.meetings, tables.recordings)
            for (owner, _), stored in table.items()
            if owner == account_id and stored.due_at is not None
        ]
        holds = [owner for owner, _ in tables.holds if owner == account_id]
        if requested_at is None or finished_at is not None or due or holds:
            return False
        tables.erasures[account_id] = (requested_at, at)
        return True


def _next(
    table: Iterable[tuple[UUID, UUID]], account_id: UUID, after: UUID | None, limit: int
) -> Sequence[tuple[UUID, UUID]]:
    """The next keys of an account's records by their ids."""
    return sorted(key for key in table if key[0] == account_id and (after is None or key[1] > after))[:limit]


def _delete(table: dict[Any, Any], keys: Iterable[Any]) -> int:
    """Delete records; how many there were."""
    return sum(table.pop(key, None) is not None for key in keys)
