"""The paths under `/stand-in`: what was asked, and the switches. Needs no key.

==============================================  ====================================================
request                                         does
==============================================  ====================================================
``GET /stand-in/counts``                        calls and those done by kind, repeats, in flight now and
                                                at most, seconds of sound transcribed
``GET /stand-in/conversations``                 the messages of every completion
``GET``, ``POST``, ``DELETE /stand-in/faults``  what waits; one or a list of faults; forget them
``PUT /stand-in/terms``                         `latency_s`
==============================================  ====================================================
"""

import json
from collections.abc import Callable
from typing import Any

import attrs

from meetcore.testing.ai.api import AiApi
from meetcore.testing.ai.faults import Fault
from meetcore.testing.wire import Reply, Request, as_json

__all__ = ["AiAdmin"]


class AiAdmin:
    """Answers the tests."""

    def __init__(self, api: AiApi) -> None:
        self._api = api

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        handler = self._routed(request)
        if handler is None:
            return as_json({"error": "no such switch"}, 404)
        try:
            return as_json(handler())
        except (ValueError, TypeError, KeyError) as error:
            return as_json({"error": str(error)}, 400)

    def _routed(self, request: Request) -> Callable[[], object] | None:
        api = self._api
        match request.method, *request.segments[1:]:
            case "GET", "counts":
                return lambda: attrs.asdict(api.tally)
            case "GET", "conversations":
                return lambda: api.conversations
            case "GET", "faults":
                return lambda: [attrs.asdict(each) for each in api.faults.planned]
            case "POST", "faults":
                return lambda: self._plan(json.loads(request.body))
            case "DELETE", "faults":
                return api.faults.clear
            case "PUT", "terms":
                return lambda: self._turn(request.json)
            case _:
                return None

    def _plan(self, faults: Any) -> object:
        wanted = [Fault(**each) for each in (faults if isinstance(faults, list) else [faults])]
        self._api.faults.plan(*wanted)
        return len(wanted)

    def _turn(self, settings: dict[str, Any]) -> object:
        self._api.latency_s = float(settings["latency_s"])
        return {"latency_s": self._api.latency_s}
