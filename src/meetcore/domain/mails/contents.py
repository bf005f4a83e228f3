"""The kinds of mails, and what each is about. The sentences are those of `ports.mails`.

A one-time link is a secret: it is in no `repr`, and gone from the store once its mail is sent or given up.
"""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final

from attrs import field, frozen

from meetcore.domain.members.roles import Role

NEWS_KEPT: Final = timedelta(hours=24)
"""How long a mail without an expiry of its own is worth sending."""


class MailKind(StrEnum):
    """The purpose of a mail."""

    SIGN_IN_LINK = "sign_in_link"
    INVITATION = "invitation"
    ENDPOINT_DISABLED = "endpoint_disabled"
    LOW_CREDITS = "low_credits"
    PASSKEY_CHANGED = "passkey_changed"
    STATEMENT_READY = "statement_ready"
    PAYMENT_RECEIVED = "payment_received"
    PAYMENT_ENDED = "payment_ended"
    PAYMENT_REFUNDED = "payment_refunded"
    SUSPENSION_CHANGED = "suspension_changed"


@frozen
class SignInLink:
    """A link that signs in once, until it expires."""

    url: str = field(repr=False)
    expires_at: datetime


@frozen
class Invitation:
    """A link by which the recipient gets a role in an account; `invited_by` names the member."""

    url: str = field(repr=False)
    account_name: str
    invited_by: str
    role: Role
    expires_at: datetime


@frozen
class EndpointDisabled:
    """Webhook endpoints that failures in a row disabled, without query; `page_url` activates them again."""

    urls: tuple[str, ...]
    failures: int
    disabled_at: datetime
    account_name: str
    page_url: str


@frozen
class LowCredits:
    """A balance, in credits, that fell below the account's threshold; `page_url` shows it."""

    balance: int
    threshold: int
    account_name: str
    page_url: str


@frozen
class PasskeyChanged:
    """A passkey of the recipient's that was added, or removed, in a browser at `client_address`."""

    name: str
    was_added: bool
    changed_at: datetime
    client_address: str | None
    page_url: str


@frozen
class StatementReady:
    """A month of an account, by its first day, that has its statement now; `page_url` lists them."""

    month: date
    account_name: str
    page_url: str


@frozen
class PaymentReceived:
    """A payment that was paid: its receipt's number, credits, and amount in units of the currency."""

    receipt: str
    credits: int
    amount: int
    currency: str
    account_name: str
    page_url: str


@frozen
class PaymentEnded:
    """A payment that expired, or failed: nothing was paid. The amount is in units of the currency."""

    credits: int
    amount: int
    currency: str
    is_expired: bool
    account_name: str
    page_url: str


@frozen
class PaymentRefunded:
    """A refund whose money was sent, or could not be: then its credits are back. In units of the currency."""

    credits: int
    amount: int
    currency: str
    has_failed: bool
    account_name: str
    page_url: str


@frozen
class SuspensionChanged:
    """An account that was suspended, for a reason if one was given, or resumed; `page_url` shows it."""

    account_name: str
    is_suspended: bool
    reason: str | None
    changed_at: datetime
    page_url: str


MailContent = (
    SignInLink | Invitation | EndpointDisabled | LowCredits | PasskeyChanged | StatementReady
    | PaymentReceived | PaymentEnded | PaymentRefunded | SuspensionChanged
)  # fmt: skip

CONTENT_OF: Final[Mapping[MailKind, type[MailContent]]] = {
    MailKind.SIGN_IN_LINK: SignInLink,
    MailKind.INVITATION: Invitation,
    MailKind.ENDPOINT_DISABLED: EndpointDisabled,
    MailKind.LOW_CREDITS: LowCredits,
    MailKind.PASSKEY_CHANGED: PasskeyChanged,
    MailKind.STATEMENT_READY: StatementReady,
    MailKind.PAYMENT_RECEIVED: PaymentReceived,
    MailKind.PAYMENT_ENDED: PaymentEnded,
    MailKind.PAYMENT_REFUNDED: PaymentRefunded,
    MailKind.SUSPENSION_CHANGED: SuspensionChanged,
}
"""The class of each kind's content."""

_KIND_OF = {content: kind for kind, content in CONTENT_OF.items()}


def kind_of(content: MailContent) -> MailKind:
    """Return the kind of a mail with this content."""
    return _KIND_OF[type(content)]


def expiry_of(content: MailContent, created_at: datetime) -> datetime:
    """Return when a mail stops being worth sending: its link's expiry, or `NEWS_KEPT` after it was made."""
    if isinstance(content, SignInLink | Invitation):
        return content.expires_at
    return created_at + NEWS_KEPT
