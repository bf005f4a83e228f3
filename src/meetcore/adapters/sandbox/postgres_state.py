"""The sandbox's meetings and payments in PostgreSQL: the tables `sandbox_*`, shared by all processes.

Not imported by the package, so that the sandbox works without a driver. It never joins a caller's
transaction: a provider is another system, which a rollback does not affect.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
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

# The state of a meeting.
_GET = "SELECT state FROM sandbox_meetings WHERE provider_meeting_id = %(id)s"

# Takes a step of `STEPS`, and begins or ends a session with it. Returns a row if taken.
_PUT = """
WITH step AS (
    INSERT INTO sandbox_meetings AS known (provider_meeting_id, state, changed_at)
    SELECT %(id)s, %(state)s, COALESCE(%(at)s, clock_timestamp()) WHERE %(is_first)s OR EXISTS (
        SELECT FROM sandbox_meetings WHERE provider_meeting_id = %(id)s)
    ON CONFLICT (provider_meeting_id) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at
    WHERE known.state = ANY(%(origins)s::text[])
    RETURNING state, changed_at
), ended AS (
    UPDATE sandbox_sessions s SET ended_at = step.changed_at FROM step
    WHERE step.state <> 'started' AND s.provider_meeting_id = %(id)s AND s.ended_at IS NULL
), begun AS (
    INSERT INTO sandbox_sessions (provider_meeting_id, number, started_at, ended_at)
    SELECT %(id)s, known.sessions + 1, step.changed_at,
        CASE step.state WHEN 'ended' THEN step.changed_at END
    FROM step, (SELECT count(*) AS sessions FROM sandbox_sessions WHERE provider_meeting_id = %(id)s) AS known
    WHERE step.state = 'started' OR step.state = 'ended' AND known.sessions = 0
)
SELECT state FROM step
"""

# The current key of a host.
_HOST_KEY = "SELECT host_key FROM sandbox_host_keys WHERE provider_user_id = %(user)s"

# Replaces the key of a host; the last writer wins.
_PUT_HOST_KEY = """
INSERT INTO sandbox_host_keys (provider_user_id, host_key) VALUES (%(user)s, %(host_key)s)
ON CONFLICT (provider_user_id) DO UPDATE SET host_key = excluded.host_key, changed_at = clock_timestamp()
"""

# The sessions of a meeting, each with the removed files of the meeting's recordings.
_SESSIONS = """
SELECT number, started_at, ended_at, ARRAY(
    SELECT provider_file_id FROM sandbox_removed_files WHERE provider_meeting_id = %(id)s
) AS removed
FROM sandbox_sessions WHERE provider_meeting_id = %(id)s ORDER BY number
"""

# Records a removed file.
_REMOVE_FILE = """
INSERT INTO sandbox_removed_files (provider_meeting_id, provider_file_id) VALUES (%(id)s, %(file)s)
ON CONFLICT DO NOTHING
"""


@asynccontextmanager
async def answering(pool: AsyncConnectionPool[Any]) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
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
        async with answering(self._pool) as connection:
            row = await (await connection.execute(_GET, {"id": provider_meeting_id})).fetchone()
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
        async with answering(self._pool) as connection:
            return await (await connection.execute(_PUT, values)).fetchone() is not None

    async def host_key(self, provider_user_id: str) -> str | None:
        async with answering(self._pool) as connection:
            row = await (await connection.execute(_HOST_KEY, {"user": provider_user_id})).fetchone()
        return None if row is None else str(row["host_key"])

    async def put_host_key(self, provider_user_id: str, host_key: str) -> None:
        values = {"user": provider_user_id, "host_key": host_key}
        async with answering(self._pool) as connection:
            await connection.execute(_PUT_HOST_KEY, values)

    async def sessions(self, provider_meeting_id: str) -> tuple[SandboxSession, ...]:
        async with answering(self._pool) as connection:
            rows = await (await connection.execute(_SESSIONS, {"id": provider_meeting_id})).fetchall()
        return tuple(
            SandboxSession(
                session_id(provider_meeting_id, row["number"]), row["started_at"], row["ended_at"],
                frozenset(row["removed"]),
            )
            for row in rows
        )  # fmt: skip

    async def remove_file(self, provider_meeting_id: str, provider_file_id: str) -> None:
        values = {"id": provider_meeting_id, "file": provider_file_id}
        async with answering(self._pool) as connection:
            await connection.execute(_REMOVE_FILE, values)


_ADD = """
INSERT INTO sandbox_payments (payment_id, amount, currency, description, return_url, expires_at)
VALUES (%(payment_id)s, %(amount)s, %(currency)s, %(description)s, %(return_url)s, %(expires_at)s)
ON CONFLICT (payment_id) DO NOTHING
"""

_GET_PAYMENT = """
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
            row = await (await connection.execute(_GET_PAYMENT, {"payment_id": payment_id})).fetchone()
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
