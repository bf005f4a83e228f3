"""Credits that were moved in the past, so that a month that is over has a statement."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from meetcore.composition.application import Application
from meetcore.domain.money import ledger
from meetcore.domain.money.statements import Month, month_of
from meetcore.domain.money.transfers import Reference
from tests.support.transactions import append_one


async def move_credits(application: Application, account_id: UUID, at: datetime, amount: int) -> None:
    """Move credits of an account at an instant."""
    operation = str(application.runtime.new_id(at))
    async with application.ports.store.begin() as tx:
        view = await tx.postings.load_locked(account_id, [operation])
        posting = ledger.adjust(
            view.funds, application.runtime.new_id(at), operation, amount,
            Reference("ticket", operation), at,
        )  # fmt: skip
        assert await append_one(tx, view.funds, posting) is not None


def last_month(application: Application) -> Month:
    return month_of(month_of(application.runtime.now()).begins_at - timedelta(days=1))
