"""Webhook endpoints in PostgreSQL. Secrets are sealed, bound to account and endpoint."""

from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, encode_event
from meetcore.ports.cipher import Cipher
from meetcore.ports.store import PostingView

__all__ = ["DELIVERY_COLUMNS", "ENDPOINT_COLUMNS", "PostgresEndpointRepository"]

DELIVERY_COLUMNS = """
    d.id AS delivery_id, d.event_id, d.event_kind, d.status AS delivery_status, d.attempts_made, d.due_at, d.held_at,
    d.created_at AS delivery_created_at"""

ENDPOINT_COLUMNS = """
    w.id AS endpoint_id, w.account_id, w.url, w.url_key, w.description, w.event_types, w.state,
    w.consecutive_failures, w.disabled_at, w.created_by, w.created_at AS endpoint_created_at, w.secret"""

# The endpoint registered under a normalised URL.
_FIND_BY_URL = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.url_key = %(url_key)s
"""

# How many endpoints an account has.
_COUNT = "SELECT count(*) AS endpoints FROM webhook_endpoints WHERE account_id = %(account_id)s"

# Registers an endpoint. The unique key on the URL is the last word on "once per account". The rows of its host are
# locked where they are there, so that they do not go meanwhile.
_ADD = """
WITH host AS (
    INSERT INTO webhook_hosts (host) VALUES (%(host)s)
    ON CONFLICT (host) DO UPDATE SET claimed_at = webhook_hosts.claimed_at
), account_host AS (
    INSERT INTO webhook_account_hosts (account_id, host) VALUES (%(account_id)s, %(host)s)
    ON CONFLICT (account_id, host) DO UPDATE SET consecutive_failures = webhook_account_hosts.consecutive_failures
)
INSERT INTO webhook_endpoints (account_id, id, url, url_key, description, event_types, state, consecutive_failures,
    disabled_at, created_by, created_at, secret)
VALUES (%(account_id)s, %(id)s, %(url)s, %(url_key)s, %(description)s, %(event_types)s, %(state)s,
    %(consecutive_failures)s, %(disabled_at)s, %(created_by)s, %(created_at)s, %(secret)s)
"""

# An endpoint, locked against deliveries that record their outcome.
_LOAD = f"""
SELECT {ENDPOINT_COLUMNS} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE
"""

# Writes an endpoint. What waits at one that is inactive now is held, the throttled too; a post in flight keeps its
# claim, is judged when it ends and still counts as in flight if the endpoint is active again by then. A secret that
# does not open stays as it is until it is rotated.
_SAVE = """
WITH endpoint AS (
    UPDATE webhook_endpoints SET description = %(description)s, event_types = %(event_types)s, state = %(state)s,
        consecutive_failures = %(consecutive_failures)s, disabled_at = %(disabled_at)s,
        secret = COALESCE(%(secret)s, secret)
    WHERE account_id = %(account_id)s AND id = %(id)s
)
UPDATE deliveries
SET status = 'held', held_at = clock_timestamp(), due_at = NULL, is_throttled = false, lease_token = NULL
WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status = 'pending' AND NOT %(is_active)s
    AND (lease_token IS NULL OR due_at <= statement_timestamp())
"""

# Waits for transactions that write or record a delivery to the endpoint: their rows are seen by the
# statements that follow, and would not be by this one. Its account's row of the host is locked first, as by those
# who record.
_LOCK_ENDPOINT = """
WITH account_host AS MATERIALIZED (
    SELECT h.account_id, h.host FROM webhook_account_hosts h
    WHERE (h.account_id, h.host) IN (
        SELECT account_id, host FROM webhook_endpoints WHERE account_id = %(account_id)s AND id = %(id)s)
    FOR UPDATE
)
SELECT w.host FROM account_host JOIN webhook_endpoints w USING (account_id, host)
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR UPDATE OF w
"""

# Forgets an endpoint, and its deliveries that wait with what was tried of them.
_REMOVE = """
WITH waiting AS (
    DELETE FROM deliveries
    WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status IN ('pending', 'held')
    RETURNING id
), attempt AS (
    DELETE FROM delivery_attempts a USING waiting WHERE a.account_id = %(account_id)s AND a.delivery_id = waiting.id
)
DELETE FROM webhook_endpoints WHERE account_id = %(account_id)s AND id = %(id)s
"""

# Waits for other accounts that register at the host: the next statement sees what they wrote.
_LOCK_HOST = "SELECT host FROM webhook_hosts WHERE host = %(host)s FOR UPDATE"

# Forgets a host with the account's last endpoint there, and altogether with the last of all accounts.
_DELETE_HOST = """
WITH account_host AS (
    DELETE FROM webhook_account_hosts h WHERE h.account_id = %(account_id)s AND h.host = %(host)s
        AND NOT EXISTS (SELECT FROM webhook_endpoints w WHERE w.account_id = h.account_id AND w.host = h.host)
    RETURNING h.host
)
DELETE FROM webhook_hosts h USING account_host
WHERE h.host = account_host.host AND NOT EXISTS (
    SELECT FROM webhook_account_hosts a WHERE a.host = h.host AND a.account_id <> %(account_id)s)
