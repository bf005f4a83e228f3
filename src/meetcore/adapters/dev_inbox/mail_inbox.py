"""The mailer of `meetcore dev`: it keeps the last mails instead of sending them."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from meetcore.ports.mailer import MailRefused, OutgoingMail

MAILS_KEPT: Final = 100


class MailInbox:
    """Keeps the last 100 mails until the process ends; they hold one-time links."""

    def __init__(self) -> None:
        self._mails: deque[OutgoingMail] = deque(maxlen=MAILS_KEPT)

    @property
    def mails(self) -> Sequence[OutgoingMail]:
        """What was sent, newest first."""
        return tuple(reversed(self._mails))

    async def send(self, mail: OutgoingMail) -> None:
        """Keep a mail."""
        if not (mail.recipient.isprintable() and mail.subject.isprintable()):
            raise MailRefused("header")
        self._mails.append(mail)
