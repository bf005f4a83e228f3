"""Reads of the console in memory."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from uuid import UUID

from meetcore.adapters.memory.entry_titles import title_of
from meetcore.adapters.memory.ledger_totals import MemoryLedgerTotals
from meetcore.adapters.memory.registry import stored
from meetcore.adapters.memory.state import (
    MemoryState,
    StoredDelivery,
    StoredMeeting,
    StoredOrphanCheck,
    Tables,
)
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.members.members import Member
from meetcore.domain.money.ledger import Entry
from meetcore.domain.money.proposals import is_proposal_pending
from meetcore.domain.requests.accounts import email_key
from meetcore.ports.clock import Clock
from meetcore.ports.console_queries import (
    AccountPage,
    AccountSearch,
    DeliveryLine,
    DoubtfulMeeting,
    DoubtfulRemoval,
    Doubts,
    EntryLine,
    HostBooking,
    Liability,
    ProposalLine,
)
from meetcore.ports.health import Queue, QueueName, Queues
from meetcore.ports.ledger_totals import MonthTotal
from meetcore.ports.registry import StoredAccount


class MemoryConsoleQueries:
    """What the pages of the console show."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def search_accounts(self, wanted: AccountSearch, limit: int) -> Sequence[StoredAccount]:
        tables = self._state.committed
        found = {*_by_text(tables, wanted.text), *_by_id(tables, wanted.id), *_by_key(tables, wanted)}
        return [stored(tables.accounts[id_]) for id_ in sorted(found, reverse=True)[:limit]]

    async def find_account_page(self, account_id: UUID, keys: int, last: int) -> AccountPage | None:
        tables = self._state.committed
        account = tables.accounts.get(account_id)
        if account is None:
            return None
        members = [one for one in tables.memberships.values() if one.account_id == account_id]
        own_keys = [key for key in tables.keys.values() if key.account_id == account_id]
        entries = [entry for (owner, _), entry in tables.entries.items() if owner == account_id]
        deliveries = [each for (owner, _), each in tables.deliveries.items() if owner == account_id]
        return AccountPage(
            stored(account),
            [
                Member(tables.users[one.user_id], one)
                for one in sorted(members, key=lambda one: (one.created_at, one.user_id))
            ],
            sorted(own_keys, key=lambda key: key.id, reverse=True)[:keys],
            [
                _entry(tables, each)
                for each in sorted(entries, key=lambda each: each.number, reverse=True)[:last]
            ],
            [
                _delivery(tables, each)
                for each in sorted(deliveries, key=lambda each: each.delivery.id, reverse=True)[:last]
            ],
        )

    async def list_doubts(self, made_before: datetime, limit: int) -> Doubts:
        tables = self._state.committed
        meetings = [
            _doubtful(tables, stored)
            for stored in tables.meetings.values()
            if stored.lease is not None
            and (
                stored.meeting.status is not MeetingStatus.PROVISIONING
                or stored.meeting.created_at < made_before
            )
        ]
        removals = [
            _removal(tables, owner, check)
            for owner, check in tables.orphan_checks.items()
            if check.failures > 0
        ]
        due_first = sorted(removals, key=lambda one: one.due_at)[:limit]
        return Doubts(
            sorted(meetings, key=lambda one: one.lease_until)[:limit],
            sorted(due_first, key=lambda one: one.since),
        )

    async def list_bookings(
        self, begins_at: datetime, ends_at: datetime, limit: int
    ) -> Sequence[HostBooking]:
        tables = self._state.committed
        found = [
            HostBooking(
                each.host_id, owner[0], tables.accounts[owner[0]].card.full_name, owner[1],
                tables.meetings[owner].meeting.title, each.start_at, each.end_at,
            )
            for owner, each in tables.reservations.items()
            if each.start_at < ends_at and each.end_at > begins_at
        ]  # fmt: skip
        return sorted(found, key=lambda one: (one.starts_at, one.meeting_id))[:limit]

    async def list_proposals(self, now: datetime, limit: int) -> Sequence[ProposalLine]:
        tables = self._state.committed
        pending = [one for one in tables.proposals.values() if is_proposal_pending(one, now)]
        return [
            ProposalLine(one, tables.accounts[one.account_id].card.full_name)
            for one in sorted(pending, key=lambda one: one.expires_at)[:limit]
        ]

    async def find_queues(self) -> Queues:
        tables, now = self._state.committed, self._clock.now()
        waiting: dict[QueueName, Iterable[datetime | None]] = {
            QueueName.DELIVERIES: (one.delivery.next_attempt_at for one in tables.deliveries.values()),
            QueueName.MAILS: (one.mail.due_at for one in tables.mails.values()),
            QueueName.NOTES: (one.due_at for one in tables.notes.values()),
            QueueName.RECORDINGS: (one.due_at for one in tables.recordings.values()),
            QueueName.PROVIDER_EVENTS: (one.due_at for one in tables.provider_events.values()),
            QueueName.MEETINGS: (
                None if one.lease is None else one.lease.until for one in tables.meetings.values()
            ),
            QueueName.REMOVALS: (one.due_at for one in tables.orphan_checks.values()),
        }
        found = {
            name: [at for at in times if at is not None and at <= now] for name, times in waiting.items()
        }
        return Queues(
            now, 0, None, [Queue(name, len(due), min(due, default=None)) for name, due in found.items()]
        )

    async def find_liability(self) -> tuple[Liability, Sequence[MonthTotal]]:
        funds = [account.funds for account in self._state.committed.accounts.values()]
        now = Liability(
            len(funds),
            sum(one.balance for one in funds),
            sum(one.held for one in funds),
            -sum(min(one.balance, 0) for one in funds),
        )
        return now, await MemoryLedgerTotals(self._state).list_month_totals(date.min, date.max)


