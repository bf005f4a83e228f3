"""The sandbox's meetings and payments in PostgreSQL: the tables `sandbox_*`, shared by all processes.

Not imported by the package, so that the sandbox works without a driver. It never joins a caller's
transaction: a provider is another system, which a rollback does not affect.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from attrs import asdict
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meetcore.adapters.sandbox.gateway import SandboxPayment
from meetcore.adapters.sandbox.state import STEPS, SandboxMeetingState, SandboxSession, session_id
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.ports.store import StoreUnavailable

_UNAVAILABLE_ERRORS = (
    psycopg.OperationalError, psycopg.InterfaceError, PoolClosed, PoolTimeout, TooManyRequests,
    psycopg.errors.ReadOnlySqlTransaction,
)  # fmt: skip

_SQL: Final = {
    part.split("\n")[0].partition(":")[0]: part.partition("\n")[2].rstrip(";\n")
    for part in Path(__file__).with_suffix(".sql").read_text("utf-8").removeprefix("-- ").split("\n\n-- ")
}
"""The statements of the `.sql` file beside this module, by the name that begins the comment of each."""


@asynccontextmanager
async def _answering(pool: AsyncConnectionPool[Any]) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Lend a connection; raise `StoreUnavailable` where the database does not answer."""
    try:
        async with pool.connection() as connection:
            yield connection
    except _UNAVAILABLE_ERRORS as error:
        raise StoreUnavailable("the database does not answer") from error


class PostgresSandboxState:
    """Stores states and keys over a pool with dict rows in autocommit mode."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def get(self, provider_meeting_id: str) -> SandboxMeetingState | None:
        async with _answering(self._pool) as connection:
            row = await (await connection.execute(_SQL["get"], {"id": provider_meeting_id})).fetchone()
        return None if row is None else SandboxMeetingState(row["state"])

    async def put(
        self, provider_meeting_id: str, state: SandboxMeetingState, at: datetime | None = None
    ) -> bool:
        origins = {origin for origin, to in STEPS if to is state}
        values = {
            "id": provider_meeting_id,
            "state": state.value,
            "is_first": None in origins,
            "at": at,
            "origins": [origin.value for origin in origins if origin is not None],
        }
        async with _answering(self._pool) as connection:
            return await (await connection.execute(_SQL["put"], values)).fetchone() is not None

    async def host_key(self, provider_user_id: str) -> str | None:
        async with _answering(self._pool) as connection:
            row = await (await connection.execute(_SQL["host_key"], {"user": provider_user_id})).fetchone()
        return None if row is None else str(row["host_key"])

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        values = {"user": provider_user_id, "host_key": host_key}
        async with _answering(self._pool) as connection:
            await connection.execute(_SQL["put_host_key"], values)

    async def sessions(self, provider_meeting_id: str) -> tuple[SandboxSession, ...]:
        async with _answering(self._pool) as connection:
            rows = await (await connection.execute(_SQL["sessions"], {"id": provider_meeting_id})).fetchall()
        return tuple(
            SandboxSession(
                session_id(provider_meeting_id, row["number"]), row["started_at"], row["ended_at"],
                frozenset(row["removed"]),
            )
            for row in rows
        )  # fmt: skip

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        values = {"id": provider_meeting_id, "file": provider_file_id}
        async with _answering(self._pool) as connection:
            await connection.execute(_SQL["remove_file"], values)


class PostgresSandboxPayments:
    """Payments of the sandbox gateway, each call on a connection of its own."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def add(self, payment: SandboxPayment) -> None:
        await self._run(_SQL["add"], asdict(payment) | {"status": payment.status.value})

    async def get(self, payment_id: UUID) -> SandboxPayment | None:
        async with _answering(self._pool) as connection:
            row = await (await connection.execute(_SQL["get_payment"], {"payment_id": payment_id})).fetchone()
        return None if row is None else SandboxPayment(**row | {"status": GatewayStatus(row["status"])})

    async def pay(self, payment_id: UUID, amount: int, currency: str) -> bool:
        return await self._run(
            _SQL["pay"], {"payment_id": payment_id, "amount": amount, "currency": currency}
        )

    async def end(self, payment_id: UUID, status: GatewayStatus) -> bool:
        return await self._run(_SQL["end"], {"payment_id": payment_id, "status": status.value})

    async def refund(self, payment_id: UUID, amount: int) -> bool:
        return await self._run(_SQL["refund"], {"payment_id": payment_id, "amount": amount})

    async def _run(self, statement: str, parameters: dict[str, Any]) -> bool:
        async with _answering(self._pool) as connection:
            return (await connection.execute(statement, parameters)).rowcount == 1
