"""Texts of the pages that belong to values of the domain, marked for the catalogues."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.members import roles
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.payments.bookings import BookingKind
from meetcore.domain.payments.payments import Doubt, PaymentStatus
from meetcore.domain.payments.views import MessageSource
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks import deliveries, endpoints, events


def _(message: str) -> str:
    """Mark a text for the catalogues."""
    return message


PAGE_OF: Final = _("Page {page} of {pages}")
"""At the foot of each page of a document."""

MEETING_STATES: Final[Mapping[MeetingStatus, tuple[str, str]]] = {
    MeetingStatus.SCHEDULED: (_("scheduled"), ""),
    MeetingStatus.STARTED: (_("started"), "good"),
    MeetingStatus.ENDED: (_("ended"), ""),
    MeetingStatus.CANCELLED: (_("cancelled"), "bad"),
}
"""How a meeting stands: the text, and the kind of its mark."""

NOTE_STATES: Final[Mapping[NoteStatus, tuple[str, str]]] = {
    NoteStatus.QUEUED: (_("queued"), ""),
    NoteStatus.PROCESSING: (_("in progress"), "warn"),
    NoteStatus.COMPLETED: (_("completed"), "good"),
    NoteStatus.FAILED: (_("failed"), "bad"),
}
"""How a note stands: the text, and the kind of its mark."""

ENDPOINT_STATES: Final[Mapping[endpoints.EndpointState, tuple[str, str]]] = {
    endpoints.EndpointState.ACTIVE: (_("active"), "good"),
    endpoints.EndpointState.PAUSED: (_("paused"), ""),
    endpoints.EndpointState.DISABLED: (_("disabled"), "bad"),
}

DELIVERY_STATES: Final[Mapping[deliveries.DeliveryStatus, tuple[str, str]]] = {
    deliveries.DeliveryStatus.PENDING: (_("pending"), "warn"),
    deliveries.DeliveryStatus.HELD: (_("held"), ""),
    deliveries.DeliveryStatus.SUCCEEDED: (_("succeeded"), "good"),
    deliveries.DeliveryStatus.FAILED: (_("failed"), "bad"),
    deliveries.DeliveryStatus.EXPIRED: (_("expired"), "bad"),
}

ERROR_TEXTS: Final[Mapping[str, str]] = {
    "address_refused": _("The name leads to an address that webhooks must not go to."),
    "connect_failed": _("The connection was refused or did not open."),
    "connect_timeout": _("The connection was refused or did not open."),
    "connection_lost": _("The connection broke before there was a whole answer."),
    "dns_failed": _("The name did not resolve in time."),
    "invalid_response": _("What came back was no answer of HTTP."),
    "timeout": _("There was no whole answer within 10 seconds."),
    "tls_failed": _("The certificate is not for this name, not valid, or of an unknown authority."),
}
"""What the error of an attempt means; the same as in docs/webhooks.md."""
STATUS_ERROR: Final = _("The receiver answered, and not with a 2xx.")
"""What `status_503`, or another number, means."""

EVENT_TEXTS: Final[Mapping[events.EventKind, str]] = {
    events.EventKind.MEETING_CREATED: _("a meeting was made"),
    events.EventKind.MEETING_ENDED: _("a meeting is over"),
    events.EventKind.RECORDING_READY: _("a recording can be downloaded"),
    events.EventKind.NOTE_COMPLETED: _("notes are written"),
    events.EventKind.NOTE_FAILED: _("notes could not be written"),
    events.EventKind.CREDIT_LOW: _("the balance fell below its threshold"),
    events.EventKind.CREDIT_TOPUP_SUCCEEDED: _("credits were added"),
}
"""The events that an endpoint subscribes to."""

TRANSFER_KINDS: Final[Mapping[StrEnum, str]] = {
    TransferKind.TOPUP: _("Top-up"),
    TransferKind.TOPUP_REFUND: _("Refund of a payment"),
    TransferKind.MEETING_CHARGE: _("Meeting"),
    TransferKind.MEETING_REFUND: _("Refund of a meeting"),
    TransferKind.NOTULEN_CHARGE: _("Notes"),
    TransferKind.ADJUSTMENT: _("Adjustment"),
}

PAYMENT_STATES: Final[Mapping[PaymentStatus, tuple[str, str]]] = {
    PaymentStatus.PENDING: (_("to be paid"), "warn"),
    PaymentStatus.PAID: (_("paid"), "good"),
    PaymentStatus.FAILED: (_("failed"), "bad"),
    PaymentStatus.EXPIRED: (_("expired"), ""),
    PaymentStatus.REFUNDED: (_("refunded"), ""),
}
"""How a payment stands: the text, and the kind of its mark."""

PARTLY_REFUNDED: Final = _("partly refunded: %(part)s of %(credits)s credits")
"""The state of a payment of which a part was refunded."""

LOOKED_INTO: Final = (_("being looked into"), "warn")
"""The mark of a payment in doubt."""

PAYMENT_DOUBTS: Final[Mapping[Doubt, tuple[str, str]]] = {
    Doubt.WRONG_AMOUNT: (
        _("Another amount was paid"),
        _(
            "The messages below say how much. If it will do, accept it: the account gets the credits of the "
            "order, and the payment cannot be refunded from here. Else send the money back at the gateway, "
            "and close the doubt."
        ),
    ),
    Doubt.WRONG_CURRENCY: (
        _("Another currency was paid"),
        _(
            "The messages below say how much. If it will do, accept it: the account gets the credits of the "
            "order, and the payment cannot be refunded from here. Else send the money back at the gateway, "
            "and close the doubt."
        ),
    ),
    Doubt.PAID_AFTER_END: (
        _("It was paid after it had ended"),
        _(
            "The money is at the gateway, and the account has no credits for it. Accept it, or send the "
            "money back at the gateway and close the doubt."
        ),
    ),
    Doubt.ACCOUNT_ERASED: (
        _("The account was erased"),
        _("There is no account for the credits. Send the money back at the gateway, and close the doubt."),
    ),
    Doubt.REVERSED: (
        _("The money went back"),
        _(
            "A refund, a cancellation or a chargeback at the gateway took it. If the payment is paid, the "
            "account has the credits: take them by an adjustment where they are not owed. Otherwise it got "
            "none. Then close the doubt."
        ),
    ),
    Doubt.REFUND_REFUSED: (
        _("The gateway refuses the refund"),
        _(
            "The credits left the account, and the money did not. Send it in another way, such as a bank "
            "transfer, and close the doubt."
        ),
    ),
    Doubt.REFUND_FAILED: (
        _("The gateway could not send the refund"),
        _(
            "It had accepted the refund, and failed later. The credits are in the account again. Send the "
            "money another way, take the credits by an adjustment, and close the doubt."
        ),
    ),
    Doubt.DISPUTED: (
        _("The payer disputes the payment"),
        _(
            "The messages below have the reason. Answer the bank on the gateway's own pages, take the "
            "credits by an adjustment where the money is lost, and close the doubt."
        ),
    ),
    Doubt.UNANSWERED: (
        _("The gateway never said what became of it"),
        _(
            "It is still open there, a week after its end; or its refund was under way when another gateway "
            "was set. Look at the gateway's own pages. If nothing was paid, close the doubt, and the payment "
            "fails. If the money of a refund was not sent, send it another way, and close the doubt."
        ),
    ),
}
"""Why a payment is in doubt, and what to do."""

BOOKING_KINDS: Final[Mapping[BookingKind, str]] = {
    BookingKind.PURCHASE: _("Purchase of credits"),
    BookingKind.REFUND: _("Refund of a payment"),
    BookingKind.REFUND_FAILED: _("Refund that failed"),
}

MESSAGE_SOURCES: Final[Mapping[MessageSource, str]] = {
    MessageSource.CHECKOUT: _("Page of payment made"),
    MessageSource.NOTIFICATION: _("Notification"),
    MessageSource.LOOK: _("Answer when asked"),
    MessageSource.REFUND: _("Refund"),
}
"""The occasions on which a gateway said something."""

BY_HAND: Final = _("by hand")
"""Names the payer of what a member did in the dashboard, where the member is not known."""

SCOPE_TEXTS: Final[Mapping[Scope, str]] = {
    Scope.MEETINGS_READ: _("read meetings"),
    Scope.MEETINGS_WRITE: _("create and cancel meetings"),
    Scope.NOTULEN_READ: _("read notes"),
    Scope.NOTULEN_WRITE: _("write notes"),
    Scope.RECORDINGS_READ: _("read and download recordings"),
    Scope.RECORDINGS_WRITE: _("delete recordings"),
    Scope.CREDITS_READ: _("read the balance and the ledger"),
    Scope.CREDITS_WRITE: _("start payments for credits"),
    Scope.WEBHOOKS_READ: _("read webhooks and their deliveries"),
    Scope.WEBHOOKS_WRITE: _("register webhooks, which receive every event of the account"),
}

ROLE_TEXTS: Final[Mapping[roles.Role, str]] = {
    roles.Role.OWNER: _("Owner"),
    roles.Role.DEVELOPER: _("Developer"),
    roles.Role.FINANCE: _("Finance"),
    roles.Role.VIEWER: _("Viewer"),
}

ROLE_MEANINGS: Final[Mapping[roles.Role, str]] = {
    roles.Role.OWNER: _("May do everything: buy credits, manage members, export and erase the account."),
    roles.Role.DEVELOPER: _(
        "Makes meetings, corrects notes, manages API keys and webhooks. Sees the ledger and the team."
    ),
    roles.Role.FINANCE: _(
        "Buys credits; sees the ledger, receipts, statements, API keys and the team; changes caps and "
        "settings. Opens neither meetings nor notes."
    ),
    roles.Role.VIEWER: _(
        "Sees meetings, notes, the ledger, API keys, webhooks and requests. Changes nothing."
    ),
}
"""What each role may do; `roles.ALLOWED` decides."""

GUEST: Final = _("Guest")
OPERATOR: Final = _("Operator")

OPERATOR_ROLES: Final[Mapping[roles.OperatorRole, tuple[str, str]]] = {
    roles.OperatorRole.SUPPORT: (
        _("Support"),
        _("Sees accounts, hosts and health; resolves meetings in doubt and looks at dashboards."),
    ),
    roles.OperatorRole.FINANCE: (_("Finance"), _("Sees accounts and the liability; moves credits.")),
    roles.OperatorRole.ADMIN: (_("Administrator"), _("May do everything.")),
}
"""The name of each operator's role, and what it may do; `roles.OPERATORS_ALLOWED` decides."""

