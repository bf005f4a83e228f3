"""The pages of lists, for the OpenAPI document and the tools; what they list is in `domain.records`."""

from typing import Annotated, Any

import attrs

from meetcore.domain.field_info import FieldInfo
from meetcore.domain.records import credits, meetings, notes, webhooks

_Cursor: Any = Annotated[
    str | None, FieldInfo("What to give as `cursor` for the next page; null on the last.")
]


def _list_of(record: type, about: str) -> type:
    fields = {
        "data": attrs.field(type=tuple[record, ...]),  # type: ignore[valid-type]
        "next_cursor": attrs.field(type=_Cursor),
    }
    return attrs.make_class(f"{record.__name__}List", fields, class_body={"__doc__": about}, frozen=True)


MeetingList = _list_of(meetings.Meeting, "The account's meetings, the newest first.")
TransactionList = _list_of(credits.Transaction, "The account's transactions, the newest first.")
WebhookList = _list_of(webhooks.Webhook, "The account's webhooks, the newest first.")
DeliveryList = _list_of(webhooks.Delivery, "The deliveries to a webhook, the newest first.")
EventList = _list_of(webhooks.Event, "What happened in the account, the newest first.")
TierList = _list_of(credits.Tier, "The tiers on sale.")
RecordingList = _list_of(notes.Recording, "The account's recordings, the newest first.")
NoteList = _list_of(notes.Note, "The account's notes, the newest first.")
