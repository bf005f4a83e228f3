"""Accounts: the search, one account, its suspension, and credits moved by hand."""

import re
import shlex
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from meetcore.adapters.web.cookies import DASHBOARD, Cookies
from meetcore.adapters.web.forms import explain
from meetcore.adapters.web.pages.meeting_lists import meeting_rows
from meetcore.adapters.web.pages.requests import mark_of
from meetcore.adapters.web.texts import DELIVERY_STATES, ROLE_TEXTS, TRANSFER_KINDS, _
from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit, Question, see_other
from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.members import roles, sessions
from meetcore.domain.money.amounts import read_amount
from meetcore.domain.money.ledger import InvalidAmount, InvalidReason, InvalidReference, check_reason
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.payments.payments import payment_in
from meetcore.domain.records.pages import EntryLine
from meetcore.domain.requests.keys import ApiKey, masked
from meetcore.usecases.members.sign_in_links import Browser
from meetcore.usecases.requests.console import MAX_FOUND, Movement, without_secret

ROOT: Final = "/console/accounts"
_LINK: Final = ("meetcore", "portal", "link")
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
"""The notice of each outcome; see `texts.DONE`."""


@ConsolePage("GET", "/console", roles.OperatorAction.VIEW_ACCOUNTS)
async def begin(_visit: ConsoleVisit) -> Response:
    """Redirect to the accounts."""
    return see_other(ROOT)


@ConsolePage("GET", ROOT, roles.OperatorAction.VIEW_ACCOUNTS)
async def list_accounts(visit: ConsoleVisit) -> Response:
    """List the accounts that match a search, else the newest."""
    text = visit.query("q").strip()
    use, who = visit.use.accounts, visit.signed_in
    found = await use.search(who, visit.client_address, text)
    return visit.page(
        "console/accounts.html",
        accounts=found,
        q=without_secret(text, visit.use.key_prefix),
        is_full=len(found) == MAX_FOUND,
        request=await use.find_request(who, text) if text else None,
        mark_of=mark_of,
    )


@ConsolePage("POST", ROOT, roles.OperatorAction.VIEW_ACCOUNTS)
async def search_accounts(visit: ConsoleVisit) -> Response:
    """Redirect to the results, at an address without a whole key: addresses are logged."""
    text = without_secret(visit.form.get("q", "").strip(), visit.use.key_prefix)
    return see_other(f"{ROOT}?{urlencode({'q': text}, quote_via=quote)}" if text else ROOT)


@ConsolePage("GET", f"{ROOT}/{{id}}", roles.OperatorAction.VIEW_ACCOUNTS)
async def show_account(visit: ConsoleVisit) -> Response:
    return await _show(visit, {})


async def _ask_to_suspend(visit: ConsoleVisit) -> Question | None:
    try:
        reason = check_reason(_reason(visit))
    except InvalidReason:
        return None
    use, account_id = visit.use.accounts, visit.path_id("account")
    page, _meetings = await use.find(visit.signed_in, visit.client_address, account_id)
    return Question(
        visit.text("Suspend %(name)s?", name=page.account.full_name),
        visit.text(
            "Its keys are refused from their next request on. What was begun goes on. Its members read "
            "this reason, its owners by e-mail, too: %(reason)s",
            reason=reason,
        ),
        visit.text("Suspend the account"),
    )


@ConsolePage(
    "POST", f"{ROOT}/{{id}}/suspend", roles.OperatorAction.SUSPEND_ACCOUNTS, needs_fresh=True,
    ask=_ask_to_suspend,
)  # fmt: skip
async def suspend_account(visit: ConsoleVisit) -> Response:
    """Refuse the account's keys from their next request on, for a reason that its members read."""
    id = visit.path_id("account")
    try:
        await visit.use.accounts.suspend(visit.signed_in, visit.client_address, id, _reason(visit))
    except InvalidReason as error:
        return await _show(visit, _wrong(visit, type(error)))
    return _done(visit, "account_suspended")


def _reason(visit: ConsoleVisit) -> str:
    return visit.form.get("reason", "").strip()


@ConsolePage("POST", f"{ROOT}/{{id}}/resume", roles.OperatorAction.SUSPEND_ACCOUNTS, needs_fresh=True)
async def resume_account(visit: ConsoleVisit) -> Response:
    """Accept the account's keys again."""
    await visit.use.accounts.resume(visit.signed_in, visit.client_address, visit.path_id("account"))
    return _done(visit, "account_resumed")


