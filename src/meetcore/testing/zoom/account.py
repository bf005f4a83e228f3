"""The account at the stand-in: its users, its meetings, and the rules that Zoom has for them.

Owns what exists. Refuses whatever Zoom's documents refuse; knows nothing of HTTP.
"""

import base64
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from attrs import define, field

from meetcore.testing.zoom.refusals import Refused

__all__ = ["StandInMeeting", "StandInUser", "Terms", "ZoomAccount", "utc_now"]

_FIRST_NUMBER: Final = 80_000_000_000
_FIRST_NUMBERS: Final = 9_000_000_000
_PASSWORD: Final = re.compile(r"[A-Za-z0-9@\-_*]{0,10}")
_HOST_KEY: Final = re.compile(r"[0-9]{6,10}")
_BASIC: Final = 1


@define
class Terms:
    """What can be turned while the stand-in runs.

    Attributes:
        latency_s: seconds for each call; half of it passes before anything is done.
        per_second: calls in one second; none for any number.
        creations_per_user_day: meetings of one user between midnights in UTC.
        token_lifetime_s: how long a token is good.
        max_page_size: meetings on a page, at most.
        has_ranges: whether the place where files lie sends parts of them.
        clock_ahead_s: seconds by which its clock is ahead of the one it was given.
    """

    latency_s: float = 0.0
    per_second: int | None = None
    creations_per_user_day: int = 100
    token_lifetime_s: float = 3600
    max_page_size: int = 300
    has_ranges: bool = True
    clock_ahead_s: float = 0.0


@define
class StandInUser:
    """A user. `name` is what callers call it; type 1 has no licence, type 2 has one."""

    name: str
    id: str
    type: int = 2
    exists: bool = True
    host_key: str = field(default="482913", repr=False)
    creations: Counter[date] = field(factory=Counter)


@define
class StandInMeeting:
    """A meeting. `status` is waiting, started, ended or deleted."""

    number: int
    uuid: str
    user: StandInUser
    fields: dict[str, Any] = field(repr=False)
    created_at: datetime
    status: str = "waiting"
    recording_files: list[dict[str, Any]] = field(factory=list, repr=False)


def utc_now() -> datetime:
    """The present instant, by the machine's clock."""
    return datetime.now(UTC)


