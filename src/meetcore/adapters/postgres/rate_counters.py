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
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.rate_counters import RateStoreUnavailable
from meetcore.ports.store import StoreUnavailable

# Adds one to the counter of a key, class and minute and returns the count: one trip, one row lock.
_HIT = """
INSERT INTO rate_counters AS counter (window_start, api_key_id, class, hits)
VALUES (%(window_start)s, %(key_id)s, %(class)s, 1)
ON CONFLICT (window_start, api_key_id, class) DO UPDATE SET hits = counter.hits + 1
RETURNING hits
"""

# Forgets the minutes that started before an instant.
_PURGE = "DELETE FROM rate_counters WHERE window_start < %(before)s"


class PostgresRateCounters:
    """Counters on a pool of connections in autocommit mode.

    Args:
        pool: from `make_pool`; opened and closed by the caller.
        timeout_s: seconds that a hit may take in all before the store counts as unavailable.
    """

    def __init__(self, pool: Pool, *, timeout_s: float = 2.0) -> None:
        self._pool = pool
        self._timeout_s = timeout_s

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        """Add one and return the count, this hit included.

        Raises:
            RateStoreUnavailable: the database does not answer, or no connection became free in time.
        """
        values = {"window_start": window_start, "key_id": key_id, "class": operation_class.value}
        try:
            with translated():
                async with self._pool.connection(deadline_s=self._timeout_s) as connection:
                    row = await (await connection.execute(_HIT, values)).fetchone()
        except (StoreUnavailable, FeatureNotSupported) as error:  # a standby cannot read an unlogged table
            raise RateStoreUnavailable(str(error)) from error
        assert row is not None  # RETURNING of an upsert always has its row
        return int(row["hits"])

    async def purge(self, before: int) -> int:
        """Delete the windows that started before a unix second; return how many counters went.

        Keep some minutes, for a clock that is set back.

        Raises:
            RateStoreUnavailable: the database does not answer.
        """
        try:
            with translated():
                async with self._pool.connection() as connection:
                    return (await connection.execute(_PURGE, {"before": before})).rowcount
        except (StoreUnavailable, FeatureNotSupported) as error:
            raise RateStoreUnavailable(str(error)) from error
