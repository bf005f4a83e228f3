"""The texts of mails, their catalogues, and the mailer over SMTP."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields, frozen
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po

from meetcore.adapters.dev_inbox import MailInbox
from meetcore.adapters.mail_texts import TemplateMailTexts, letters
from meetcore.adapters.mail_texts.letters import CATALOGUES
from meetcore.adapters.smtp import Security, SmtpMailer, SmtpServer, server_from_url
from meetcore.domain.mails.contents import (
    EndpointDisabled,
    Invitation,
    LowCredits,
    MailContent,
    PaymentEnded,
    PaymentReceived,
    PaymentRefunded,
    SignInLink,
)
from meetcore.domain.mails.mails import Sender, parse_sender
from meetcore.domain.notes.notes import Language
from meetcore.ports.mails import MailRefused, MailTexts, MailUnavailable
from meetcore.testing.contracts import MailboxRig, MailerContract, ReceivedMail
from meetcore.testing.contracts.infrastructure import outgoing
from meetcore.testing.receiver import Authority
from tests.support.fakes import FakeMailer, FakeMailTexts
from tests.support.mail_server import CUT, HANG, PASSWORD, USER, MailServer, mail_server
from tests.support.records import CONTENTS
from tests.support.texts import assert_contains

_HOSTILE = "<img src=x onerror=alert(1)>\r\nBcc: a@example.com & \"'"


@pytest.fixture(params=["fake", "templates"])
def texts(request: pytest.FixtureRequest) -> MailTexts:
    return FakeMailTexts() if request.param == "fake" else TemplateMailTexts(SITE)


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
def test_every_kind_is_written_in_every_language(
    texts: MailTexts, content: MailContent, language: Language
) -> None:
    written = texts.write(content, language)
    assert written.subject
    assert written.subject.isprintable()
    url: str = getattr(content, "url", "") or getattr(content, "page_url", "")
    for body in (written.text, written.html):
        assert url in body


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
def test_languages_differ(texts: MailTexts, content: MailContent) -> None:
    assert len({texts.write(content, language).subject for language in Language}) == len(Language)


@pytest.mark.parametrize("language", Language)
def test_what_others_chose_is_escaped_and_breaks_no_subject(texts: MailTexts, language: Language) -> None:
    invitation, disabled = CONTENTS[1], CONTENTS[2]
    assert isinstance(invitation, Invitation)
    assert isinstance(disabled, EndpointDisabled)
    for content in (
        evolve(invitation, account_name=_HOSTILE, invited_by=_HOSTILE),
        evolve(disabled, urls=(_HOSTILE,)),
    ):
        written = texts.write(content, language)
        assert written.subject.isprintable()
        assert_contains(written.html, "&lt;img", absent=("<img",))


SITE = "meet.example"
AT = datetime(2026, 12, 31, 18, 5, tzinfo=UTC)
PLACE = re.compile(r"%\((\w+)\)s")


def messages() -> Iterator[str | tuple[str, ...]]:
    """Every message of the code, a plural as a pair."""
    keywords = {"_": None, "_plural": (1, 2)}
    for _, message, _, _ in extract_from_file("python", Path(letters.__file__), keywords=keywords):
        yield tuple(message) if isinstance(message, list | tuple) else message


@pytest.mark.parametrize("language", set(Language) - {Language.ENGLISH})
def test_every_message_is_translated_with_its_places(language: Language):
    with (CATALOGUES / f"{language.value}.po").open("rb") as source:
        catalogue = {message.id: message for message in read_po(source) if message.id}
    assert set(catalogue) == set(messages())
    for key, message in catalogue.items():
        for text in forms(message.string):
            assert text, key
            assert set(PLACE.findall(text)) == set(PLACE.findall(forms(key)[-1])), key


def forms(text: str | Sequence[str] | None) -> Sequence[str]:
    """The forms of a plural, or the one there is."""
    return [text or ""] if isinstance(text, str | None) else text


def test_times_are_those_of_jakarta_and_numbers_those_of_the_language():
    texts = TemplateMailTexts(SITE)
    link = SignInLink("https://meet.example/", AT)
    assert "until 1 January 2027, 01:05 WIB" in texts.write(link, Language.ENGLISH).text
    assert "sampai 1 Januari 2027, 01.05 WIB" in texts.write(link, Language.INDONESIAN).text
    low = LowCredits(1234, 5000, "A", "https://meet.example/")
    assert "1,234 credits left" in texts.write(low, Language.ENGLISH).text
    assert "Tersisa 1.234 kredit" in texts.write(low, Language.INDONESIAN).text


def test_one_credit_is_named_in_the_singular():
    page = "https://meet.example/"
    of_one = (
        (LowCredits(1, 1, "A", page), "There is 1 credit left."),
        (PaymentReceived("2026-000007", 1, 1110, "IDR", "A", page), "1 credit is in the account."),
        (PaymentEnded(1, 1110, "IDR", True, "A", page), "for 1 credit was not paid in time"),
        (PaymentEnded(1, 1110, "IDR", False, "A", page), "for 1 credit has failed."),
        (PaymentRefunded(1, 1110, "IDR", True, "A", page), "The 1 credit is in the account again."),
        (PaymentRefunded(1, 1110, "IDR", False, "A", page), "1 credit was taken back"),
    )
    for content, sentence in of_one:
        assert sentence in letters.LetterWriter(SITE, Language.ENGLISH).write(content).sentences[0]


def test_a_payment_failed_or_expired_and_its_money_is_in_the_currencys_form():
    for is_expired, subject in ((True, "A payment has expired"), (False, "A payment has failed")):
        content = PaymentEnded(500, 55_500, "USD", is_expired, "A", "https://meet.example/")
        letter = letters.LetterWriter(SITE, Language.ENGLISH).write(content)
        assert letter.subject == subject
        assert "$555.00 for 500 credits" in letter.sentences[0]
    received = PaymentReceived("2026-000007", 500, 555_000, "IDR", "A", "https://meet.example/")
    letter = letters.LetterWriter(SITE, Language.INDONESIAN).write(received)
    assert letter.subject == "Pembayaran diterima: kuitansi 2026-000007"
    assert "Rp555.000" in letter.sentences[0]


def test_a_refund_was_sent_or_has_failed():
    sent = PaymentRefunded(100, 11_100, "USD", False, "A", "https://meet.example/")
    letter = letters.LetterWriter(SITE, Language.ENGLISH).write(sent)
    assert letter.subject == "A refund of $111.00 was sent"
    assert "100 credits were taken back" in letter.sentences[0]
    failed = letters.LetterWriter(SITE, Language.INDONESIAN).write(evolve(sent, has_failed=True))
    assert failed.subject == "Pengembalian dana US$111,00 gagal"
    assert "kembali ada di akun" in failed.sentences[0]


def test_one_and_several_webhooks_are_told_apart():
    texts, disabled = TemplateMailTexts(SITE), CONTENTS[2]
    assert isinstance(disabled, EndpointDisabled)
    assert texts.write(disabled, Language.ENGLISH).subject == "2 webhooks were disabled"
    one = texts.write(evolve(disabled, urls=disabled.urls[:1]), Language.ENGLISH)
    assert one.subject == "A webhook was disabled"
    assert_contains(one.text, disabled.urls[0], "72 hours")


@pytest.mark.parametrize("language", Language)
def test_no_customers_words_are_in_a_subject(language: Language):
    words = "Your account is locked: https://evil.example"
    for content in CONTENTS:
        names = {"invited_by", "account_name", "name"} & {each.name for each in fields(type(content))}
        named: dict[str, Any] = dict.fromkeys(names, words)
        written = TemplateMailTexts(SITE).write(evolve(content, **named), language)
        assert "evil" not in written.subject
        assert not names or f"“{words}”" in written.text, "in quotes, in the body alone"


def test_a_name_without_end_does_not_make_a_subject_without_end():
    invitation = CONTENTS[1]
    assert isinstance(invitation, Invitation)
    written = TemplateMailTexts(SITE).write(evolve(invitation, invited_by="x " * 5000), Language.ENGLISH)
    assert len(written.subject) < 2 * letters.MAX_NAME
    assert written.text.startswith("“x x ")


def test_a_letter_is_laid_out_as_it_is_read():
    text = TemplateMailTexts(SITE).write(SignInLink("https://meet.example/?a=1&b=2", AT), Language.ENGLISH)
    assert text.text == (
        "With this link you sign in to meet.example.\n"
        "It works once, in the browser that asked for it, until 1 January 2027, 01:05 WIB.\n"
        "\n"
        "Sign in:\n"
        "https://meet.example/?a=1&b=2\n"
        "\n"
        "If you did not ask for it, ignore this e-mail: without the link nobody gets in.\n"
        "\n"
        "If such e-mails keep coming, somebody else types your address: delete them, and tell who runs "
        "meet.example.\n"
        "\n"
        "-- \n"
        "meet.example"
    )
    assert 'href="https://meet.example/?a=1&amp;b=2"' in text.html


SENDER = Sender("mail@meet.example", "Émile & Rapat")
LOOPBACK = "127.0.0.1"
SHORT_S = 1.5


def mailer_to(server: MailServer, security: Security = Security.PLAIN, **fields: Any) -> SmtpMailer:
    timeout_s = fields.pop("timeout_s", 10.0)
    place = SmtpServer(LOOPBACK, server.port, security, **fields)
    return SmtpMailer(place, SENDER, timeout_s=timeout_s)


class MemoryMailbox:
    """The mailbox of the memory mailer."""

    def __init__(self) -> None:
        self.mailer: FakeMailer | MailInbox = FakeMailer()

    def received(self) -> Sequence[ReceivedMail]:
        return [
            ReceivedMail(str(mail.id), mail.recipient, mail.subject, mail.text, mail.html)
            for mail in reversed(self.mailer.mails)
        ]


@frozen
class SmtpMailbox:
    """The mailbox of a server on this machine."""

    mailer: SmtpMailer
    server: MailServer

    def received(self) -> Sequence[ReceivedMail]:
        return self.server.received()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as server:
        yield server


class TestMemoryMailer(MailerContract):
    @pytest.fixture
    def mailbox(self) -> MailboxRig:
        return MemoryMailbox()


class InboxMailbox(MemoryMailbox):
    """The mailbox of the mailer of `meetcore dev`."""

    def __init__(self) -> None:
        self.mailer = MailInbox()


class TestMailInbox(MailerContract):
    @pytest.fixture
    def mailbox(self) -> MailboxRig:
        return InboxMailbox()


class TestSmtpMailer(MailerContract):
    @pytest.fixture
    def mailbox(self, server: MailServer) -> MailboxRig:
        return SmtpMailbox(mailer_to(server), server)


# What is sent


async def test_a_mail_says_that_a_program_sent_it_and_for_whom(server: MailServer):
    mail = outgoing()
    await mailer_to(server).send(mail)
    [(_, message)] = server.messages
    assert (message["From"], message["To"]) == ("Émile & Rapat <mail@meet.example>", mail.recipient)
    assert message["Date"].datetime == mail.created_at.replace(microsecond=0)
    assert message["Message-ID"] == f"<{mail.id}@meet.example>"
    assert (message["Auto-Submitted"], message["Content-Language"]) == ("auto-generated", "id")
    assert message.get_content_type() == "multipart/alternative"
    assert bytes(message).isascii(), "no server has to know 8BITMIME"
    assert server.quits == 1


@pytest.mark.parametrize("recipient", ["siti..dewi@example.com", "siti.@example.com", ".@example.com"])
async def test_an_address_that_browsers_take_and_no_header_can_hold_is_refused(
    server: MailServer, recipient: str
):
    with pytest.raises(MailRefused, match="recipient"):
        await mailer_to(server).send(evolve(outgoing(), recipient=recipient))


# The way to the server


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
async def test_a_server_with_a_certificate_is_logged_in_to(authority: Authority, security: Security):
    tls = authority.certified(ip_address(LOOPBACK))
    async with mail_server(tls, is_tls_from_start=security is Security.TLS) as server:
        fields = {"user": USER, "password": PASSWORD, "ca_file": authority.ca_file}
        await mailer_to(server, security, **fields).send(outgoing())
        assert (len(server.messages), server.logins) == (1, [True])
        assert security is Security.TLS or server.was_secure == [True]


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
@pytest.mark.parametrize("fault", ["unknown authority", "another name"])
async def test_a_certificate_is_checked_before_anything_is_said(
    authority: Authority, tmp_path: Path, security: Security, fault: str
):
    name = ip_address(LOOPBACK) if fault == "unknown authority" else "mail.example"
    ca_file = authority.ca_file if fault == "another name" else None
    tls = authority.certified(name)
    async with mail_server(tls, is_tls_from_start=security is Security.TLS) as server:
        mailer = mailer_to(server, security, user=USER, password=PASSWORD, ca_file=ca_file)
        with pytest.raises(MailUnavailable, match=r"^tls$"):
            await mailer.send(outgoing())
        assert (server.logins, server.messages) == ([], [])


async def test_nothing_is_said_to_a_server_that_offers_no_tls(server: MailServer):
    mailer = mailer_to(server, Security.STARTTLS, user=USER, password=PASSWORD)
    with pytest.raises(MailUnavailable, match=r"^unsupported$"):
        await mailer.send(outgoing())
    assert (server.logins, server.messages) == ([], [])


async def test_a_server_that_wants_tls_is_told_the_mail_later(authority: Authority):
    tls = authority.certified(ip_address(LOOPBACK))
    async with mail_server(tls, require_starttls=True) as server:
        with pytest.raises(MailUnavailable, match=r"^530"):
            await mailer_to(server).send(outgoing())
        assert server.messages == []


async def test_a_refused_login_is_no_fault_of_the_mail(server: MailServer):
    with pytest.raises(MailUnavailable, match=r"^535"):
        await mailer_to(server, user=USER, password="wrong").send(outgoing())


# Faults


@pytest.mark.parametrize(
    ("command", "answer", "error", "code"),
    [
        ("MAIL", "451 4.7.1 greylisted, 10.1.2.3", MailUnavailable, "451 4.7.1"),
        ("MAIL", "553 5.1.8 sender unknown", MailUnavailable, "553 5.1.8"),
        ("RCPT", "450 4.2.1 mailbox busy", MailUnavailable, "450 4.2.1"),
        ("RCPT", "550 5.1.1 dewi@example.com unknown", MailRefused, "550 5.1.1"),
        ("RCPT", "550 unknown", MailRefused, "550"),
        ("RCPT", "554 5.7.1 relay access denied", MailUnavailable, "554 5.7.1"),
        ("RCPT", "530 5.7.0 authentication required", MailUnavailable, "530 5.7.0"),
        ("DATA", "452 4.3.1 disk full", MailUnavailable, "452 4.3.1"),
        ("DATA", "552 5.3.4 too large", MailRefused, "552 5.3.4"),
        ("MAIL", CUT, MailUnavailable, "disconnected"),
        ("DATA", CUT, MailUnavailable, "disconnected"),
        ("RCPT", HANG, MailUnavailable, "timeout"),
        ("DATA", HANG, MailUnavailable, "timeout"),
    ],
)
async def test_an_answer_is_for_later_or_for_ever_and_its_code_is_all_that_is_kept(
    server: MailServer, command: str, answer: str, error: type[Exception], code: str
):
    server.answers[command] = answer
    with pytest.raises(error) as raised:
        await mailer_to(server, timeout_s=SHORT_S if answer == HANG else 10.0).send(outgoing())
    assert str(raised.value) == code


@pytest.mark.parametrize("answer", [CUT, HANG, "500 what"])
async def test_mail_that_server_has_is_sent_however_connection_ends(server: MailServer, answer: str):
    server.answers["QUIT"] = answer
    await mailer_to(server).send(outgoing())
    assert len(server.messages) == 1


async def test_a_server_that_is_away_or_silent_is_tried_later():
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        place = SmtpServer(LOOPBACK, closed.getsockname()[1], Security.PLAIN)
        with pytest.raises(MailUnavailable, match=r"^connect$"):
            await SmtpMailer(place, SENDER).send(outgoing())
        closed.listen()
        with pytest.raises(MailUnavailable, match=r"^timeout$"):
            await SmtpMailer(place, SENDER, timeout_s=SHORT_S).send(outgoing())


async def test_a_check_logs_in_and_sends_nothing(server: MailServer):
    await mailer_to(server, user=USER, password=PASSWORD).check()
    assert (server.logins, server.messages) == ([True], [])
    with pytest.raises(MailUnavailable, match=r"^535"):
        await mailer_to(server, user=USER, password="wrong").check()


# The address


@pytest.mark.parametrize(
    ("url", "host", "port", "security"),
    [
        ("smtp://mail.example", "mail.example", 587, Security.STARTTLS),
        ("smtp://mail.example:2525", "mail.example", 2525, Security.STARTTLS),
        ("smtps://mail.example", "mail.example", 465, Security.TLS),
        ("smtps://localhost:1465", "localhost", 1465, Security.TLS),
        ("smtp://localhost", "localhost", 25, Security.PLAIN),
        ("smtp://127.0.0.1:1025", "127.0.0.1", 1025, Security.PLAIN),
        ("smtp://[::1]", "::1", 25, Security.PLAIN),
        ("smtp://10.0.0.9", "10.0.0.9", 587, Security.STARTTLS),
    ],
)
def test_only_a_server_on_this_machine_is_spoken_to_in_the_clear(
    url: str, host: str, port: int, security: Security
):
    assert server_from_url(url) == SmtpServer(host, port, security)


def test_a_password_is_read_with_its_escapes_and_shown_nowhere():
    server = server_from_url("smtp://mail%40user:p%40ss%2Fword%3A1@mail.example")
    assert (server.user, server.password) == ("mail@user", PASSWORD)
    assert PASSWORD not in repr(server)


def test_a_senders_name_stands_before_the_address():
    assert parse_sender("Émile & Rapat <mail@meet.example>") == SENDER
