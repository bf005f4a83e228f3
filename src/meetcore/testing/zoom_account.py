"""The account of the Zoom stand-in: users, meetings, Zoom's rules for them, and its error responses."""

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from attrs import define, frozen

from meetcore.testing.stand_in import Reply, as_json, utc_now
from meetcore.testing.zoom_sessions import StandInMeeting, StandInSession, StandInUser


@frozen
class _RefusalText:
    status: int
    code: int
    message: str


REFUSALS: Final[Mapping[str, _RefusalText]] = {
    name: _RefusalText(status, code, message)
    for name, status, code, message in (
        ("validation", 400, 300, "Validation Failed."),
        ("user_not_found", 404, 1001, "User does not exist: {about}."),
        ("not_licensed_to_schedule", 400, 3161,
         "Meeting hosting and scheduling capabilities are not allowed for your user account."),
        ("token_expired", 401, 124, "Access token is expired."),
        ("token_invalid", 401, 124, "Invalid access token."),
        ("missing_scope", 400, 4711,
         "Invalid access token, does not contain scopes:[{about}]."),
        ("meeting_not_found", 404, 3001, "Meeting does not exist: {about}."),
        ("delete_in_progress", 400, 3002, "Sorry, you cannot delete this meeting since it is in progress."),
        ("delete_ended", 400, 3007, "Sorry, you cannot delete this meeting since it has ended."),
        ("no_recording", 404, 3301, "There is no recording for this meeting."),
        # Not documented for a meeting that does not run; this is the code of any wrong request.
        ("not_running", 400, 300, "This meeting is not in progress."),
        ("rate_qps", 429, 429,
         "You have reached the maximum per-second rate limit for this API. Try again later."),
        ("rate_daily_account", 429, 429,
         "You have reached the maximum daily rate limit for this API. Refer to the response header for "
         "details on when you can make another request."),
        ("rate_daily_user", 429, 429,
         "You have exceeded the daily rate limit (100) of Meeting Create/Update API requests permitted for "
         "this particular user. You may resume these requests at GMT 00:00:00."),
    )
}  # fmt: skip
"""Zoom's error responses by name, as its documents show them."""


class Refused(Exception):
    """The account refuses: one of `REFUSALS`, about a user, a meeting or a field."""

    def __init__(self, name: str, about: str = "") -> None:
        super().__init__(name)
        self.name, self.about = name, about


def refusal(name: str, about: str = "") -> Reply:
    """Make the response of one of `REFUSALS`."""
    text = REFUSALS[name]
    body: dict[str, object] = {"code": text.code, "message": text.message.replace("{about}", about)}
    if name == "validation":
        body["errors"] = [{"field": about or "start_time", "message": "Invalid field."}]
    return as_json(body, text.status, _rate_headers(name))


def _rate_headers(name: str) -> dict[str, str]:
    now = datetime.now(UTC)
    if name == "rate_qps":
        kind, limit, more = ("Medium", "QPS"), "20", {"X-RateLimit-Reset": str(int(now.timestamp()) + 1)}
    elif name == "rate_daily_account":
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        kind, limit = ("Heavy", "Daily-limit"), "30000"
        more = {"Retry-After": midnight.strftime("%Y-%m-%dT%H:%M:%SZ")}
    else:
        return {}
    rate = {"Category": kind[0], "Type": kind[1], "Limit": limit, "Remaining": "0"}
    return {f"X-RateLimit-{name}": value for name, value in rate.items()} | more


_PASSWORD: Final = re.compile(r"[A-Za-z0-9@\-_*]{0,10}")
_HOST_KEY: Final = re.compile(r"[0-9]{6,10}")


SCOPES: Final[Mapping[str, str]] = {
    "create": "meeting:write:meeting:admin",
    "list": "meeting:read:list_meetings:admin",
    "get": "meeting:read:meeting:admin",
    "delete": "meeting:delete:meeting:admin",
    "status": "meeting:update:status:admin",
    "instances": "meeting:read:list_past_instances:admin",
    "recordings": "cloud_recording:read:list_recording_files:admin",
    "delete_file": "cloud_recording:delete:recording_file:admin",
    "delete_files": "cloud_recording:delete:meeting_recording:admin",
    "host_key": "user:update:user:admin",
    "user": "user:read:user:admin",
    "settings": "user:read:settings:admin",
}
"""The scope that each call needs."""


