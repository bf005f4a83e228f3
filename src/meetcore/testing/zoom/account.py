"""The account at the stand-in: its users, its meetings, and the rules that Zoom has for them.

Owns what exists. Refuses whatever Zoom's documents refuse; knows nothing of HTTP.
"""

import base64
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final

from attrs import define, field

from meetcore.testing.zoom.refusals import Refused

__all__ = ["StandInMeeting", "StandInUser", "Terms", "ZoomAccount"]

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
    """

    latency_s: float = 0.0
    per_second: int | None = None
    creations_per_user_day: int = 100
    token_lifetime_s: float = 3600
    max_page_size: int = 300
    has_ranges: bool = True


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
    told: dict[str, Any] = field(repr=False)
    created_at: datetime
    status: str = "waiting"
    recording_files: list[dict[str, Any]] = field(factory=list, repr=False)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ZoomAccount:
    """Users and meetings. Every name is a licensed user until it is said to be another, or none."""

    def __init__(self, terms: Terms, now: Callable[[], datetime] = _utc_now) -> None:
        self.terms = terms
        self.now = now
        self.users: dict[str, StandInUser] = {}
        self.meetings: dict[int, StandInMeeting] = {}
        self.contents: dict[str, bytes] = {}
        self.created = 0
        # Zoom gives no number twice; a stand-in that is started again should not either.
        self._first_number = _FIRST_NUMBER + secrets.randbelow(_FIRST_NUMBERS)

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

    def create(self, name: str, told: dict[str, Any]) -> StandInMeeting:
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
        _check(told)
        user.creations[today] += 1
        self.created += 1
        number = self._first_number + 7919 * self.created
        meeting = StandInMeeting(number, _uuid(number), user, told, self.now())
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


def _check(told: dict[str, Any]) -> None:
    password = told.get("password", "")
    rules = {
        "topic": isinstance(told.get("topic"), str) and 1 <= len(told["topic"]) <= 200,
        "type": told.get("type") == 2,
        "start_time": _is_instant(told.get("start_time")),
        "duration": type(told.get("duration")) is int and told["duration"] > 0,
        "agenda": isinstance(told.get("agenda", ""), str) and len(told.get("agenda", "")) <= 2000,
        "password": isinstance(password, str) and _PASSWORD.fullmatch(password) is not None,
        "settings": isinstance(told.get("settings", {}), dict),
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


def _uuid(number: int) -> str:
    """A UUID as Zoom writes it; every fourth has the slashes that have to be encoded twice."""
    text = base64.b64encode(hashlib.sha256(str(number).encode()).digest()[:16]).decode()
    return f"/{text[1:9]}//{text[11:]}" if number % 4 == 0 else text
