"""Pages that the dashboard and the console have alike: passkeys, sessions, and the audit log."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from starlette.responses import JSONResponse, Response

from meetcore.adapters.web import audit_texts, forms
from meetcore.adapters.web.visit import HEADERS, AreaPage, AreaVisit, Ask, Handler, Question, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.members import audit, views
from meetcore.usecases.members.passkeys import Passkeys, Visitor

AnyVisit = AreaVisit[Any, Any, Any]
AnyPage = AreaPage[Any, Any, Any]
ListEntries = Callable[[Any, int, UUID | None], Awaitable[Sequence[audit.AuditEntry]]]


def audit_page(root: str, action: Any, use: Callable[[Any], ListEntries]) -> AnyPage:
    """Declare an audit log's page for an action: who changed what, from where and when, newest first."""

    async def show(visit: AnyVisit) -> Response:
        found = await use(visit.use)(visit.signed_in, forms.PAGE_SIZE + 1, forms.read_before(visit))
        shown, older = forms.first_page(visit, found, lambda one: one.id)
        return visit.page("audit.html", rows=audit_texts.audit_rows(visit, shown), older=older)

    return AreaPage("GET", root, action, handle=show)


def session_pages(root: str, back: str, action: Any) -> Sequence[AnyPage]:
    """Declare the changes that end the visitor's other sessions, and lead back to the page of the list."""

    async def end_one(visit: AnyVisit) -> Response:
        await visit.use.sessions.end_own(visit.signed_in, visit.path_id("session"), visit.client_address)
        return see_other(f"{back}?done=session_ended")

    async def end_others(visit: AnyVisit) -> Response:
        await visit.use.sessions.end_others(visit.signed_in, visit.client_address)
        return see_other(f"{back}?done=session_ended")

    ends = {f"{root}/{{id}}/end": end_one, f"{root}/end-others": end_others}
    return [AreaPage("POST", path, action, handle=end) for path, end in ends.items()]


def passkey_pages(root: str, action: Any) -> Sequence[AnyPage]:
    """Declare the pages of the visitor's passkeys, for those with the action."""
    steps: Sequence[tuple[str, Handler[AnyVisit], Ask[AnyVisit] | None]] = (
        (f"{root}/options", ask_for_passkey, None),
        (root, add_passkey, None),
        (f"{root}/{{id}}/remove", remove_passkey, _ask_to_remove),
    )
    changes = (
        AreaPage("POST", path, action, needs_fresh=True, handle=step, ask=ask) for path, step, ask in steps
    )
    return [AreaPage("GET", root, action, handle=show_passkeys), *changes]


async def _ask_to_remove(visit: AnyVisit) -> Question | None:
    own = await visit.use.passkeys.list_own(visit.signed_in)
    name = next((each.name for each in own if each.id == visit.path_id("passkey")), None)
    if name is None:
        return None
    return Question(
        visit.text("Remove the passkey %(name)s?", name=name),
        visit.text("It does not sign you in any more."),
        visit.text("Remove the passkey"),
    )


async def show_passkeys(visit: AnyVisit, errors: Mapping[str, str] | None = None) -> Response:
    """List the visitor's passkeys, with the form for another one."""
    passkeys: Passkeys = visit.use.passkeys
    who = visit.signed_in
    return visit.form_page(
        "passkeys.html",
        errors or {},
        passkeys=await passkeys.list_own(who),
        are_possible=passkeys.are_possible,
        is_guest=isinstance(who, views.SignedIn) and who.user is None,
        name=visit.form.get("name", ""),
    )


async def ask_for_passkey(visit: AnyVisit) -> Response:
    """Return the request to the authenticator, for the script of the page."""
    return JSONResponse(await visit.use.passkeys.ask_to_register(_visitor(visit)), headers=HEADERS)


async def add_passkey(visit: AnyVisit) -> Response:
    """Add the passkey that the authenticator has made."""
    try:
        await visit.use.passkeys.add(
            _visitor(visit), visit.form.get("name", ""), visit.form.get("credential", "")
        )
    except DomainError as refusal:
        return await show_passkeys(visit, forms.explain(visit.look, refusal))
    return see_other(f"{visit.look.root}/passkeys?done=passkey_added")


async def remove_passkey(visit: AnyVisit) -> Response:
    """Remove a passkey."""
    await visit.use.passkeys.remove(_visitor(visit), visit.path_id("passkey"))
    return see_other(f"{visit.look.root}/passkeys?done=passkey_removed")


def _visitor(visit: AnyVisit) -> Visitor:
    token = visit.cookies.read(visit.request, visit.cookies.session) or ""
    return Visitor(visit.signed_in, token, visit.client_address, visit.look.language)
