"""What is kept of an account as an archive of JSON lines, for its owner or an operator.

It is read page by page while the account goes on: each line is true at its own moment. What is left out, and
why, is in the archive's README (`export_records`).
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID
from weakref import finalize

from attrs import evolve, field, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.field_info import as_json
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.members.passkeys import PasskeyOwner
from meetcore.domain.members.roles import Action, check_allowed
from meetcore.domain.records.credits import transaction_record
from meetcore.domain.records.meetings import meeting_event_record
from meetcore.domain.records.notes import note_record, recording_record
from meetcore.domain.records.webhooks import delivery_record, endpoint_record, event_record
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import EventFilter, MeetingFilter, NoteFilter, Queries, TransactionFilter
from meetcore.ports.registry import Registry, StoredAccount
from meetcore.ports.request_log import RequestFilter
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.export_records import (
    account_line,
    audit_entry_line,
    invitation_line,
    key_line,
    mail_line,
    member_line,
    passkey_line,
    readme,
    request_line,
    session_line,
)
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
    """Makes archives of accounts, each once at a time.

    `running` has the accounts whose archives are made; `events_kept` is how long events and deliveries stay.
    """

    store: Store
    queries: Queries
    registry: Registry
    runtime: Runtime
    events_kept: timedelta = EVENTS_KEPT
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
            "account": _once(account_line(account)),
            **self._people(id_, now),
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
                request_line,
            ),
            "audit_log": _paged(
                lambda before: queries.list_audit_entries(id_, PAGE, before),
                lambda one: one.id,
                audit_entry_line,
            ),
        }
        about = ArchivedFile("README.txt", _text(readme(now, self.events_kept)))
        return [about, *(ArchivedFile(f"{name}.jsonl", lines) for name, lines in files.items())]

    def _people(self, account_id: UUID, now: datetime) -> dict[str, AsyncIterator[bytes]]:
        """The files about those who use the account."""
        queries = self.queries
        return {
            "members": _listed(lambda: queries.list_members(account_id), member_line),
            "passkeys": self._passkeys(account_id),
            "invitations": _listed(lambda: queries.list_invitations(account_id, now), invitation_line),
            "sessions": _paged(
                lambda before: queries.list_account_sessions(account_id, PAGE, before),
                lambda one: one.id,
                session_line,
            ),
            "mails": _paged(
                lambda before: queries.list_mails(account_id, PAGE, before), lambda one: one.id, mail_line
            ),
            "api_keys": _listed(lambda: self.registry.list_keys(account_id), key_line),
        }

    async def _passkeys(self, account_id: UUID) -> AsyncIterator[bytes]:
        for member in await self.queries.list_members(account_id):
            for passkey in await self.queries.list_passkeys(PasskeyOwner(member.user.id)):
                yield _line(passkey_line(passkey))

    async def _deliveries(self, account_id: UUID) -> AsyncIterator[bytes]:
        last: UUID | None = None
        while endpoints := await self.queries.list_endpoints(account_id, PAGE, last):
            for endpoint in endpoints:
                async for lines in self._deliveries_to(account_id, endpoint.id):
                    yield lines
            last = endpoints[-1].id

    async def _deliveries_to(self, account_id: UUID, endpoint_id: UUID) -> AsyncIterator[bytes]:
        named = {"webhook_id": str(endpoint_id)}
        before: UUID | None = None
        while page := await self.queries.list_deliveries(account_id, endpoint_id, None, PAGE, before):
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
