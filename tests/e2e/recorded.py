"""Meetings that Zoom has recorded: their files and Zoom's events about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

from attrs import field, frozen

from meetcore.adapters import sandbox
from meetcore.client import Meeting
from tests.e2e.customers import Customer
from tests.e2e.outbox import ask
from tests.e2e.zoom_stack import ZoomStack, send_event
from tests.support.program import Site

__all__ = ["SOUND", "SOUND_S", "VTT", "Stretch", "record", "take_place"]

_PACKAGED = resources.files(sandbox).joinpath("recording")
SOUND = _PACKAGED.joinpath("meeting.m4a").read_bytes()
VTT = _PACKAGED.joinpath("meeting.vtt").read_bytes()
SOUND_S = 59.53
_PAUSE = timedelta(minutes=10)


@frozen
class Stretch:
    """A recorded part of a meeting. `claimed` is the length that Zoom reports, longer than the file's."""

    sound: bytes = field(default=SOUND, repr=False)
    vtt: bytes | None = field(default=None, repr=False)
    claimed: timedelta = timedelta(minutes=40)


def record(zoom: ZoomStack, url: str, number: str, *stretches: Stretch) -> list[str]:
    """Add a recording at Zoom and send its event; return the ids of the audio files."""
    files: list[dict[str, Any]] = []
    uuid = zoom.uuid(number)
    begin = datetime.now(UTC) - sum((each.claimed + _PAUSE for each in stretches), timedelta())
    for place, stretch in enumerate(stretches):
        times = {"recording_start": _text(begin), "recording_end": _text(begin + stretch.claimed)}
        begin += stretch.claimed + _PAUSE
        contents = {"M4A": stretch.sound, "TRANSCRIPT": stretch.vtt}
        for kind, content in contents.items():
            if content is not None:
                id_ = f"{number}-{place}-{kind}"
                lies_at = {"download_url": zoom.fill(id_, content), "file_size": len(content)}
                about = {"id": id_, "meeting_id": uuid, "file_type": kind, "status": "completed"}
                files.append(about | times | lies_at)
    zoom.record(number, files)
    send_event(url, "recording.completed", number, files=files)
    return [each["id"] for each in files if each["file_type"] == "M4A"]


# Under the account's lock, and with another version of the account: a worker that waited for the lock reads
# the meeting again only then, and would else write the status that it had read before.
_OVER = """
WITH locked AS (
    UPDATE accounts SET version = version + 1
    WHERE id = (SELECT account_id FROM meetings WHERE id = %s) RETURNING id
), freed AS (
    DELETE FROM host_reservations r USING locked WHERE r.account_id = locked.id AND r.meeting_id = %s
)
UPDATE meetings m SET status = 'ended' FROM locked WHERE m.account_id = locked.id AND m.id = %s RETURNING m.id
"""


def take_place(
    site: Site, zoom: ZoomStack, url: str, customer: Customer, *stretches: Stretch, **fields: Any
) -> Meeting:
    """Create a meeting, hold a session of it at Zoom, let its time be over, and add its recording."""
    meeting = customer.create_meeting(**{"with_recording": True} | fields)
    number = str(meeting.provider_meeting_id)
    for step, kind in (("start", "meeting.started"), ("end", "meeting.ended")):
        assert zoom.step(number, step)
        send_event(url, kind, number, uuid=zoom.uuid(number))
    ask(site, _OVER, meeting.id, meeting.id, meeting.id)
    record(zoom, url, number, *stretches)
    return meeting


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