@ConsolePage("POST", f"{ROOT}/{{id}}/view", roles.OperatorAction.IMPERSONATE, needs_fresh=True)
async def view_account(visit: ConsoleVisit) -> Response:
    """Open the account's dashboard, or a page of it, in a read-only session."""
    request = visit.request
    who = Browser(None, request.headers.get("user-agent", ""), visit.client_address)
    begun = await visit.use.impersonate.begin(visit.signed_in, visit.path_id("account"), who)
    cookies = Cookies(DASHBOARD, visit.cookies.is_secure)
    # The cookie is about to be replaced: without it that session cannot be ended.
    if earlier := await visit.use.sessions.find(cookies.read(request, cookies.session)):
        await visit.use.sessions.end(earlier.session)
    page = visit.form.get("to", "")
    answer = see_other(page if _PAGE_OF_DASHBOARD.fullmatch(page) else "/dashboard")
    cookies.set(answer, cookies.session, begun.token, sessions.VIEW_LIMIT)
    return answer


@ConsolePage("POST", f"{ROOT}/{{id}}/top-up", roles.OperatorAction.MOVE_CREDITS, needs_fresh=True)
async def top_up(visit: ConsoleVisit) -> Response:
    """Add credits that were paid, once for each form or reference."""
    return await _move(visit, ProposalKind.TOPUP)


@ConsolePage("POST", f"{ROOT}/{{id}}/adjust", roles.OperatorAction.MOVE_CREDITS, needs_fresh=True)
async def adjust(visit: ConsoleVisit) -> Response:
    """Correct the balance, once for each form or reference."""
    return await _move(visit, ProposalKind.ADJUSTMENT)


async def _move(visit: ConsoleVisit, kind: ProposalKind) -> Response:
    form = visit.form
    reason = _reason(visit)
    reference = form.get("reference", "").strip() or form.get("form_key", "")
    try:
        amount = read_amount(form.get("amount", ""), visit.look.language)
        movement = await visit.use.accounts.move_credits(
            visit.signed_in, visit.client_address, visit.path_id("account"), kind, amount, reason,
            reference,
        )  # fmt: skip
    except (InvalidAmount, InvalidReason, InvalidReference) as error:
        return await _show(visit, _wrong(visit, type(error)))
    except (Conflict, InsufficientCredits) as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return _done(visit, _MOVEMENTS[movement])


def _wrong(visit: ConsoleVisit, kind: type[ValueError]) -> Mapping[str, str]:
    field, text = _WRONG[kind]
    return {field: visit.text(text)}


async def _show(visit: ConsoleVisit, errors: Mapping[str, str]) -> Response:
    account_id = visit.path_id("account")
    page, meetings = await visit.use.accounts.find(visit.signed_in, visit.client_address, account_id)
    return visit.form_page(
        "console/account.html",
        errors,
        account=page.account,
        members=[(each, visit.text(ROLE_TEXTS[each.membership.role])) for each in page.members],
        keys=[(key, masked(visit.use.key_prefix, key), _state(visit, key)) for key in page.keys],
        entries=[
            (entry, visit.text(TRANSFER_KINDS[entry.kind]), _payment_id(entry)) for entry in page.entries
        ],
        deliveries=[(each, *visit.mark(DELIVERY_STATES[each.status])) for each in page.deliveries],
        meetings=meeting_rows(visit, meetings),
        link_command=shlex.join([*_LINK, "--account", str(page.account.id), "--email", page.account.email]),
        form_key=(visit.is_restored and visit.form.get("form_key")) or visit.new_form_key(),
    )


def _payment_id(entry: EntryLine) -> str:
    """Return the id of the payment that an entry is for, if it is for one."""
    if entry.reference_type == "payment":
        return entry.reference_id
    return str(payment_in(entry.reference_id) or "") if entry.reference_type == "topup" else ""


def _state(visit: ConsoleVisit, key: ApiKey) -> tuple[str, str]:
    """Describe the state of a key: its text, and the kind of its mark."""
    if key.revoked_at is not None and key.revoked_at <= visit.now:
        return visit.text("revoked"), "bad"
    if key.expires_at is not None and key.expires_at <= visit.now:
        return visit.text("expired"), ""
    return visit.text("active"), "good"


def _done(visit: ConsoleVisit, what: str) -> Response:
    return see_other(f"{ROOT}/{visit.path_id('account')}?done={what}")
