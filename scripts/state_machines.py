"""The diagrams of docs/state-machines.md, drawn from the tables of the domain."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from meetcore.domain.mails import mails
from meetcore.domain.meetings import meetings
from meetcore.domain.notes import notes, recordings
from meetcore.domain.payments import payments
from meetcore.domain.requests import idempotency
from meetcore.domain.webhooks import deliveries, endpoints

PAGE = Path(__file__).resolve().parent.parent / "docs" / "state-machines.md"
Table = Mapping[tuple[Any, Any], Any]

MACHINES: Mapping[str, tuple[Table, Any]] = {
    "meeting": (meetings.TRANSITIONS, meetings.MeetingStatus.PROVISIONING),
    "recording": (recordings.TRANSITIONS, recordings.RecordingStatus.MEASURING),
    "note": (notes.TRANSITIONS, notes.NoteStatus.QUEUED),
    "endpoint": (endpoints.TRANSITIONS, endpoints.EndpointState.ACTIVE),
    "delivery": (deliveries.TRANSITIONS, deliveries.DeliveryStatus.PENDING),
    "mail": (mails.TRANSITIONS, mails.MailStatus.PENDING),
    "payment": (payments.TRANSITIONS, payments.PaymentStatus.PENDING),
    "key": (idempotency.TRANSITIONS, idempotency.IdempotencyState.UNKNOWN),
}
"""Each table with the state in which it begins."""


def drawings() -> Mapping[str, str]:
    """Every generated part of the page, by the name of its markers.

    Raises:
        SystemExit: the page describes an event nowhere.
    """
    text = PAGE.read_text("utf-8")
    for name, (table, _) in MACHINES.items():
        described = text.partition(f"<!-- end of machine-{name} -->")[2].partition("<!-- generated")[0]
        if lacking := [event.value for event in _events(table) if f"\n| {event.value} | " not in described]:
            raise SystemExit(f"docs/{PAGE.name} says nothing of these events: {name} {', '.join(lacking)}")
    parts = {f"machine-{name}": _drawing(*machine) for name, machine in MACHINES.items()}
    return parts | {"key decisions": _decisions()}


def _drawing(table: Table, starts: Enum) -> str:
    """A table as a Mermaid diagram, in which events with the same way share an arrow."""
    arrows: dict[tuple[Any, Any], list[str]] = {}
    for (state, event), target in table.items():
        arrows.setdefault((state, target), []).append(event.value)
    states, left = list(type(starts)), {state for state, _ in table}
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {starts.value}"]
    lines += [
        f"    {state.value} --> {target.value}: {', '.join(sorted(events))}"
        for (state, target), events in arrows.items()
    ]
    lines += [f"    {state.value} --> [*]" for state in states if state not in left]
    return "\n".join([*lines, "```", ""])


def _events(table: Table) -> list[Any]:
    return [*type(next(iter(table))[1])]


def _decisions() -> str:
    """What a request with a known key gets, by the key's state and whether its fingerprint is the same."""
    rows = [
        [state.value, *(idempotency.DECISIONS[state, is_same].value for is_same in (True, False))]
        for state in idempotency.IdempotencyState
    ]
    return _grid(["state", "same request", "another request"], rows)


def _grid(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
