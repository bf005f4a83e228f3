"""Reads of payments."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.payments.payments import PAYMENT, RECEIPT, REFUND
from meetcore.adapters.postgres.repository import NEWEST, Reads, load_statements
from meetcore.domain.payments import views

SQL = load_statements(__file__, PAYMENT=PAYMENT, REFUND=REFUND, RECEIPT=RECEIPT)


def _papers(row: Row) -> views.PaymentPapers:
    return views.PaymentPapers(PAYMENT.read(row), RECEIPT.find(row), REFUND.find(row))


class PaymentReads(Reads):
    """Reads of payments, for customers and operators."""

    async def find_payment(self, account_id: UUID, payment_id: UUID) -> views.PaymentPapers | None:
        row = await self._one(SQL["find_payment"], account_id=account_id, id=payment_id)
        return None if row is None else _papers(row)

    async def list_papers(
        self, account_id: UUID, begins_at: datetime, ends_at: datetime
    ) -> Sequence[views.PaymentPapers]:
        named = {"account_id": account_id, "begins_at": begins_at, "ends_at": ends_at}
        return [_papers(row) for row in await self._all(SQL["list_papers"], named)]

    async def list_payments(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[views.PaymentPapers]:
        named = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        rows = await self._all(SQL["list_payments"], named)
        return [views.PaymentPapers(PAYMENT.read(row), refund=REFUND.find(row)) for row in rows]

    async def list_all_payments(
        self, limit: int, before: UUID | None, *, in_doubt: bool = False
    ) -> Sequence[views.PaymentLine]:
        statement = SQL["list_payments_in_doubt"] if in_doubt else SQL["list_all_payments"]
        rows = await self._all(statement, limit=limit, before=before or NEWEST)
        return [
            views.PaymentLine(PAYMENT.read(row), refund=REFUND.find(row), account_name=row["full_name"])
            for row in rows
        ]

    async def find_payment_page(self, payment_id: UUID) -> views.PaymentPage | None:
        row = await self._one(SQL["find_payment_page"], id=payment_id)
        if row is None:
            return None
        messages = [
            views.GatewayMessage(utc(at), views.MessageSource(source), body)
            for at, source, body in zip(row["times"], row["sources"], row["bodies"], strict=True)
        ]
        return views.PaymentPage(
            PAYMENT.read(row), RECEIPT.find(row), REFUND.find(row), account_name=row["full_name"],
            messages=messages, closed_by=row["closed_by"], closing_reason=row["closing_reason"],
            begun_by=row["begun_by"],
        )  # fmt: skip

    async def list_income(self) -> Sequence[views.MonthIncome]:
        return [views.MonthIncome(**row) for row in await self._all(SQL["list_income"])]
