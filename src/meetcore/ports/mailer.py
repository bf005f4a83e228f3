"""How a mail leaves: handed to a mail server, or refused."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

__all__ = ["MailRefused", "MailUnavailable", "Mailer", "OutgoingMail"]


class MailUnavailable(Exception):
    """The mail was not taken now, or it is not known; it is to be tried again.

    The message is a short code such as "timeout" or "451 4.7.1": no address, and no text of the server.
    """


class MailRefused(Exception):
    """The mail server will never take this mail to this recipient. The message is as of `MailUnavailable`."""


@frozen
class OutgoingMail:
    """A mail as it is sent. Each attempt at one mail has the same `id` and `created_at`.

    `text` and `html` say the same; `language` is an ISO 639-1 code.
    """

    id: UUID
    recipient: str = field(repr=False)
    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)
    language: str
    created_at: datetime


class Mailer(Protocol):
    """Hands mails to a mail server."""

    async def send(self, mail: OutgoingMail) -> None:
        """Send one mail, within ten seconds in all.

        A subject or an address with a line break is refused for ever: it cannot add a header.

        Raises:
            MailUnavailable: see the class. The server may have it nevertheless, where its answer was lost.
            MailRefused: see the class.
        """
