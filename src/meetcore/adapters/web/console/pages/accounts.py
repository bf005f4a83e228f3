"""Accounts: the search, one account, its suspension, and credits moved by hand."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote, urlencode
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.cookies import DASHBOARD, Cookies
from meetcore.adapters.web.pages.meetings import meeting_rows
from meetcore.adapters.web.problems import explain
from meetcore.adapters.web.texts import DELIVERY_STATES, ROLE_TEXTS, TRANSFER_KINDS, _
from meetcore.adapters.web.visit import see_other
from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.members.sessions import VIEW_LIMIT
from meetcore.domain.money.ledger import InvalidAmount, InvalidReason, InvalidReference
from meetcore.domain.requests.keys import ApiKey, masked
from meetcore.ports.console_queries import DeliveryLine
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.account_search import without_secret
from meetcore.usecases.console_accounts import MAX_FOUND, Movement
from meetcore.usecases.redeem_sign_in_link import Browser

ROOT: Final = "/console/accounts"
_AMOUNT: Final = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_PAGE_OF_DASHBOARD: Final = re.compile(r"/dashboard(/[a-z0-9-]+)*(\?key=[a-z0-9-]+)?", re.ASCII)
_WRONG: Final[Mapping[type[ValueError], tuple[str, str]]] = {
    InvalidAmount: ("amount", _("Write a whole number of credits; without a minus sign for a top-up.")),
    InvalidReason: ("reason", _("Write 1 to 200 characters.")),
    InvalidReference: ("reference", _("Write 1 to 200 characters.")),
}
"""The field and the text of each refusal."""

_MOVEMENTS: Final[Mapping[Movement, str]] = {
    Movement.POSTED: "credits_moved",
    Movement.REPEATED: "credits_counted",
    Movement.PROPOSED: "credits_proposed",
}
"""What the page says afterwards; see `texts.DONE`."""

MoveCredits = Callable[[SignedInOperator, str | None, UUID, int, str, str], Awaitable[Movement]]


@ConsolePage("GET", "/console", OperatorAction.VIEW_ACCOUNTS)
async def begin(_visit: ConsoleVisit) -> Response:
    """Go on to the accounts."""
    return see_other(ROOT)


@ConsolePage("GET", ROOT, OperatorAction.VIEW_ACCOUNTS)
async def list_accounts(visit: ConsoleVisit) -> Response:
    """The accounts found by what was typed, else the newest."""
    text = visit.query("q").strip()
    found = await visit.use.accounts.search(visit.signed_in, text)
    shown = without_secret(text, visit.use.key_prefix)
    return visit.page("console/accounts.html", accounts=found, q=shown, is_full=len(found) == MAX_FOUND)


@ConsolePage("POST", ROOT, OperatorAction.VIEW_ACCOUNTS)
async def search_accounts(visit: ConsoleVisit) -> Response:
    """Go on to what is found, at an address without a whole key: addresses are logged."""
    text = without_secret(visit.form.get("q", "").strip(), visit.use.key_prefix)
    return see_other(f"{ROOT}?{urlencode({'q': text}, quote_via=quote)}" if text else ROOT)


@ConsolePage("GET", f"{ROOT}/{{id}}", OperatorAction.VIEW_ACCOUNTS)
async def show_account(visit: ConsoleVisit) -> Response:
    """One account."""
    return await _show(visit, {})


@ConsolePage("POST", f"{ROOT}/{{id}}/suspend", OperatorAction.SUSPEND_ACCOUNTS, needs_fresh=True)
async def suspend_account(visit: ConsoleVisit) -> Response:
    """Refuse the account's keys from their next request on."""
    await visit.use.accounts.suspend(visit.signed_in, visit.client_address, _id(visit))
    return _done(visit, "account_suspended")


@ConsolePage("POST", f"{ROOT}/{{id}}/resume", OperatorAction.SUSPEND_ACCOUNTS, needs_fresh=True)
async def resume_account(visit: ConsoleVisit) -> Response:
    """Let the account's keys in again."""
    await visit.use.accounts.resume(visit.signed_in, visit.client_address, _id(visit))
    return _done(visit, "account_resumed")


