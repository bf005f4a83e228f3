"""Rate counters in PostgreSQL, for an installation without Redis.

It owns one UNLOGGED table, `rate_counters`: the counts of a minute need not survive a crash, and without
the log one hot key counts ten times as fast. The window leads the table's key, so that `purge` reads only
what it deletes; half of each page stays free, so that a hot counter is updated in place.

It takes part in no other transaction: a request that is undone would uncount itself, and the
counter's row would stay locked through the flush.
"""

from uuid import UUID

from psycopg.errors import FeatureNotSupported

from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.adapters.postgres.repository import load_statements
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.requests import RateStoreUnavailable
from meetcore.ports.store import StoreUnavailable

SQL = load_statements(__file__)


class PostgresRateCounters:
    """Counters on a pool of `make_pool`; a hit takes `timeout_s` at most before the store is unavailable."""

    def __init__(self, pool: Pool, *, timeout_s: float = 2.0) -> None:
        self._pool = pool
        self._timeout_s = timeout_s

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        """Add one and return the count, this hit included; raise `RateStoreUnavailable` without an answer."""
        values = {"window_start": window_start, "key_id": key_id, "class": operation_class.value}
        try:
            with translated():
                async with self._pool.connection(deadline_s=self._timeout_s) as connection:
                    row = await (await connection.execute(SQL["hit"], values)).fetchone()
        except (StoreUnavailable, FeatureNotSupported) as error:  # a standby cannot read an unlogged table
            raise RateStoreUnavailable(str(error)) from error
        assert row is not None  # RETURNING of an upsert always has its row
        return int(row["hits"])

    async def purge(self, before: int) -> int:
        """Delete the windows that started before a unix second; return how many. Keep some minutes."""
        try:
            with translated():
                async with self._pool.connection() as connection:
                    return (await connection.execute(SQL["purge"], {"before": before})).rowcount
        except (StoreUnavailable, FeatureNotSupported) as error:
            raise RateStoreUnavailable(str(error)) from error
