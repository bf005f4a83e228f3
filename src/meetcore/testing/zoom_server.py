"""A stand-in for Zoom: its API for meetings and recordings over HTTP on loopback, with faults on demand.

In a test::

    async with zoom_stand_in() as zoom:
        known = zoom.credentials
        access = ZoomAccess(
            known.account_id, known.client_id, known.client_secret, zoom.api_url, zoom.oauth_url
        )
        provider = ZoomProvider(access, log, now=clock.now)
        zoom.faults.plan(Fault("drop", "create", is_done=True))

As a process, `python -m meetcore.testing.zoom_server --port 8700` prints one line when it is ready. These
paths need no token::

    GET /stand-in/meetings[?all=1]                    the meetings; with `all` the deleted ones too
    POST /stand-in/meetings/{id}/start, /end          begins a session, or ends the one that runs
    GET, PUT /stand-in/meetings/{id}/recordings       `recording_files` of the latest session, as a JSON list
    PUT /stand-in/files/{id}                          the bytes of a file at `{url}/rec/download/{id}`
    GET /stand-in/counts                              meetings made and to come, calls of each kind
    GET /stand-in/users                               every user that was named, with its host key
    PUT /stand-in/users/{name}                        `type` (1: no licence, 2: one), `exists`, `settings`
    GET, POST, DELETE /stand-in/faults                lists, plans (one or a list), drops faults
    PUT /stand-in/terms                               the fields of `Terms`
    POST /stand-in/tokens/expire                      refuses every token that was issued
"""

import argparse
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from attrs import asdict

from meetcore.testing.stand_in import Reply, Request, Switch, as_json, run_stand_in, serving, utc_now
from meetcore.testing.zoom_account import Refused, Terms, ZoomAccount
from meetcore.testing.zoom_api import Credentials, Fault, ZoomApi
from meetcore.testing.zoom_sessions import (
    SignedWebhook,
    StandInMeeting,
    StandInUser,
    instant,
    signed_webhook,
    webhook_body,
)

__all__ = ["Credentials", "Fault", "Terms", "ZoomStandIn", "zoom_stand_in"]

_TYPES: Final = {
    "MP4": "shared_screen_with_speaker_view", "M4A": "audio_only", "TRANSCRIPT": "audio_transcript",
    "CHAT": "chat_file", "TIMELINE": "timeline",
}  # fmt: skip
_EXTENSIONS: Final = {"TRANSCRIPT": "VTT", "CHAT": "TXT", "TIMELINE": "JSON"}  # else the type


