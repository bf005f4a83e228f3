"""The cheap reads in SQLite: what was committed, beside a running write."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from attrs import asdict, evolve

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.clock import Clock
from meetcore.ports.queries import (
    NO_INCLUDES,
    AccountSummary,
    Caller,
    CallerIncludes,
    DeliveryHistory,
    FreeStartQuery,
    MeetingFilter,
    NoteFilter,
    TransactionFilter,
)

from . import meeting_reads, rows
from .connection import Database
from .endpoints import load_endpoint
from .recordings import FIND_RECORDING

__all__ = ["SqliteQueries"]

# The key of a digest, and its account.
_FIND_KEY = "SELECT * FROM api_keys WHERE digest = :digest"
_FIND_ACCOUNT = """
SELECT id, user_id, email, full_name, balance, held, suspended_at FROM accounts WHERE id = :account_id
"""
_FIND_USAGE = """
SELECT * FROM cap_usage WHERE account_id = :account_id AND api_key_id = :api_key_id AND day = :day
"""

# A page of an account's ledger, the newest entries first.
_LIST_TRANSACTIONS = """
SELECT * FROM entries
WHERE account_id = :account_id AND number < :before AND (:kind IS NULL OR kind = :kind)
    AND (:made_from IS NULL OR at >= :made_from) AND (:made_before IS NULL OR at < :made_before)
ORDER BY number DESC LIMIT :limit
"""

# The meeting that a provider names, the latest that had the id.
_FIND_AT_PROVIDER = """
SELECT * FROM meetings WHERE provider = :provider AND provider_meeting_id = :provider_meeting_id
ORDER BY id DESC LIMIT 1
"""

# A meeting that a process makes or cancels now.
_IS_IN_PROGRESS = "SELECT id FROM meetings WHERE account_id = :account_id AND id = :id AND lease_until > :now"

# The secrets of the endpoints registered for a URL.
_FIND_SECRETS = "SELECT secret FROM endpoints WHERE url_key = :url_key"

# A page of an account's endpoints, and of the deliveries to one of them, the newest first: ids sort by time.
_LIST_ENDPOINTS = """
SELECT * FROM endpoints WHERE account_id = :account_id AND id < :before ORDER BY id DESC LIMIT :limit
"""
_LIST_DELIVERIES = """
SELECT * FROM deliveries
WHERE account_id = :account_id AND endpoint_id = :endpoint_id AND id < :before
    AND (:status IS NULL OR status = :status)
ORDER BY id DESC LIMIT :limit
"""

# One of an endpoint's deliveries, and what was tried of it.
_FIND_DELIVERY = """
SELECT * FROM deliveries WHERE account_id = :account_id AND endpoint_id = :endpoint_id AND id = :id
"""
_ATTEMPTS = """
SELECT at, duration_ms, status_code, error, response_excerpt FROM delivery_attempts
WHERE account_id = :account_id AND delivery_id = :id ORDER BY number
"""

# Recordings and notes that a customer may see, the newest first; and one note.
_LIST_RECORDINGS = """
SELECT * FROM recordings
WHERE account_id = :account_id AND id < :before AND status <> 'measuring'
    AND (:meeting_id IS NULL OR meeting_id = :meeting_id)
ORDER BY id DESC LIMIT :limit
"""
_LIST_NOTES = """
SELECT * FROM notes
WHERE account_id = :account_id AND id < :before AND status <> 'erased'
    AND (:recording_id IS NULL OR recording_id = :recording_id)
    AND (:meeting_id IS NULL OR meeting_id = :meeting_id)
