"""Export an account as an archive of JSON lines, for its owner or an operator.

It is read page by page while the account goes on: each line is true at its own moment. The archive's README
(`export_records`) says what it leaves out, and why.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, TypeVar
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.fields import as_json
from meetcore.domain.meetings.views import MeetingFilter
from meetcore.domain.members import audit, passkeys, roles, views
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.records import accounts, meetings, notes, webhooks
from meetcore.domain.requests.views import RequestFilter, StoredAccount
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.domain.webhooks.views import DeliveryFilter, EventFilter
from meetcore.ports.queries import Queries
from meetcore.ports.requests import Registry
from meetcore.ports.store import Store
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.requests import erasure, export_records
from meetcore.usecases.requests.export_records import in_place, take_place
from meetcore.usecases.runtime import Runtime

T = TypeVar("T")
Place = TypeVar("Place", UUID, int)

EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
PAGE: Final = 100
NOTES_PAGE: Final = 5
"""Notes have transcripts: a few are as much as a page of anything else."""
MAX_AT_ONCE: Final = 8
"""Exports that one process makes at a time."""


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
    origin: audit.ActionOrigin = audit.SERVICE
    running: set[UUID] = field(factory=set, repr=False)

    async def for_member(
        self, who: views.SignedIn, client_address: str | None
    ) -> AsyncGenerator[bytes, None]:
        """Return the archive of a member's account; see `__call__`."""
        views.check_member(who, roles.Action.EXPORT_ACCOUNT)
        return await evolve(self, origin=who.origin(client_address))(who.account.id)

    async def __call__(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        """Begin an archive, write that into the audit log, and return the archive's bytes in pieces.

        Raises `Unprocessable`: one of this account, or too many others, are being made.
        """
        place = take_place(self.running, account_id, MAX_AT_ONCE)
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
        return in_place(export_records.zip_stream(self._files(account, now), now), place)

    def _files(self, account: StoredAccount, now: datetime) -> Sequence[export_records.ArchivedFile]:
        queries, id_ = self.queries, account.id
        files = {
            "account": _once(export_records.account_line(account)),
            **self._people(id_, now),
            "meetings": _paged(
                lambda before: queries.list_meetings(id_, MeetingFilter(now), PAGE, before),
                lambda one: as_json(meetings.meeting_event_record(one, now)),
            ),
            "recordings": _paged(
                lambda before: queries.list_recordings(id_, None, PAGE, before),
                lambda one: as_json(notes.recording_record(one, now)),
            ),
            "notes": _paged(
                lambda before: queries.list_notes(id_, NoteFilter(), NOTES_PAGE, before),
                lambda one: as_json(notes.note_record(one)),
            ),
            "ledger": _paged(
                lambda before: queries.list_transactions(id_, TransactionFilter(), PAGE, before),
                lambda one: as_json(accounts.transaction_record(one)),
                attrgetter("number"),
            ),
            "payments": self._payments(id_),
            "billing": self._billing(id_),
            "webhooks": _paged(
                lambda before: queries.list_endpoints(id_, PAGE, before),
                lambda one: as_json(webhooks.endpoint_record(one, with_secret=False)),
            ),
            "deliveries": self._deliveries(id_),
            "events": _paged(
                lambda before: queries.list_events(id_, EventFilter(EVER), PAGE, before),
                lambda one: as_json(webhooks.event_record(one)),
            ),
            "requests": _paged(
                lambda before: queries.list_requests(id_, RequestFilter(), PAGE, before),
                export_records.request_line,
            ),
            "audit_log": _paged(
                lambda before: queries.list_audit_entries(id_, PAGE, before),
                export_records.audit_entry_line,
            ),
        }
        about = export_records.ArchivedFile("README.txt", _text(export_records.readme(now, self.events_kept)))
        return [
            about,
            *(export_records.ArchivedFile(f"{name}.jsonl", lines) for name, lines in files.items()),
        ]

    def _people(self, account_id: UUID, now: datetime) -> dict[str, AsyncIterator[bytes]]:
        """Return the files about the account's members and keys."""
        queries = self.queries
        return {
            "members": self._members(account_id),
            "passkeys": self._passkeys(account_id),
            "invitations": _listed(
                lambda: queries.list_invitations(account_id, now), export_records.invitation_line
            ),
            "sessions": _paged(
                lambda before: queries.list_account_sessions(account_id, PAGE, before),
                export_records.session_line,
            ),
            "mails": _paged(
                lambda before: queries.list_mails(account_id, PAGE, before),
                export_records.mail_line,
            ),
            "api_keys": _listed(lambda: self.registry.list_keys(account_id), export_records.key_line),
        }

    async def _members(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        for member in await self.queries.list_members(account_id):
            _account, topics = await self.queries.find_settings(account_id, member.user.id)
            yield _line(export_records.member_line(member, topics))

    async def _passkeys(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        for member in await self.queries.list_members(account_id):
            for passkey in await self.queries.list_passkeys(passkeys.PasskeyOwner(member.user.id)):
                yield _line(export_records.passkey_line(passkey))

    async def _payments(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        before: UUID | None = None
        while page := await self.queries.list_payments(account_id, PAGE, before):
            for each in page:
                found = await self.queries.find_payment(account_id, each.payment.id)  # with its receipt
                yield _line(export_records.payment_line(found or each))
            before = page[-1].payment.id

    async def _billing(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        async with self.store.at_once() as tx:
            buyer = await tx.payments.find_buyer(account_id)
        yield _line(export_records.buyer_line(buyer))

    async def _deliveries(self, account_id: UUID) -> AsyncGenerator[bytes, None]:
        last: UUID | None = None
        while endpoints := await self.queries.list_endpoints(account_id, PAGE, last):
            for endpoint in endpoints:
                async for lines in self._deliveries_to(account_id, endpoint.id):
                    yield lines
            last = endpoints[-1].id

    def _deliveries_to(self, account_id: UUID, endpoint_id: UUID) -> AsyncIterator[bytes]:
        list_, named = self.queries.list_deliveries, {"webhook_id": str(endpoint_id)}
        return _paged(
            lambda before: list_(account_id, endpoint_id, DeliveryFilter(), PAGE, before),
            lambda one: named | dict(as_json(webhooks.delivery_record(one.delivery, one.attempts))),
            lambda one: one.delivery.id,
        )


async def _listed(
    read: Callable[[], Awaitable[Sequence[T]]], record: Callable[[T], Mapping[str, object]]
) -> AsyncIterator[bytes]:
    """Return the lines of a list that is short by its limits."""
    yield b"".join(_line(record(one)) for one in await read())


async def _paged(
    read: Callable[[Place | None], Awaitable[Sequence[T] | None]],
    record: Callable[[T], Mapping[str, object]],
    place: Callable[[T], Place] = attrgetter("id"),
) -> AsyncIterator[bytes]:
    """Return the lines of a list, page by page, the newest first; a page begins below a `place`."""
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


@frozen
class AccountData:
    """The use cases of an account's data as a whole."""

    export: ExportAccount
    erase: erasure.EraseAccount
