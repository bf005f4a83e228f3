"""The API of the Zoom stand-in: the paths under `/v2`, `/oauth`, `/rec` and `/files`, and its faults.

The faults beside those of `stand_in`::

    late                 responds after `late_s` seconds
    answered             responds as without a fault: for `doubles`
    stall                sends half of the announced body, and then nothing until the client has gone
    page                 responds 200 with a page that asks to sign in
    a name of a refusal  responds so, as Zoom does; nothing is done

With `is_done` the work is done before the fault: a meeting is made and not reported. The work of a late
response is always done. A creation that is done makes `doubles` more of the same meeting. The meetings that
the response does not name exist only `after_s` seconds later, by the stand-in's clock.
"""

import asyncio
import base64
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import parse_qsl, unquote

from attrs import define, evolve, field, frozen

from meetcore.testing.stand_in import BROKEN, PlannedFault, Reply, Request, StandIn, as_json, broken
from meetcore.testing.zoom_account import REFUSALS, SCOPES, Refused, ZoomAccount, refusal
from meetcore.testing.zoom_sessions import StandInMeeting, StandInUser, instant, recording_body

_FAULTS: Final = (*BROKEN, "late", "answered", "stall", "page")
_LIST_AGENDA: Final = 250
_LATEST: Final = 1000
_SIGNATURE: Final = "FAKE~signed"
_PAGE_TOKEN: Final = re.compile(r"(page-\d+)?")
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_LISTED: Final = (
    "uuid", "id", "host_id", "topic", "type", "start_time", "duration", "timezone", "created_at", "join_url",
)  # fmt: skip


_Work: TypeAlias = Callable[[], Reply | None]


@define
class Fault(PlannedFault):
    """A planned fault; its `marker` may also stand in the topic of the meeting in question."""

    CALLS: ClassVar[tuple[str, ...]] = (
        "token", "create", "get", "list", "delete", "status", "recordings", "instances", "user", "host_key",
        "download", "content", "delete_file", "delete_files", "settings",
    )  # fmt: skip
    FAULTS: ClassVar[tuple[str, ...]] = (*_FAULTS, *REFUSALS)

    is_done: bool = False
    late_s: float = 30.0
    doubles: int = 0
    after_s: float = 0.0

    @property
    def does_the_work(self) -> bool:
        """Whether the work is done all the same."""
        return self.is_done or self.fault in ("late", "answered", "cut", "stall")


