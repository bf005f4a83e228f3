"""Requests: what became of the calls of each key, so that "what happened to my call" needs no support."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.web.filters import PAGE_SIZE, read_before
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Visit
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action
from meetcore.domain.requests.request_log import (
    ALL_OF_MINUTE,
    ONE_OF,
    REQUESTS_KEPT,
    LoggedRequest,
    is_error,
)
from meetcore.ports.dashboard_queries import KeyUse
from meetcore.ports.request_log import RequestFilter

ROOT: Final = "/dashboard/requests"
_CLASSES: Final[Mapping[int, str]] = {
    2: _("succeeded (2xx)"),
    4: _("refused (4xx)"),
    5: _("failed (5xx)"),
}
_FIRST_FAULT_STATUS: Final = 500
_SUBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "meetings": ("/dashboard/meetings/{id}", _("its meeting")),
    "notes": ("/dashboard/notes/{id}", _("its notes")),
    "webhooks": ("/dashboard/webhooks/{id}", _("its webhook")),
}
"""By the first part of a path: the page of the record that it names, and what the link says."""


@frozen
class _Row:
    """A request in the list; `link` leads to what it made or named, if that has a page."""

    request: LoggedRequest
    mark: str
    key_name: str
    link: tuple[str, str] | None


@Page("GET", ROOT, Action.VIEW_REQUESTS)
async def list_requests(visit: Visit) -> Response:
    """A page of requests, of a key and of a class of status, or the one with an id."""
    text, use = visit.query("id").strip(), visit.use
    found, keys = await asyncio.gather(
        _find(visit, text) if text else _list(visit), use.keys.list_use(visit.signed_in)
    )
    shown = found[:PAGE_SIZE]
    names = {each.key.id: each.key.name for each in keys}
    return visit.page(
        "requests.html",
        rows=[_row(visit, each, names) for each in shown],
        older=_older(visit, shown[-1].id) if len(found) > PAGE_SIZE else "",
        searched=text,
        chosen={name: visit.query(name) for name in ("key", "status")},
        keys=_key_choices(visit, keys),
        classes=[
            ("", visit.text(_("all"))),
            *((str(each), visit.text(label)) for each, label in _CLASSES.items()),
        ],
        kept_days=REQUESTS_KEPT.days,
        all_of_minute=ALL_OF_MINUTE,
        one_of=ONE_OF,
    )


async def _find(visit: Visit, text: str) -> Sequence[LoggedRequest]:
    try:
        request_id = parse_id(text, "request")
    except NotFound:
        return []
    found = await visit.use.reads.find_request(visit.signed_in, request_id)
    return [] if found is None else [found]


async def _list(visit: Visit) -> Sequence[LoggedRequest]:
    status = visit.query("status")
    status_class = int(status) if status in map(str, _CLASSES) else None
    wanted = RequestFilter(_read_key(visit), status_class)
    return await visit.use.reads.list_requests(visit.signed_in, wanted, PAGE_SIZE + 1, read_before(visit))


def _read_key(visit: Visit) -> UUID | None:
    try:
        return parse_id(visit.query("key"), "key")
    except NotFound:
        return None


def _key_choices(visit: Visit, keys: Sequence[KeyUse]) -> list[tuple[str, str]]:
    named = [(str(each.key.id), f"{each.key.name} …{each.key.last_four or ''}") for each in keys]
    return [("", visit.text(_("all"))), *named]


def _row(visit: Visit, request: LoggedRequest, names: Mapping[UUID, str]) -> _Row:
    if request.status >= _FIRST_FAULT_STATUS:
        mark = "bad"
    elif is_error(request.status):
        mark = "warn"
    else:
        mark = "good"
    return _Row(request, mark, names.get(request.api_key_id, ""), _link(visit, request))


def _link(visit: Visit, request: LoggedRequest) -> tuple[str, str] | None:
    path, label = _SUBJECTS.get(request.path.strip("/").partition("/")[0], ("", ""))
    if request.subject_id is None or not path:
        return None
    return path.format(id=request.subject_id), visit.text(label)


def _older(visit: Visit, last: UUID) -> str:
    kept = {name: visit.query(name) for name in ("key", "status")}
    return f"{ROOT}?" + urlencode({name: text for name, text in kept.items() if text} | {"before": str(last)})
