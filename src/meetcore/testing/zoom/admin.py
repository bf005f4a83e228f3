"""The paths under `/stand-in`: what really exists, and the switches. Needs no token.

====================================================  ====================================================
request                                               does
====================================================  ====================================================
``GET /stand-in/meetings[?all=1]``                    the meetings that exist; with `all` the deleted too
``POST /stand-in/meetings/{id}/start``, `/end`        starts or ends it at Zoom
``GET``, ``PUT /stand-in/meetings/{id}/recordings``   its `recording_files`, as a JSON list
``PUT /stand-in/files/{id}``                          the bytes of a file at `{url}/rec/download/{id}`
``GET /stand-in/counts``                              meetings made and to be made, calls of each kind, most
                                                      in flight
``GET /stand-in/users``                               every user that was named, with its host key
``PUT /stand-in/users/{name}``                        `type` (1 has no licence, 2 has one), `exists`
``GET``, ``POST``, ``DELETE /stand-in/faults``        what waits; one or a list of faults; forget them
``PUT /stand-in/terms``                               latency, limits, tokens, pages, clock
``POST /stand-in/tokens/expire``                      every token is refused from now on
====================================================  ====================================================
"""

import json
from collections.abc import Callable
from typing import Any

import attrs

from meetcore.testing.wire import Reply, Request, as_json
from meetcore.testing.zoom.account import StandInMeeting, StandInUser, Terms
from meetcore.testing.zoom.api import ZoomApi
from meetcore.testing.zoom.faults import Fault
from meetcore.testing.zoom.refusals import Refused

__all__ = ["ZoomAdmin"]


class ZoomAdmin:
    """Answers the tests."""

    def __init__(self, api: ZoomApi) -> None:
        self._api = api

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        handler = self._routed(request)
        if handler is None:
            return as_json({"error": "no such switch"}, 404)
        self._api.account.land()
        try:
            return as_json(handler())
        except (ValueError, TypeError, AttributeError) as error:
            return as_json({"error": str(error)}, 400)
        except Refused as refused:
            return as_json({"error": refused.name}, 404)

    def _routed(self, request: Request) -> Callable[[], object] | None:
        api, account = self._api, self._api.account
        match request.method, *request.segments[1:]:
            case "GET", "meetings":
                return lambda: [
                    _shown(each)
                    for each in account.meetings.values()
                    if each.status != "deleted" or request.query.get("all")
                ]
            case "POST", "meetings", number, ("start" | "end") as step:
                return lambda: self._step(number, "started" if step == "start" else "ended")
            case "GET", "meetings", number, "recordings":
                return lambda: account.meeting(number).recording_files
            case "PUT", "meetings", number, "recordings":
                return lambda: self._record(number, json.loads(request.body))
            case "PUT", "files", file_id:
                return lambda: self._fill(file_id, request.body)
            case "GET", "counts":
                return lambda: {
                    "created": account.created,
                    "unborn": account.unborn,
                    "calls": dict(api.counts),
                    "most_in_flight": api.most_in_flight,
                }
            case "GET", "users":
                return lambda: [_shown_user(each) for each in account.users.values()]
            case "PUT", "users", name:
                return lambda: self._turn_user(name, request.json)
            case "GET", "faults":
                return lambda: [attrs.asdict(each) for each in api.faults.planned]
            case "POST", "faults":
                return lambda: self._plan(json.loads(request.body))
            case "DELETE", "faults":
                return api.faults.clear
            case "PUT", "terms":
                return lambda: self._turn(request.json)
            case "POST", "tokens", "expire":
                return api.expire_tokens
            case _:
                return None

    def _step(self, number: str, status: str) -> object:
        meeting = self._api.account.meeting(number)
        meeting.status = status
        return _shown(meeting)

    def _record(self, number: str, files: list[dict[str, Any]]) -> object:
        self._api.account.meeting(number).recording_files = files
        return len(files)

    def _fill(self, file_id: str, content: bytes) -> object:
        self._api.account.contents[file_id] = content
        return len(content)

    def _turn_user(self, name: str, settings: dict[str, Any]) -> object:
        user = self._api.account.known(name)
        user.type = int(settings.get("type", user.type))
        user.exists = bool(settings.get("exists", user.exists))
        return _shown_user(user)

    def _plan(self, faults: Any) -> object:
        wanted = [Fault(**each) for each in (faults if isinstance(faults, list) else [faults])]
        self._api.faults.plan(*wanted)
        return len(wanted)

    def _turn(self, settings: dict[str, Any]) -> object:
        terms: Terms = self._api.account.terms
        for name, value in settings.items():
            setattr(terms, name, value)
        return attrs.asdict(terms)


def _shown(meeting: StandInMeeting) -> dict[str, object]:
    fields = meeting.fields
    return {
        "id": str(meeting.number),
        "uuid": meeting.uuid,
        "host": meeting.user.name,
        "topic": fields["topic"],
        "start_time": fields["start_time"],
        "duration": fields["duration"],
        "agenda": fields.get("agenda", ""),
        "status": meeting.status,
    }


def _shown_user(user: StandInUser) -> dict[str, object]:
    return {
        "name": user.name,
        "type": user.type,
        "exists": user.exists,
        "host_key": user.host_key,
        "creations": {day.isoformat(): count for day, count in user.creations.items()},
    }