DONE: Final[Mapping[str, str]] = {
    "meeting_created": _("The meeting is made."),
    "meeting_cancelled": _("The meeting is cancelled."),
    "meeting_ended": _("The meeting is ended."),
    "note_edited": _("The notes are corrected."),
    "cap_changed": _("The cap is changed."),
    "key_revoked": _("The key is revoked."),
    "access_revoked": _("The access is revoked."),
    "webhook_registered": _("The URL is registered."),
    "webhook_changed": _("The webhook is changed."),
    "webhook_removed": _("The webhook is removed."),
    "test_sent": _("A test event is on its way."),
    "invited": _("An invitation is on its way."),
    "invitation_revoked": _("The invitation works no more."),
    "role_changed": _("The role is changed."),
    "member_removed": _("The member is removed."),
    "settings_changed": _("The settings are changed."),
    "billing_changed": _("The billing details are changed."),
    "session_ended": _("Signed out there."),
    "passkey_added": _("The passkey is added. It signs you in from now on."),
    "passkey_removed": _("The passkey is removed."),
    "account_suspended": _("The account is suspended."),
    "account_resumed": _("The account is active again."),
    "credits_moved": _("The credits are in the ledger."),
    "credits_counted": _("Already counted under that reference; nothing was added."),
    "host_enabled": _("The host gets meetings again."),
    "host_disabled": _("The host gets no new meetings."),
    "credits_proposed": _("The credits are proposed. They move when another operator approves."),
    "payment_accepted": _("The payment is accepted, and the credits are in the ledger."),
    "payment_refunded": _("The credits are taken back. The gateway sends their money back."),
    "doubt_closed": _("The doubt is closed."),
    "proposal_approved": _("The proposal is approved, and the credits are in the ledger."),
    "proposal_rejected": _("The proposal is rejected. Nothing was moved."),
    "doubt_finished": _("The meeting is finished."),
    "doubt_undone": _("The meeting is as it was before."),
    "delivery_resent": _("The event is sent once more."),
}
"""What a page says after a change, by the parameter `done` of its address."""
