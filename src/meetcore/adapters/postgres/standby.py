"""Lists from a standby of PostgreSQL, where it has all that the caller may know of the account.

A list's statement goes to the standby behind one that compares the account's version with that which the primary gave when
it authenticated the caller. Both go in one round trip, each with a snapshot of its own, the list's being the later one. The
primary reads the list itself where the standby lacks that version, is too far behind, or does not answer: no list fails for
it, and none waits for it long. After a failure it is left alone for a while, and then asked by one list first.
Where it is no standby any more, or stays too far behind, the connections are replaced: its address may lead to another server.

How far it is behind is the time of the last transaction that it replayed, by the primary's clock at both ends. A standby that
follows no primary any more is too far behind after that time, whatever it has; on a primary without writes, lists do
without it.
"""

from enum import StrEnum
from time import monotonic
from typing import Any, Final

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.meetings.reads import MeetingReads
from meetcore.adapters.postgres.notes.reads import NoteReads, RecordingReads
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.webhooks.reads import DeliveryReads, EndpointReads, EventReads
from meetcore.domain.requests.views import AccountVersion
from meetcore.ports.observability import LISTS, NO_METRICS, Metrics
from meetcore.ports.queries import ListQueries
from meetcore.ports.runtime import Cipher

__all__ = ["ANSWER_S", "MOST_LAG_S", "ListSource", "Standby", "StandbyLists"]

MOST_LAG_S: Final = 5.0
"""Seconds that the standby may be behind in what others wrote: a list a little old is fine, one of minutes ago is not."""

ANSWER_S: Final = 1.5
"""Seconds within which the standby has to answer, the wait for a connection included."""

_CONNECTION_S = 0.2
_REST_S = 2.0
"""Seconds for which a standby is left alone that did not answer or is too far behind."""
_RENEW_EVERY_S = 30.0
"""Seconds after which the connections to one that stays too far behind are replaced, and replaced again."""

# What a standby has of an account: whether it follows a primary at all, what it replayed is of late, and it has the account in
# that version or a later one.
_CHECK = """
SELECT pg_is_in_recovery() AS is_standby,
    COALESCE(%(read_at)s::timestamptz - pg_last_xact_replay_timestamp() <= %(most_s)s::float8 * interval '1 second', false)
        AS is_near,
    EXISTS (SELECT FROM accounts WHERE id = %(account_id)s AND version >= %(version)s) AS has_version
"""

# Of a statement that met what the standby was replaying: another one may do. And of one that took too long.
_CONFLICT = "40"
_TOOK_TOO_LONG = "57014"


class ListSource(StrEnum):
    """The source of a list: the standby, or the primary for this reason."""

    STANDBY = "standby"
    OWN_WRITE = "own_write"
    BEHIND = "behind"
    GIVEN_UP = "given_up"
    AWAY = "away"


class Standby:
    """A standby, and whether it is of use at the moment: `most_s` seconds behind at most."""

    def __init__(self, pool: Pool, most_s: float, metrics: Metrics = NO_METRICS) -> None:
        self._pool = pool
        self._most_s = most_s
        self._metrics = metrics
        self._rests_until = 0.0
        self._renews_at: float | None = None
        self._reason = ListSource.STANDBY

    async def read(self, query: str, parameters: Row, version: AccountVersion) -> list[Row] | None:
        """Run a list's statement; `None` where the primary is to be asked."""
        source, found = await self._asked(query, parameters, version)
        self._metrics.count(LISTS, source)
        return found

    async def _asked(
        self, query: str, parameters: Row, version: AccountVersion
    ) -> tuple[ListSource, list[Row] | None]:
        if monotonic() < self._rests_until:
            return self._reason, None
        if self._reason is not ListSource.STANDBY:
            self._rest(self._reason)  # until this one list has its answer, others do not wait for it
        try:
            checked, found = await self._run(query, parameters, version)
        except (PoolTimeout, PoolClosed, TooManyRequests):
            return self._rest(ListSource.AWAY), None
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(_CONFLICT):
                return ListSource.GIVEN_UP, None
            took_too_long = error.sqlstate == _TOOK_TOO_LONG
            return self._rest(ListSource.GIVEN_UP if took_too_long else ListSource.AWAY), None
        if not (checked["is_standby"] and checked["is_near"]):
            self._rest(ListSource.BEHIND)
            await self._renew(is_standby=checked["is_standby"])
            return ListSource.BEHIND, None
        self._reason, self._rests_until, self._renews_at = ListSource.STANDBY, 0.0, None
        return (ListSource.STANDBY, found) if checked["has_version"] else (ListSource.OWN_WRITE, None)

    async def _run(self, query: str, parameters: Row, version: AccountVersion) -> tuple[Row, list[Row]]:
        known = {
            "account_id": version.account_id, "version": version.number, "read_at": version.read_at,
            "most_s": self._most_s,
        }  # fmt: skip
        with self._pool.tracing.span("standby read"):
            async with self._pool.connection(_CONNECTION_S, deadline_s=ANSWER_S) as connection:
                async with connection.pipeline():
                    check = await connection.execute(_CHECK, known)
                    listed = await connection.execute(query, parameters)
                [checked] = await check.fetchall()
                return checked, await listed.fetchall()

    async def _renew(self, *, is_standby: bool) -> None:
        """Replace the connections: at once where they lead to no standby, else when it has been behind for long."""
        now = monotonic()
        if self._renews_at is None:
            self._renews_at = now + _RENEW_EVERY_S if is_standby else now
        if now >= self._renews_at:
            self._renews_at = now + _RENEW_EVERY_S
            await self._pool.drain()

    def _rest(self, reason: ListSource) -> ListSource:
        self._reason, self._rests_until = reason, monotonic() + _REST_S
        return reason


class StandbyLists:
    """Chooses for each list between a standby and the primary. Fills `Lists`."""

    def __init__(self, standby: Standby, primary: Pool, cipher: Cipher) -> None:
        self._standby = standby
        self._primary = primary
        self._cipher = cipher

    def since(self, version: AccountVersion | None) -> ListQueries:
        """Return lists of this version of an account."""
        return _Lists(self._standby, self._primary, self._cipher, version)


class _Lists(MeetingReads, RecordingReads, NoteReads, EndpointReads, DeliveryReads, EventReads):
    """The lists of an account, from the standby where that has its version."""

    def __init__(
        self, standby: Standby, primary: Pool, cipher: Cipher, version: AccountVersion | None
    ) -> None:
        super().__init__(primary, cipher)
        self._standby = standby
        self._version = version

    async def _all(self, query: str, parameters: Row | None = None, /, **named: Any) -> list[Row]:
        values, found = (parameters or {}) | named, None
        if self._version is not None:
            found = await self._standby.read(query, values, self._version)
        return list(await super()._all(query, values)) if found is None else found
