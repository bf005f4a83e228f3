"""The mailer: a connection for each mail, and ten seconds for all of it."""

import asyncio
import ssl
from contextlib import suppress
from typing import Final

import aiosmtplib

from meetcore.adapters.smtp.errors import translated
from meetcore.adapters.smtp.message import message_of
from meetcore.adapters.smtp.server import Security, SmtpServer
from meetcore.domain.mails.senders import Sender
from meetcore.ports.mailer import OutgoingMail

TIMEOUT_S: Final = 10.0
"""Seconds for one mail, from the look-up of the server's name to the end of the connection."""

_QUIT_S: Final = 0.5


class SmtpMailer:
    """Sends mails.

    Args:
        timeout_s: for one mail.
    """

    def __init__(self, server: SmtpServer, sender: Sender, *, timeout_s: float = TIMEOUT_S) -> None:
        self._server = server
        self._sender = sender
        self._timeout_s = timeout_s
        self._tls = None if server.security is Security.PLAIN else _tls_context(server.ca_file)

    async def send(self, mail: OutgoingMail) -> None:
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
            await _quit(client)  # the server has the mail, however this ends
        finally:
            client.close()

    async def check(self) -> None:
        """Connect, secure the connection and log in, as far as the settings say so; send nothing.

        Raises:
            MailUnavailable: it did not work.
        """
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
            # Not the machine's name, which is looked up and is nobody's business.
            local_hostname=self._sender.domain,
            timeout=self._timeout_s,
            use_tls=server.security is Security.TLS,
            start_tls=server.security is Security.STARTTLS,
            tls_context=self._tls,
        )


async def _quit(client: aiosmtplib.SMTP) -> None:
    with suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=_QUIT_S)


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context
