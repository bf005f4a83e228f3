"""The console: accounts, hosts, and the health of the service, shown to and changed by operators."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Final
from uuid import UUID

from attrs import define, field, frozen

from meetcore.domain.errors import InvalidApiKey, require_record
from meetcore.domain.ids import instant_of
from meetcore.domain.meetings import schedule, views
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money.ledger import check_reason, check_reference
from meetcore.domain.money.proposals import NeedsSecondOperator, ProposalKind
from meetcore.domain.payments.receipts import read_receipt_number
from meetcore.domain.records.pages import AccountPage, AccountSearch, HostBooking, Queue, QueueName, Queues
from meetcore.domain.requests import accounts, keys
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.domain.requests.views import StoredAccount
from meetcore.ports.figures import CheckHealth, CheckResult, HealthStatus
from meetcore.ports.queries import ConsoleQueries, Queries
from meetcore.usecases.members.audit import BoundedAuditLog
from meetcore.usecases.money.proposals import Proposals
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.runtime import Runtime

_LAST_FOUR: Final = 4


def read_search(text: str, prefix: str) -> AccountSearch:
    """Read an address, a name, an id, a receipt's number, a gateway's reference, a key, or a part of one.

    Text that is too long or not printable matches nothing. `prefix` is the keys' own.
    """
    text = text.strip()
    if not text.isprintable() or len(text) > accounts.MAX_EMAIL:
        return AccountSearch()
    if (shown := _end_of_masked(text, prefix)) is not None:
        return AccountSearch(last_four=shown)
    try:
        return AccountSearch(key_digest=keys.digest(keys.read_bearer(f"Bearer {text}", prefix)))
    except InvalidApiKey:
        pass
    try:
        id_ = UUID(text)
    except ValueError:
        last_four = text if len(text) == _LAST_FOUR else None
        return AccountSearch(text, last_four=last_four, receipt=read_receipt_number(text))
    return AccountSearch(id=id_, id_made_at=instant_of(id_))


def without_secret(text: str, prefix: str) -> str:
    """Mask a whole key in a search, so that the text can stand in an address."""
    try:
        key = keys.read_bearer(f"Bearer {text.strip()}", prefix)
    except InvalidApiKey:
        return text
    return f"{prefix}_live_…{keys.last_four(key)}"


def _end_of_masked(text: str, prefix: str) -> str | None:
    """Return the end of a key as it is shown: `mk_live_…abcd`."""
    lead, dots, end = text.replace("...", "…").partition("…")
    return end if dots and lead in ("", f"{prefix}_live_") and len(end) == _LAST_FOUR else None


MAX_FOUND = 100
"""Accounts in a list."""
MAX_KEYS = keys.KEYS_PER_ACCOUNT
"""Keys of an account that are shown with it: those that work, then the newest of the others."""
LAST = 10
"""Entries, meetings and deliveries of an account that are shown with it."""


class Movement(Enum):
    """The outcome of moving credits."""

    POSTED = "posted"
    """They are in the ledger."""
    REPEATED = "repeated"
    """The same amount is in the ledger under that reference already: nothing was moved."""
    PROPOSED = "proposed"
    """So many credits need another operator."""


@frozen
class ConsoleAccounts:
    """The use cases of accounts."""

    administration: Administration
    queries: Queries
    runtime: Runtime
    proposals: Proposals
    log: BoundedAuditLog

    async def search(
        self, who: SignedInOperator, client_address: str | None, text: str
    ) -> Sequence[StoredAccount]:
        """Return the accounts that `read_search` finds by a text; the newest ones for no text.

        The entry in the audit log does not hold the text: it may be an e-mail address, which can be erased.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        if not text.strip():
            return await self.administration.registry.list_accounts(None, MAX_FOUND)
        wanted = read_search(text, self.administration.key_prefix)
        found = await self.queries.search_accounts(wanted, MAX_FOUND)
        operator_id, only = who.operator.id, found[0].id if len(found) == 1 else None
        await self.log.record(
            who.origin(client_address), "account.searched", only, operator_id, operator_id, found=len(found)
        )
        return found

    async def find_request(self, who: SignedInOperator, text: str) -> LoggedRequest | None:
        """Return the request that has the text for its id, of any account, if it is kept."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        wanted = read_search(text, self.administration.key_prefix)
        return None if wanted.id is None else await self.queries.find_request_of_any(wanted.id)

    async def find(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID
    ) -> tuple[AccountPage, Sequence[Meeting]]:
        """Return one account, and its last meetings, the newest first."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        page, meetings = await asyncio.gather(
            self.queries.find_account_page(account_id, MAX_KEYS, LAST),
            self.queries.list_meetings(account_id, views.MeetingFilter(self.runtime.now()), LAST, None),
        )
        found = require_record(page, "account"), meetings
        reading = f"{who.operator.id} {account_id}"
        await self.log.record(who.origin(client_address), "account.read", account_id, account_id, reading)
        return found

    async def suspend(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, reason: str
    ) -> None:
        """Refuse the account's keys; see `Administration.suspend_account`. Raises `InvalidReason`."""
        acting = self._acting(who, client_address, OperatorAction.SUSPEND_ACCOUNTS)
        await acting.suspend_account(account_id, check_reason(reason))

    async def resume(self, who: SignedInOperator, client_address: str | None, account_id: UUID) -> None:
        """Let the account's keys in again; see `Administration.resume_account`."""
        acting = self._acting(who, client_address, OperatorAction.SUSPEND_ACCOUNTS)
        await acting.resume_account(account_id)

    async def move_credits(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, kind: ProposalKind,
        amount: int, reason: str, reference: str,
    ) -> Movement:  # fmt: skip
        """Add credits that were paid, correct the balance, or take a payment's back, once for each reference.

        Raises `InvalidReason` and `InvalidReference` of `ledger`, and what `top_up` or `adjust` of
        `Administration` does.
        """
        check_operator_allowed(who.operator.role, OperatorAction.MOVE_CREDITS)
        moved = (who, client_address, account_id, kind, amount)
        if not self.proposals.needs_two(amount):
            if kind is not ProposalKind.REFUND:
                check_reference(reference)
            check_reason(reason)
            with suppress(NeedsSecondOperator):
                done = await self.proposals.move_alone(*moved, reason, reference)
                return Movement.POSTED if done.is_new else Movement.REPEATED
        await self.proposals.propose(*moved, reason, reference)
        return Movement.PROPOSED

    def _acting(
        self, who: SignedInOperator, client_address: str | None, action: OperatorAction
    ) -> Administration:
        check_operator_allowed(who.operator.role, action)
        return self.administration.acting_as(who.origin(client_address))


