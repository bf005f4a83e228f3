"""A webhook receiver over TLS on loopback that records requests and responds by a script."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias

from attrs import define, field
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from meetcore.domain.webhooks.addresses import Address

Behaviour: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""The action after a complete request."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Authority:
    """A certificate authority of one test; `ca_file` is its certificate (PEM)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name("a test's authority")
        signs = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = (
            _begin(name, name, self._key.public_key(), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(signs, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = str(directory / "ca.pem")
        Path(self.ca_file).write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def certified(self, *names: str | Address) -> ssl.SSLContext:
        """Issue a certificate for names and addresses, as the context of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = [
            x509.DNSName(name) if isinstance(name, str) else x509.IPAddress(name) for name in names
        ]
        leaf = (
            _begin(_name("a receiver"), self._certificate.subject, key.public_key(), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file = self._directory / f"{leaf.serial_number}.pem"
        file.write_bytes(leaf.public_bytes(pem) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


@define
class Receiver:
    """A running receiver, and the requests to it: heads with the empty line, and bodies by `Content-Length`.

    `names` has the server name in each TLS handshake, if any, `connections` the number of accepted ones.
    """

    port: int
    heads: list[bytes] = field(factory=list)
    bodies: list[bytes] = field(factory=list)
    names: list[str | None] = field(factory=list)
    connections: int = 0
    _writers: list[asyncio.StreamWriter] = field(factory=list)
    _tasks: list[asyncio.Task[None]] = field(factory=list)

    async def _serve(
        self, behaviour: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0]
                self.bodies.append(await reader.readexactly(int(length or 0)))
                self.heads.append(head)
                await behaviour(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the sender has gone, or the behaviour ends the connection
        finally:
            writer.transport.abort()

    def _accepted(
        self, behaviour: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        self._writers.append(writer)
        self._tasks.append(asyncio.create_task(self._serve(behaviour, reader, writer)))

    async def _end(self) -> list[Exception]:
        """Drop every connection; return the errors of the behaviour."""
        for writer in self._writers:
            writer.transport.abort()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        return [fault for fault in results if isinstance(fault, Exception)]


@asynccontextmanager
async def receiving(
    certificate: ssl.SSLContext, behaviour: Behaviour, hosts: tuple[str, ...] = ("127.0.0.1",)
) -> AsyncIterator[Receiver]:
    """Run a receiver on one free port of these addresses.

    A behaviour that raises ends its connection. Its errors, except OSError, leave the context in an
    `ExceptionGroup`.
    """
    sockets = [socket.create_server((hosts[0], 0))]
    port: int = sockets[0].getsockname()[1]
    sockets += [socket.create_server((host, port)) for host in hosts[1:]]
    receiver = Receiver(port)
    certificate.sni_callback = lambda _socket, name, _context: receiver.names.append(name)
    accepted = partial(receiver._accepted, behaviour)
    servers = [await asyncio.start_server(accepted, sock=one, ssl=certificate) for one in sockets]
    try:
        yield receiver
    finally:
        for server in servers:
            server.close()
        faults = await receiver._end()
        for server in servers:
            await server.wait_closed()
        if faults:
            raise ExceptionGroup("the receiver has failed", faults)


def answering(answer: bytes, *, closes: bool = False) -> Behaviour:
    """Send these bytes and wait for the next request, or close the connection in order."""

    async def behaviour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        if closes:
            writer.close()
            raise OSError
        await writer.drain()

    return behaviour


def replying_and_closing(answer: bytes) -> Behaviour:
    """Send these bytes and close the connection in order."""
    return answering(answer, closes=True)


def dripping(beginning: bytes, drop: bytes, every_s: float = 0.01) -> Behaviour:
    """Send the beginning, and then the same bytes again and again, with pauses."""

    async def behaviour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every_s)  # also for 0: draining alone does not see that the sender has gone

    return behaviour


def pouring(beginning: bytes, piece: bytes = b"x" * 65536) -> Behaviour:
    """Send the beginning, and then bytes without end, as fast as the sender takes them."""
    return dripping(beginning, piece, 0)


async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Send nothing until the sender goes."""
    await reader.read()


async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Drop the connection without a response."""
    writer.transport.abort()


async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Drop the connection with a TCP reset."""
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
