"""Reads of deliveries with their attempts."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.rows import ATTEMPT, DELIVERY
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.ports.queries import MAX_PAGE, DeliveryHistory

# The attempts at each delivery of a page. Sorted inside, which keeps the planner from joining whole
# tables: it looks them up for one delivery after another, however many it expects on the page.
_ATTEMPTS = f"""
    LEFT JOIN LATERAL (
        SELECT a.number, {ATTEMPT.select}
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
            SELECT {DELIVERY.select} FROM deliveries d
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
        SELECT {DELIVERY.select} FROM deliveries d
        WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id = %(id)s
    ) d{_ATTEMPTS}
WHERE w.account_id = %(account_id)s AND w.id = %(endpoint_id)s
ORDER BY a.number
"""


class DeliveryReads(Reads):
    """Reads of deliveries, each with its attempts."""

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        page: Row = {
            "account_id": account_id,
            "endpoint_id": endpoint_id,
            "limit": limit,
            "before": before or NEWEST,
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
        named = {"account_id": account_id, "endpoint_id": endpoint_id, "id": delivery_id}
        histories = _histories(await self._all(_FIND_DELIVERY, named))
        return histories[0] if histories else None


def _histories(found: Sequence[Row]) -> list[DeliveryHistory]:
    """Rows of at most one attempt each, gathered by their deliveries in the order of the rows."""
    gathered: dict[UUID, list[Row]] = {}
    for row in found:
        if row["delivery_id"] is not None:
            gathered.setdefault(row["delivery_id"], []).append(row)
    return [
        DeliveryHistory(
            DELIVERY.read(of_one[0]), tuple(ATTEMPT.read(row) for row in of_one if row["number"] is not None)
        )
        for of_one in gathered.values()
    ]
