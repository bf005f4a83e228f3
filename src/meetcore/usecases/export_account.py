"""Everything of an account as an archive of JSON lines, for its owner or an operator.

It is read page by page while the account goes on: each line is true at its own moment. Left out are
secrets (API keys, secrets of webhooks, passwords and host keys of meetings) and the files of recordings,
which have addresses of their own.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID
from weakref import finalize

from attrs import evolve, field, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.field_info import as_json
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.audit import SERVICE, ActionOrigin, AuditEntry
from meetcore.domain.members.members import Invitation, Member
from meetcore.domain.members.passkeys import Passkey, PasskeyOwner
from meetcore.domain.members.roles import Action, check_allowed
from meetcore.domain.records.credits import transaction_record
from meetcore.domain.records.meetings import meeting_event_record
from meetcore.domain.records.notes import note_record, recording_record
from meetcore.domain.records.webhooks import delivery_record, endpoint_record, event_record
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import EventFilter, MeetingFilter, NoteFilter, Queries, TransactionFilter
from meetcore.ports.registry import Registry, StoredAccount
from meetcore.ports.request_log import RequestFilter
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.zip_stream import ArchivedFile, zip_stream

T = TypeVar("T")
Place = TypeVar("Place", UUID, int)

EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
PAGE: Final = 100
NOTES_PAGE: Final = 5
"""Notes have transcripts: a few are as much as a page of anything else."""
MAX_AT_ONCE: Final = 2
"""Exports that one process makes at a time."""

README: Final = """\
Everything that this service keeps of the account, one JSON object on each line.

account.jsonl      the account: its name, e-mail address, balance and settings
members.jsonl      who belongs to it, with which role
passkeys.jsonl     names and dates of the members' passkeys; never a key
invitations.jsonl  invitations that wait for an answer
api_keys.jsonl     names, scopes and dates of API keys; never a key
meetings.jsonl     meetings, without passwords and host keys
recordings.jsonl   recordings; download their files while they are available
notes.jsonl        notes with their transcripts
ledger.jsonl       every change of the balance, the newest first
webhooks.jsonl     webhooks, without their secrets
deliveries.jsonl   what was sent to them, with every attempt and its answer
events.jsonl       events with their payloads, of the last 90 days
requests.jsonl     calls of the API, of the last seven days
audit_log.jsonl    who changed what, when and from where