ORDER BY id DESC LIMIT :limit
"""
_FIND_NOTE = "SELECT * FROM notes WHERE account_id = :account_id AND id = :id"

_NEWEST = "~"  # comes after every id, which is text here
_AFTER_ALL = (1 << 63) - 1  # no entry has this number


class SqliteQueries:
    """Frequent reads that must be cheap."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._reader = database.reader
        self._clock = clock

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account."""
        key = await self._reader.fetch_one(_FIND_KEY, {"digest": key_digest})
        found_account = None if key is None else await self._reader.fetch_one(_FIND_ACCOUNT, key)
        if key is None or found_account is None:
            return None
        found = Caller(rows.record(ApiKey, key), rows.record(AccountSummary, found_account))
        if includes.meeting_id is not None:
            meeting = await self.find_meeting(found.account.id, includes.meeting_id)
            return evolve(found, load_meeting=lambda: meeting)
        if includes.usage_on is not None:
            return evolve(found, usage=await self._usage(found.key, includes.usage_on))
        return found

    async def _usage(self, key: ApiKey, day: date) -> CapUsage:
        named = {"account_id": key.account_id, "api_key_id": key.id, "day": day}
        row = await self._reader.fetch_one(_FIND_USAGE, named)
        return CapUsage(key.id, day) if row is None else rows.record(CapUsage, row)

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state."""
        return await meeting_reads.find_meeting(self._reader, account_id, meeting_id)

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        """Whether a process makes or cancels an account's meeting now."""
        named = {"account_id": account_id, "id": meeting_id, "now": self._clock.now()}
        return await self._reader.fetch_one(_IS_IN_PROGRESS, named) is not None

    async def list_meetings(
        self, account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        """An account's meetings that a customer may see, the newest first."""
        return await meeting_reads.list_meetings(self._reader, account_id, wanted, limit, before)

    async def list_transactions(
        self, account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[Entry]:
        """An account's own entries in the ledger, the newest first."""
        page = {"account_id": account_id, "limit": limit, "before": before or _AFTER_ALL} | asdict(wanted)
        return [rows.entry(row) for row in await self._reader.fetch(_LIST_TRANSACTIONS, page)]

    async def next_free_start(self, wanted: FreeStartQuery) -> datetime | None:
        """The earliest instant from `start_at` on at which such a meeting could be reserved now."""
        return await meeting_reads.next_free_start(self._reader, wanted)

    async def next_creation_at(self, wanted: FreeStartQuery) -> datetime | None:
        """The first instant from `now` on at which a host with the seats may be given a meeting."""
        return await meeting_reads.next_creation_at(self._reader, wanted)

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own."""
        known = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._reader.fetch_one(_FIND_AT_PROVIDER, known)
        return None if row is None else rows.record(Meeting, row)

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint."""
        return await load_endpoint(self._reader, account_id, endpoint_id)

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        """An account's webhook endpoints, the newest first."""
        page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST}
        return [rows.record(Endpoint, row) for row in await self._reader.fetch(_LIST_ENDPOINTS, page)]

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        """The deliveries to an account's endpoint, the newest first."""
        if await self.find_endpoint(account_id, endpoint_id) is None:
            return None
        page = {"limit": limit, "before": before or _NEWEST, "status": status}
        page |= {"account_id": account_id, "endpoint_id": endpoint_id}
        return [await self._history(row) for row in await self._reader.fetch(_LIST_DELIVERIES, page)]

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        """A delivery to an account's endpoint, as long as the endpoint is there."""
        if await self.find_endpoint(account_id, endpoint_id) is None:
            return None
        named = {"account_id": account_id, "endpoint_id": endpoint_id, "id": delivery_id}
        row = await self._reader.fetch_one(_FIND_DELIVERY, named)
        return None if row is None else await self._history(row)

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        """An account's recording, in any state."""
        row = await self._reader.fetch_one(FIND_RECORDING, {"account_id": account_id, "id": recording_id})
        return None if row is None else rows.recording(row)

    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[Recording]:
        """An account's recordings that a customer may see, the newest first."""
        page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST}
        found = await self._reader.fetch(_LIST_RECORDINGS, page | {"meeting_id": meeting_id})
        return [rows.recording(row) for row in found]

    async def find_note(self, account_id: UUID, note_id: UUID) -> Note | None:
        """An account's note, in any state."""
        row = await self._reader.fetch_one(_FIND_NOTE, {"account_id": account_id, "id": note_id})
        return None if row is None else rows.note(row)

    async def list_notes(
        self, account_id: UUID, wanted: NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[Note]:
        """An account's notes that are not erased, the newest first."""
        page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST}
        found = await self._reader.fetch(_LIST_NOTES, page | asdict(wanted))
        return [rows.note(row) for row in found]

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL."""
        return [row["secret"] for row in await self._reader.fetch(_FIND_SECRETS, {"url_key": url_key})]

    async def ping(self) -> None:
        """Read the file once."""
        await self._reader.fetch("SELECT count(*) FROM sqlite_schema", {})

    async def _history(self, delivery: rows.Row) -> DeliveryHistory:
        attempts = await self._reader.fetch(_ATTEMPTS, delivery)
        tried = tuple(rows.record(Attempt, row) for row in attempts)
        return DeliveryHistory(rows.record(Delivery, delivery), tried)
