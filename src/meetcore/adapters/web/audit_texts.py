"""The texts of the audit log's page: actions, actors, and the names of their details."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from attrs import frozen

from meetcore.adapters.web.texts import _
from meetcore.domain.members import audit

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


class Translator(Protocol):
    """A visit, as far as it translates."""

    def text(self, message: str) -> str:
        """Return a text in the language of the visit."""


@frozen
class AuditRow:
    """An entry as a page shows it. `what` is empty for an action of a release to come."""

    entry: audit.AuditEntry
    what: str
    actor_kind: str
    details: str


def audit_rows(visit: Translator, entries: Iterable[audit.AuditEntry]) -> list[AuditRow]:
    """Return the rows of entries, in their order."""
    return [
        AuditRow(
            each,
            visit.text(ACTION_TEXTS[each.action]) if each.action in ACTION_TEXTS else "",
            visit.text(ACTOR_TEXTS[each.actor.kind]),
            "; ".join(
                f"{visit.text(DETAIL_TEXTS.get(name, name))}: {_shown(visit, value)}"
                for name, value in each.details.items()
                if value is not None
            ),
        )
        for each in entries
    ]


def _shown(visit: Translator, value: audit.Detail) -> str:
    if isinstance(value, bool):
        return visit.text(_("yes") if value else _("no"))
    return str(value)
