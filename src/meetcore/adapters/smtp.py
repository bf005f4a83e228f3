"""Send mails over SMTP, one connection per mail, with TLS except on loopback."""

import asyncio
import re
import ssl
from contextlib import suppress
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from enum import Enum
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

import aiosmtplib
from attrs import field, frozen

from meetcore.adapters.tls import client_context
from meetcore.domain.mails import mails, views
from meetcore.domain.requests.accounts import check_email
from meetcore.ports.mails import MailRefused, MailUnavailable


class Security(Enum):
    """TLS from the start, STARTTLS, or none on loopback."""

    TLS = "tls"
    STARTTLS = "starttls"
    PLAIN = "plain"


_PORTS = {Security.TLS: 465, Security.STARTTLS: 587, Security.PLAIN: 25}


@frozen
class SmtpServer:
    """A mail server; without a user there is no login. `ca_file` adds authorities to the system's."""

    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str | None = None


def server_from_url(url: str, ca_file: str | None = None) -> SmtpServer:
    """Parse `smtps://` (TLS from the start, 465) or `smtp://` (STARTTLS, 587, or plain on loopback, 25)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    security = Security.TLS
    if parts.scheme == "smtp":
        security = Security.PLAIN if _is_loopback(host) else Security.STARTTLS
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return SmtpServer(host, parts.port or _PORTS[security], security, user, password, ca_file)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# RFC 3463: "5.1.1 no such user".
_ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}\b")
# RFC 4954: login required, or its mechanism too weak.
_LOGIN_CODES = frozenset({530, 534, 535, 538})
_POLICY = "5.7."


def translated(error: Exception) -> MailUnavailable | MailRefused:
    """Return the port's error, with a short code as message."""
    if not isinstance(error, aiosmtplib.SMTPResponseException):
        return MailUnavailable(_code_of(error))
    enhanced = _ENHANCED.match(error.message)
    code = f"{error.code} {enhanced[0]}" if enhanced else str(error.code)
    is_final = 500 <= error.code < 600 and error.code not in _LOGIN_CODES
    match error:
        case aiosmtplib.SMTPRecipientRefused() if is_final and not (enhanced and _is_policy(enhanced[0])):
            return MailRefused(code)
        case aiosmtplib.SMTPDataError() if is_final:
            return MailRefused(code)
        case _:
            return MailUnavailable(code)


def _is_policy(enhanced: str) -> bool:
    # Such as "relaying denied" before a login.
    return enhanced.startswith(_POLICY)


def _code_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return "tls"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, aiosmtplib.SMTPServerDisconnected):
        return "disconnected"
    return "connect" if isinstance(error, OSError) else "unsupported"


def message_of(mail: views.OutgoingMail, sender: mails.Sender) -> bytes:
    """Serialise a mail; `Message-ID` and `Date` are the same at every attempt.

    Raises `MailRefused` for an invalid recipient, or an unprintable character in the subject.
    """
    try:
        recipient = Address(addr_spec=check_email(mail.recipient))
    except ValueError as error:  # of either: a header takes no two dots in a row, say
        raise MailRefused("recipient") from error
    if not mail.subject.isprintable():
        raise MailRefused("subject")
    message = EmailMessage(policy=SMTP)
    message["From"] = Address(sender.name, addr_spec=sender.email)
    message["To"] = recipient
    message["Subject"] = mail.subject
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = f"<{mail.id}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    # Quoted-printable: lines of any length, and no need for 8BITMIME.
    message.set_content(mail.text, cte="quoted-printable")
    message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
    message["Content-Language"] = mail.language
    return message.as_bytes()


TIMEOUT_S: Final = 10.0
"""Seconds for one mail, from the lookup of the server to the end of the connection."""

_QUIT_S: Final = 0.5


class SmtpMailer:
    """Sends mails, each within `timeout_s`."""

    def __init__(self, server: SmtpServer, sender: mails.Sender, *, timeout_s: float = TIMEOUT_S) -> None:
        self._server = server
        self._sender = sender
        self._timeout_s = timeout_s
        self._tls = None if server.security is Security.PLAIN else client_context(server.ca_file)

    async def send(self, mail: views.OutgoingMail) -> None:
        message = message_of(mail, self._sender)
        client = self._client()
        try:
            async with asyncio.timeout(self._timeout_s - _QUIT_S):
                await client.connect()
                await client.mail(self._sender.email)
                await client.rcpt(mail.recipient)
                await client.data(message)
        except (aiosmtplib.SMTPException, OSError) as error:
            raise translated(error) from error
        else:
            await _quit(client)  # the mail is accepted even if this fails
        finally:
            client.close()

    async def check(self) -> None:
        """Connect, secure the connection and log in, without sending; or raise `MailUnavailable`."""
        client = self._client()
        try:
            async with asyncio.timeout(self._timeout_s - _QUIT_S):
                await client.connect()
                await client.noop()
        except (aiosmtplib.SMTPException, OSError) as error:
            raise translated(error) from error
        else:
            await _quit(client)
        finally:
            client.close()

    def _client(self) -> aiosmtplib.SMTP:
        server = self._server
        return aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user or None,
            password=server.password or None,
            # Not the machine's name, which costs a lookup and is private.
            local_hostname=self._sender.domain,
            timeout=self._timeout_s,
            use_tls=server.security is Security.TLS,
            start_tls=server.security is Security.STARTTLS,
            tls_context=self._tls,
        )


async def _quit(client: aiosmtplib.SMTP) -> None:
    with suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=_QUIT_S)
