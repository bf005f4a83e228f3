"""Every description of an operation, each made into a call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from meetcore.client.calls import Call
from meetcore.client.descriptors import listing, operation, procedure
from meetcore.client.event_operations import EventOperations
from meetcore.client.note_operations import NoteOperations, RecordingOperations
from meetcore.client.operations import (
    AccountOperations,
    CreditOperations,
    MeetingOperations,
    WebhookOperations,
)
from tests.client.samples import ID

ROOMS = (
    AccountOperations, CreditOperations, MeetingOperations, WebhookOperations, RecordingOperations,
    NoteOperations, EventOperations,
)  # fmt: skip
GIVEN: dict[str, Any] = {
    "meeting_id": ID, "webhook_id": ID, "delivery_id": ID, "recording_id": ID, "note_id": ID, "event_id": ID,
    "title": "Rapat", "date": "2026-12-01",
    "start_time": "09:00", "pricing_tier_id": "standard-100", "duration": 60, "url": "https://example.com",
    "event_types": ["meeting.created"], "since": "2026-11-21",
}  # fmt: skip


Described = operation[Any, Any] | listing[Any, Any] | procedure[Any, Any]


def described() -> Iterator[tuple[str, Described]]:
    """Each description by its name."""
    for room in ROOMS:
        for name, found in vars(room).items():
            if isinstance(found, operation | listing | procedure):
                yield f"{room.__name__.removesuffix('Operations').lower()}.{name}", found


def calls() -> dict[str, Call[Any]]:
    """The call of each operation with what it requires; of a list, the call of its first page."""
    return {name: _call(found) for name, found in described() if not isinstance(found, procedure)}


def arguments_of(name: str) -> dict[str, inspect.Parameter]:
    """What a caller may give to an operation by name."""
    found = dict(described())[name]
    parameters = inspect.signature(found._describe).parameters
    return {
        each: parameter for each, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY
    }


def _call(found: Any) -> Call[Any]:
    wanted = [
        parameter.name
        for parameter in inspect.signature(found._describe).parameters.values()
        if parameter.default is parameter.empty and parameter.name != "self"
    ]
    made = found._describe(None, **{name: GIVEN[name] for name in wanted})
    call: Call[Any] = made if isinstance(made, Call) else made.first
    return call
