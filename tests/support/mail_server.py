"""A mail server on this machine, with injectable faults."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from attrs import define, field

from meetcore.testing.contracts.infrastructure import ReceivedMail
from tests.support.program import TIMEOUT_S

USER, PASSWORD = "mail-user", "p@ss/word:1"
HANG, CUT = "hang", "cut"


@define(slots=False)
class MailServer:
    """Received mails, and answers by command: an SMTP reply, `HANG`, or `CUT`."""

    answers: dict[str, str] = field(factory=dict)
    messages: list[tuple[str, EmailMessage]] = field(factory=list)
    logins: list[bool] = field(factory=list)
    was_secure: list[bool] = field(factory=list)
    quits: int = 0
    port: int = 0
    hanging: int = 0
    released: asyncio.Event = field(factory=asyncio.Event)

    async def handle_MAIL(  # noqa: N802  (a hook of the library)
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return await self._answer("MAIL", server, "250 OK")

    async def handle_RCPT(  # noqa: N802  (a hook of the library)
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.rcpt_tos.append(address)
        return await self._answer("RCPT", server, "250 OK")

    async def handle_DATA(  # noqa: N802  (a hook of the library)
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        answer = await self._answer("DATA", server, "250 OK")
        if answer.startswith("250") or self.answers.get("DATA") == CUT:
            self.messages.append((envelope.rcpt_tos[0], message))
            self.was_secure.append(session.ssl is not None)
        return answer

    async def handle_QUIT(  # noqa: N802  (a hook of the library)
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        self.quits += 1
        return await self._answer("QUIT", server, "221 Bye")

    async def _answer(self, command: str, server: SMTP, usual: str) -> str:
        answer = self.answers.get(command, usual)
        if answer == HANG:
            self.hanging += 1
            await self.released.wait()
            return "421 too late"
        if answer == CUT:
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
            return usual
        return answer

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        is_right = data == LoginPassword(USER.encode(), PASSWORD.encode())
        self.logins.append(is_right)
        return AuthResult(success=is_right, handled=is_right)

    def received(self) -> list[ReceivedMail]:
        return [_received(recipient, message) for recipient, message in self.messages]


def _received(recipient: str, message: EmailMessage) -> ReceivedMail:
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    bodies = [body.get_content().replace("\r\n", "\n") for body in (text, html)]
    return ReceivedMail(message["Message-ID"], recipient, message["Subject"], *bodies)


@asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None,
    *,
    is_tls_from_start: bool = False,
    answers: Mapping[str, str] | None = None,
    port: int = 0,
    **options: Any,
) -> AsyncIterator[MailServer]:
    """Serve on 127.0.0.1 with implicit TLS, or STARTTLS."""
    mails = MailServer(dict(answers or {}))
    loop = asyncio.get_running_loop()

    def make() -> SMTP:
        return SMTP(
            mails, loop=loop, hostname="mail.test", timeout=30,
            tls_context=None if is_tls_from_start else tls,
            authenticator=mails.authenticate, auth_require_tls=tls is not None and not is_tls_from_start,
            **options,
        )  # fmt: skip

    server = await loop.create_server(make, "127.0.0.1", port, ssl=tls if is_tls_from_start else None)
    mails.port = server.sockets[0].getsockname()[1]
    try:
        yield mails
    finally:
        mails.released.set()
        server.close()
        await server.wait_closed()


@contextmanager
def mail_server_in_thread(port: int = 0) -> Iterator[MailServer]:
    """Serve beside a test without an event loop."""
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    servers: list[MailServer] = []

    async def serve() -> None:
        async with mail_server(port=port) as server:
            servers.append(server)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(TIMEOUT_S)
    try:
        yield servers[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
