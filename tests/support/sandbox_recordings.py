"""Recorded meetings at the running service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from meetcore.composition.application import Application
from meetcore.domain.fields import as_json
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingFile, RecordingStatus
from meetcore.domain.records.notes import recording_record
from tests.support.api_harness import BASE_URL, Customer, until

__all__ = [
    "a_note",
    "a_recording",
    "hold_meeting",
    "keep_recording",
    "note_in",
    "press",
    "recording_of",
    "store_recording",
]


async def store_recording(
    customer: Customer, media_s: float = 90.0, status: MeetingStatus = MeetingStatus.ENDED
) -> dict[str, Any]:
    """Store a measured recording, without a file, of a meeting in this status."""
    meeting = await customer.make_meeting(with_recording=True)
    await customer.query("UPDATE meetings SET status = %s WHERE id = %s", status.value, meeting["id"])
    recording = await keep_recording(
        customer.harness.application,
        customer.account_id,
        UUID(meeting["id"]),
        meeting["provider_meeting_id"],
        media_s,
    )
    return dict(as_json(recording_record(recording, customer.harness.application.runtime.now())))


async def keep_recording(
    application: Application, account_id: UUID, meeting_id: UUID, provider_meeting_id: str, media_s: float
) -> Recording:
    """Store a measured recording of any meeting."""
    now = application.runtime.now()
    file = RecordingFile(
        "a1", FileKind.AUDIO, 1_000_000, now, now + timedelta(hours=1), "sandbox:a1", media_s
    )
    recording = Recording(
        application.runtime.new_id(now), account_id, meeting_id, "sandbox", provider_meeting_id,
        RecordingStatus.AVAILABLE, (file,), now, now, now + RETENTION,
    )  # fmt: skip
    async with application.ports.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.recordings.save(recording)
    return recording


async def press(customer: Customer, meeting: dict[str, Any], button: str) -> None:
    """Start or end a meeting on the join page."""
    page = urlsplit(meeting["join_url"])
    answer = await customer.http.post(f"{BASE_URL}{page.path}/{button}?{page.query}")
    assert answer.status_code == 303


async def hold_meeting(customer: Customer, **fields: Any) -> dict[str, Any]:
    """Create, start and end a recorded meeting."""
    meeting = await customer.make_meeting(**{"with_recording": True} | fields)
    await press(customer, meeting, "start")
    await press(customer, meeting, "end")
    return meeting


async def recording_of(customer: Customer, meeting: dict[str, Any]) -> dict[str, Any]:
    """Wait for the measured recording of a meeting."""

    async def look() -> list[dict[str, Any]]:
        answer = await customer.get(f"/recordings?meeting_id={meeting['id']}")
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    found: list[dict[str, Any]] = await until(look)
    return found[0]


async def a_recording(customer: Customer, **fields: Any) -> dict[str, Any]:
    """Hold a meeting and return its recording."""
    return await recording_of(customer, await hold_meeting(customer, **fields))


async def a_note(customer: Customer, **fields: Any) -> dict[str, Any]:
    """Hold a meeting, have its notes written, and return them."""
    recording = await a_recording(customer, **fields)
    made = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    return await note_in(customer, made["id"], "completed")


async def note_in(customer: Customer, note_id: str, *statuses: str) -> dict[str, Any]:
    """Wait until a note has one of the statuses."""

    async def look() -> dict[str, Any] | None:
        note: dict[str, Any] = (await customer.get(f"/notes/{note_id}")).json()
        return note if note["status"] in statuses else None

    found: dict[str, Any] = await until(look)
    return found
