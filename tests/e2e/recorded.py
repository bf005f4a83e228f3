"""Meetings that Zoom has recorded: what lies there, and what Zoom tells of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

from attrs import field, frozen

from meetcore.adapters import sandbox
from meetcore.client import Meeting
from tests.e2e.customers import Customer
from tests.e2e.zoom_stack import ZoomStack, tell

__all__ = ["SOUND", "SOUND_S", "VTT", "Stretch", "record", "take_place"]

_PACKAGED = resources.files(sandbox).joinpath("recording")
SOUND = _PACKAGED.joinpath("meeting.m4a").read_bytes()
VTT = _PACKAGED.joinpath("meeting.vtt").read_bytes()
SOUND_S = 59.53
_PAUSE = timedelta(minutes=10)


@frozen
class Stretch:
    """A meeting between two pauses. `claimed` is how long Zoom says that it was, more than there is of it."""

    sound: bytes = field(default=SOUND, repr=False)
    vtt: bytes | None = field(default=None, repr=False)
    claimed: timedelta = timedelta(minutes=40)


def record(zoom: ZoomStack, url: str, number: str, *stretches: Stretch) -> list[str]:
    """Let Zoom have recorded a meeting, and tell so.

    Returns:
        The ids of the files of sound.
    """
    files: list[dict[str, Any]] = []
    begin = datetime.now(UTC) - sum((each.claimed + _PAUSE for each in stretches), timedelta())
    for place, stretch in enumerate(stretches):
        times = {"recording_start": _text(begin), "recording_end": _text(begin + stretch.claimed)}
        begin += stretch.claimed + _PAUSE
        told = {"M4A": stretch.sound, "TRANSCRIPT": stretch.vtt}
        for kind, content in told.items():
            if content is not None:
                id_ = f"{number}-{place}-{kind}"
                lies_at = {"download_url": zoom.fill(id_, content), "file_size": len(content)}
                files.append({"id": id_, "file_type": kind, "status": "completed"} | times | lies_at)
    zoom.record(number, files)
    tell(url, "recording.completed", number, files=files)
    return [each["id"] for each in files if each["file_type"] == "M4A"]


def take_place(zoom: ZoomStack, url: str, customer: Customer, *stretches: Stretch, **fields: Any) -> Meeting:
    """Make a meeting, let it start and end at Zoom, and be recorded."""
    meeting = customer.meet(**{"with_recording": True} | fields)
    number = str(meeting.provider_meeting_id)
    for step, kind in (("start", "meeting.started"), ("end", "meeting.ended")):
        assert zoom.step(number, step)
        tell(url, kind, number)
    record(zoom, url, number, *stretches)
    return meeting


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