Times are in UTC (RFC 3339). Made at {at}.
"""


class _Place:
    """Has an account among those whose archives are made, until it is released once."""

    def __init__(self, running: set[UUID], account_id: UUID) -> None:
        self._running: set[UUID] | None = running
        self._account_id = account_id
        running.add(account_id)

    def release(self) -> None:
        if self._running is not None:
            self._running.discard(self._account_id)
        self._running = None


@frozen
class ExportAccount:
    """Makes archives of accounts, each once at a time. `running` has the accounts whose archives are made."""

    store: Store
    queries: Queries
    registry: Registry
    runtime: Runtime
    origin: ActionOrigin = SERVICE
    running: set[UUID] = field(factory=set, repr=False)

    def acting_as(self, origin: ActionOrigin) -> "ExportAccount":
        """The same use case, on behalf of somebody."""
        return evolve(self, origin=origin)

    async def for_member(self, who: SignedIn, client_address: str | None) -> AsyncIterator[bytes]:
        """The archive of a member's account; see `__call__`.

        Raises:
            ActionNotAllowed: the role does not allow it.
        """
        check_allowed(who.role, Action.EXPORT_ACCOUNT)
        return await self.acting_as(who.origin(client_address))(who.account.id)

    async def __call__(self, account_id: UUID) -> AsyncIterator[bytes]:
        """Begin an archive, write that into the audit log, and return the archive's bytes in pieces.

        Raises:
            NotFound: no such account.
            Unprocessable: one of this account, or too many others, are being made.
        """
        if account_id in self.running or len(self.running) >= MAX_AT_ONCE:
            raise Unprocessable("Another export is being made. Try again when it is done.")
        place = _Place(self.running, account_id)
        try:
            account = await self.registry.find_account(account_id)
            now = self.runtime.now()
            async with self.store.begin() as tx:
                await record_action(
                    tx, self.runtime, now, self.origin, "account.exported", account_id, account_id
                )
        except BaseException:
            place.release()
            raise
        pieces = self._archive(account, now, place)
        finalize(pieces, place.release)  # one that was never asked for a piece runs no `finally`
        return pieces

    async def _archive(self, account: StoredAccount, now: datetime, place: "_Place") -> AsyncIterator[bytes]:
        try:
            async for piece in zip_stream(self._files(account, now), now):
                yield piece
        finally:
            place.release()

    def _files(self, account: StoredAccount, now: datetime) -> Sequence[ArchivedFile]:
        queries, id_ = self.queries, account.id
        files = {
            "account": _once(_account(account)),
            "members": _listed(lambda: queries.list_members(id_), _member),
            "passkeys": self._passkeys(id_),
            "invitations": _listed(lambda: queries.list_invitations(id_, now), _invitation),
            "api_keys": _listed(lambda: self.registry.list_keys(id_), _key),
            "meetings": _paged(
                lambda before: queries.list_meetings(id_, MeetingFilter(now), PAGE, before),
                lambda one: one.id,
                lambda one: as_json(meeting_event_record(one, now)),
            ),
            "recordings": _paged(
                lambda before: queries.list_recordings(id_, None, PAGE, before),
                lambda one: one.id,
                lambda one: as_json(recording_record(one, now)),
            ),
            "notes": _paged(
                lambda before: queries.list_notes(id_, NoteFilter(), NOTES_PAGE, before),
                lambda one: one.id,
                lambda one: as_json(note_record(one)),
            ),
            "ledger": _paged(
                lambda before: queries.list_transactions(id_, TransactionFilter(), PAGE, before),
                lambda one: one.number,
                lambda one: as_json(transaction_record(one)),
            ),
            "webhooks": _paged(
                lambda before: queries.list_endpoints(id_, PAGE, before),
                lambda one: one.id,
                lambda one: as_json(endpoint_record(one, with_secret=False)),
            ),
            "deliveries": self._deliveries(id_),
            "events": _paged(
                lambda before: queries.list_events(id_, EventFilter(EVER), PAGE, before),
                lambda one: one.id,
                lambda one: as_json(event_record(one)),
            ),
            "requests": _paged(
                lambda before: queries.list_requests(id_, RequestFilter(), PAGE, before),
                lambda one: one.id,
                _request,
            ),
            "audit_log": _paged(
                lambda before: queries.list_audit_entries(id_, PAGE, before), lambda one: one.id, _audit_entry
            ),
        }
        readme = ArchivedFile("README.txt", _text(README.format(at=utc_text(now))))
        return [readme, *(ArchivedFile(f"{name}.jsonl", lines) for name, lines in files.items())]

    async def _passkeys(self, account_id: UUID) -> AsyncIterator[bytes]:
        for member in await self.queries.list_members(account_id):
            for passkey in await self.queries.list_passkeys(PasskeyOwner(member.user.id)):
                yield _line(_passkey(passkey))

    async def _deliveries(self, account_id: UUID) -> AsyncIterator[bytes]:
        for endpoint in await self.queries.list_endpoints(account_id, PAGE, None):
            before: UUID | None = None
            while page := await self.queries.list_deliveries(account_id, endpoint.id, None, PAGE, before):
                named = {"webhook_id": str(endpoint.id)}
                yield b"".join(
                    _line(named | dict(as_json(delivery_record(one.delivery, one.attempts)))) for one in page
                )
                before = page[-1].delivery.id


async def _listed(
    read: Callable[[], Awaitable[Sequence[T]]], record: Callable[[T], Mapping[str, object]]
) -> AsyncIterator[bytes]:
    """The lines of a list that is short by its limits."""
    yield b"".join(_line(record(one)) for one in await read())


async def _paged(
    read: Callable[[Place | None], Awaitable[Sequence[T]]],
    place: Callable[[T], Place],
    record: Callable[[T], Mapping[str, object]],
) -> AsyncIterator[bytes]:
    """The lines of a list, page by page, the newest first."""
    before: Place | None = None
    while page := await read(before):
        yield b"".join(_line(record(one)) for one in page)
        before = place(page[-1])


async def _once(record: Mapping[str, object]) -> AsyncIterator[bytes]:
    yield _line(record)


async def _text(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def _line(record: Mapping[str, object]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _account(account: StoredAccount) -> dict[str, object]:
    return {
        "id": str(account.id),
        "user_id": str(account.user_id),
        "email": account.email,
        "full_name": account.full_name,
        "created_at": utc_text(account.created_at),
        "suspended_at": _instant(account.suspended_at),
        "balance": account.balance,
        "held": account.held,
        "low_threshold": account.low_threshold,
    }


def _member(member: Member) -> dict[str, object]:
    return {
        "id": str(member.user.id),
        "email": member.user.email,
        "full_name": member.user.full_name,
        "role": member.membership.role.value,
        "created_at": utc_text(member.membership.created_at),
    }


def _passkey(passkey: Passkey) -> dict[str, object]:
    return {
        "id": str(passkey.id),
        "user_id": str(passkey.user_id),
        "name": passkey.name,
        "created_at": utc_text(passkey.created_at),
        "last_used_at": _instant(passkey.last_used_at),
    }


def _invitation(invitation: Invitation) -> dict[str, object]:
    return {
        "id": str(invitation.id),
        "email": invitation.email,
        "role": invitation.role.value,
        "created_at": utc_text(invitation.created_at),
        "expires_at": utc_text(invitation.expires_at),
    }


def _key(key: ApiKey) -> dict[str, object]:
    return {
        "id": str(key.id),
        "name": key.name,
        "last_four": key.last_four,
        "scopes": [scope.value for scope in key.scopes],
        "daily_credit_cap": key.daily_cap,
        "created_at": utc_text(key.created_at),
        "created_by": None if key.created_by is None else str(key.created_by),
        "expires_at": _instant(key.expires_at),
        "revoked_at": _instant(key.revoked_at),
        "last_used_at": _instant(key.last_used_at),
    }


def _request(request: LoggedRequest) -> dict[str, object]:
    return {
        "id": str(request.id),
        "api_key_id": str(request.api_key_id),
        "at": utc_text(request.at),
        "method": request.method,
        "path": request.path,
        "status": request.status,
        "duration_ms": request.duration_ms,
        "code": request.code,
        "subject_id": None if request.subject_id is None else str(request.subject_id),
    }


def _audit_entry(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": str(entry.id),
        "at": utc_text(entry.at),
        "actor": entry.actor.name,
        "actor_kind": entry.actor.kind.value,
        "action": entry.action,
        "target_id": entry.target_id,
        "details": dict(entry.details),
        "client_address": entry.client_address,
        "is_impersonated": entry.is_impersonated,
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else utc_text(at)
