"""Texts of the pages that belong to values of the domain, marked for the catalogues."""

from collections.abc import Mapping
from typing import Final

from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.members.roles import Role
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.domain.webhooks.events import EventKind


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

ENDPOINT_STATES: Final[Mapping[EndpointState, tuple[str, str]]] = {
    EndpointState.ACTIVE: (_("active"), "good"),
    EndpointState.PAUSED: (_("paused"), ""),
    EndpointState.DISABLED: (_("disabled"), "bad"),
}

DELIVERY_STATES: Final[Mapping[DeliveryStatus, tuple[str, str]]] = {
    DeliveryStatus.PENDING: (_("pending"), "warn"),
    DeliveryStatus.HELD: (_("held"), ""),
    DeliveryStatus.SUCCEEDED: (_("succeeded"), "good"),
    DeliveryStatus.FAILED: (_("failed"), "bad"),
    DeliveryStatus.EXPIRED: (_("expired"), "bad"),
}

EVENT_TEXTS: Final[Mapping[EventKind, str]] = {
    EventKind.MEETING_CREATED: _("a meeting was made"),
    EventKind.MEETING_ENDED: _("a meeting is over"),
    EventKind.RECORDING_READY: _("a recording can be downloaded"),
    EventKind.NOTE_COMPLETED: _("notes are written"),
    EventKind.NOTE_FAILED: _("notes could not be written"),
    EventKind.CREDIT_LOW: _("the balance fell below its threshold"),
    EventKind.CREDIT_TOPUP_SUCCEEDED: _("credits were added"),
}
"""The events that an endpoint subscribes to."""

TRANSFER_KINDS: Final[Mapping[TransferKind, str]] = {
    TransferKind.TOPUP: _("Top-up"),
    TransferKind.MEETING_CHARGE: _("Meeting"),
    TransferKind.MEETING_REFUND: _("Refund of a meeting"),
    TransferKind.NOTULEN_CHARGE: _("Notes"),
    TransferKind.ADJUSTMENT: _("Adjustment"),
}

SCOPE_TEXTS: Final[Mapping[Scope, str]] = {
    Scope.MEETINGS_READ: _("read meetings"),
    Scope.MEETINGS_WRITE: _("create and cancel meetings"),
    Scope.NOTULEN_READ: _("read notes"),
    Scope.NOTULEN_WRITE: _("write notes"),
    Scope.RECORDINGS_READ: _("read and download recordings"),
    Scope.RECORDINGS_WRITE: _("delete recordings"),
    Scope.CREDITS_READ: _("read the balance and the ledger"),
    Scope.WEBHOOKS_READ: _("read webhooks and their deliveries"),
    Scope.WEBHOOKS_WRITE: _("register webhooks, which receive every event of the account"),
}

ROLE_TEXTS: Final[Mapping[Role, str]] = {
    Role.OWNER: _("Owner"),
    Role.DEVELOPER: _("Developer"),
    Role.FINANCE: _("Finance"),
    Role.VIEWER: _("Viewer"),
}

DONE: Final[Mapping[str, str]] = {
    "meeting_created": _("The meeting is made."),
    "meeting_cancelled": _("The meeting is cancelled."),
    "cap_changed": _("The cap is changed."),
    "key_revoked": _("The key is revoked."),
    "webhook_registered": _("The URL is registered."),
    "webhook_changed": _("The webhook is changed."),
    "webhook_removed": _("The webhook is removed."),
    "test_sent": _("A test event is on its way."),
    "invited": _("An invitation is on its way."),
    "invitation_revoked": _("The invitation works no more."),
    "role_changed": _("The role is changed."),
    "member_removed": _("The member is removed."),
    "settings_changed": _("The settings are changed."),
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
    "proposal_approved": _("The proposal is approved, and the credits are in the ledger."),
    "proposal_rejected": _("The proposal is rejected. Nothing was moved."),
    "doubt_finished": _("The meeting is finished."),
    "doubt_undone": _("The meeting is as it was before."),
    "doubt_given_up": _("The removal is given up."),
    "removal_retried": _("The provider is asked again at once."),
    "delivery_resent": _("The event is sent once more."),
}
"""What a page says after a change, by the parameter `done` of its address."""
