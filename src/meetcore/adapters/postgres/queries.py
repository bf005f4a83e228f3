"""Reads in PostgreSQL: one statement each, outside any transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from attrs import asdict
from psycopg.errors import ReadOnlySqlTransaction

from meetcore.adapters.postgres import meeting_reads, note_reads, note_rows, rows, transaction_reads
from meetcore.adapters.postgres.callers import caller_of, caller_parameters, caller_statement
from meetcore.adapters.postgres.endpoints import DELIVERY_COLUMNS, ENDPOINT_COLUMNS
from meetcore.adapters.postgres.free_hosts import NEXT_CREATION
from meetcore.adapters.postgres.meetings import MEETING_COLUMNS
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.ledger import Entry
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.cipher import Cipher
from meetcore.ports.queries import (
    MAX_PAGE,
    NO_INCLUDES,
    Caller,
    CallerIncludes,
    DeliveryHistory,
    FreeStartQuery,
    MeetingFilter,
    NoteFilter,
    TransactionFilter,
)

__all__ = ["PostgresQueries"]

# The meeting that a provider names, the latest that had the id.
_FIND_AT_PROVIDER = f"""
SELECT m.account_id, {MEETING_COLUMNS} FROM meetings m
WHERE m.provider = %(provider)s AND m.provider_meeting_id = %(provider_meeting_id)s ORDER BY m.id DESC LIMIT 1
"""

# Whether a process works on a meeting now. Polled by duplicate requests: it locks nothing.
_IS_IN_PROGRESS = """
SELECT 1 FROM meetings WHERE account_id = %(account_id)s AND id = %(id)s AND lease_until > clock_timestamp()
"""

# The endpoints registered for a URL.
_FIND_BY_URL = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w WHERE w.url_key = %(url_key)s
"""

# One of an account's webhook endpoints.
_FIND_ENDPOINT = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.id = %(id)s
"""

# A page of an account's webhook endpoints, by the primary key backwards.
_LIST_ENDPOINTS = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id < %(before)s ORDER BY w.id DESC LIMIT %(limit)s
"""

# The attempts at each delivery of a page. Sorted inside, which keeps the planner from joining whole
# tables: it looks them up for one delivery after another, however many it expects on the page.
_ATTEMPTS = """
    LEFT JOIN LATERAL (
        SELECT a.number, a.at AS attempt_at, a.duration_ms, a.status_code, a.error, a.response_excerpt
        FROM delivery_attempts a WHERE a.account_id = w.account_id AND a.delivery_id = d.delivery_id
        ORDER BY a.number
    ) a ON true"""


def _page_of_deliveries(condition: str = "") -> str:
    # A page of the deliveries to an endpoint, each with its attempts: one row for each attempt, and one
    # without a delivery where the endpoint has none. The inner limit is for the planner: of a parameter it
    # would expect a tenth of the table, and sort that instead of reading an index backwards.
    return f"""
SELECT w.account_id, w.id AS endpoint_id, d.*, a.*
FROM webhook_endpoints w
    LEFT JOIN LATERAL (
        SELECT * FROM (
            SELECT {DELIVERY_COLUMNS} FROM deliveries d
            WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id < %(before)s {condition}
            ORDER BY d.id DESC LIMIT {MAX_PAGE}
        ) d LIMIT %(limit)s
    ) d ON true{_ATTEMPTS}
WHERE w.account_id = %(account_id)s AND w.id = %(endpoint_id)s
ORDER BY d.delivery_id DESC, a.number
"""


# A page of the deliveries to an endpoint, each with its attempts.
_LIST_DELIVERIES = _page_of_deliveries()

# The same of those that succeeded, which most have.
_LIST_SUCCEEDED = _page_of_deliveries("AND d.status = 'succeeded'")
# The same of those in another status: the condition is repeated in the form of the partial index over them.
_LIST_NOT_SUCCEEDED = _page_of_deliveries("AND d.status = %(status)s AND d.status <> 'succeeded'")

# One delivery with its attempts, if its endpoint is still there.
_FIND_DELIVERY = f"""
SELECT w.account_id, w.id AS endpoint_id, d.*, a.*
FROM webhook_endpoints w
    CROSS JOIN LATERAL (
        SELECT {DELIVERY_COLUMNS} FROM deliveries d
        WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id = %(id)s
    ) d{_ATTEMPTS}
WHERE w.account_id = %(account_id)s AND w.id = %(endpoint_id)s
ORDER BY a.number
"""

# Whether writes are refused: by a standby, or by a server or role that is set so.
_IS_READ_ONLY = """
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS is_read_only
"""

_NEWEST = UUID(int=(1 << 128) - 1)  # no record has it, and every id is less


