"""The paths of Zoom at the stand-in, under `/v2`, `/oauth` and `/rec`.

Owns the way from a request to the account and back, tokens and limits included. A file is asked for with a
token under `/rec/download`, and lies at a signed address on another port, where no token is taken.
"""

import asyncio
import base64
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

from attrs import evolve, field, frozen

from meetcore.testing.planned_faults import Faults
from meetcore.testing.wire import Reply, Request, as_json
from meetcore.testing.zoom.account import StandInMeeting, StandInUser, ZoomAccount
from meetcore.testing.zoom.faults import FAULTS, Fault, apply_fault
from meetcore.testing.zoom.refusals import Refused, refusal

__all__ = ["Credentials", "RecordedRequest", "ZoomApi"]

_LIST_AGENDA: Final = 250
_LATEST: Final = 1000
_SIGNATURE: Final = "FAKE~signed"
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")


@frozen
class Credentials:
    """The server-to-server application that the stand-in knows."""

    account_id: str = "stand-in-account"
    client_id: str = "stand-in-client"
    client_secret: str = field(default="stand-in-secret", repr=False)


@frozen
class RecordedRequest:
    """A request as it came."""

    call: str
    path: str
    query: dict[str, str]
    json: dict[str, Any]


class ZoomApi:
    """Answers what Zoom would.

    Attributes:
        requests: the latest requests, oldest first.
        counts: requests of each call, those that met a fault included.
        most_in_flight: how many were under way at the same time, at most.
        given_up: how many clients went away while they were kept waiting.
        files_url: where files lie, without a path.
    """

    def __init__(self, account: ZoomAccount, faults: Faults[Fault], credentials: Credentials) -> None:
        self.account = account
        self.faults = faults
        self.credentials = credentials
        self.requests: deque[RecordedRequest] = deque(maxlen=_LATEST)
        self.counts: Counter[str] = Counter()
        self.most_in_flight = 0
        self.given_up = 0
        self.files_url = ""
        self._in_flight = 0
        self._tokens: dict[str, float] = {}
        self._second = (0, 0)

    async def answer(self, request: Request) -> Reply | None:
        """Answer one request; None drops its connection."""
        call, handler = self._routed(request)
        request = evolve(request, until_disconnected=self._counted(request.until_disconnected))
        if handler is None:
            return as_json({"code": 2300, "message": "This API endpoint is not recognized."}, 404)
        self.requests.append(
            RecordedRequest(call, "/" + "/".join(request.segments), dict(request.query), request.json)
        )
        self.counts[call] += 1
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            return await self._answer(call, handler, request)
        finally:
            self._in_flight -= 1

    def _counted(
        self, until_disconnected: Callable[[], Awaitable[object]]
    ) -> Callable[[], Awaitable[object]]:
        async def counted() -> None:
            try:
                await until_disconnected()
            finally:
                self.given_up += 1

        return counted

    def expire_tokens(self) -> None:
        """Let every token that was given out be refused."""
        self._tokens.clear()

    async def _answer(self, call: str, handler: Callable[[], Reply], request: Request) -> Reply | None:
        self.account.land()
        fault = self.faults.due(call, self._text_of(request).encode(errors="replace"))
        await asyncio.sleep(self.account.terms.latency_s / 2)
        reply = self._done(call, handler, request, fault)
        await asyncio.sleep(self.account.terms.latency_s / 2)
        if fault is None:
            return reply
        if fault.fault == "late":
            await asyncio.sleep(fault.late_s)
        return await apply_fault(fault, request, reply)

    def _done(self, call: str, handler: Callable[[], Reply], request: Request, fault: Fault | None) -> Reply:
        try:
            if fault is not None and not fault.does_the_work:
                is_refusal = fault.fault not in FAULTS and not fault.fault.isdigit()
                # Whatever would be answered is never seen, and nothing is done.
                return refusal(fault.fault, "as was asked for") if is_refusal else Reply(503)
            if call not in ("token", "content"):
                self._check_token(request)
                self._check_rate()
            reply = handler()
            if fault is not None and call == "create":
                is_answered = fault.fault == "answered"
                self.account.misplace(fault.doubles, fault.after_s, is_answered=is_answered)
            return reply
        except Refused as refused:
            return refusal(refused.name, refused.about)

    def _text_of(self, request: Request) -> str:
        """Where a fault's marker may stand: in what is sent, or in the topic of the meeting that is meant."""
        text = request.body.decode("utf-8", "replace") + " " + str(request.json.get("topic", ""))
        for each in request.segments:
            if each.isdigit() and (meeting := self.account.meetings.get(int(each))) is not None:
                text += " " + str(meeting.fields["topic"])
        return text

    def _check_token(self, request: Request) -> None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or token not in self._tokens:
            raise Refused("token_invalid")
        if self._tokens[token] < time.monotonic():
            raise Refused("token_expired")

    def _check_rate(self) -> None:
        second, count = int(time.monotonic()), self._second[1]
        count = count + 1 if second == self._second[0] else 1
        self._second = (second, count)
        per_second = self.account.terms.per_second
        if per_second is not None and count > per_second:
            raise Refused("rate_qps")

    def _routed(self, request: Request) -> tuple[str, Callable[[], Reply] | None]:
        match request.method, *request.segments:
            case "POST", "oauth", "token":
                return "token", lambda: self._token(request)
            case "GET", "v2", "users":
                return "users", self._users
            case "GET", "v2", "users", name:
                return "user", lambda: as_json(_shown_user(self.account.user(name)))
            case "PATCH", "v2", "users", name:
                return "host_key", lambda: self._set_host_key(name, request)
            case "POST", "v2", "users", name, "meetings":
                return "create", lambda: as_json(_shown(self.account.create(name, request.json)), 201)
            case "GET", "v2", "users", name, "meetings":
                return "list", lambda: self._list(name, request)
            case "GET", "v2", "meetings", number:
                return "get", lambda: as_json(_shown(self.account.meeting(number)))
            case "DELETE", "v2", "meetings", number:
                return "delete", lambda: self._delete(number)
            case "PUT", "v2", "meetings", number, "status":
                return "status", lambda: self._put_status(number, request)
            case "GET", "v2", "meetings", number, "recordings":
                return "recordings", lambda: self._recordings(number)
            case "DELETE", "v2", "meetings", number, "recordings", file_id:
                return "delete_file", lambda: self._delete_file(number, file_id, request)
            case "GET", "rec", "download", file_id:
                return "download", lambda: self._download(file_id)
            case "GET", "files", file_id:
                return "content", lambda: self._content(file_id, request)
            case _:
                return "", None

    def _token(self, request: Request) -> Reply:
        form = {**request.query, **dict(parse_qsl(request.body.decode("latin-1")))}
        if form.get("grant_type") != "account_credentials":
            return as_json({"reason": "unsupported grant type", "error": "unsupported_grant_type"}, 400)
        known = self.credentials
        application = base64.b64encode(f"{known.client_id}:{known.client_secret}".encode()).decode()
        is_known = request.headers.get("authorization") == f"Basic {application}"
        if not is_known or form.get("account_id") != known.account_id:
            return as_json({"reason": "Invalid client_id or client_secret", "error": "invalid_client"}, 400)
        token = f"eyJ{secrets.token_urlsafe(24)}.{secrets.token_urlsafe(24)}"
        lifetime_s = self.account.terms.token_lifetime_s
        self._tokens[token] = time.monotonic() + lifetime_s
        return as_json(
            {
                "access_token": token,
                "token_type": "bearer",
                "expires_in": int(lifetime_s),
                "scope": "meeting:write:meeting:admin meeting:read:meeting:admin",
                "api_url": "https://api.zoom.us",
            }
        )

    def _users(self) -> Reply:
        users = [_shown_user(each) for each in self.account.users.values() if each.exists]
        return as_json({"next_page_token": "", "page_size": 300, "total_records": len(users), "users": users})

    def _set_host_key(self, name: str, request: Request) -> Reply:
        self.account.set_host_key(name, request.json.get("host_key"))
        return Reply(204)

    def _list(self, name: str, request: Request) -> Reply:
        kind = request.query.get("type", "scheduled")
        wanted = [each for each in self.account.of(name) if _is_of_kind(each, kind)]
        page_size = request.query.get("page_size", "30")
        size = max(1, min(int(page_size) if page_size.isdigit() else 30, self.account.terms.max_page_size))
        token = request.query.get("next_page_token", "")
        begin = int(token.removeprefix("page-")) if token else 0
        next_page = f"page-{begin + size}" if begin + size < len(wanted) else ""
        return as_json(
            {
                "next_page_token": next_page,
                "page_size": size,
                "total_records": len(wanted),
                "meetings": [_listed(each) for each in wanted[begin : begin + size]],
            }
        )

    def _delete(self, number: str) -> Reply:
        self.account.delete(number)
        return Reply(204)

    def _put_status(self, number: str, request: Request) -> Reply:
        if request.json.get("action") != "end":
            raise Refused("validation", "action")
        self.account.end(number)
        return Reply(204)

    def _recordings(self, number: str) -> Reply:
        meeting = self.account.meeting(number)
        if not meeting.recording_files:
            raise Refused("no_recording")
        files = meeting.recording_files
        return as_json(
            {
                "uuid": meeting.uuid,
                "id": meeting.number,
                "host_id": meeting.user.id,
                "topic": meeting.fields["topic"],
                "type": "2",
                "start_time": meeting.fields["start_time"],
                "recording_count": len(files),
                "recording_files": files,
                "download_access_token": "eyJFAKE.FAKE.FAKE",
            }
        )

    def _delete_file(self, number: str, file_id: str, request: Request) -> Reply:
        if request.query.get("action") != "delete":  # into the bin, where it lies for a month
            raise Refused("validation", "action")
        self.account.delete_file(number, file_id)
        return Reply(204)

    def _download(self, file_id: str) -> Reply:
        self.account.content(file_id)
        return Reply(302, headers={"Location": f"{self.files_url}/files/{file_id}?Signature={_SIGNATURE}"})

    def _content(self, file_id: str, request: Request) -> Reply:
        # As at the stores of files: two ways to say who asks are one too many.
        if "authorization" in request.headers or request.query.get("Signature") != _SIGNATURE:
            return Reply(400, b"<Error>InvalidArgument</Error>", {"Content-Type": "application/xml"})
        content = self.account.content(file_id)
        found = _RANGE.fullmatch(request.headers.get("range", "")) if self.account.terms.has_ranges else None
        kind = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        if found is None:
            return Reply(200, content, kind)
        first, last = int(found[1]), min(int(found[2] or len(content)), len(content) - 1)
        if first >= len(content):
            return Reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        headers = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return Reply(206, content[first : last + 1], {**kind, **headers})


