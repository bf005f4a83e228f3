"""What the audit log says of each change and of who made it. Its codes are shown, too: people search them."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from attrs import frozen

from meetcore.adapters.web.texts import _
from meetcore.domain.members.audit import ActorKind, AuditEntry

ACTION_TEXTS: Final[Mapping[str, str]] = {
    "account.created": _("account opened"),
    "account.erased": _("account erased"),
    "account.exported": _("account exported as a file"),
    "account.resumed": _("account resumed"),
    "account.statement_mails_changed": _("mails of statements changed"),
    "account.suspended": _("account suspended"),
    "account.threshold_changed": _("threshold of credits changed"),
    "account.viewed": _("dashboard looked at by an operator"),
    "credits.adjusted": _("credits adjusted"),
    "credits.proposal_approved": _("proposal of credits approved"),
    "credits.proposal_rejected": _("proposal of credits rejected"),
    "credits.proposed": _("credits proposed"),
    "credits.topped_up": _("credits topped up"),
    "host.added": _("host added"),
    "host.disabled": _("host disabled"),
    "host.enabled": _("host enabled"),
    "key.cap_changed": _("daily cap of an API key changed"),
    "key.created": _("API key created"),
    "key.revoked": _("API key revoked"),
    "key.rolled": _("API key rolled"),
    "meeting.adopted": _("meeting that a restore lost taken from the provider"),
    "meeting.cancelled": _("meeting cancelled"),
    "meeting.created": _("meeting created"),
    "meeting.ended": _("meeting ended"),
    "meeting.finished_by_operator": _("meeting in doubt finished"),
    "meeting.gone": _("meeting that is gone at the provider cancelled"),
    "meeting.kept_by_operator": _("meeting in doubt kept"),
    "meeting.lost": _("meeting that a restore lost removed at the provider"),
    "meeting.removal_given_up": _("removal of a meeting given up"),
    "meeting.undone_by_operator": _("meeting in doubt undone"),
    "member.invitation_revoked": _("invitation revoked"),
    "member.invited": _("member invited"),
    "member.joined": _("member joined"),
    "member.removed": _("member removed"),
    "member.role_changed": _("role of a member changed"),
    "operator.added": _("operator added"),
    "operator.removed": _("operator removed"),
    "operator_token.created": _("operator token created"),
    "operator_token.revoked": _("operator token revoked"),
    "orphan.given_up": _("look for a meeting without a record given up"),
    "orphan.retried": _("look for a meeting without a record tried again"),
    "passkey.added": _("passkey added"),
    "passkey.removed": _("passkey removed"),
    "portal_link.created": _("sign-in link made"),
    "restore.fenced": _("restored database fenced"),
    "restore.released": _("restored database released"),
    "secrets.reseal_started": _("encryption of secrets under the new key begun"),
    "secrets.resealed": _("secrets encrypted under the new key"),
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

ACTOR_TEXTS: Final[Mapping[ActorKind, str]] = {
    ActorKind.MEMBER: _("member"),
    ActorKind.GUEST: _("guest"),
    ActorKind.OPERATOR: _("operator"),
    ActorKind.SYSTEM: _("system"),
}


class Translator(Protocol):
    """A visit, as far as it translates."""

    def text(self, message: str) -> str:
        """Return a text in the language of the visit."""


@frozen
class AuditRow:
    """An entry as a page shows it. `what` is empty for an action of a release to come."""

    entry: AuditEntry
    what: str
    actor_kind: str


def audit_rows(visit: Translator, entries: Iterable[AuditEntry]) -> list[AuditRow]:
    """Return the rows of entries, in their order."""
    return [
        AuditRow(
            each,
            visit.text(ACTION_TEXTS[each.action]) if each.action in ACTION_TEXTS else "",
            visit.text(ACTOR_TEXTS[each.actor.kind]),
        )
        for each in entries
    ]
