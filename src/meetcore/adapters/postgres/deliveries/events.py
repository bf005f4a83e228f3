"""Reads of events, their payloads opened."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, readable, utc
from meetcore.adapters.postgres.deliveries.outbox import event_context
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.ids import first_id
from meetcore.domain.webhooks.events import EncodedEvent, EventKind
from meetcore.ports.queries import MAX_PAGE, EventFilter

# One event of an account.
_FIND_EVENT = """
SELECT e.account_id, e.id, e.kind, e.payload, e.created_at FROM events e
WHERE e.account_id = %(account_id)s AND e.id = %(id)s
"""


def _page_of_events(condition: str = "") -> str:
    # The inner limit is for the planner: of a parameter it would expect a tenth of the table, and sort that instead
    # of reading an index backwards. The lower bound stands outside for the same reason.
    return f"""
SELECT * FROM (
    SELECT * FROM (
        SELECT e.account_id, e.id, e.kind, e.payload, e.created_at FROM events e
        WHERE e.account_id = %(account_id)s AND e.id < %(before)s {condition}
        ORDER BY e.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s
) AS page WHERE page.id >= %(first)s ORDER BY page.id DESC
"""


# A page of an account's events, the newest first.
_LIST_EVENTS = _page_of_events()

# The same of one kind.
_LIST_OF_KIND = _page_of_events("AND e.kind = %(kind)s")


class EventReads(Reads):
    """Reads of events."""

    async def find_event(self, account_id: UUID, event_id: UUID) -> EncodedEvent | None:
        row = await self._one(_FIND_EVENT, {"account_id": account_id, "id": event_id})
        return None if row is None else self._event(row)

    async def list_events(
        self, account_id: UUID, wanted: EventFilter, limit: int, before: UUID | None
    ) -> Sequence[EncodedEvent]:
        end = NEWEST if wanted.made_before is None else first_id(wanted.made_before)
        page: Row = {
            "account_id": account_id,
            "limit": limit,
            "before": min(before or NEWEST, end),
            "first": first_id(wanted.made_from),
        }
        if wanted.kind is None:
            found = await self._all(_LIST_EVENTS, page)
        else:
            found = await self._all(_LIST_OF_KIND, page | {"kind": wanted.kind.value})
        return [self._event(row) for row in found]

    def _event(self, row: Row) -> EncodedEvent:
        payload = readable(self._cipher, row["payload"], event_context(row["account_id"], row["id"]))
        encoded = None if payload is None else payload.encode()
        return EncodedEvent(row["id"], EventKind(row["kind"]), utc(row["created_at"]), encoded)