class ZoomAccount:
    """Users and meetings. Every name is a licensed user until it is said to be another, or none."""

    def __init__(self, terms: Terms, now: Callable[[], datetime] = utc_now) -> None:
        self.terms = terms
        self._now = now
        self._late: list[tuple[datetime, StandInMeeting]] = []
        self._latest: StandInMeeting | None = None
        self.users: dict[str, StandInUser] = {}
        self.meetings: dict[int, StandInMeeting] = {}
        self.contents: dict[str, bytes] = {}
        self.created = 0
        # Zoom gives no number twice; a stand-in that is started again should not either.
        self._first_number = _FIRST_NUMBER + secrets.randbelow(_FIRST_NUMBERS)

    def now(self) -> datetime:
        """The present instant, by the stand-in's clock."""
        return self._now() + timedelta(seconds=self.terms.clock_ahead_s)

    def land(self) -> None:
        """Let exist what was to be made by now."""
        now = self.now()
        for lands_at, meeting in self._late:
            if lands_at <= now:
                self.meetings[meeting.number] = meeting
        self._late = [late for late in self._late if late[0] > now]

    @property
    def unborn(self) -> int:
        """How many meetings are still to be made."""
        return len(self._late)

    def misplace(self, doubles: int, after_s: float, *, is_answered: bool) -> None:
        """Copy the meeting that was made last so many times; those not in its answer appear later.

        Args:
            after_s: seconds until they exist, and the meeting itself unless its answer is given.
            is_answered: whether the caller gets an answer.
        """
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
        """A user by the name that callers use: an id or an address.

        Raises:
            Refused: there is none.
        """
        user = self.known(name)
        if not user.exists:
            raise Refused("user_not_found", name)
        return user

    def known(self, name: str) -> StandInUser:
        """A user whether or not it is there."""
        if name not in self.users:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
            self.users[name] = StandInUser(name, base64.urlsafe_b64encode(digest)[:22].decode())
        return self.users[name]

    def create(self, name: str, fields: dict[str, Any]) -> StandInMeeting:
        """Make a meeting.

        Raises:
            Refused: a field is wrong, or the user may not.
        """
        user = self.user(name)
        if user.type == _BASIC:
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
        meeting = StandInMeeting(number, _uuid(number), user, fields, self.now())
        self.meetings[number] = meeting
        return meeting

    def meeting(self, number: str) -> StandInMeeting:
        """A meeting that was not deleted.

        Raises:
            Refused: there is none.
        """
        found = self.meetings.get(int(number)) if number.isascii() and number.isdigit() else None
        if found is None or found.status == "deleted":
            raise Refused("meeting_not_found", number)
        return found

    def of(self, name: str) -> list[StandInMeeting]:
        """The meetings of a user that were not deleted, the latest made first."""
        user = self.user(name)
        kept = [each for each in self.meetings.values() if each.user is user and each.status != "deleted"]
        return kept[::-1]

    def delete(self, number: str) -> None:
        """Delete a meeting.

        Raises:
            Refused: it runs, has ended, or is not there.
        """
        meeting = self.meeting(number)
        if meeting.status == "started":
            raise Refused("delete_in_progress")
        if meeting.status == "ended":
            raise Refused("delete_ended")
        meeting.status = "deleted"

    def end(self, number: str) -> None:
        """End a meeting that runs.

        Raises:
            Refused: it does not, or is not there.
        """
        meeting = self.meeting(number)
        if meeting.status != "started":
            raise Refused("not_running")
        meeting.status = "ended"

    def content(self, file_id: str) -> bytes:
        """What is in a file of a recording.

        Raises:
            Refused: there is none.
        """
        if file_id not in self.contents:
            raise Refused("no_recording")
        return self.contents[file_id]

    def delete_file(self, number: str, file_id: str) -> None:
        """Delete a file of a meeting's recording for good.

        Raises:
            Refused: there is no such file, or no such meeting.
        """
        meeting = self.meeting(number)
        kept = [each for each in meeting.recording_files if each["id"] != file_id]
        if len(kept) == len(meeting.recording_files):
            raise Refused("no_recording")
        meeting.recording_files = kept
        self.contents.pop(file_id, None)

    def set_host_key(self, name: str, host_key: object) -> None:
        """Give a user another host key.

        Raises:
            Refused: it is not 6 to 10 digits, or there is no such user.
        """
        user = self.user(name)
        if not isinstance(host_key, str) or _HOST_KEY.fullmatch(host_key) is None:
            raise Refused("validation", "host_key")
        user.host_key = host_key


def _check(fields: dict[str, Any]) -> None:
    password = fields.get("password", "")
    rules = {
        "topic": isinstance(fields.get("topic"), str) and 1 <= len(fields["topic"]) <= 200,
        "type": fields.get("type") == 2,
        "start_time": _is_instant(fields.get("start_time")),
        "duration": type(fields.get("duration")) is int and fields["duration"] > 0,
        "agenda": isinstance(fields.get("agenda", ""), str) and len(fields.get("agenda", "")) <= 2000,
        "password": isinstance(password, str) and _PASSWORD.fullmatch(password) is not None,
        "settings": isinstance(fields.get("settings", {}), dict),
        "jbh_time": _settings(fields).get("jbh_time", 0) in (0, 5, 10),
    }
    for name, is_kept in rules.items():
        if not is_kept:
            raise Refused("validation", name)


def _settings(fields: dict[str, Any]) -> dict[str, Any]:
    settings = fields.get("settings")
    return settings if isinstance(settings, dict) else {}


def _is_instant(text: object) -> bool:
    try:
        datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _uuid(number: int) -> str:
    """A UUID as Zoom writes it; every fourth has the slashes that have to be encoded twice."""
    text = base64.b64encode(hashlib.sha256(str(number).encode()).digest()[:16]).decode()
    return f"/{text[1:9]}//{text[11:]}" if number % 4 == 0 else text