"""

# An endpoint that something is to be sent to, locked, and the store's time.
_LOAD_FOR_EVENT = f"""
SELECT {ENDPOINT_COLUMNS}, clock_timestamp() AS now FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE
"""

# The same with the delivery that is to be sent again. Only the endpoint is locked: what is read of the
# delivery never changes.
_LOAD_FOR_DELIVERY = f"""
SELECT {ENDPOINT_COLUMNS}, {DELIVERY_COLUMNS}, clock_timestamp() AS now
FROM webhook_endpoints w JOIN deliveries d ON d.account_id = w.account_id AND d.endpoint_id = w.id
WHERE w.account_id = %(account_id)s AND w.id = %(id)s AND d.id = %(delivery_id)s
FOR NO KEY UPDATE OF w
"""

# Writes an event for one endpoint only, and its delivery.
_POST_EVENT = """
WITH event AS (
    INSERT INTO events (account_id, id, kind, payload, created_at)
    VALUES (%(account_id)s, %(event_id)s, %(event_kind)s, %(payload)s, %(event_created_at)s)
)
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, held_at, created_at)
VALUES (%(account_id)s, %(id)s, %(endpoint_id)s, %(event_id)s, %(event_kind)s, %(status)s, %(due_at)s, %(held_at)s,
    %(created_at)s)
"""

# Writes another delivery of an event, if the event is still there: locked, so that it is not purged
# before the delivery can be seen.
_POST_AGAIN = """
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, held_at, created_at)
SELECT e.account_id, %(id)s, %(endpoint_id)s, e.id, e.kind, %(status)s, %(due_at)s, %(held_at)s, %(created_at)s
FROM events e WHERE e.account_id = %(account_id)s AND e.id = %(event_id)s FOR KEY SHARE
"""


class PostgresEndpointRepository:
    """Webhook endpoints of an account, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        """The endpoint registered under a normalised URL."""
        cursor = await self._connection.execute(_FIND_BY_URL, {"account_id": account_id, "url_key": url_key})
        row = await cursor.fetchone()
        return None if row is None else rows.endpoint(row, self._cipher)

    async def count(self, account_id: UUID) -> int:
        """How many endpoints the account has."""
        row = await (await self._connection.execute(_COUNT, {"account_id": account_id})).fetchone()
        return 0 if row is None else int(row["endpoints"])

    async def add(self, endpoint: Endpoint) -> None:
        """Register; the caller holds the account's lock and has looked for the URL."""
        await self._connection.execute(
            _ADD,
            self._parameters(endpoint)
            | {
                "url": endpoint.url,
                "url_key": endpoint.url_key,
                "host": endpoint.host,
                "created_by": endpoint.created_by,
                "created_at": endpoint.created_at,
            },
        )

    async def load(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Read an endpoint and lock it against deliveries that record their outcome."""
        cursor = await self._connection.execute(_LOAD, {"account_id": account_id, "id": endpoint_id})
        row = await cursor.fetchone()
        return None if row is None else rows.endpoint(row, self._cipher)

    async def save(self, endpoint: Endpoint) -> None:
        """Write what an update changed. What waits at an endpoint that is inactive now is held."""
        await self._connection.execute(_SAVE, self._parameters(endpoint))

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        """Delete an endpoint and its waiting deliveries, a claimed one included."""
        named = {"account_id": account_id, "id": endpoint_id}
        cursor = await self._connection.execute(_LOCK_ENDPOINT, named)
        row = await cursor.fetchone()
        if row is None:
            return False
        await self._connection.execute(_REMOVE, named)
        await self._connection.execute(_LOCK_HOST, row)
        await self._connection.execute(_DELETE_HOST, named | row)
        return True

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        """Read an endpoint, and one of its deliveries if it is named, and lock the endpoint."""
        named = {"account_id": account_id, "id": endpoint_id}
        if delivery_id is None:
            cursor = await self._connection.execute(_LOAD_FOR_EVENT, named)
        else:
            cursor = await self._connection.execute(_LOAD_FOR_DELIVERY, named | {"delivery_id": delivery_id})
        row = await cursor.fetchone()
        if row is None:
            return None
        earlier = None if delivery_id is None else rows.delivery(row)
        return PostingView(rows.endpoint(row, self._cipher), earlier, row["now"])

    async def post_event(self, event: Event, delivery: Delivery) -> None:
        """Write an event and one delivery of it, regardless of subscriptions."""
        context = rows.event_context(event.account_id, event.id)
        payload = {
            "payload": self._cipher.seal(encode_event(event), context),
            "event_created_at": event.created_at,
        }
        await self._connection.execute(_POST_EVENT, _posting(delivery) | payload)

    async def post_again(self, delivery: Delivery) -> bool:
        """Write another delivery of an event that is written: of the same bytes."""
        cursor = await self._connection.execute(_POST_AGAIN, _posting(delivery))
        return cursor.rowcount == 1

    def _parameters(self, endpoint: Endpoint) -> rows.Row:
        context = rows.endpoint_context(endpoint.account_id, endpoint.id)
        return {
            "account_id": endpoint.account_id,
            "id": endpoint.id,
            "description": endpoint.description,
            "event_types": [kind.value for kind in endpoint.event_types],
            "state": endpoint.state.value,
            "is_active": endpoint.is_active,
            "consecutive_failures": endpoint.consecutive_failures,
            "disabled_at": endpoint.disabled_at,
            "secret": rows.seal_text(self._cipher, endpoint.secret, context),
        }


def _posting(delivery: Delivery) -> rows.Row:
    return {
        "account_id": delivery.account_id,
        "id": delivery.id,
        "endpoint_id": delivery.endpoint_id,
        "event_id": delivery.event_id,
        "event_kind": delivery.event_kind.value,
        "status": delivery.status.value,
        "due_at": delivery.next_attempt_at,
        "held_at": delivery.held_at,
        "created_at": delivery.created_at,
    }
