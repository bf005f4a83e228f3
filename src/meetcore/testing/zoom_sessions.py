"""Meetings of the Zoom stand-in, their sessions, and the signed webhooks about them.

A number is held in any number of sessions, each with a uuid of its own: Zoom ends one when the last person
leaves, and the next one to join begins another. Zoom calls them instances.
"""

import base64
import hashlib
import hmac
import json
from collections import Counter
from datetime import date, datetime
from typing import Any, Final

from attrs import Factory, define, field, frozen

WEBHOOKS: Final = (
    "meeting.started", "meeting.ended", "recording.completed", "recording.transcript_completed",
)  # fmt: skip
"""The webhooks that the stand-in signs, by Zoom's names."""
ACCOUNT_ID: Final = "stand-in"


def _settings() -> dict[str, Any]:
    return {
        "recording": {
            "cloud_recording": True, "recording_audio_transcript": True, "auto_delete_cmr": False,
            "auto_delete_cmr_days": 30,
        },
        "schedule_meeting": {"join_before_host": True},
    }  # fmt: skip


@define
class StandInUser:
    """A user by the name that callers use: an id or an address. Type 1 has no licence, type 2 has one."""

    name: str
    id: str
    type: int = 2
    exists: bool = True
    host_key: str = field(default="482913", repr=False)
    creations: Counter[date] = field(factory=Counter)
    settings: dict[str, Any] = field(factory=_settings, repr=False)


@define
class StandInSession:
    """One session of a meeting. `status` is waiting, started or ended."""

    uuid: str
    status: str = "waiting"
    started_at: datetime | None = None
    ended_at: datetime | None = None
    recording_files: list[dict[str, Any]] = field(factory=list, repr=False)
    participant_audio_files: list[dict[str, Any]] = field(factory=list, repr=False)


@define
class StandInMeeting:
    """A meeting with its sessions, of which the first waits for a participant."""

    number: int
    user: StandInUser
    fields: dict[str, Any] = field(repr=False)
    created_at: datetime
    is_deleted: bool = False
    sessions: list[StandInSession] = field(
        default=Factory(lambda self: [StandInSession(uuid_of(self.number, 0))], takes_self=True)
    )

    @property
    def latest(self) -> StandInSession:
        """The session that Zoom means by the number."""
        return self.sessions[-1]

    @property
    def uuid(self) -> str:
        """The uuid of the latest session."""
        return self.latest.uuid

    @property
    def status(self) -> str:
        """Waiting, started, ended or deleted; to set it changes the latest session."""
        return "deleted" if self.is_deleted else self.latest.status

    @status.setter
    def status(self, status: str) -> None:
        self.is_deleted = status == "deleted"
        if not self.is_deleted:
            self.latest.status = status

    @property
    def recording_files(self) -> list[dict[str, Any]]:
        """The files of the latest session."""
        return self.latest.recording_files

    @recording_files.setter
    def recording_files(self, files: list[dict[str, Any]]) -> None:
        self.latest.recording_files = files

    def open_session(self, now: datetime) -> StandInSession:
        """Let a participant join: return the session that runs, which is a new one where none did."""
        if self.latest.status == "ended":
            self.sessions.append(StandInSession(uuid_of(self.number, len(self.sessions))))
        if self.latest.status == "waiting":
            self.latest.status, self.latest.started_at = "started", now
        return self.latest

    def close_session(self, session: StandInSession, now: datetime) -> None:
        """Let the last one leave a session; nothing happens to one that does not run."""
        if session.status == "started":
            session.status, session.ended_at = "ended", now


def uuid_of(number: int, session: int) -> str:
    """Make a uuid as Zoom writes it. Callers must encode the half with a slash first, or two, twice."""
    text = base64.b64encode(hashlib.sha256(f"{number} {session}".encode()).digest()[:16]).decode()
    text = text.replace("/", "+")
    match (number + session) % 4:
        case 0:
            return f"/{text[1:9]}//{text[11:]}"
        case 1:
            return f"{text[:9]}/{text[10:]}"
        case 2:
            return f"/{text[1:]}"
        case _:
            return text


@frozen
class SignedWebhook:
    """A request of Zoom to a service, `headers` in lower case."""

    headers: dict[str, str]
    body: bytes = field(repr=False)


def signed_webhook(body: object, secret: str, at: datetime) -> SignedWebhook:
    """Sign a body as Zoom does, at an instant."""
    raw, timestamp = json.dumps(body).encode(), str(int(at.timestamp()))
    mac = hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + raw, hashlib.sha256).hexdigest()
    headers = {
        "content-type": "application/json; charset=utf-8",
        "x-zm-request-timestamp": timestamp,
        "x-zm-signature": f"v0={mac}",
    }
    return SignedWebhook(headers, raw)


def webhook_body(
    name: str, meeting: StandInMeeting, session: StandInSession, happened_at: datetime
) -> dict[str, Any]:
    """Make the body of one of `WEBHOOKS` about a session that has begun."""
    if name not in WEBHOOKS:
        raise ValueError(f"{name} is none of {', '.join(WEBHOOKS)}")
    about: dict[str, Any] = {
        "uuid": session.uuid, "host_id": meeting.user.id, "host_email": meeting.user.name,
        "topic": meeting.fields["topic"], "type": 2, "timezone": meeting.fields.get("timezone", "UTC"),
        "start_time": instant(session.started_at or happened_at), "duration": meeting.fields["duration"],
    }  # fmt: skip
    event = {"event": name, "event_ts": int(happened_at.timestamp() * 1000)}
    if name.startswith("meeting."):  # where the number is a text, and a number in those of recordings
        about |= {"id": str(meeting.number)}
        about |= {"end_time": instant(session.ended_at or happened_at)} if name == "meeting.ended" else {}
        return event | {"payload": {"account_id": ACCOUNT_ID, "object": about}}
    has_text = name == "recording.transcript_completed"
    files = [one for one in session.recording_files if (one["file_type"] == "TRANSCRIPT") is has_text]
    about |= recording_body(meeting, session, files)
    event |= {"payload": {"account_id": ACCOUNT_ID, "object": about}}
    return event | {"download_token": "eyJFAKE24H.FAKE.FAKE"}


def recording_body(
    meeting: StandInMeeting, session: StandInSession, files: list[dict[str, Any]]
) -> dict[str, Any]:
    """Make what responses and webhooks show of a session's recording; its times are those of the session."""
    began_at, ended_at = session.started_at, session.ended_at or session.started_at
    return {
        "uuid": session.uuid, "id": meeting.number, "account_id": ACCOUNT_ID, "host_id": meeting.user.id,
        "topic": meeting.fields["topic"], "timezone": meeting.fields.get("timezone", "UTC"),
        "start_time": instant(began_at) if began_at else meeting.fields["start_time"],
        "duration": int((ended_at - began_at).total_seconds() // 60) if began_at and ended_at else 0,
        "total_size": sum(one.get("file_size", 0) for one in files), "recording_count": len(files),
        "share_url": "https://zoom.stand-in.example/rec/share/FAKE", "recording_files": files,
    }  # fmt: skip


def instant(at: datetime) -> str:
    """Write an instant as Zoom does: whole seconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
