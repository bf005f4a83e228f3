"""Posting one webhook delivery to a customer's receiver, and looking up host names.

When to post is decided by `meetcore.domain.webhooks.retry_schedule`, what a response means by
`meetcore.domain.webhooks.deliveries`; `meetcore.domain.webhooks.signature` signs.
"""

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks import addresses, deliveries, urls
from meetcore.domain.webhooks.sender_faults import SenderFault


class SenderFailed(Exception):
    """The sender could not post, by a fault of this side; `fault` names it.

    It counts for no endpoint, and no attempt is recorded: the delivery is put off. The receiver may have the
    event all the same; the event's id lets it drop the duplicate.
    """

    def __init__(self, fault: SenderFault, cause: str) -> None:
        super().__init__(cause)
        self.fault = fault


class PostDeferred(Exception):
    """The account or the domain has its maximum of look-ups in progress: the delivery is put off."""


@frozen
class OutgoingPost:
    """The raw body and this delivery's own headers; the sender adds those that HTTP needs."""

    account_id: UUID
    url: urls.WebhookUrl
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


class WebhookSender(Protocol):
    """Makes one attempt."""

    async def post(self, post: OutgoingPost) -> deliveries.Attempt:
        """Post once, within the sender's time limit, to an address vetted for this attempt.

        Failures of the receiver are recorded in the attempt and never raised. `Attempt.error` is one of:
        `dns_failed`, `address_refused`, `connect_timeout`, `connect_failed`, `tls_failed`, `timeout`,
        `connection_lost`, `invalid_response`, or `status_<code>` for a status that is not 2xx. Raises
        `SenderFailed` for a failure on this side, `PostDeferred` where the post was not tried.
        """


class DocumentUnavailable(Exception):
    """There is no document: not found, too large, too slow, at a refused address, or a fault of this side."""


class DocumentFetcher(Protocol):
    """Fetches public documents that strangers name."""

    async def fetch(self, url: urls.WebhookUrl, requester: UUID) -> bytes:
        """Return the document at a URL, of at most 16 KiB, from an address vetted as for webhooks.

        Redirects are not followed. Look-ups take the capacity of the requester. Raises `DocumentUnavailable`.
        """


class LookupsBusy(HostUnresolved):
    """Too many look-ups are in progress for the account or the domain. Nothing is known about the name."""


class ResolverUnavailable(HostUnresolved):
    """No name can be looked up at present. Nothing is known about this one."""


class Resolver(Protocol):
    """Looks up host names."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[addresses.Address, ...]:
        """Return every present address of an A-label name, without duplicates, at least one.

        Names that hang take the capacity of their own account and of their own domain only.

        Raises:
            LookupsBusy: no capacity came free in time.
            ResolverUnavailable: no answer, and none about a name that every resolver knows to be unknown.
            HostUnresolved: no answer within 3 s, no such name, no address, or more than 64.
        """