MAX_BOOKINGS = 2000
"""Meetings of a week that are shown."""


@frozen
class HostWeek:
    """Hosts with their bookings in the seven days from a Monday on (WIB)."""

    monday: date
    hosts: Sequence[Host]
    bookings: Sequence[HostBooking]

    def of(self, host: Host, day: date) -> Sequence[HostBooking]:
        """Return the bookings of a host on a day, by their start."""
        begins_at = datetime(day.year, day.month, day.day, tzinfo=schedule.WIB)
        ends_at = begins_at + timedelta(days=1)
        return [
            each
            for each in self.bookings
            if each.host_id == host.id and each.starts_at < ends_at and each.ends_at > begins_at
        ]


@frozen
class ConsoleHosts:
    """The use cases of hosts; see `HostAdministration`."""

    administration: Administration
    queries: ConsoleQueries

    async def week(self, who: SignedInOperator, day: date) -> HostWeek:
        """List every host, the smallest first, with its bookings in the week (WIB) of a day."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_HOSTS)
        monday = day - timedelta(days=day.weekday())
        begins_at = datetime(monday.year, monday.month, monday.day, tzinfo=schedule.WIB)
        hosts, bookings = await asyncio.gather(
            self.administration.registry.list_hosts(),
            self.queries.list_bookings(begins_at, begins_at + timedelta(days=7), MAX_BOOKINGS),
        )
        return HostWeek(monday, hosts, bookings)

    async def enable(self, who: SignedInOperator, client_address: str | None, host_id: UUID) -> None:
        """Give a host meetings again; see `HostAdministration.enable`."""
        check_operator_allowed(who.operator.role, OperatorAction.MANAGE_HOSTS)
        await self.administration.acting_as(who.origin(client_address)).hosts.enable(host_id)

    async def disable(self, who: SignedInOperator, client_address: str | None, host_id: UUID) -> None:
        """Give a host no new meetings; see `HostAdministration.disable`."""
        check_operator_allowed(who.operator.role, OperatorAction.MANAGE_HOSTS)
        await self.administration.acting_as(who.origin(client_address)).hosts.disable(host_id)


LATE_AFTER: Final[Mapping[QueueName, timedelta]] = {
    QueueName.DELIVERIES: timedelta(seconds=30),
    QueueName.MAILS: timedelta(seconds=60),
    QueueName.NOTES: timedelta(minutes=5),
    QueueName.RECORDINGS: timedelta(minutes=5),
    QueueName.PROVIDER_EVENTS: timedelta(seconds=30),
    QueueName.MEETINGS: timedelta(minutes=1),
    QueueName.REMOVALS: timedelta(minutes=5),
}
"""How long work may be due before a worker is missing or too slow."""
MAX_CLOCK_DIFFERENCE = timedelta(seconds=2)
OLD_TRANSACTION = timedelta(minutes=5)
"""How long a transaction may be open before it keeps dead rows from being cleared away."""
CHECKED_FOR = timedelta(seconds=15)
"""How long the outcome of the checks is shown before they are run again."""


@frozen
class QueueHealth:
    """A queue with how long the longest of it has waited."""

    queue: Queue
    waited: timedelta

    @property
    def is_late(self) -> bool:
        """Whether it has waited for longer than it should."""
        return self.waited > LATE_AFTER[self.queue.name]


@frozen
class Health:
    """Everything that the page shows. `clock_difference` is the store's clock less this process's."""

    checks: Mapping[str, CheckResult]
    checked_at: datetime
    queues: Sequence[QueueHealth]
    schema: int
    clock_difference: timedelta
    oldest_transaction: timedelta | None

    @property
    def has_clock_difference(self) -> bool:
        """Whether the clocks are too far apart."""
        return abs(self.clock_difference) > MAX_CLOCK_DIFFERENCE

    @property
    def has_old_transaction(self) -> bool:
        """Whether a transaction is open for too long."""
        return self.oldest_transaction is not None and self.oldest_transaction > OLD_TRANSACTION

    @property
    def is_well(self) -> bool:
        """Whether nothing needs an operator."""
        return (
            all(check.status is not HealthStatus.FAILED for check in self.checks.values())
            and not any(each.is_late for each in self.queues)
            and not self.has_clock_difference
            and not self.has_old_transaction
        )


@define
class ConsoleHealth:
    """The health of the service. Checks ask other servers: one round at a time, and kept for some seconds."""

    queries: ConsoleQueries
    check_health: CheckHealth
    runtime: Runtime
    _checked: tuple[datetime, Mapping[str, CheckResult]] | None = field(default=None, init=False)
    _lock: asyncio.Lock = field(factory=asyncio.Lock, init=False, repr=False)

    async def look(self, who: SignedInOperator) -> Health:
        """Look at the queues, and at the outcome of the latest checks."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_HEALTH)
        found = await self.queries.find_queues()
        difference = found.now - self.runtime.now()
        checked_at, checks = await self._checks()
        oldest = found.oldest_transaction_at
        return Health(
            checks, checked_at, [_waited(each, found) for each in found.queues], found.schema, difference,
            None if oldest is None else max(timedelta(0), found.now - oldest),
        )  # fmt: skip

    async def _checks(self) -> tuple[datetime, Mapping[str, CheckResult]]:
        async with self._lock:
            now = self.runtime.now()
            if self._checked is None or now - self._checked[0] >= CHECKED_FOR:
                self._checked = now, await self.check_health()
            return self._checked


def _waited(queue: Queue, found: Queues) -> QueueHealth:
    since = queue.oldest_due_at
    return QueueHealth(queue, timedelta(0) if since is None else max(timedelta(0), found.now - since))
