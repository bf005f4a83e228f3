"""A mailer: what it is given arrives, once for each time that it is sent, and adds no header."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from attrs import evolve, frozen

from meetcore.ports.mailer import Mailer, MailRefused, OutgoingMail
from meetcore.testing.contracts.transactions import AT, new_id


@frozen
class ReceivedMail:
    """A mail as its recipient reads it."""

    message_id: str
    recipient: str
    subject: str
    text: str
    html: str


class MailboxRig(Protocol):
    """A mailer, and the mailbox that it leads to: an empty one for each test."""

    @property
    def mailer(self) -> Mailer:
        """The mailer under test."""

    def received(self) -> Sequence[ReceivedMail]:
        """What has arrived, oldest first."""


def outgoing(**fields: Any) -> OutgoingMail:
    """A mail; `fields` are attributes of it."""
    return evolve(
        OutgoingMail(
            new_id(), "dewi@example.com", "Masuk ke meetcore — “sekali” saja",
            "Selamat pagi, Émile.\n\n.titik di awal baris\nhttps://meet.example/?token=a%3D&b=" + "x" * 120,
            "<p>Selamat pagi, Émile.</p>\n<p>.</p>", "id", AT,
        ),
        **fields,
    )  # fmt: skip


@pytest.mark.asyncio
class MailerContract:
    """What `ports.mailer.Mailer` promises."""

    async def test_a_mail_arrives_as_it_was_sent(self, mailbox: MailboxRig) -> None:
        mail = outgoing()
        await mailbox.mailer.send(mail)
        (received,) = mailbox.received()
        assert (received.recipient, received.subject) == (mail.recipient, mail.subject)
        assert received.text.strip() == mail.text
        assert received.html.strip() == mail.html

    async def test_every_attempt_at_a_mail_has_the_same_id_and_no_other_mail_has(
        self, mailbox: MailboxRig
    ) -> None:
        mail = outgoing()
        for each in (mail, mail, outgoing()):
            await mailbox.mailer.send(each)
        first, second, other = (received.message_id for received in mailbox.received())
        assert first == second != other
        assert str(mail.id) in first

    async def test_mails_sent_at_once_all_arrive(self, mailbox: MailboxRig) -> None:
        mails = [outgoing(recipient=f"dewi{number}@example.com") for number in range(8)]
        await asyncio.gather(*(mailbox.mailer.send(mail) for mail in mails))
        assert {received.recipient for received in mailbox.received()} == {mail.recipient for mail in mails}

    @pytest.mark.parametrize("field", ["subject", "recipient"])
    @pytest.mark.parametrize("brk", ["\r\n", "\n", "\r", "\0", "\x85", "\u2028"])
    async def test_nothing_that_is_sent_can_add_a_header(
        self, mailbox: MailboxRig, field: str, brk: str
    ) -> None:
        with pytest.raises(MailRefused):
            await mailbox.mailer.send(outgoing(**{field: f"a@example.com{brk}Bcc: b@example.com"}))
        assert mailbox.received() == []