@ConsolePage("POST", f"{ROOT}/{{id}}/view", OperatorAction.IMPERSONATE, needs_fresh=True)
async def view_account(visit: ConsoleVisit) -> Response:
    """Look at the account's dashboard, or at a page of it, in a session of its own that changes nothing."""
    request = visit.request
    who = Browser(None, request.headers.get("user-agent", ""), visit.client_address)
    begun = await visit.use.impersonate.begin(visit.signed_in, _id(visit), who)
    cookies = Cookies(DASHBOARD, visit.cookies.is_secure)
    # The cookie is about to be replaced: nobody could end that session any more.
    if earlier := await visit.use.sessions.find(cookies.read(request, cookies.session)):
        await visit.use.sessions.end(earlier.session)
    page = visit.form.get("to", "")
    answer = see_other(page if _PAGE_OF_DASHBOARD.fullmatch(page) else "/dashboard")
    cookies.set(answer, cookies.session, begun.token, VIEW_LIMIT)
    return answer


@ConsolePage("POST", f"{ROOT}/{{id}}/top-up", OperatorAction.MOVE_CREDITS, needs_fresh=True)
async def top_up(visit: ConsoleVisit) -> Response:
    """Add credits that were paid, once for each form or reference."""
    return await _move(visit, visit.use.accounts.top_up)


@ConsolePage("POST", f"{ROOT}/{{id}}/adjust", OperatorAction.MOVE_CREDITS, needs_fresh=True)
async def adjust(visit: ConsoleVisit) -> Response:
    """Correct the balance, once for each form or reference."""
    return await _move(visit, visit.use.accounts.adjust)


async def _move(visit: ConsoleVisit, change: MoveCredits) -> Response:
    form = visit.form
    amount = form.get("amount", "").strip()
    if not _AMOUNT.fullmatch(amount):
        return await _show(visit, _wrong(visit, InvalidAmount))
    reason = form.get("reason", "").strip()
    reference = form.get("reference", "").strip() or form.get("form_key", "")
    try:
        movement = await change(
            visit.signed_in, visit.client_address, _id(visit), int(amount), reason, reference
        )
    except (InvalidAmount, InvalidReason, InvalidReference) as error:
        return await _show(visit, _wrong(visit, type(error)))
    except (Conflict, InsufficientCredits) as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return _done(visit, _MOVEMENTS[movement])


def _wrong(visit: ConsoleVisit, kind: type[ValueError]) -> Mapping[str, str]:
    field, text = _WRONG[kind]
    return {field: visit.text(text)}


async def _show(visit: ConsoleVisit, errors: Mapping[str, str]) -> Response:
    found = await visit.use.accounts.find(visit.signed_in, _id(visit))
    page = found.page
    return visit.page(
        "console/account.html",
        422 if errors else 200,
        errors=errors,
        account=page.account,
        members=[(each, visit.text(ROLE_TEXTS[each.membership.role])) for each in page.members],
        keys=[(key, masked(visit.use.key_prefix, key), _state(visit, key)) for key in page.keys],
        entries=[(entry, visit.text(TRANSFER_KINDS[entry.kind])) for entry in page.entries],
        deliveries=[(each, *_delivery_state(visit, each)) for each in page.deliveries],
        meetings=meeting_rows(visit, found.meetings),
        form_key=visit.new_form_key(),
        tried=visit.form,
        wrong_form=visit.request.url.path.rpartition("/")[2] if errors else "",
    )


def _delivery_state(visit: ConsoleVisit, delivery: DeliveryLine) -> tuple[str, str]:
    label, kind = DELIVERY_STATES[delivery.status]
    return visit.text(label), kind


def _state(visit: ConsoleVisit, key: ApiKey) -> tuple[str, str]:
    """How a key stands: the text, and the kind of its mark."""
    if key.revoked_at is not None and key.revoked_at <= visit.now:
        return visit.text(_("revoked")), "bad"
    if key.expires_at is not None and key.expires_at <= visit.now:
        return visit.text(_("expired")), ""
    return visit.text(_("active")), "good"


def _id(visit: ConsoleVisit) -> UUID:
    return parse_id(visit.request.path_params["id"], "account")


def _done(visit: ConsoleVisit, what: str) -> Response:
    return see_other(f"{ROOT}/{_id(visit)}?done={what}")
