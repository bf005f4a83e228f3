"""Webhook endpoints of an account: registered, changed, removed, and posted to by hand."""

from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.deliveries.outbox import event_context
from meetcore.adapters.postgres.deliveries.rows import DELIVERY, HOLD, PENDING
from meetcore.adapters.postgres.endpoints.rows import ENDPOINT
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, encode_event
from meetcore.ports.store import PostingView

# The endpoint registered under a normalised URL.
_FIND_BY_URL = f"""
SELECT {ENDPOINT.select} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.url_key = %(url_key)s
"""

# How many endpoints an account has.
_COUNT = "SELECT count(*) AS endpoints FROM webhook_endpoints WHERE account_id = %(account_id)s"

# Registers an endpoint. The unique key on the URL is the last word on "once per account". The rows of its host are
# locked where they are there, so that they do not go meanwhile.
_ADD = f"""
WITH host AS (
    INSERT INTO webhook_hosts (host) VALUES (%(host)s)
    ON CONFLICT (host) DO UPDATE SET claimed_at = webhook_hosts.claimed_at
), account_host AS (
    INSERT INTO webhook_account_hosts (account_id, host) VALUES (%(account_id)s, %(host)s)
    ON CONFLICT (account_id, host) DO UPDATE SET consecutive_failures = webhook_account_hosts.consecutive_failures
)
INSERT INTO webhook_endpoints ({ENDPOINT.names})
VALUES ({ENDPOINT.values})
"""

# An endpoint, locked against deliveries that record their outcome.
_LOAD = f"""
SELECT {ENDPOINT.select} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE
"""

# Writes an endpoint. What waits at one that is inactive now is held, the throttled too; a post in flight keeps its
# claim, is judged when it ends and still counts as in flight if the endpoint is active again by then. A secret that
# does not open stays as it is until it is rotated, the previous one until its end.
_SAVE = f"""
WITH endpoint AS (
    UPDATE webhook_endpoints SET description = %(endpoint_description)s, event_types = %(endpoint_event_types)s,
        state = %(endpoint_state)s, consecutive_failures = %(endpoint_consecutive_failures)s,
        disabled_at = %(endpoint_disabled_at)s, secret = COALESCE(%(endpoint_secret)s, secret),
        previous_secret = CASE WHEN %(endpoint_previous_secret_until)s::timestamptz IS NOT NULL
            THEN COALESCE(%(endpoint_previous_secret)s, previous_secret) END,
        previous_secret_until = %(endpoint_previous_secret_until)s
    WHERE account_id = %(account_id)s AND id = %(endpoint_id)s
)
UPDATE deliveries
SET {HOLD}
WHERE account_id = %(account_id)s AND endpoint_id = %(endpoint_id)s AND status = '{PENDING}' AND NOT %(is_active)s
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
SELECT {ENDPOINT.select}, clock_timestamp() AS now FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE
"""

# The same with the delivery that is to be sent again. Only the endpoint is locked: what is read of the
# delivery never changes.
_LOAD_FOR_DELIVERY = f"""
SELECT {ENDPOINT.select}, {DELIVERY.select}, clock_timestamp() AS now
FROM webhook_endpoints w JOIN deliveries d ON d.account_id = w.account_id AND d.endpoint_id = w.id
WHERE w.account_id = %(account_id)s AND w.id = %(id)s AND d.id = %(delivery_id)s
FOR NO KEY UPDATE OF w
"""

# Writes an event for one endpoint only, and its delivery.
_POST_EVENT = f"""
WITH event AS (
    INSERT INTO events (account_id, id, kind, payload, created_at, cause)
    VALUES (%(account_id)s, %(delivery_event_id)s, %(delivery_event_kind)s, %(payload)s, %(event_created_at)s, %(cause)s)
)
INSERT INTO deliveries ({DELIVERY.names})
VALUES ({DELIVERY.values})
"""

# Writes another delivery of an event, if the event is still there: locked, so that it is not purged
# before the delivery can be seen.
_POST_AGAIN = f"""
INSERT INTO deliveries ({DELIVERY.names})
SELECT {DELIVERY.values}
FROM events e WHERE e.account_id = %(account_id)s AND e.id = %(delivery_event_id)s FOR KEY SHARE
"""


class PostgresEndpointRepository(Repository):
    """Webhook endpoints."""

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None:
        return self._endpoint(await self._one(_FIND_BY_URL, {"account_id": account_id, "url_key": url_key}))

    async def count(self, account_id: UUID) -> int:
        row = await self._one(_COUNT, {"account_id": account_id})
        return 0 if row is None else int(row["endpoints"])

    async def add(self, endpoint: Endpoint) -> None:
        parameters = ENDPOINT.parameters(endpoint, self._cipher) | {"host": endpoint.host}
        await self._connection.execute(_ADD, parameters)

    async def load_locked(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        return self._endpoint(await self._one(_LOAD, {"account_id": account_id, "id": endpoint_id}))

    async def save(self, endpoint: Endpoint) -> None:
        parameters = ENDPOINT.parameters(endpoint, self._cipher) | {"is_active": endpoint.is_active}
        await self._connection.execute(_SAVE, parameters)

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        named = {"account_id": account_id, "id": endpoint_id}
        row = await self._one(_LOCK_ENDPOINT, named)
        if row is None:
            return False
        await self._connection.execute(_REMOVE, named)
        await self._connection.execute(_LOCK_HOST, row)
        await self._connection.execute(_DELETE_HOST, named | row)
        return True

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        named: Row = {"account_id": account_id, "id": endpoint_id, "delivery_id": delivery_id}
        row = await self._one(_LOAD_FOR_EVENT if delivery_id is None else _LOAD_FOR_DELIVERY, named)
        if row is None:
            return None
        earlier = None if delivery_id is None else DELIVERY.read(row)
        return PostingView(ENDPOINT.read(row, self._cipher), earlier, utc(row["now"]))

    async def post_event(self, event: Event, delivery: Delivery) -> None:
        payload = self._cipher.seal(encode_event(event), event_context(event.account_id, event.id))
        of_event = {"payload": payload, "event_created_at": event.created_at, "cause": event.cause}
        await self._connection.execute(_POST_EVENT, DELIVERY.parameters(delivery) | of_event)

    async def post_again(self, delivery: Delivery) -> bool:
        return await self._changed(_POST_AGAIN, DELIVERY.parameters(delivery))

    def _endpoint(self, row: Row | None) -> Endpoint | None:
        return None if row is None else ENDPOINT.read(row, self._cipher)