async def _faulty(fault: Fault, request: Request, reply: Reply) -> Reply | None:
    """Apply a fault to the right response; None drops the connection."""
    match fault.fault:
        case "late":
            await asyncio.sleep(fault.late_s)
            return reply
        case "stall":
            return evolve(reply, sent=len(reply.body) // 2, lingers=request.until_disconnected)
        case "page":
            return Reply(200, b"<html>Sign in</html>", {"Content-Type": "text/html;charset=utf-8"})
        case status if status.isdigit():
            return Reply(int(status), b"upstream", {"Content-Type": "text/plain"})
        case _:
            return await broken(fault, request, reply)


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


class ZoomApi(StandIn[Fault]):
    """Responds as Zoom does, and keeps the latest `requests`, oldest first.

    `counts` has the requests of each call, with those that met a fault; `given_up` the clients that
    disconnected while a fault kept them waiting.
    """

    def __init__(self, account: ZoomAccount, credentials: Credentials) -> None:
        super().__init__(Fault)
        self.account = account
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
        """Respond to a client; None drops the connection."""
        call, handler = self._routed(request)
        request = evolve(request, until_disconnected=self._counted(request.until_disconnected))
        if handler is None:
            return as_json({"code": 2300, "message": "This API endpoint is not recognized."}, 404)
        path = "/" + "/".join(request.segments)
        self.requests.append(RecordedRequest(call, path, dict(request.query), request.json))
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
        """Refuse every token that was issued."""
        self._tokens.clear()

    async def _answer(self, call: str, handler: _Work, request: Request) -> Reply | None:
        self.account.land()
        fault = self.faults.due(call, self._text_of(request).encode(errors="replace"))
        await asyncio.sleep(self.account.terms.latency_s / 2)
        reply = self._done(call, handler, request, fault)
        await asyncio.sleep(self.account.terms.latency_s / 2)
        return reply if fault is None else await _faulty(fault, request, reply)

    def _done(self, call: str, handler: _Work, request: Request, fault: Fault | None) -> Reply:
        try:
            if fault is not None and not fault.does_the_work:  # a response without work, mostly unseen
                return refusal(fault.fault, "as was asked for") if fault.fault in REFUSALS else Reply(503)
            if call not in ("token", "content"):
                self._check_token(request, call)
                self._check_rate()
            reply = handler() or Reply(204)
            if fault is not None and call == "create":
                is_answered = fault.fault == "answered"
                self.account.misplace(fault.doubles, fault.after_s, is_answered=is_answered)
            return reply
        except Refused as refused:
            return refusal(refused.name, refused.about)

    def _text_of(self, request: Request) -> str:
        """Return the texts in which a fault's marker may stand: the body, and the meeting's topic."""
        text = request.body.decode("utf-8", "replace") + " " + str(request.json.get("topic", ""))
        for each in request.segments:
            if each.isdigit() and (meeting := self.account.meetings.get(int(each))) is not None:
                text += " " + str(meeting.fields["topic"])
        return text

    def _check_token(self, request: Request, call: str) -> None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or token not in self._tokens:
            raise Refused("token_invalid")
        if self._tokens[token] < time.monotonic():
            raise Refused("token_expired")
        if call in SCOPES and SCOPES[call] not in self.account.terms.scopes.split():
            raise Refused("missing_scope", SCOPES[call])

    def _check_rate(self) -> None:
        second, count = int(time.monotonic()), self._second[1]
        count = count + 1 if second == self._second[0] else 1
        self._second = (second, count)
        per_second = self.account.terms.per_second
        if per_second is not None and count > per_second:
            raise Refused("rate_qps")

    def _routed(self, request: Request) -> tuple[str, _Work | None]:
        account = self.account
        match request.method, *request.segments:
            case "POST", "oauth", "token":
                return "token", lambda: self._token(request)
            case "GET", "v2", "users", name:
                return "user", lambda: as_json(_shown_user(account.user(name)))
            case "GET", "v2", "users", name, "settings":
                return "settings", lambda: as_json(account.user(name).settings)
            case "PATCH", "v2", "users", name:
                return "host_key", lambda: account.set_host_key(name, request.json.get("host_key"))
            case "POST", "v2", "users", name, "meetings":
                return "create", lambda: as_json(_shown(account.create(name, request.json)), 201)
            case "GET", "v2", "users", name, "meetings":
                return "list", lambda: self._list(name, request)
            case "GET", "v2", "meetings", number:
                return "get", lambda: as_json(_shown(account.meeting(number)))
            case "DELETE", "v2", "meetings", number:
                return "delete", lambda: account.delete(number)
            case "PUT", "v2", "meetings", number, "status":
                return "status", lambda: self._put_status(number, request)
            case "GET", "v2", "past_meetings", number, "instances":
                return "instances", lambda: self._instances(number)
            case "GET", "v2", "meetings", name, "recordings":
                return "recordings", lambda: self._recordings(name)
            case "DELETE", "v2", "meetings", name, "recordings", file_id:
                return "delete_file", lambda: self._delete_file(name, file_id, request)
            case "DELETE", "v2", "meetings", name, "recordings":
                return "delete_files", lambda: self._delete_file(name, "", request)
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
        scope = self.account.terms.scopes
        about = {"expires_in": int(lifetime_s), "scope": scope, "api_url": "https://api.zoom.us"}
        return as_json({"access_token": token, "token_type": "bearer", **about})

    def _list(self, name: str, request: Request) -> Reply:
        wanted = self.account.of(name)
        page_size = request.query.get("page_size", "30")
        size = max(1, min(int(page_size) if page_size.isdigit() else 30, self.account.terms.max_page_size))
        token = request.query.get("next_page_token", "")
        if not _PAGE_TOKEN.fullmatch(token):
            raise Refused("validation", "next_page_token")
        begin = int(token.removeprefix("page-") or 0)
        next_page = f"page-{begin + size}" if begin + size < len(wanted) else ""
        meetings = [_listed(each) for each in wanted[begin : begin + size]]
        about = {"next_page_token": next_page, "page_size": size, "total_records": len(wanted)}
        return as_json({**about, "meetings": meetings})

    def _put_status(self, number: str, request: Request) -> None:
        if request.json.get("action") != "end":
            raise Refused("validation", "action")
        self.account.end(number)

    def _instances(self, number: str) -> Reply:
        held = self.account.held(number)
        return as_json({
            "meetings": [
                {"uuid": each.uuid, "start_time": instant(each.started_at or self.account.now())}
                for each in held
            ]
        })  # fmt: skip

    def _recordings(self, name: str) -> Reply:
        meeting, session = self.account.session(_as_encoded(name))
        if not session.recording_files:
            raise Refused("no_recording")
        return as_json({
            **recording_body(meeting, session, session.recording_files), "type": "2",
            "participant_audio_files": session.participant_audio_files,
            "download_access_token": "eyJFAKE.FAKE.FAKE",
        })  # fmt: skip

    def _delete_file(self, name: str, file_id: str, request: Request) -> None:
        if request.query.get("action") != "delete":  # any other action keeps it in the bin for a month
            raise Refused("validation", "action")
        self.account.delete_file(_as_encoded(name), file_id)

    def _download(self, file_id: str) -> Reply:
        self.account.content(file_id)
        return Reply(302, headers={"Location": f"{self.files_url}/files/{file_id}?Signature={_SIGNATURE}"})

    def _content(self, file_id: str, request: Request) -> Reply:
        # File stores refuse a request that authenticates in two ways.
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


def _as_encoded(segment: str) -> str:
    """Return the number or uuid of a segment that was decoded once; some uuids must be encoded twice."""
    if segment.startswith("/") or "//" in segment:
        raise Refused("meeting_not_found", segment)
    return unquote(segment)


def _listed(meeting: StandInMeeting) -> dict[str, object]:
    shown = _shown(meeting)
    return {**{name: shown[name] for name in _LISTED}, "agenda": str(shown["agenda"])[:_LIST_AGENDA]}


def _shown(meeting: StandInMeeting) -> dict[str, object]:
    fields, number = meeting.fields, meeting.number
    code = base64.urlsafe_b64encode(str(number).encode()).decode().rstrip("=")
    return {
        "uuid": meeting.uuid, "id": number, "host_id": meeting.user.id, "host_email": meeting.user.name,
        "topic": fields["topic"], "type": 2,
        # A meeting that has ended can be started again, and is shown as waiting.
        "status": "started" if meeting.status == "started" else "waiting",
        "start_time": fields["start_time"], "duration": fields["duration"],
        "timezone": fields.get("timezone", "UTC"), "agenda": fields.get("agenda", ""),
        "created_at": meeting.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "start_url": f"https://zoom.stand-in.example/s/{number}?zak=eyJFAKE",
        "join_url": f"https://zoom.stand-in.example/j/{number}?pwd={code}.1",
        "password": fields.get("password", "mAdeUp1"), "encrypted_password": f"{code}.1",
        "settings": fields.get("settings", {}), "pre_schedule": False,
    }  # fmt: skip


def _shown_user(user: StandInUser) -> dict[str, object]:
    return {
        "id": user.id, "email": user.name, "type": user.type, "status": "active", "host_key": user.host_key,
        "timezone": "Asia/Jakarta",
    }  # fmt: skip
