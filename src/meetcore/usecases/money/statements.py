"""Statements of a month and their mails, and the liability of all balances by month, which operators see."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.mails.contents import StatementReady
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.members import roles, views
from meetcore.domain.money import spending_report, statements
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.money.views import MonthTotal
from meetcore.domain.records.pages import KeyName, Liability
from meetcore.ports.queries import ConsoleQueries, Queries
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.runtime import Runtime

MAX_MONTHS: Final = 36
"""Months that a list has at most."""


@frozen
class Statements:
    """Reads of statements, and of the spending of months."""

    queries: Queries

    async def find_spending(
        self, who: views.SignedIn, month: statements.Month | None, now: datetime
    ) -> tuple[spending_report.Spending, Sequence[KeyName]]:
        """Return the spending by month, and by payer in a month, the present one by default; and the keys.

        The months are `MAX_MONTHS`, and one more where there are older ones, from the present one on; from
        the chosen one where that is older.
        """
        views.check_member(who, roles.Action.VIEW_LEDGER)
        chosen, last = month or statements.month_of(now), statements.month_of(now)
        if chosen <= evolve(last, year=last.year - MAX_MONTHS // 12):
            last = chosen
        first_day = date(max(last.year - MAX_MONTHS // 12, 1), last.number, 1)
        found = await self.queries.find_spending(who.account.id, chosen, first_day)
        first_at = found.first_at or now
        months = [
            (
                each,
                spending_report.add_up((kind, n) for day, kind, n in found.months if day == each.first_day),
            )
            for each in statements.months_since(first_at, last.begins_at, MAX_MONTHS + 1)
        ]
        payers, is_partial = spending_report.by_payer(found.payers), spending_report.is_partial(found.payers)
        return spending_report.Spending(chosen, months, payers, is_partial), found.keys

    async def find(self, who: views.SignedIn, month: statements.Month, now: datetime) -> statements.Statement:
        """Return the statement of a month.

        Raises `NotFound`: the month is not over, or lies before the account's first entry.
        """
        views.check_member(who, roles.Action.VIEW_STATEMENTS)
        if not statements.is_closed(month, now):
            raise NotFound("This month has no statement yet.")
        found = await self.queries.find_entry_range(who.account.id, month.begins_at, month.ends_at)
        if found.last == 0:
            raise NotFound("No statement of this month.")
        totals = await self.queries.list_day_totals(who.account.id, month.first_day, month.last_day)
        return statements.make_statement(month, found, totals)


SPENDING_PAGE: Final = "/dashboard/spending"
AT_ONCE: Final = 100
"""Accounts that one round looks at; a second round does the others."""


@frozen
class MailStatements:
    """The use case; workers repeat it."""

    store: Store
    queries: Queries
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime

    async def __call__(self) -> None:
        """Put the mails of the last closed month into the outbox, for accounts that have none of it yet."""
        month = statements.last_closed(self.runtime.now())
        async with self.store.at_once() as tx:
            due = await tx.registry.find_statements_due(month.first_day, AT_ONCE)
        for account_id in due:
            first_at = await self.queries.find_first_entry_at(account_id)
            has_statement = first_at is not None and statements.month_of(first_at) <= month
            if await self._mail(account_id, month.first_day, has_statement=has_statement):
                self.notifier.notify()

    async def _mail(self, account_id: UUID, month: date, *, has_statement: bool) -> int:
        async with self.store.begin() as tx:
            account = await tx.registry.load_account(account_id)
            if account.statements_mailed is None or account.statements_mailed >= month:
                return 0  # another worker was first, or statements were turned off
            await tx.registry.set_statements_mailed(account_id, month)
            if not has_statement or account.suspended_at is not None:
                return 0
            recipients = await tx.mails.find_recipients(account_id, MailTopic.STATEMENTS)
            content = StatementReady(month, account.full_name, self.mails.base_url + SPENDING_PAGE)
            # All statements come at once, and one person can belong to many accounts.
            return await self.mails.add(tx, recipients, content, account_id, counted_as=str(account_id))


@frozen
class MonthReport:
    """The movements of all balances in a month (WIB), in credits. `month` is the first day of it.

    `sold`, `paid_back` (refunds of payments), `charged` and `refunded` are not negative. `owed` is the sum of
    all balances at the end of the month, or now for the present one.
    """

    month: date
    sold: int
    paid_back: int
    charged: int
    refunded: int
    adjusted: int
    owed: int
    entries: int


@frozen
class LiabilityReport:
    """The balances now, and every month with an entry, the newest first.

    `agrees` is whether the totals of the months come to the sum of the balances.
    """

    now: Liability
    months: Sequence[MonthReport] = field(factory=tuple)

    @property
    def agrees(self) -> bool:
        """Whether both ways to the sum of the balances lead to the same."""
        owed = self.months[0].owed if self.months else 0
        return owed == self.now.balance


@frozen
class ConsoleLiability:
    """Reports the liability."""

    queries: ConsoleQueries

    async def report(self, who: views.SignedInOperator) -> LiabilityReport:
        """Sum the balances, and the movements by month, at one moment."""
        roles.check_operator_allowed(who.operator.role, roles.OperatorAction.VIEW_LIABILITY)
        now, totals = await self.queries.find_liability()
        return LiabilityReport(now, tuple(reversed(list(_by_month(totals)))))


def _by_month(totals: Sequence[MonthTotal]) -> Iterable[MonthReport]:
    owed = 0
    for month, of_month in groupby(sorted(totals, key=lambda one: one.month), key=lambda one: one.month):
        found = list(of_month)
        credits = {kind: sum(one.credits for one in found if one.kind is kind) for kind in TransferKind}
        owed += sum(credits.values())
        yield MonthReport(
            month,
            credits[TransferKind.TOPUP],
            -credits[TransferKind.TOPUP_REFUND],
            -credits[TransferKind.MEETING_CHARGE] - credits[TransferKind.NOTULEN_CHARGE],
            credits[TransferKind.MEETING_REFUND],
            credits[TransferKind.ADJUSTMENT],
            owed,
            sum(one.entries for one in found),
        )
