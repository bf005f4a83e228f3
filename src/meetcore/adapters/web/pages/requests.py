"""API keys, and the requests made with them."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.api.answers import STATUS
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.web import forms
from meetcore.adapters.web.refusals import translate_refusal
from meetcore.adapters.web.texts import DELIVERY_STATES, SCOPE_TEXTS, _
from meetcore.adapters.web.visit import Page, Question, Visit, see_other
from meetcore.domain.errors import Conflict, DomainError, require_record
from meetcore.domain.members.roles import Action
from meetcore.domain.money.amounts import MAX_TYPED, read_amount
from meetcore.domain.money.transfers import InvalidAmount
from meetcore.domain.records.pages import KeyUse, RequestDetails
from meetcore.domain.requests import request_log, views
from meetcore.domain.requests.keys import ApiKey, InvalidName, Scope, check_name, masked
from meetcore.usecases.requests.administration import MintedKey

KEYS: Final = "/dashboard/keys"
OVERLAPS_H: Final = (0, 1, 24, 72, 168)
EXPIRIES_DAYS: Final = (0, 30, 90, 365)
_PREFIXED: Final = "scope:"
_PRESETS: Final[Mapping[str, str]] = {
    "read": _("Everything that reads"),
    "all": _("Everything"),
    "": _("Only these:"),
}
"""Choices of scopes by one click; the last one takes the boxes below it."""


@frozen
class _Row:
    """A key in the list. `shown` is what of its text may be shown, `ended_at` when it stopped working."""

    key: ApiKey
    spent: int
    shown: str
    ended_at: datetime | None


@Page("GET", KEYS, Action.VIEW_KEYS)
async def list_keys(visit: Visit) -> Response:
    """List every key, the revoked and expired ones folded away."""
    return await _list(visit)


@Page("GET", f"{KEYS}/new", Action.MANAGE_KEYS, needs_fresh=True)
async def ask_for_key(visit: Visit) -> Response:
    return _form(visit, visit.form, {})


@Page("POST", KEYS, Action.MANAGE_KEYS, needs_fresh=True)
async def create_key(visit: Visit) -> Response:
    """Create a key and show it once."""
    form = visit.form
    scopes, daily_cap, errors = read_limits(visit)
    days = form.get("expires_in_days", "0")
    expires_at = visit.now + timedelta(days=int(days)) if days in map(str, EXPIRIES_DAYS[1:]) else None
    try:
        check_name(form.get("name", "").strip())
    except InvalidName as error:
        errors = {"name": translate_refusal(visit.look.language, str(error))} | errors
    if errors:
        return _form(visit, form, errors)
    try:
        minted = await visit.use.keys.create(
            visit.signed_in, visit.client_address, form.get("name", "").strip(), scopes, daily_cap,
            expires_at, _new_id(visit),
        )  # fmt: skip
    except Conflict as refusal:
        return await _list(visit, errors=forms.explain(visit.look, refusal))
    return await _list(visit, minted)


def read_limits(visit: Visit) -> tuple[list[Scope], int | None, dict[str, str]]:
    """Read scopes and daily cap of the form of a key or a grant; the texts are of what is wrong, by field."""
    errors: dict[str, str] = {}
    scopes, daily_cap = read_scopes(visit.form), read_cap(visit, visit.form.get("daily_cap", ""))
    if not scopes:
        errors["scopes"] = visit.text("Choose at least one scope.")
    if isinstance(daily_cap, str):
        errors["daily_cap"], daily_cap = visit.text(daily_cap), None
    return scopes, daily_cap, errors


def read_scopes(form: Mapping[str, str]) -> list[Scope]:
    """Read the scopes of a form, by a preset or by their boxes."""
    match form.get("preset"):
        case "read":
            return [scope for scope in Scope if scope.value.endswith(":read")]
        case "all":
            return list(Scope)
        case _:
            return [scope for scope in Scope if f"{_PREFIXED}{scope}" in form]


@Page("POST", f"{KEYS}/{{id}}/cap", Action.MANAGE_CAPS, needs_fresh=True)
async def change_cap(visit: Visit) -> Response:
    """Change or remove the daily cap of a key."""
    daily_cap = read_cap(visit, visit.form.get("daily_cap", ""))
    if isinstance(daily_cap, str):
        return await _list(visit, errors={f"cap-{visit.path_id('key')}": visit.text(daily_cap)})
    await visit.use.keys.set_daily_cap(visit.signed_in, visit.client_address, visit.path_id("key"), daily_cap)
    return see_other(f"{KEYS}?done=cap_changed")


async def _find_key(visit: Visit) -> ApiKey:
    key_id, found = visit.path_id("key"), await visit.use.keys.list_use(visit.signed_in)
    return require_record(next((use.key for use in found if use.key.id == key_id), None), "key")


def _read_overlap(visit: Visit) -> int:
    text = visit.form.get("overlap_h", "")
    return int(text) if text in map(str, OVERLAPS_H) else 0


async def _ask_to_roll(visit: Visit) -> Question | None:
    """Ask about a key that would stop at once."""
    if _read_overlap(visit):
        return None
    return Question(
        visit.text("Replace the key %(name)s?", name=(await _find_key(visit)).name),
        visit.text(
            "Requests with the old key are refused at once, and it cannot be made to work again. To change "
            "without a gap, choose for how long both work."
        ),
        visit.text("Replace the key"),
    )


@Page("POST", f"{KEYS}/{{id}}/roll", Action.MANAGE_KEYS, needs_fresh=True, ask=_ask_to_roll)
async def roll_key(visit: Visit) -> Response:
    """Replace a key and show the new one once."""
    use, key_id = visit.use.keys, visit.path_id("key")
    try:
        minted = await use.roll(
            visit.signed_in, visit.client_address, key_id, _read_overlap(visit), _new_id(visit)
        )
    except DomainError as refusal:
        return await _list(visit, errors=forms.explain(visit.look, refusal))
    return await _list(visit, minted)


async def _ask_to_revoke(visit: Visit) -> Question:
    key = await _find_key(visit)
    if key.client_id is not None:
        return Question(
            visit.text("Revoke the access of %(name)s?", name=key.name),
            visit.text("The program is refused from its next call on."),
            visit.text("Revoke the access"),
        )
    return Question(
        visit.text("Revoke the key %(name)s?", name=key.name),
        visit.text(
            "Requests with it are refused at once, and it cannot be made to work again. To change to a "
            "new key without a gap, replace it instead."
        ),
        visit.text("Revoke the key"),
    )


@Page("POST", f"{KEYS}/{{id}}/revoke", Action.MANAGE_KEYS, needs_fresh=True, ask=_ask_to_revoke)
async def revoke_key(visit: Visit) -> Response:
    key = await visit.use.keys.revoke(visit.signed_in, visit.client_address, visit.path_id("key"))
    return see_other(f"{KEYS}?done={'key' if key.client_id is None else 'access'}_revoked")


async def _list(
    visit: Visit, minted: MintedKey | None = None, errors: Mapping[str, str] | None = None
) -> Response:
    rows = [_row(visit, use) for use in await visit.use.keys.list_use(visit.signed_in)]
    caps = Counter(row.key.cap_key_id for row in rows if row.ended_at is None)
    return visit.form_page(
        "keys.html",
        errors or {},
        minted=minted,
        form_key=visit.new_form_key(),
        usable=[row for row in rows if row.ended_at is None],
        ended=[row for row in rows if row.ended_at is not None],
        shared_caps=[id for id, keys in caps.items() if keys > 1],
        overlaps=[(str(hours), _overlap_text(visit, hours)) for hours in OVERLAPS_H],
    )


def _row(visit: Visit, use: KeyUse) -> _Row:
    key = use.key
    shown = masked(visit.use.administration.key_prefix, key)
    ends = [at for at in (key.revoked_at, key.expires_at) if at is not None and at <= visit.now]
    return _Row(key, use.spent, shown, min(ends, default=None))


def _form(visit: Visit, values: Mapping[str, str], errors: Mapping[str, str]) -> Response:
    return visit.form_page(
        "new_key.html",
        errors,
        values={name: values.get(name, "") for name in ("name", "daily_cap", "expires_in_days", "preset")},
        presets=[(value, visit.text(text)) for value, text in _PRESETS.items()],
        chosen=[name.removeprefix(_PREFIXED) for name in values if name.startswith(_PREFIXED)],
        form_key=values.get("form_key") or visit.new_form_key(),
        scopes=scope_texts(visit),
        expiries=[(str(days), expiry_text(visit, days)) for days in EXPIRIES_DAYS],
    )


def read_cap(visit: Visit, text: str) -> int | str | None:
    """Read a cap in credits, `None` without one; return a text for an invalid entry."""
    if not text.strip():
        return None
    try:
        return read_amount(text, visit.look.language, least=0, most=MAX_TYPED)
    except InvalidAmount:
        return _("Write a whole number of credits, or nothing.")


def scope_texts(visit: Visit) -> list[tuple[str, str]]:
    """Return every scope with what it allows."""
    return [(scope.value, visit.text(text)) for scope, text in SCOPE_TEXTS.items()]


def _new_id(visit: Visit) -> UUID | None:
    """Read the id of the new key from the form: sending it again makes no second key."""
    return forms.read_id(visit.form.get("form_key", ""))


def _overlap_text(visit: Visit, hours: int) -> str:
    if hours == 0:
        return visit.text("0 hours: it stops at once")
    if hours == 1:
        return visit.text("1 hour")
    return (
        visit.text("%(hours)s hours", hours=hours)
        if hours < 72
        else visit.text("%(days)s days", days=hours // 24)
    )


def expiry_text(visit: Visit, days: int) -> str:
    """Say for how many days a key works; 0 is until it is revoked."""
    return visit.text("%(days)s days", days=days) if days else visit.text("until it is revoked")


REQUESTS: Final = "/dashboard/requests"
_CLASSES: Final[Mapping[int, str]] = {2: _("succeeded (2xx)"), 4: _("refused (4xx)"), 5: _("failed (5xx)")}
_FIRST_FAULT_STATUS: Final = 500
_SUBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "meetings": ("/dashboard/meetings/{id}", _("its meeting")),
    "notes": ("/dashboard/notes/{id}", _("its notes")),
    "webhooks": ("/dashboard/webhooks/{id}", _("its webhook")),
}
"""By the first part of a path: the page of its record, and the text of the link."""
_FILTERS: Final = ("day", "status", "code", "path", "key")
_PATHS: Final = tuple(dict.fromkeys(operation.path for operation in OPERATIONS))
_UNKNOWN: Final = "unknown"
"""Chooses the requests of no operation, whose path is empty."""


@frozen
class _RequestRow:
    """A request in the list; `link` leads to its record, if that has a page."""

    request: request_log.LoggedRequest
    mark: str
    key_name: str
    link: tuple[str, str] | None


@Page("GET", REQUESTS, Action.VIEW_REQUESTS)
async def list_requests(visit: Visit) -> Response:
    """List requests by the filters of the address; redirect to the one that is searched for by its id."""
    text = visit.query("id").strip()
    if text and await _find(visit, text) is not None:
        return see_other(f"{REQUESTS}/{text}")
    days = forms.read_days(visit, "day", "day")
    found, keys = await asyncio.gather(
        _nothing() if text else _list_requests(visit, days), visit.use.keys.list_use(visit.signed_in)
    )
    shown, older = forms.first_page(visit, found, lambda one: one.id, *_FILTERS)
    names = {each.key.id: each.key.name for each in keys}
    return visit.form_page(
        "requests.html",
        days.errors,
        rows=[_request_row(visit, each, names) for each in shown],
        older=older,
        searched=text,
        chosen={name: visit.query(name) for name in _FILTERS},
        keys=_key_choices(visit, keys),
        classes=visit.choices((str(each), label) for each, label in _CLASSES.items()),
        codes=visit.choices((code, code) for code in STATUS),
        paths=visit.choices([*((path, path) for path in _PATHS), (_UNKNOWN, _("unknown path"))]),
        kept_days=request_log.REQUESTS_KEPT.days,
        all_of_minute=request_log.ALL_OF_MINUTE,
        one_of=request_log.ONE_OF,
    )


@Page("GET", f"{REQUESTS}/{{id}}", Action.VIEW_REQUESTS)
async def show_request(visit: Visit) -> Response:
    """Show everything that is kept of a request, and the deliveries that it caused."""
    found = require_record(await _find(visit, visit.request.path_params["id"]), "request")
    request = found.request
    return visit.page(
        "request.html",
        request=request,
        mark=mark_of(request),
        key_name=found.key_name,
        link=_link(visit, request),
        deliveries=[(each, visit.mark(DELIVERY_STATES[each.status])) for each in found.deliveries],
    )


async def _find(visit: Visit, text: str) -> RequestDetails | None:
    request_id = forms.read_id(text)
    return None if request_id is None else await visit.use.reads.find_request(visit.signed_in, request_id)


async def _nothing() -> Sequence[request_log.LoggedRequest]:
    return []


async def _list_requests(visit: Visit, days: forms.DayRange) -> Sequence[request_log.LoggedRequest]:
    status = forms.read_choice(visit, "status", map(str, _CLASSES), days.errors)
    path = forms.read_choice(visit, "path", (*_PATHS, _UNKNOWN), days.errors)
    wanted = views.RequestFilter(
        forms.read_key(visit),
        None if status is None else int(status),
        "" if path == _UNKNOWN else path,
        forms.read_choice(visit, "code", STATUS, days.errors),
        days.begins_at,
        days.ends_at,
    )
    return await visit.use.reads.list_requests(
        visit.signed_in, wanted, forms.PAGE_SIZE + 1, forms.read_before(visit)
    )


def _key_choices(visit: Visit, keys: Sequence[KeyUse]) -> list[tuple[str, str]]:
    named = [(str(each.key.id), f"{each.key.name} …{each.key.last_four or ''}") for each in keys]
    return [("", visit.text("all")), *named]


def mark_of(request: request_log.LoggedRequest) -> str:
    """Return the kind of the mark that a request's status has."""
    if request.status >= _FIRST_FAULT_STATUS:
        return "bad"
    return "warn" if request_log.is_error(request.status) else "good"


def _request_row(visit: Visit, request: request_log.LoggedRequest, names: Mapping[UUID, str]) -> _RequestRow:
    return _RequestRow(request, mark_of(request), names.get(request.api_key_id, ""), _link(visit, request))


def _link(visit: Visit, request: request_log.LoggedRequest) -> tuple[str, str] | None:
    path, label = _SUBJECTS.get(request.path.strip("/").partition("/")[0], ("", ""))
    if request.subject_id is None or not path:
        return None
    return path.format(id=request.subject_id), visit.text(label)
