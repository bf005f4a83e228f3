"""Payments, written under their account's lock."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.repository import Repository, load_statements
from meetcore.domain.errors import NotFound, require_record
from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.receipts import Buyer, Receipt
from meetcore.domain.payments.refunds import Refund
from meetcore.domain.payments.views import MessageSource

MAX_MESSAGES: Final = 50
"""Messages of a gateway that are kept of a payment."""
MAX_MESSAGE: Final = 10_000
"""Characters that are kept of a message."""

PAYMENT = Columns(Payment, "p", "payment_")
REFUND = Columns(Refund, "r", "refund_")
RECEIPT = Columns(Receipt, "c", "receipt_", nested={"seller": "seller_", "buyer": "buyer_"})
BUYER = Columns(Buyer, "b", "buyer_")

SQL = load_statements(__file__, PAYMENT=PAYMENT, REFUND=REFUND, RECEIPT=RECEIPT, MAX_MESSAGES=MAX_MESSAGES)


class PostgresPaymentRepository(Repository):
    """Payments, with their refunds, receipts, and the messages of their gateways."""

    async def add(self, payment: Payment) -> None:
        await self._run(SQL["add_payment"], PAYMENT.parameters(payment))

    async def count_pending(self, account_id: UUID) -> int:
        row = await self._one(SQL["count_pending"], account_id=account_id)
        assert row is not None  # an aggregate
        return int(row["pending"])

    async def load_locked(self, payment_id: UUID) -> tuple[Payment, bool]:
        if await self._one(SQL["lock_account_of_payment"], id=payment_id) is None:
            raise NotFound("No payment with this id.")
        row = require_record(await self._one(SQL["load_payment"], id=payment_id), "payment")
        return PAYMENT.read(row), row["is_erased"]

    async def find_by_transaction(self, transaction_id: str) -> UUID | None:
        row = await self._one(SQL["find_by_transaction"], transaction_id=transaction_id)
        return None if row is None else row["id"]

    async def save(self, payment: Payment) -> None:
        await self._run(SQL["save_payment"], PAYMENT.parameters(payment))

    async def add_message(self, payment_id: UUID, at: datetime, source: MessageSource, body: str) -> None:
        kept = body.replace("\0", "")[:MAX_MESSAGE]
        await self._run(SQL["add_message"], payment_id=payment_id, at=at, source=source.value, body=kept)

    async def claim_due(self, lease_s: float, limit: int) -> Sequence[Payment]:
        return await self._list(PAYMENT, SQL["claim_due"], lease_s=lease_s, limit=limit)

    async def add_refund(self, refund: Refund) -> None:
        await self._run(SQL["add_refund"], REFUND.parameters(refund))

    async def load_refund(self, payment_id: UUID) -> Refund | None:
        return await self._find(REFUND, SQL["load_refund"], payment_id=payment_id)

    async def save_refund(self, refund: Refund) -> None:
        await self._run(SQL["save_refund"], REFUND.parameters(refund))

    async def add_receipt(self, receipt: Receipt) -> Receipt:
        row = await self._one(SQL["next_receipt_number"], year=receipt.year)
        assert row is not None  # an upsert
        numbered = evolve(receipt, number=row["last_number"])
        await self._run(SQL["add_receipt"], RECEIPT.parameters(numbered))
        return numbered

    async def find_buyer(self, account_id: UUID) -> Buyer:
        row = await self._one(SQL["find_buyer"], account_id=account_id)
        return BUYER.read(require_record(row, "account"))

    async def save_buyer(self, account_id: UUID, buyer: Buyer) -> None:
        await self._run(SQL["save_buyer"], {"account_id": account_id} | BUYER.parameters(buyer))
