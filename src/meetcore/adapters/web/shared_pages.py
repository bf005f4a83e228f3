"""Pages that the dashboard and the console have alike: passkeys, sessions, and the audit log."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from attrs import frozen
from starlette.responses import JSONResponse, Response

from meetcore.adapters.web import forms
from meetcore.adapters.web.formats import format_instant
from meetcore.adapters.web.texts import ROLE_TEXTS, _
from meetcore.adapters.web.visit import HEADERS, AreaPage, AreaVisit, Ask, Handler, Question, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.members import audit, roles, views
from meetcore.usecases.members.passkeys import Passkeys, Visitor

AnyVisit = AreaVisit[Any, Any, Any]
AnyPage = AreaPage[Any, Any, Any]
ListEntries = Callable[[Any, int, UUID | None], Awaitable[Sequence[audit.AuditEntry]]]


ACTION_TEXTS: Final[Mapping[str, str]] = {
    "account.created": _("account opened"),
    "account.erased": _("account erased"),
    "account.exported": _("account exported as a file"),
    "account.read": _("account read by an operator"),
    "account.resumed": _("account resumed"),
    "account.searched": _("accounts searched by an operator"),
    "account.statement_mails_changed": _("e-mails of statements changed"),
    "account.suspended": _("account suspended"),
    "account.threshold_changed": _("threshold of credits changed"),
    "account.viewed": _("dashboard looked at by an operator"),
    "billing.changed": _("billing details changed"),
    "credits.adjusted": _("credits adjusted"),
    "credits.proposal_approved": _("proposal of credits approved"),
    "credits.proposal_rejected": _("proposal of credits rejected"),
    "credits.proposed": _("credits proposed"),
    "credits.refunded": _("credits of a payment taken back"),
    "credits.topped_up": _("credits topped up"),
    "grant.given": _("program connected"),
    "grant.refused": _("connection of a program refused"),
    "grant.revoked": _("connection of a program revoked"),
    "host.added": _("host added"),
    "host.disabled": _("host disabled"),
    "host.enabled": _("host enabled"),
    "identity.forgotten": _("person at the OpenID provider forgotten"),
    "key.cap_changed": _("daily cap of an API key changed"),
    "key.created": _("API key created"),
    "key.revoked": _("API key revoked"),
    "key.rolled": _("API key replaced"),
    "ledger.downloaded": _("ledger downloaded as CSV"),
    "meeting.adopted": _("meeting at the provider adopted"),
    "meeting.cancelled": _("meeting cancelled"),
    "meeting.created": _("meeting created"),
    "meeting.ended": _("meeting ended"),
    "meeting.finished_by_operator": _("meeting in doubt finished"),
    "meeting.gone": _("meeting that is gone at the provider cancelled"),
    "meeting.kept_by_operator": _("meeting in doubt kept"),
    "meeting.lost": _("meeting without a record removed at the provider"),
    "meeting.undone_by_operator": _("meeting in doubt undone"),
    "member.invitation_revoked": _("invitation revoked"),
    "member.invited": _("member invited"),
    "member.joined": _("member joined"),
    "member.removed": _("member removed"),
    "member.role_changed": _("role of a member changed"),
    "note.edited": _("notes corrected"),
    "operator.added": _("operator added"),
    "operator.removed": _("operator removed"),
    "operator_token.created": _("operator token created"),
    "operator_token.revoked": _("operator token revoked"),
    "payment.accepted": _("payment in doubt accepted"),
    "payment.dismissed": _("doubt of a payment closed"),
    "payment.started": _("payment for credits started"),
    "passkey.added": _("passkey added"),
    "passkey.removed": _("passkey removed"),
    "portal_link.created": _("sign-in link made"),
    "secrets.reseal_started": _("encryption of secrets under the new key begun"),
    "secrets.resealed": _("secrets encrypted under the new key"),
    "session.ended": _("session ended"),
    "session.others_ended": _("signed out everywhere else"),
    "session.refused": _("sign-in refused"),
    "session.started": _("signed in"),
    "webhook.changed": _("webhook changed"),
    "webhook.deliveries_recovered": _("failed deliveries of a webhook sent again"),
    "webhook.delivery_resent": _("delivery of a webhook sent again"),
    "webhook.registered": _("webhook registered"),
    "webhook.removed": _("webhook removed"),
    "webhook.secret_rotated": _("secret of a webhook rotated"),
    "webhook.secret_shown": _("secret of a webhook shown"),
    "webhook.test_sent": _("test of a webhook sent"),
}
"""Each change that an entry may record."""

ACTOR_TEXTS: Final[Mapping[audit.ActorKind, str]] = {
    audit.ActorKind.MEMBER: _("member"),
    audit.ActorKind.GUEST: _("guest"),
    audit.ActorKind.OPERATOR: _("operator"),
    audit.ActorKind.SYSTEM: _("system"),
}

DETAIL_TEXTS: Final[Mapping[str, str]] = {
    "account": _("account"),
    "after": _("after"),
    "amount": _("amount"),
    "before": _("before"),
    "by_sign_up": _("by the sign-up page"),
    "client": _("program"),
    "credits": _("credits"),
    "currency": _("currency"),
    "daily_cap": _("daily cap"),
    "deliveries": _("deliveries"),
    "doubt": _("doubt"),
    "email": _("e-mail address"),
    "ended": _("sessions ended"),
    "event_id": _("event"),
    "expires_at": _("expires"),
    "found": _("found"),
    "host": _("host"),
    "how": _("way"),
    "kind": _("kind"),
    "minutes": _("minutes"),
    "name": _("name"),
    "new_key_id": _("new key"),
    "overlap_h": _("hours with the old one"),
    "parts": _("parts"),
    "proposed_by": _("proposed by"),
    "provider_meeting_id": _("number at the provider"),
    "provider_user_id": _("user at the provider"),
    "reason": _("reason"),
    "reference": _("reference"),
    "role": _("role"),
    "scopes": _("scopes"),
    "since": _("since"),
    "state": _("status"),
    "title": _("title"),
    "values": _("values"),
    "webhook_id": _("webhook"),
}
"""What the details of entries are, by their names; another name is shown as it is."""
_INSTANTS: Final = frozenset({"expires_at", "since"})
"""Details that are instants: pages show those in WIB."""
_ROLES: Final = frozenset({"role", "before", "after"})
"""Details that may be the role of a member."""


@frozen
class AuditRow:
    """An entry as a page shows it. `what` is empty for an action of a release to come."""

    entry: audit.AuditEntry
    what: str
    actor_kind: str
    details: Sequence[tuple[str, str]]


def audit_page(root: str, action: Any, use: Callable[[Any], ListEntries]) -> AnyPage:
    """Declare an audit log's page for an action: who changed what, from where and when, newest first."""

    async def show(visit: AnyVisit) -> Response:
        found = await use(visit.use)(visit.signed_in, forms.PAGE_SIZE + 1, forms.read_before(visit))
        shown, older = forms.first_page(visit, found, lambda one: one.id)
        return visit.page("audit.html", rows=[_audit_row(visit, each) for each in shown], older=older)

    return AreaPage("GET", root, action, handle=show)


def _audit_row(visit: AnyVisit, entry: audit.AuditEntry) -> AuditRow:
    return AuditRow(
        entry,
        visit.text(ACTION_TEXTS.get(entry.action, "")),
        visit.text(ACTOR_TEXTS[entry.actor.kind]),
        [
            (visit.text(DETAIL_TEXTS.get(name, name)), _shown(visit, name, value))
            for name, value in entry.details.items()
            if value is not None
        ],
    )


def _shown(visit: AnyVisit, name: str, value: audit.Detail) -> str:
    if isinstance(value, bool):
        return visit.text(_("yes") if value else _("no"))
    text = str(value)
    if name in _INSTANTS:
        return format_instant(datetime.fromisoformat(text), visit.look.language)
    is_role = name in _ROLES and text in set(roles.Role)
    return visit.text(ROLE_TEXTS[roles.Role(text)]) if is_role else text


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
