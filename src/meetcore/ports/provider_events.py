"""Provider events, from receipt to effect.

A provider waits seconds for an answer and repeats an event when it gets none. So an event is verified,
put into the inbox by one insert and answered; it is worked on afterwards, under a lease: a worker that dies
leaves an event that is due again. The inbox knows what it has seen by a digest of the bytes.

An event has no account until its meeting is found: the inbox is the one part of the store that belongs to no
account.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.provider_events import ProviderEvent
from meetcore.ports.lease import Lease

__all__ = [
    "ClaimedEvent",
    "ProviderEventInbox",
    "ProviderWebhook",
    "SignatureInvalid",
    "WebhookMalformed",
    "WebhookParser",
]


class SignatureInvalid(Exception):
    """Not signed with the secret that the provider and we share, or not at about this time."""


class WebhookMalformed(Exception):
    """Signed, and yet nothing that the provider documents."""


@frozen
class ProviderWebhook:
    """What a provider's request comes to. With neither an event nor a response it is of no interest.

    `response` is what that the provider expects, as a JSON object: the proof that we know the secret.
    """

    event: ProviderEvent | None = None
    response: Mapping[str, str] | None = field(default=None, repr=False)


WebhookParser = Callable[[bytes, Mapping[str, str], datetime], ProviderWebhook]
"""Verify and read a provider's request: the raw body, the headers by their names in lower case, the present
instant. Raises `SignatureInvalid` and `WebhookMalformed`."""


@frozen
class ClaimedEvent:
    """An event to work on now, under a token. `tries` counts this time too.

    `had_expired_lease` where an earlier claim ended without a record.
    """

    id: UUID
    event: ProviderEvent
    tries: int
    token: UUID = field(repr=False)
    had_expired_lease: bool = False


class ProviderEventInbox(Protocol):
    """Provider events that are not handled yet. On a transaction, as `tx.inbox`."""

    async def add(self, id: UUID, event: ProviderEvent, digest: bytes) -> bool:
        """Take an event in, due at once.

        Args:
            digest: a 32-byte digest of the raw body.

        Returns:
            False when the same bytes of this provider are known, done or not; nothing was written.
        """

    async def claim(self, limit: int, lease: Lease) -> Sequence[ClaimedEvent]:
        """Take events that are due, the longest due first; each is due again when the lease runs out."""

    async def postpone(self, id: UUID, token: UUID, seconds: float) -> None:
        """Give an event back, due in so many seconds; a lost claim changes nothing."""

    async def done(self, id: UUID, token: UUID) -> None:
        """Be done with an event for good; a lost claim changes nothing.

        Its content is deleted, and only the digest kept, so that a double is known.
        """
