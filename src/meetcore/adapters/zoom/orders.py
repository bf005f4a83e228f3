"""An order in Zoom's format, and the line by which it is found again.

Zoom has no search by an id of ours. So the end of a meeting's agenda names it, below its memo. A
customer's text stands before that and cannot take its place.
"""

import re
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.ports.video_provider import ProviderOrder

_MAX_AGENDA: Final = 2000
_REFERENCE: Final = re.compile(
    r"(?:(?:^|\s)Memo: (?P<memo>[\w-]+)\s*)?(?:^|\s)Ref: "
    r"(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*\Z",
    re.ASCII,
)


@frozen
class AgendaParts:
    """What an agenda of ours holds."""

    meeting_id: UUID
    memo: str
    description: str


def meeting_body(order: ProviderOrder) -> dict[str, object]:
    """What `POST /users/{user}/meetings` takes for this order.

    The licensed account has no user present: participants join without waiting for a host, and the customer
    becomes one inside, with the host's key.
    """
    body: dict[str, object] = {
        "topic": order.title,
        "type": 2,  # scheduled, once
        "start_time": _utc(order.start_at),
        "timezone": "Asia/Jakarta",
        "duration": order.duration,
        "agenda": _agenda(order),
        "settings": {
            "host_video": False,
            "participant_video": False,
            "join_before_host": True,
            # Minutes; Zoom takes 0 (any time), 5 and 10. Earlier the host is not reserved.
            "jbh_time": 10,
            "waiting_room": False,
            "mute_upon_entry": order.options.mic_off,
            "meeting_authentication": order.options.must_login,
            "approval_type": 2,  # without registration
            "audio": "both",
            "auto_recording": "cloud" if order.options.with_recording else "none",
            "email_notification": order.options.email_notification,
            "use_pmi": False,
        },
    }
    if order.password is not None:
        body["password"] = order.password
    return body


def reference_of(agenda: str) -> UUID | None:
    """Our id of the meeting that has this agenda; `None` when it is not one of ours."""
    parts = parts_of(agenda)
    return None if parts is None else parts.meeting_id


def parts_of(agenda: str) -> AgendaParts | None:
    """The parts of an agenda; `None` when it is not one of ours."""
    found = _REFERENCE.search(agenda)
    if found is None:
        return None
    return AgendaParts(UUID(found["id"]), found["memo"] or "", agenda[: found.start()].rstrip())


def _agenda(order: ProviderOrder) -> str:
    line = f"Ref: {order.meeting_id}"
    if order.memo:
        line = f"Memo: {order.memo}\n{line}"
    if not order.description:
        return line
    room = _MAX_AGENDA - len(line) - 2
    return f"{order.description[:room]}\n\n{line}"


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
