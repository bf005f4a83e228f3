"""The sandbox gateway's payments in PostgreSQL: the table `sandbox_payments`, shared by all processes."""

from typing import Any
from uuid import UUID

from attrs import asdict
from psycopg_pool import AsyncConnectionPool

from meetcore.adapters.sandbox.gateway import SandboxPayment
from meetcore.adapters.sandbox.postgres_state import answering
from meetcore.domain.payments.payments import GatewayStatus

_ADD = """
INSERT INTO sandbox_payments (payment_id, amount, currency, description, return_url, expires_at)
VALUES (%(payment_id)s, %(amount)s, %(currency)s, %(description)s, %(return_url)s, %(expires_at)s)
ON CONFLICT (payment_id) DO NOTHING
"""

_GET = """
SELECT payment_id, amount, currency, description, return_url, expires_at, status, paid_amount, paid_currency,
    refunded
FROM sandbox_payments WHERE payment_id = %(payment_id)s
"""

_PAY = """
UPDATE sandbox_payments SET status = 'paid', paid_amount = %(amount)s, paid_currency = %(currency)s
WHERE payment_id = %(payment_id)s AND status IN ('pending', 'failed', 'expired')
"""

_END = """
UPDATE sandbox_payments SET status = %(status)s WHERE payment_id = %(payment_id)s AND status = 'pending'
"""

# Sends money back once: a repeated call finds it done.
_REFUND = """
UPDATE sandbox_payments SET status = 'reversed', refunded = %(amount)s
WHERE payment_id = %(payment_id)s AND (status = 'paid' OR status = 'reversed' AND refunded = %(amount)s)
"""


class PostgresSandboxPayments:
    """Payments of the sandbox gateway, each call on a connection of its own."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def add(self, payment: SandboxPayment) -> None:
        await self._run(_ADD, asdict(payment) | {"status": payment.status.value})

    async def get(self, payment_id: UUID) -> SandboxPayment | None:
        async with answering(self._pool) as connection:
            row = await (await connection.execute(_GET, {"payment_id": payment_id})).fetchone()
        return None if row is None else SandboxPayment(**row | {"status": GatewayStatus(row["status"])})

    async def pay(self, payment_id: UUID, amount: int, currency: str) -> bool:
        return await self._run(_PAY, {"payment_id": payment_id, "amount": amount, "currency": currency})

    async def end(self, payment_id: UUID, status: GatewayStatus) -> bool:
        return await self._run(_END, {"payment_id": payment_id, "status": status.value})

    async def refund(self, payment_id: UUID, amount: int) -> bool:
        return await self._run(_REFUND, {"payment_id": payment_id, "amount": amount})

    async def _run(self, statement: str, parameters: dict[str, Any]) -> bool:
        async with answering(self._pool) as connection:
            return (await connection.execute(statement, parameters)).rowcount == 1
