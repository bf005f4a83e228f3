"""Reads of webhook endpoints."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.endpoints.rows import ENDPOINT
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.webhooks.endpoints import Endpoint

# The endpoints registered for a URL.
_FIND_BY_URL = f"""
SELECT {ENDPOINT.select} FROM webhook_endpoints w WHERE w.url_key = %(url_key)s
"""

# One of an account's webhook endpoints.
_FIND_ENDPOINT = f"""
SELECT {ENDPOINT.select} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.id = %(id)s
"""

# A page of an account's webhook endpoints, by the primary key backwards.
_LIST_ENDPOINTS = f"""
SELECT {ENDPOINT.select} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id < %(before)s ORDER BY w.id DESC LIMIT %(limit)s
"""


class EndpointReads(Reads):
    """Reads of endpoints, their secrets opened."""

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        row = await self._one(_FIND_ENDPOINT, {"account_id": account_id, "id": endpoint_id})
        return None if row is None else ENDPOINT.read(row, self._cipher)

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return [ENDPOINT.read(row, self._cipher) for row in await self._all(_LIST_ENDPOINTS, page)]

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        found = await self._all(_FIND_BY_URL, {"url_key": url_key})
        secrets = (ENDPOINT.read(row, self._cipher).secret for row in found)
        return [secret for secret in secrets if secret is not None]
