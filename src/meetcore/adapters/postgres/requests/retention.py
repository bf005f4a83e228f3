"""Remove records past their retention, a portion in one short transaction, by ids, and erase accounts.

The row of the kind in `retention_progress` is the turn: its holder goes on behind `after_id`. Rows that are
locked are passed over until the next round.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.repository import PooledWrites, Reads, Repository, load_statements
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import first_id
from meetcore.domain.meetings.meetings import VISIBLE
from meetcore.domain.requests.retention import (
    ERASED,
    REMOVABLE_MEETINGS,
    REMOVABLE_NOTES,
    Erasure,
    RemovedKind,
    erased_email,
)
from meetcore.ports.maintenance import PORTION, ROUND_EVERY, Removal

SQL = load_statements(__file__)


PURGED_AT_ONCE = 5_000


class PostgresHousekeeping(PooledWrites):
    """Delete what has expired."""

    async def now(self) -> datetime:
        row = await self._one(SQL["present"])
        assert row is not None
        return utc(row["now"])

    async def purge_idempotency(self, older_than_s: float) -> int:
        return await self._purge(SQL["purge_idempotency"], {"older_than_s": older_than_s})

    async def purge_provider_events(self, older_than_s: float) -> int:
        return await self._purge(SQL["purge_provider_events"], {"older_than_s": older_than_s})

    async def purge_creations(self, before: date) -> int:
        return await self._purge(SQL["purge_creations"], {"before": before})

    async def purge_mails(self, older_than_s: float) -> int:
        return await self._purge(SQL["purge_mails"], {"older_than_s": older_than_s})

    async def purge_requests(self, before: datetime) -> int:
        return await self._purge(SQL["purge_requests"], {"before": first_id(before)})

    async def purge_previous_secrets(self, before: datetime) -> int:
        return await self._purge(SQL["purge_previous_secrets"], {"before": before})

    async def _purge(self, query: str, older: dict[str, Any]) -> int:
        gone = 0
        while True:
            portion = await self._run(query, older, portion=PURGED_AT_ONCE)
            gone += portion
            if portion < PURGED_AT_ONCE:
                return gone


_FIRST: Final = UUID(int=0)


class RemovedReads(Reads):
    """Reads of the ids of removed records."""

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        return await self._one(SQL["was_removed"], account_id=account_id, id=record_id) is not None


class PostgresRetention:
    """Remove records past their retention."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def now(self) -> datetime:
        with translated():
            [row] = await self._pool.read(SQL["present"], {})
            return utc(row["now"])

    async def remove_notes(self, made_before: datetime, portion: int = PORTION) -> Removal | None:
        parameters = {
            "before": first_id(made_before),
            "removable": [one.value for one in REMOVABLE_NOTES],
            "portion": portion,
        }
        return await self._turn(RemovedKind.NOTES, SQL["remove_notes"], parameters)

    async def remove_meetings(self, ended_before: datetime, portion: int = PORTION) -> Removal | None:
        # What has ended by then was made before.
        parameters = {
            "before": first_id(ended_before),
            "ended_before": ended_before,
            "removable": [one.value for one in REMOVABLE_MEETINGS],
            "visible": [one.value for one in VISIBLE],
            "portion": portion,
        }
        return await self._turn(RemovedKind.MEETINGS, SQL["remove_meetings"], parameters)

    async def _turn(self, kind: RemovedKind, statement: str, parameters: Row) -> Removal | None:
        with translated():
            async with self._pool.connection() as connection, connection.transaction():
                return await _portion(connection, kind, statement, parameters)


async def _portion(
    connection: Connection, kind: RemovedKind, statement: str, parameters: Row
) -> Removal | None:
    turn = await (await connection.execute(SQL["take_turn"], {"kind": kind.value})).fetchone()
    if turn is None:
        return None
    walk = parameters | {"after": turn["after_id"] or _FIRST}
    row = await (await connection.execute(statement, walk)).fetchone()
    assert row is not None
    is_over = row["walked"] < parameters["portion"]
    saved = {
        "kind": kind.value, "is_over": is_over, "after": None if is_over else row["last"],
        "every_s": ROUND_EVERY.total_seconds(),
    }  # fmt: skip
    await connection.execute(SQL["save_turn"], saved)
    return Removal(row["removed"], is_over)


class PostgresErasureRepository(Repository):
    """Erasures of accounts: ids and money stay, names and contents go."""

    async def load_locked(self, account_id: UUID) -> Erasure:
        if await self._one(SQL["lock_account"], {"account_id": account_id}) is None:
            raise NotFound("No account with this id.")
        row = await self._one(SQL["load_erasure"], account_id=account_id)
        assert row is not None
        times = [None if row[name] is None else utc(row[name]) for name in ("requested_at", "finished_at")]
        return Erasure(account_id, row["open_meetings"], row["holds"], *times)

    async def is_requested(self, account_id: UUID) -> bool:
        return await self._one(SQL["find_request"], {"account_id": account_id}) is not None

    async def start(self, account_id: UUID, at: datetime) -> None:
        values = {"account_id": account_id, "at": at, "erased": ERASED}
        await self._run(SQL["start_erasure"], values, email=erased_email(account_id))
        await self._run(SQL["lock_users"], {"account_id": account_id})
        for row in await self._all(SQL["end_memberships"], {"account_id": account_id}):
            await self._run(SQL["erase_user"], id=row["id"], email=erased_email(row["id"]), erased=ERASED)
            await self._run(SQL["delete_passkeys"], id=row["id"])
            await self._run(SQL["delete_mails_to"], recipient=row["email"])

    async def claim_due(self, at: datetime, limit: int) -> Sequence[UUID]:
        return [row["account_id"] for row in await self._all(SQL["claim_due_erasures"], at=at, limit=limit)]

    async def find_recorded(self, account_id: UUID, limit: int) -> Sequence[UUID]:
        rows = await self._all(SQL["find_recorded"], account_id=account_id, limit=limit)
        return [row["meeting_id"] for row in rows]

    async def erase_meetings(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        return await self._erased_up_to(SQL["erase_meetings"], account_id, after, limit)

    async def erase_notes(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        return await self._erased_up_to(SQL["erase_notes"], account_id, after, limit)

    async def delete_portion(self, account_id: UUID, limit: int) -> int:
        named = {"account_id": account_id, "limit": limit}
        row = await self._one(SQL["delete_deliveries"], named)
        gone = 0 if row is None else int(row["gone"])
        for statement in (
            SQL["delete_events"],
            SQL["delete_mails"],
            SQL["delete_answers"],
            SQL["delete_requests"],
        ):
            gone += await self._run(statement, named)
        return gone

    async def finish(self, account_id: UUID, at: datetime) -> bool:
        return await self._changed(SQL["finish_erasure"], account_id=account_id, at=at)

    async def _erased_up_to(
        self, statement: str, account_id: UUID, after: UUID | None, limit: int
    ) -> UUID | None:
        named = {"account_id": account_id, "after": after or _FIRST, "limit": limit, "erased": ERASED}
        row = await self._one(statement, named)
        return None if row is None else row["id"]
