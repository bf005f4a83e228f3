"""Posting one webhook delivery to a customer's receiver.

Owns the shape of a post. When to post, what to sign and what an answer means are decided in
`meetcore.domain.webhooks.deliveries` and the use cases.
"""

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.urls import WebhookUrl

__all__ = ["OutgoingPost", "PostDeferred", "SenderExhausted", "WebhookSender"]


class SenderExhausted(Exception):
    """This side could not carry a post out: it lacks sockets, threads, memory or time, or is closing.

    Nothing is known about the receiver, so nothing counts against its endpoint, and no attempt is
    recorded: the claim runs out and the delivery is due again. The receiver may have taken the event all
    the same, as when a worker dies after its post; the event's id lets it drop the double.
    """


class PostDeferred(Exception):
    """The account or the domain has as many look-ups under way as it may; other posts go on.

    As with `SenderExhausted` nothing is known about the receiver and nothing is recorded: the delivery is due
    again when its claim runs out.
    """


@frozen
class OutgoingPost:
    """The raw body and the headers that are this delivery's own; the sender adds what HTTP needs."""

    account_id: UUID
    url: WebhookUrl
    headers: Mapping[str, str]
    body: bytes


class WebhookSender(Protocol):
    """Makes one attempt."""

    async def post(self, post: OutgoingPost) -> Attempt:
        """Post once, within the sender's time limit, to an address vetted for this attempt.

        Whatever the receiver does is recorded in the attempt and never raised. `Attempt.error` is one of:
        `dns_failed`, `address_refused`, `connect_timeout`, `connect_failed`, `tls_failed`, `timeout`,
        `connection_lost`, `invalid_response`, or `status_<code>` for an answer that is not 2xx.

        Raises:
            SenderExhausted: the post failed for want of something on this side.
            PostDeferred: the post was not tried, for what its own account or domain has under way.
        """