def _doubtful(tables: Tables, stored: StoredMeeting) -> DoubtfulMeeting:
    meeting = stored.meeting
    assert stored.lease is not None
    return DoubtfulMeeting(
        meeting.account_id, tables.accounts[meeting.account_id].card.full_name, meeting.id, meeting.title,
        meeting.status, meeting.credits, meeting.created_at, meeting.start_at, meeting.provider,
        meeting.provider_meeting_id, stored.lease.until, stored.idempotency_key is not None,
    )  # fmt: skip


def _removal(tables: Tables, owner: tuple[UUID, UUID], check: StoredOrphanCheck) -> DoubtfulRemoval:
    meeting = tables.meetings[owner].meeting
    return DoubtfulRemoval(
        owner[0], tables.accounts[owner[0]].card.full_name, owner[1], meeting.title, meeting.start_at,
        meeting.provider, check.failures, check.since, check.due_at,
    )  # fmt: skip


def _by_text(tables: Tables, text: str | None) -> Iterator[UUID]:
    if text is None:
        return
    for id_, account in tables.accounts.items():
        card = account.card
        if card.email.lower().startswith(text.lower()) or card.full_name.lower().startswith(text.lower()):
            yield id_
    for account_id, user_id in tables.memberships:
        if email_key(tables.users[user_id].email) == email_key(text):
            yield account_id


def _by_id(tables: Tables, id_: UUID | None) -> Iterator[UUID]:
    if id_ in tables.accounts:
        yield id_
    if id_ in tables.requests:
        yield tables.requests[id_].account_id
    if id_ in tables.keys:
        yield tables.keys[id_].account_id
    for table in (tables.meetings, tables.events):
        yield from (account_id for account_id, of_it in table if of_it == id_)
    yield from (account_id for account_id, user_id in tables.memberships if user_id == id_)


def _by_key(tables: Tables, wanted: AccountSearch) -> Iterator[UUID]:
    if (key_id := tables.key_of_digest.get(wanted.key_digest or b"")) is not None:
        yield tables.keys[key_id].account_id
    if wanted.last_four is not None:
        yield from (key.account_id for key in tables.keys.values() if key.last_four == wanted.last_four)


def _entry(tables: Tables, entry: Entry) -> EntryLine:
    transfer = entry.transfer
    return EntryLine(
        entry.at, transfer.kind, transfer.reference.id, entry.amount, entry.balance_after,
        transfer.reference.type, title_of(tables, entry),
    )  # fmt: skip


def _delivery(tables: Tables, found: StoredDelivery) -> DeliveryLine:
    each = found.delivery
    endpoint = tables.endpoints.get((each.account_id, each.endpoint_id))
    last = tables.attempts.get((each.account_id, each.id, each.attempts_made))
    return DeliveryLine(
        each.id, each.event_id, each.event_kind, each.status, each.created_at, each.next_attempt_at,
        each.attempts_made, None if endpoint is None else endpoint.url,
        None if last is None else last.status_code, None if last is None else last.error, each.endpoint_id,
    )  # fmt: skip
