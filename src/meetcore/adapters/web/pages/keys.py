"""API keys: the list with today's use, a new key (shown once), caps, rolling and revoking."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.problems import explain
from meetcore.adapters.web.texts import SCOPE_TEXTS, _
from meetcore.adapters.web.visit import Visit, see_other
from meetcore.domain.errors import Conflict, DomainError
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action
from meetcore.domain.requests.keys import ApiKey, InvalidName, Scope
from meetcore.ports.dashboard_queries import KeyUse
from meetcore.usecases.administration import MintedKey

ROOT: Final = "/dashboard/keys"
OVERLAPS_H: Final = (0, 1, 24, 72, 168)
EXPIRIES_DAYS: Final = (0, 30, 90, 365)
MAX_CAP: Final = 10**12
_PREFIXED: Final = "scope:"


@frozen
class _Row:
    """A key in the list. `shown` is what of its text may be shown, `ended_at` when it stopped working."""

    key: ApiKey
    spent: int
    shown: str
    ended_at: datetime | None


@Page("GET", ROOT, Action.VIEW_KEYS)
async def list_keys(visit: Visit) -> Response:
    """Every key; those that do not work any more are folded away."""
    return await _list(visit)


@Page("GET", f"{ROOT}/new", Action.MANAGE_KEYS)
async def ask_for_key(visit: Visit) -> Response:
    """The form of a new key."""
    return _form(visit, {}, {})


@Page("POST", ROOT, Action.MANAGE_KEYS, needs_fresh=True)
async def create_key(visit: Visit) -> Response:
    """Make a key and show it, this once."""
    form, errors = visit.form, {}
    scopes = [scope for scope in Scope if f"{_PREFIXED}{scope}" in form]
    if not scopes:
        errors["scopes"] = visit.text(_("Choose at least one."))
    daily_cap = _read_cap(form.get("daily_cap", ""))
    if isinstance(daily_cap, str):
        errors["daily_cap"] = visit.text(daily_cap)
    days = form.get("expires_in_days", "0")
    expires_at = visit.now + timedelta(days=int(days)) if days in map(str, EXPIRIES_DAYS[1:]) else None
    if errors or isinstance(daily_cap, str):
        return _form(visit, form, errors, status=422)
    try:
        minted = await visit.use.keys.create(
            visit.signed_in, visit.client_address, form.get("name", "").strip(), scopes, daily_cap,
            expires_at, _new_id(visit),
        )  # fmt: skip
    except InvalidName as error:
        return _form(visit, form, {"name": visit.text(str(error))}, status=422)
    except Conflict as refusal:
        return await _list(visit, errors=explain(visit.look, refusal))
    return await _list(visit, minted)


@Page("POST", f"{ROOT}/{{id}}/cap", Action.MANAGE_CAPS, needs_fresh=True)
async def change_cap(visit: Visit) -> Response:
    """Change the daily cap of a key, or remove it."""
    daily_cap = _read_cap(visit.form.get("daily_cap", ""))
    if isinstance(daily_cap, str):
        return await _list(visit, errors={f"cap-{_key_id(visit)}": visit.text(daily_cap)})
    await visit.use.keys.set_daily_cap(visit.signed_in, visit.client_address, _key_id(visit), daily_cap)
    return see_other(f"{ROOT}?done=cap_changed")


@Page("POST", f"{ROOT}/{{id}}/roll", Action.MANAGE_KEYS, needs_fresh=True)
async def roll_key(visit: Visit) -> Response:
    """Put a new key in the place of another, and show it, this once."""
    text = visit.form.get("overlap_h", "")
    overlap_h = int(text) if text in map(str, OVERLAPS_H) else 0
    try:
        minted = await visit.use.keys.roll(
            visit.signed_in, visit.client_address, _key_id(visit), overlap_h, _new_id(visit)
        )
    except DomainError as refusal:
        return await _list(visit, errors=explain(visit.look, refusal))
    return await _list(visit, minted)


@Page("POST", f"{ROOT}/{{id}}/revoke", Action.MANAGE_KEYS, needs_fresh=True)
async def revoke_key(visit: Visit) -> Response:
    """Revoke a key at once."""
    await visit.use.keys.revoke(visit.signed_in, visit.client_address, _key_id(visit))
    return see_other(f"{ROOT}?done=key_revoked")


async def _list(
    visit: Visit, minted: MintedKey | None = None, errors: Mapping[str, str] | None = None
) -> Response:
    rows = [_row(visit, use) for use in await visit.use.keys.list_use(visit.signed_in)]
    return visit.page(
        "keys.html",
        422 if errors else 200,
        errors=errors or {},
        minted=minted,
        form_key=visit.new_form_key(),
        usable=[row for row in rows if row.ended_at is None],
        ended=[row for row in rows if row.ended_at is not None],
        overlaps=[(str(hours), _overlap_text(visit, hours)) for hours in OVERLAPS_H],
    )


def _row(visit: Visit, use: KeyUse) -> _Row:
    key = use.key
    shown = f"{visit.use.administration.key_prefix}_live_…{key.last_four or ''}"
    ends = [at for at in (key.revoked_at, key.expires_at) if at is not None and at <= visit.now]
    return _Row(key, use.spent, shown, min(ends, default=None))


def _form(visit: Visit, values: Mapping[str, str], errors: Mapping[str, str], status: int = 200) -> Response:
    return visit.page(
        "new_key.html",
        status,
        values={name: values.get(name, "") for name in ("name", "daily_cap", "expires_in_days")},
        chosen=[name.removeprefix(_PREFIXED) for name in values if name.startswith(_PREFIXED)],
        errors=errors,
        form_key=values.get("form_key") or visit.new_form_key(),
        scopes=[(scope.value, visit.text(text)) for scope, text in SCOPE_TEXTS.items()],
        expiries=[(str(days), _expiry_text(visit, days)) for days in EXPIRIES_DAYS],
    )


def _read_cap(text: str) -> int | str | None:
    """A cap in credits, `None` for none; a text that says what is wrong with the entry."""
    digits = text.strip().replace(".", "").replace(",", "")
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 12:
        return _("Write a whole number of credits, or nothing.")
    return int(digits)


def _new_id(visit: Visit) -> UUID | None:
    """The id that the form gives the new key: the form that is sent again makes no second one."""
    try:
        return UUID(visit.form.get("form_key", ""))
    except ValueError:
        return None


def _key_id(visit: Visit) -> UUID:
    return parse_id(visit.request.path_params["id"], "key")


def _overlap_text(visit: Visit, hours: int) -> str:
    if hours == 0:
        return visit.text(_("0 hours: it stops at once"))
    return (
        visit.text(_("%(hours)s hours"), hours=hours)
        if hours < 72
        else visit.text(_("%(days)s days"), days=hours // 24)
    )


def _expiry_text(visit: Visit, days: int) -> str:
    return visit.text(_("%(days)s days"), days=days) if days else visit.text(_("until it is revoked"))
