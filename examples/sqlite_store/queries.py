"""The cheap reads in SQLite: what was committed, beside whoever is writing."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.domain.endpoints import Endpoint
from meetcore.domain.keys import ApiKey
from meetcore.domain.meetings import Meeting
from meetcore.ports.queries import AccountCard, Caller

from . import rows
from .connection import Database
from .endpoints import load_endpoint

__all__ = ["SqliteQueries"]

# The key of a digest, and its account.
_FIND_KEY = "SELECT * FROM api_keys WHERE digest = :digest"
_FIND_CARD = "SELECT id, user_id, email, full_name, balance FROM accounts WHERE id = :account_id"

# One of an account's meetings, and the one that a provider speaks of.
_FIND_MEETING = "SELECT * FROM meetings WHERE account_id = :account_id AND id = :id"
_FIND_AT_PROVIDER = """
SELECT * FROM meetings WHERE provider = :provider AND provider_meeting_id = :provider_meeting_id
"""

# The secrets of whoever registered a URL.
_FIND_SECRETS = "SELECT secret FROM endpoints WHERE url_key = :url_key"


class SqliteQueries:
    """What is asked often and must be cheap."""

    def __init__(self, database: Database) -> None:
        self._reader = database.reader

    async def find_caller(self, key_digest: bytes) -> Caller | None:
        """The key stored under a digest, whatever its validity, with its account."""
        key = await self._reader.fetch_one(_FIND_KEY, {"digest": key_digest})
        card = None if key is None else await self._reader.fetch_one(_FIND_CARD, key)
        if key is None or card is None:
            return None
        return Caller(rows.record(ApiKey, key), rows.record(AccountCard, card))

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        """An account's meeting in any state."""
        return await self._meeting(_FIND_MEETING, {"account_id": account_id, "id": meeting_id})

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """The meeting that a provider knows under an id of its own."""
        known = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        return await self._meeting(_FIND_AT_PROVIDER, known)

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """An account's webhook endpoint."""
        return await load_endpoint(self._reader, account_id, endpoint_id)

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        """The secrets of every endpoint registered under a normalised URL."""
        return [row["secret"] for row in await self._reader.fetch(_FIND_SECRETS, {"url_key": url_key})]

    async def ping(self) -> None:
        """Read the file once."""
        await self._reader.fetch("SELECT count(*) FROM sqlite_schema", {})

    async def _meeting(self, statement: str, parameters: rows.Row) -> Meeting | None:
        row = await self._reader.fetch_one(statement, parameters)
        return None if row is None else rows.record(Meeting, row)