class PostgresQueries:
    """Frequent reads that must be cheap."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self._pool = pool
        self._cipher = cipher

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account, in one trip."""
        row = await self._one(caller_statement(includes), caller_parameters(key_digest, includes))
        return None if row is None else caller_of(row, includes, self._cipher)

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state."""
        row = await self._one(meeting_reads.FIND_MEETING, {"account_id": account_id, "id": meeting_id})
        return None if row is None else rows.meeting_with_key(row, self._cipher)

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        """Whether a process makes or cancels an account's meeting now."""
        return await self._one(_IS_IN_PROGRESS, {"account_id": account_id, "id": meeting_id}) is not None

    async def list_meetings(
        self, account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        """An account's meetings that a customer may see, the newest first."""
        page = meeting_reads.page_parameters(account_id, wanted, limit, before)
        found = await self._all(meeting_reads.page_statement(wanted), page)
        return [rows.meeting_with_key(row, self._cipher) for row in found]

    async def list_transactions(
        self, account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[Entry]:
        """An account's own entries in the ledger, the newest first."""
        page = transaction_reads.page_parameters(account_id, wanted, limit, before)
        found = await self._all(transaction_reads.page_statement(wanted), page)
        return [entry for row in found if (entry := rows.entry(row)) is not None]

    async def next_free_start(self, wanted: FreeStartQuery) -> datetime | None:
        """The earliest instant from `start_at` on at which such a meeting could be reserved now."""
        row = await self._one(meeting_reads.NEXT_FREE_START, meeting_reads.free_start_parameters(wanted))
        return None if row is None else rows.utc(row["at"])

    async def next_creation_at(self, wanted: FreeStartQuery) -> datetime | None:
        """The first instant from `now` on at which a host with the seats may be given a meeting."""
        row = await self._one(NEXT_CREATION, meeting_reads.free_start_parameters(wanted))
        return None if row is None or row["at"] is None else rows.utc(row["at"])

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own."""
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._one(_FIND_AT_PROVIDER, parameters)
        return None if row is None else rows.meeting(row, self._cipher)

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint, its secret opened."""
        row = await self._one(_FIND_ENDPOINT, {"account_id": account_id, "id": endpoint_id})
        return None if row is None else rows.endpoint(row, self._cipher)

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        """An account's webhook endpoints, the newest first, their secrets opened."""
        page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST}
        return [rows.endpoint(row, self._cipher) for row in await self._all(_LIST_ENDPOINTS, page)]

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        """The deliveries to an account's endpoint, the newest first."""
        page = {
            "account_id": account_id,
            "endpoint_id": endpoint_id,
            "limit": limit,
            "before": before or _NEWEST,
        }
        if status is None:
            found = await self._all(_LIST_DELIVERIES, page)
        elif status is DeliveryStatus.SUCCEEDED:
            found = await self._all(_LIST_SUCCEEDED, page)
        else:
            found = await self._all(_LIST_NOT_SUCCEEDED, page | {"status": status.value})
        return _histories(found) if found else None

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        """A delivery to an account's endpoint, as long as the endpoint is there."""
        named = {"account_id": account_id, "endpoint_id": endpoint_id, "id": delivery_id}
        histories = _histories(await self._all(_FIND_DELIVERY, named))
        return histories[0] if histories else None

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        """An account's recording, in any state."""
        row = await self._one(note_reads.FIND_RECORDING, {"account_id": account_id, "id": recording_id})
        return None if row is None else note_rows.readable_recording(row, self._cipher)

    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[Recording]:
        """An account's recordings that a customer may see, the newest first."""
        page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST}
        if meeting_id is None:
            found = await self._all(note_reads.LIST_RECORDINGS, page)
        else:
            found = await self._all(note_reads.LIST_OF_MEETING, page | {"meeting_id": meeting_id})
        return [note_rows.readable_recording(row, self._cipher) for row in found]

    async def find_note(self, account_id: UUID, note_id: UUID) -> Note | None:
        """An account's note, in any state."""
        row = await self._one(note_reads.FIND_NOTE, {"account_id": account_id, "id": note_id})
        return None if row is None else note_rows.readable_note(row, self._cipher)

    async def list_notes(
        self, account_id: UUID, wanted: NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[Note]:
        """An account's notes that are not erased, the newest first."""
        page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST} | asdict(wanted)
        found = await self._all(note_reads.notes_statement(wanted), page)
        return [note_rows.readable_note(row, self._cipher) for row in found]

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL."""
        found = await self._all(_FIND_BY_URL, {"url_key": url_key})
        secrets = (rows.endpoint(row, self._cipher).secret for row in found)
        return [secret for secret in secrets if secret is not None]

    async def ping(self) -> None:
        """Make sure that the database answers and takes writes."""
        with translated():
            async with self._pool.connection() as connection:
                row = await (await connection.execute(_IS_READ_ONLY)).fetchone()
                if row is None or row["is_read_only"]:
                    raise ReadOnlySqlTransaction("the server takes no writes")

    async def _one(self, query: str, parameters: dict[str, Any]) -> rows.Row | None:
        found = await self._all(query, parameters)
        return found[0] if found else None

    async def _all(self, query: str, parameters: dict[str, Any]) -> list[rows.Row]:
        with translated():
            return await self._pool.read(query, parameters)


def _histories(found: Sequence[rows.Row]) -> list[DeliveryHistory]:
    """Rows of at most one attempt each, gathered by their deliveries in the order of the rows."""
    gathered: dict[UUID, list[rows.Row]] = {}
    for row in found:
        if row["delivery_id"] is not None:
            gathered.setdefault(row["delivery_id"], []).append(row)
    return [
        DeliveryHistory(
            rows.delivery(of_one[0]), tuple(rows.attempt(row) for row in of_one if row["number"] is not None)
        )
        for of_one in gathered.values()
    ]
