"""The question whether a program gets a grant: an agent that asks by OAuth (RFC 6749, 4.1)."""

from collections.abc import Awaitable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from meetcore.adapters.web.pages import requests
from meetcore.adapters.web.refusals import translate_refusal
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import HEADERS, Page, Visit
from meetcore.domain.errors import Gone
from meetcore.domain.members.roles import Action
from meetcore.domain.requests import grants
from meetcore.usecases.requests.grants import CONSENT_PAGE

DEFAULT_EXPIRY_DAYS: Final = "90"


@Page("GET", f"{CONSENT_PAGE}/{{id}}", Action.MANAGE_KEYS, needs_fresh=True)
async def ask_for_consent(visit: Visit) -> Response:
    """Show the program, where its access goes, and what it asks for."""
    return await _while_open(visit, _question(visit, visit.path_id("request"), visit.form, {}))


@Page("POST", f"{CONSENT_PAGE}/{{id}}", Action.MANAGE_KEYS, needs_fresh=True)
async def answer_consent(visit: Visit) -> Response:
    """Give the grant, or refuse it, and send the browser back to the program."""
    return await _while_open(visit, _answer(visit))


async def _while_open(visit: Visit, answer: Awaitable[Response]) -> Response:
    """Answer about a request, and for one that is over say what to do."""
    try:
        return await answer
    except Gone as refusal:
        text = translate_refusal(visit.look.language, refusal.message)
        return visit.look.message(
            _("Connect a program"), text, visit.look.root, _("Back to the overview"), HTTPStatus.GONE
        )


async def _answer(visit: Visit) -> Response:
    form, id = visit.form, visit.path_id("request")
    if form.get("answer") != "allow":
        return _leave(await visit.use.grants.refuse(visit.signed_in, id, visit.client_address))
    scopes, daily_cap, errors = requests.read_limits(visit)
    if errors:
        return await _question(visit, id, form, errors)
    days = form.get("expires_in_days", "")
    expires_at = None if days == "0" else visit.now + timedelta(days=int(_days(days)))
    return _leave(
        await visit.use.grants.allow(visit.signed_in, id, scopes, daily_cap, expires_at, visit.client_address)
    )


def _days(text: str) -> str:
    return text if text in map(str, requests.EXPIRIES_DAYS) else DEFAULT_EXPIRY_DAYS


async def _question(visit: Visit, id: UUID, form: Mapping[str, str], errors: Mapping[str, str]) -> Response:
    asked, client = await visit.use.grants.find_open(visit.signed_in, id)
    origin = grants.origin_of(asked.redirect_uri)
    page = visit.form_page(
        "connect.html",
        errors,
        client=client,
        account=visit.signed_in.account,
        place=grants.place_of(origin),
        is_here=grants.is_on_this_machine(origin),
        path=f"{CONSENT_PAGE}/{id}",
        scopes=requests.scope_texts(visit),
        chosen=requests.read_scopes(form) if form else asked.scopes,
        daily_cap=form.get("daily_cap", ""),
        expiries=[(str(days), requests.expiry_text(visit, days)) for days in requests.EXPIRIES_DAYS],
        expires_in_days=_days(form.get("expires_in_days", "")),
    )
    # Browsers hold the redirect after a form against the same list. It has no notation for an IPv6 address.
    target = "http:" if "[" in origin else origin
    policy = HEADERS["Content-Security-Policy"].replace("form-action 'self'", f"form-action 'self' {target}")
    page.headers["Content-Security-Policy"] = policy
    return page


def _leave(url: str) -> Response:
    """Send the browser to the program's address, which was checked when it was registered."""
    return RedirectResponse(url, 303, {**HEADERS, "Referrer-Policy": "no-referrer"})
