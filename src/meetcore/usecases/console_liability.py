"""What the operator owes its customers, and what was sold, charged and refunded in each month."""

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import groupby

from attrs import field, frozen

from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.console_queries import ConsoleQueries, Liability
from meetcore.ports.ledger_totals import MonthTotal
from meetcore.ports.member_queries import SignedInOperator


@frozen
class MonthReport:
    """What was moved of all balances in a month (WIB), in credits. `month` is the first day of it.

    `sold`, `charged` and `refunded` are not negative. `owed` is the sum of all balances at the end of the
    month, or now for the present one.
    """

    month: date
    sold: int
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
    """The report of what is owed."""

    queries: ConsoleQueries

    async def report(self, who: SignedInOperator) -> LiabilityReport:
        """Sum what every account has, and what was moved by month, as one moment shows both.

        Raises:
            ActionNotAllowed: the role may not see it.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_LIABILITY)
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
            -credits[TransferKind.MEETING_CHARGE] - credits[TransferKind.NOTULEN_CHARGE],
            credits[TransferKind.MEETING_REFUND],
            credits[TransferKind.ADJUSTMENT],
            owed,
            sum(one.entries for one in found),
        )
