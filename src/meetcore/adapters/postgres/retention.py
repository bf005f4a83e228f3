"""Removal of what is past its retention in PostgreSQL: a portion in one short transaction, by ids.

The row of the kind in `retention_progress` is the turn: who has it locked goes on behind `after_id`. Rows of records that
somebody has locked are passed over until the next round.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.ids import first_id
from meetcore.domain.meetings.meetings import VISIBLE
from meetcore.domain.requests.retention import REMOVABLE_MEETINGS, REMOVABLE_NOTES, RemovedKind
from meetcore.ports.retention import PORTION, ROUND_EVERY, Removal

__all__ = ["WAS_REMOVED", "PostgresRetention", "RemovedReads"]

_FIRST: Final = UUID(int=0)

# Takes the turn of a kind of records, where a round is due or in progress.
_TAKE_TURN = """
SELECT after_id FROM retention_progress WHERE kind = %(kind)s AND due_at <= clock_timestamp()
FOR NO KEY UPDATE SKIP LOCKED
"""

# How far a round is; or that it is over, and when the next one begins.
_SAVE_TURN = """
UPDATE retention_progress SET after_id = %(after)s,
    due_at = CASE WHEN %(is_over)s THEN clock_timestamp() + %(every_s)s::float8 * interval '1 second' ELSE due_at END,
    started_at = CASE WHEN %(is_over)s THEN NULL ELSE COALESCE(started_at, clock_timestamp()) END
WHERE kind = %(kind)s
"""

# Whether a record was removed.
WAS_REMOVED: Final = """
SELECT FROM removed_records WHERE account_id = %(account_id)s AND id = %(id)s
"""

_RESULT = """
    SELECT (SELECT count(*) FROM gone) AS removed, (SELECT count(*) FROM walked) AS walked,
        (SELECT id FROM walked ORDER BY id DESC LIMIT 1) AS last
"""

# Removes the notes of the next portion, and keeps their ids. An id begins with the time of its note.
_REMOVE_NOTES = f"""
WITH walked AS MATERIALIZED (
    SELECT n.account_id, n.id FROM notes n
    WHERE n.id > %(after)s AND n.id < %(before)s ORDER BY n.id LIMIT %(portion)s
), past AS MATERIALIZED (
    SELECT n.account_id, n.id FROM walked JOIN notes n ON n.account_id = walked.account_id AND n.id = walked.id
    WHERE n.status = ANY(%(removable)s::text[]) AND n.lease_token IS NULL
    FOR UPDATE OF n SKIP LOCKED
), gone AS (
    DELETE FROM notes n USING past WHERE n.account_id = past.account_id AND n.id = past.id
    RETURNING n.account_id, n.id
), kept AS (
    INSERT INTO removed_records (account_id, id) SELECT account_id, id FROM gone ON CONFLICT DO NOTHING
){_RESULT}"""

# Removes the meetings of the next portion of which nothing is unfinished, each with its recording, and keeps the ids that
# customers could see.
_REMOVE_MEETINGS = f"""
WITH walked AS MATERIALIZED (
    SELECT m.account_id, m.id FROM meetings m
    WHERE m.id > %(after)s AND m.id < %(before)s ORDER BY m.id LIMIT %(portion)s
), past AS MATERIALIZED (
    SELECT m.account_id, m.id FROM walked JOIN meetings m ON m.account_id = walked.account_id AND m.id = walked.id
    WHERE m.status = ANY(%(removable)s::text[]) AND m.end_at < %(ended_before)s
        AND m.lease_until IS NULL AND m.due_at IS NULL AND m.hold_id IS NULL
        AND NOT EXISTS (SELECT FROM orphan_checks c WHERE c.account_id = m.account_id AND c.meeting_id = m.id)
        AND NOT EXISTS (SELECT FROM host_reservations h WHERE h.account_id = m.account_id AND h.meeting_id = m.id)
        AND NOT EXISTS (
            SELECT FROM recordings r WHERE r.account_id = m.account_id AND r.meeting_id = m.id
                AND (r.status <> 'expired' OR r.due_at IS NOT NULL OR EXISTS (
                    SELECT FROM notes n WHERE n.account_id = r.account_id AND n.recording_id = r.id)))
    FOR UPDATE OF m SKIP LOCKED
), chunks AS (
    DELETE FROM transcript_chunks t USING past, recordings r
    WHERE r.account_id = past.account_id AND r.meeting_id = past.id
        AND t.account_id = r.account_id AND t.recording_id = r.id
), recorded AS (
    DELETE FROM recordings r USING past WHERE r.account_id = past.account_id AND r.meeting_id = past.id
    RETURNING r.account_id, r.id
), gone AS (
    DELETE FROM meetings m USING past WHERE m.account_id = past.account_id AND m.id = past.id
    RETURNING m.account_id, m.id, m.status
), kept AS (
    INSERT INTO removed_records (account_id, id)
    SELECT account_id, id FROM gone WHERE status = ANY(%(visible)s::text[])
    UNION ALL SELECT account_id, id FROM recorded
    ON CONFLICT DO NOTHING
){_RESULT}"""


class RemovedReads(Reads):
    """Reads of what was removed."""

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        return await self._one(WAS_REMOVED, {"account_id": account_id, "id": record_id}) is not None


class PostgresRetention:
    """Removes what is past its retention."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def remove_notes(self, made_before: datetime, portion: int = PORTION) -> Removal | None:
        parameters = {
            "before": first_id(made_before),
            "removable": [one.value for one in REMOVABLE_NOTES],
            "portion": portion,
        }
        return await self._turn(RemovedKind.NOTES, _REMOVE_NOTES, parameters)

    async def remove_meetings(self, ended_before: datetime, portion: int = PORTION) -> Removal | None:
        # What has ended by then was made before.
        parameters = {
            "before": first_id(ended_before),
            "ended_before": ended_before,
            "removable": [one.value for one in REMOVABLE_MEETINGS],
            "visible": [one.value for one in VISIBLE],
            "portion": portion,
        }
        return await self._turn(RemovedKind.MEETINGS, _REMOVE_MEETINGS, parameters)

    async def _turn(self, kind: RemovedKind, statement: str, parameters: Row) -> Removal | None:
        with translated():
            async with self._pool.connection() as connection, connection.transaction():
                return await _portion(connection, kind, statement, parameters)


async def _portion(
    connection: Connection, kind: RemovedKind, statement: str, parameters: Row
) -> Removal | None:
    turn = await (await connection.execute(_TAKE_TURN, {"kind": kind.value})).fetchone()
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
    await connection.execute(_SAVE_TURN, saved)
    return Removal(row["removed"], is_over)
