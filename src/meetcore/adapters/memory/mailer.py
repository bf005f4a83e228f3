"""A mailer that keeps mails instead of sending them."""

from collections import deque
from collections.abc import Sequence

from meetcore.ports.mailer import MailRefused, OutgoingMail


class MemoryMailer:
    """Keeps the last mails, up to `kept` of them."""

    def __init__(self, kept: int = 100) -> None:
        self._mails: deque[OutgoingMail] = deque(maxlen=kept)

    @property
    def mails(self) -> Sequence[OutgoingMail]:
        """What was sent, newest first."""
        return tuple(reversed(self._mails))

    async def send(self, mail: OutgoingMail) -> None:
        if not (mail.recipient.isprintable() and mail.subject.isprintable()):
            raise MailRefused("header")
        self._mails.append(mail)
