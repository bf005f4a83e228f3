"""The operations on events, each described once, for both clients. See `operations`."""

from datetime import date, datetime

from meetcore.client.calls import Call, Id, Listing, instant_text, page_query, path_of, read
from meetcore.client.descriptors import M, Resource, listing, operation
from meetcore.client.records import Event, Page

__all__ = ["EventOperations"]


class EventOperations(Resource[M]):
    """What happened, as webhooks were sent it; kept for 90 days."""

    @listing
    def list(
        self,
        *,
        type: str | None = None,
        from_: datetime | date | str | None = None,
        to: datetime | date | str | None = None,
        page_size: int | None = None,
    ) -> Listing[Event]:
        """List what happened, the newest first.

        Args:
            type: only events of a kind, such as `EventKind.NOTE_COMPLETED`.
            from_: only those made then or later; a day begins at 00:00 WIB.
            to: only those made before.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, type=type, **{"from": instant_text(from_), "to": instant_text(to)})
        return Listing(read("/events", Page[Event], query))

    @operation
    def get(self, event_id: Id) -> Call[Event]:
        """Read an event with its payload."""
        return read(path_of("events", event_id), Event)