@define
class Terms:
    """The settings that may change while the stand-in runs."""

    latency_s: float = 0.0  # of a call; half of it passes before the work
    per_second: int | None = None  # the limit of calls
    creations_per_user_day: int = 100  # between midnights in UTC
    token_lifetime_s: float = 3600
    max_page_size: int = 300
    has_ranges: bool = True  # whether the file server sends parts of files
    clock_ahead_s: float = 0.0  # of the given clock
    scopes: str = " ".join(SCOPES.values())  # of the application


class ZoomAccount:
    """Users and meetings. Every name is a licensed user until `known(name)` is changed."""

    def __init__(self, terms: Terms, now: Callable[[], datetime] = utc_now) -> None:
        self.terms = terms
        self._now = now
        self._late: list[tuple[datetime, StandInMeeting]] = []
        self._latest: StandInMeeting | None = None
        self.users: dict[str, StandInUser] = {}
        self.meetings: dict[int, StandInMeeting] = {}
        self.contents: dict[str, bytes] = {}
        self.created = 0
        # Zoom gives no number twice, so a restarted stand-in should not either.
        self._first_number = 80_000_000_000 + secrets.randbelow(9_000_000_000)

    def now(self) -> datetime:
        """Return the present instant by the stand-in's clock."""
        return self._now() + timedelta(seconds=self.terms.clock_ahead_s)

    def land(self) -> None:
        """Make the late meetings that are due."""
        now = self.now()
        for lands_at, meeting in self._late:
            if lands_at <= now:
                self.meetings[meeting.number] = meeting
        self._late = [late for late in self._late if late[0] > now]

    @property
    def unborn(self) -> int:
        """The number of late meetings to come."""
        return len(self._late)

    def misplace(self, doubles: int, after_s: float, *, is_answered: bool) -> None:
        """Copy the last meeting; the copies, and an unanswered meeting itself, exist `after_s` later."""
        first, self._latest = self._latest, None
        if first is None:
            return
        strays = [] if is_answered else [self.meetings.pop(first.number)]
        strays += [self._add(first.user, first.fields) for _ in range(doubles)]
        for stray in strays:
            self.meetings.pop(stray.number, None)
            self._late.append((self.now() + timedelta(seconds=after_s), stray))
        self.land()

    def user(self, name: str) -> StandInUser:
        """Return a user; raise Refused where it does not exist."""
        user = self.known(name)
        if not user.exists:
            raise Refused("user_not_found", name)
        return user

    def known(self, name: str) -> StandInUser:
        """Return a user whether or not it exists."""
        if name not in self.users:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
            self.users[name] = StandInUser(name, base64.urlsafe_b64encode(digest)[:22].decode())
        return self.users[name]

    def create(self, name: str, fields: dict[str, Any]) -> StandInMeeting:
        """Make a meeting; raise Refused for a wrong field or a user that may not."""
        user = self.user(name)
        if user.type == 1:
            raise Refused("not_licensed_to_schedule")
        today = self.now().date()
        if user.creations[today] >= self.terms.creations_per_user_day:
            raise Refused("rate_daily_user")
        _check(fields)
        self._latest = self._add(user, fields)
        return self._latest

    def _add(self, user: StandInUser, fields: dict[str, Any]) -> StandInMeeting:
        user.creations[self.now().date()] += 1
        self.created += 1
        number = self._first_number + 7919 * self.created
        meeting = StandInMeeting(number, user, fields, self.now())
        self.meetings[number] = meeting
        return meeting

    def meeting(self, number: str) -> StandInMeeting:
        """Return a meeting; raise Refused where there is none, or it is deleted."""
        found = self.meetings.get(int(number)) if number.isascii() and number.isdigit() else None
        if found is None or found.status == "deleted":
            raise Refused("meeting_not_found", number)
        return found

    def of(self, name: str) -> list[StandInMeeting]:
        """List the meetings of a user without the deleted ones, the newest first."""
        user = self.user(name)
        kept = [each for each in self.meetings.values() if each.user is user and each.status != "deleted"]
        return kept[::-1]

    def delete(self, number: str) -> None:
        """Delete a meeting; raise Refused where it runs, has ended or does not exist."""
        meeting = self.meeting(number)
        if meeting.status == "started":
            raise Refused("delete_in_progress")
        if meeting.status == "ended":
            raise Refused("delete_ended")
        meeting.is_deleted = True

    def end(self, number: str) -> None:
        """End a meeting; raise Refused where it does not run or does not exist."""
        meeting = self.meeting(number)
        if meeting.status != "started":
            raise Refused("not_running")
        meeting.close_session(meeting.latest, self.now())

    def open_session(self, number: str | int) -> str:
        """Let a participant join a meeting; return the uuid of the session that runs, new where none did.

        Raises Refused where the meeting does not exist.
        """
        return self.meeting(str(number)).open_session(self.now()).uuid

    def close_session(self, uuid: str) -> None:
        """Let the last one leave a session, as Zoom ends one; raise Refused where there is none."""
        meeting, session = self.session(uuid)
        meeting.close_session(session, self.now())

    def session(self, name: str) -> tuple[StandInMeeting, StandInSession]:
        """Return a session by its uuid, of deleted meetings too, or the latest of a meeting by its number.

        Raises Refused where there is none.
        """
        if name.isascii() and name.isdigit():
            return (meeting := self.meeting(name)), meeting.latest
        for meeting in self.meetings.values():
            for session in meeting.sessions:
                if session.uuid == name:
                    return meeting, session
        raise Refused("meeting_not_found", name)

    def held(self, number: str) -> list[StandInSession]:
        """List the sessions of a meeting that have ended; raise Refused where it does not exist."""
        return [each for each in self.meeting(number).sessions if each.status == "ended"]

    def content(self, file_id: str) -> bytes:
        """Return the content of a recording's file; raise Refused where there is none."""
        if file_id not in self.contents:
            raise Refused("no_recording")
        return self.contents[file_id]

    def delete_file(self, name: str, file_id: str) -> None:
        """Delete a file, or every file, of a session, named as in `session`; raise Refused without one."""
        _, session = self.session(name)
        gone = [each for each in session.recording_files if not file_id or each.get("id") == file_id]
        if not gone:
            raise Refused("no_recording")
        session.recording_files = [each for each in session.recording_files if each not in gone]
        for each in gone:
            self.contents.pop(each.get("id", ""), None)

    def set_host_key(self, name: str, host_key: object) -> None:
        """Set a user's host key; raise Refused unless it has 6 to 10 digits."""
        user = self.user(name)
        if not isinstance(host_key, str) or _HOST_KEY.fullmatch(host_key) is None:
            raise Refused("validation", "host_key")
        user.host_key = host_key


def _check(fields: dict[str, Any]) -> None:
    password, settings, agenda = (
        fields.get("password", ""),
        fields.get("settings", {}),
        fields.get("agenda", ""),
    )
    rules = {
        "topic": isinstance(fields.get("topic"), str) and 1 <= len(fields["topic"]) <= 200,
        "type": fields.get("type") == 2,
        "start_time": _is_instant(fields.get("start_time")),
        "duration": type(fields.get("duration")) is int and fields["duration"] > 0,
        "agenda": isinstance(agenda, str) and len(agenda) <= 2000,
        "password": isinstance(password, str) and _PASSWORD.fullmatch(password) is not None,
        "settings": isinstance(settings, dict),
        "jbh_time": not isinstance(settings, dict) or settings.get("jbh_time", 0) in (0, 5, 10),
    }
    for name, is_kept in rules.items():
        if not is_kept:
            raise Refused("validation", name)


def _is_instant(text: object) -> bool:
    try:
        datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return True