class ZoomStandIn(ZoomApi):
    """A running stand-in."""

    @property
    def api_url(self) -> str:
        """The equivalent of `https://api.zoom.us/v2`."""
        return f"{self.url}/v2"

    @property
    def oauth_url(self) -> str:
        """The equivalent of `https://zoom.us/oauth/token`."""
        return f"{self.url}/oauth/token"

    @property
    def terms(self) -> Terms:
        """The settings."""
        return self.account.terms

    @property
    def meetings(self) -> list[StandInMeeting]:
        """The meetings that exist, oldest first."""
        self.account.land()
        return [each for each in self.account.meetings.values() if each.status != "deleted"]

    def open_session(self, number: str | int) -> str:
        """Let a participant join a meeting; return the uuid of the session that runs, new where none did."""
        self.account.land()
        return self.account.open_session(number)

    def close_session(self, uuid: str) -> None:
        """Let the last one leave a session, as Zoom ends one."""
        self.account.close_session(uuid)

    def webhook(self, name: str, uuid: str, secret: str, at: datetime | None = None) -> SignedWebhook:
        """Make the signed webhook of this name about a session: at this instant, else now.

        `recording.completed` has the media that the session has, `recording.transcript_completed` its texts.
        """
        at = at or self.account.now()
        return signed_webhook(webhook_body(name, *self.account.session(uuid), at), secret, at)

    def record(
        self,
        meeting: StandInMeeting,
        file_id: str,
        file_type: str,
        content: bytes,
        start: datetime,
        end: datetime,
        *,
        uuid: str = "",
        recording_type: str = "",
    ) -> None:
        """Add a file to a session's recording, the latest's unless `uuid` names one.

        `file_type` is Zoom's: MP4, M4A, TRANSCRIPT; so is `recording_type`.
        """
        self.account.contents[file_id] = content
        session = self.account.session(uuid)[1] if uuid else meeting.latest
        session.recording_files.append({
            "id": file_id, "meeting_id": session.uuid, "file_type": file_type, "file_size": len(content),
            "file_extension": _EXTENSIONS.get(file_type, file_type),
            "recording_start": instant(start), "recording_end": instant(end), "status": "completed",
            "recording_type": recording_type or _TYPES.get(file_type, ""),
            "download_url": f"{self.url}/rec/download/{file_id}",
            "play_url": f"{self.url}/rec/play/{file_id}",
        })  # fmt: skip

    async def handle(self, request: Request) -> Reply | None:
        """Respond to a request of a client, or of a test."""
        self.account.land()
        try:
            return await super().handle(request)
        except Refused as refused:
            return as_json({"error": refused.name}, 404)

    def switch(self, request: Request) -> Switch | None:
        """Return the action of a path of the table above."""
        account = self.account
        match request.method, *request.segments[1:]:
            case "GET", "meetings":
                found = account.meetings.values() if request.query.get("all") else self.meetings
                return lambda: [_shown(each) for each in found]
            case "POST", "meetings", number, ("start" | "end") as step:
                return lambda: self._step(number, step)
            case "GET", "meetings", number, "recordings":
                return lambda: account.meeting(number).recording_files
            case "PUT", "meetings", number, "recordings":
                return lambda: self._record(number, json.loads(request.body))
            case "PUT", "files", file_id:
                return lambda: account.contents.update({file_id: request.body})
            case "GET", "counts":
                made = {"created": account.created, "unborn": account.unborn}
                calls = {"calls": dict(self.counts), "most_in_flight": self.most_in_flight}
                return lambda: made | calls
            case "GET", "users":
                return lambda: [_shown_user(each) for each in account.users.values()]
            case "PUT", "users", name:
                return lambda: self._change_user(name, request.json)
            case "PUT", "terms":
                return lambda: self._change_terms(request.json)
            case "POST", "tokens", "expire":
                return self.expire_tokens
            case _:
                return None

    def _step(self, number: str, step: str) -> object:
        if step == "start":
            self.account.open_session(number)
        else:
            self.account.close_session(self.account.meeting(number).uuid)
        return _shown(self.account.meeting(number))

    def _record(self, number: str, files: list[dict[str, Any]]) -> object:
        self.account.meeting(number).recording_files = files
        return len(files)

    def _change_user(self, name: str, settings: dict[str, Any]) -> object:
        user = self.account.known(name)
        user.type = int(settings.get("type", user.type))
        user.exists = bool(settings.get("exists", user.exists))
        user.settings = settings.get("settings", user.settings)
        return _shown_user(user)

    def _change_terms(self, settings: dict[str, Any]) -> object:
        for name, value in settings.items():
            setattr(self.terms, name, value)
        return asdict(self.terms)


def _shown(meeting: StandInMeeting) -> dict[str, object]:
    fields = meeting.fields
    return {
        "id": str(meeting.number), "uuid": meeting.uuid, "host": meeting.user.name, "topic": fields["topic"],
        "start_time": fields["start_time"], "duration": fields["duration"],
        "agenda": fields.get("agenda", ""), "status": meeting.status,
    }  # fmt: skip


def _shown_user(user: StandInUser) -> dict[str, object]:
    creations = {day.isoformat(): count for day, count in user.creations.items()}
    about = {"name": user.name, "type": user.type, "exists": user.exists, "host_key": user.host_key}
    return {**about, "creations": creations}


@asynccontextmanager
async def zoom_stand_in(
    terms: Terms | None = None,
    credentials: Credentials | None = None,
    port: int = 0,
    now: Callable[[], datetime] = utc_now,
) -> AsyncIterator[ZoomStandIn]:
    """Run a stand-in on loopback, on a free port for 0; `now` is the clock of limits and late meetings."""
    zoom = ZoomStandIn(ZoomAccount(terms or Terms(), now), credentials or Credentials())
    async with serving(zoom.handle, port) as taken, serving(zoom.answer) as files:
        zoom.url, zoom.files_url = f"http://127.0.0.1:{taken}", f"http://127.0.0.1:{files}"
        yield zoom


def main() -> None:
    """Run it as a process."""
    parser = argparse.ArgumentParser(prog="python -m meetcore.testing.zoom_server", description=__doc__)
    known, terms = Credentials(), Terms()
    for name, kind, default in (
        ("--port", int, 0), ("--latency-s", float, terms.latency_s), ("--per-second", int, terms.per_second),
        ("--creations-per-user-day", int, terms.creations_per_user_day),
        ("--account-id", str, known.account_id), ("--client-id", str, known.client_id),
        ("--client-secret", str, known.client_secret),
    ):  # fmt: skip
        parser.add_argument(name, type=kind, default=default)
    options = parser.parse_args()
    terms = Terms(options.latency_s, options.per_second, options.creations_per_user_day)
    known = Credentials(options.account_id, options.client_id, options.client_secret)
    run_stand_in(
        zoom_stand_in(terms, known, options.port),
        lambda zoom: {
            "api_url": zoom.api_url, "oauth_url": zoom.oauth_url, "admin_url": f"{zoom.url}/stand-in",
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