def _is_of_kind(meeting: StandInMeeting, kind: str) -> bool:
    match kind:
        case "live":
            return meeting.status == "started"
        case "upcoming" | "upcoming_meetings":
            return meeting.status in ("waiting", "started")
        case "previous_meetings":
            return meeting.status == "ended"
        case _:
            return True


def _listed(meeting: StandInMeeting) -> dict[str, object]:
    shown = _shown(meeting)
    names = ("uuid", "id", "host_id", "topic", "type", "start_time", "duration", "timezone", "created_at")
    agenda = str(shown["agenda"])[:_LIST_AGENDA]
    return {**{name: shown[name] for name in names}, "agenda": agenda, "join_url": shown["join_url"]}


def _shown(meeting: StandInMeeting) -> dict[str, object]:
    fields = meeting.fields
    code = base64.urlsafe_b64encode(str(meeting.number).encode()).decode().rstrip("=")
    return {
        "uuid": meeting.uuid,
        "id": meeting.number,
        "host_id": meeting.user.id,
        "host_email": meeting.user.name,
        "topic": fields["topic"],
        "type": 2,
        # One that has ended can be started again, and is shown as waiting for it.
        "status": "started" if meeting.status == "started" else "waiting",
        "start_time": fields["start_time"],
        "duration": fields["duration"],
        "timezone": fields.get("timezone", "UTC"),
        "agenda": fields.get("agenda", ""),
        "created_at": meeting.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "start_url": f"https://zoom.stand-in.example/s/{meeting.number}?zak=eyJFAKE",
        "join_url": f"https://zoom.stand-in.example/j/{meeting.number}?pwd={code}.1",
        "password": fields.get("password", "mAdeUp1"),
        "encrypted_password": f"{code}.1",
        "settings": fields.get("settings", {}),
        "pre_schedule": False,
    }


def _shown_user(user: StandInUser) -> dict[str, object]:
    return {
        "id": user.id, "email": user.name, "type": user.type, "status": "active", "host_key": user.host_key,
        "timezone": "Asia/Jakarta",
    }  # fmt: skip
