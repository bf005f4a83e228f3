"""A webhook receiver on loopback: real TLS, with a certificate of an authority of its own."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web
from attrs import define, field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@frozen
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float = 0.0
    """When it had come whole, by a clock that only this process knows."""


@define
class Receiver:
    """Answers each request with `status`, and keeps it."""

    port: int = 0
    ca_file: str = ""
    status: int = 204
    answers: list[int] = field(factory=list)
    """Statuses for the next requests, before `status` takes over."""
    received: list[Received] = field(factory=list)
    takes_s: float = 0.0
    """How long each request takes; one to a path that begins with `/hang` takes until `release`."""
    release: asyncio.Event = field(factory=asyncio.Event)
    under_way: int = 0
    most_under_way: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        # In lower case, as HTTP leaves it open.
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.method, request.path_qs, headers, body, time.monotonic()))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if request.path.startswith("/hang"):
                await self.release.wait()
            elif self.takes_s:
                await asyncio.sleep(self.takes_s)
        finally:
            self.under_way -= 1
        return web.Response(status=self.answers.pop(0) if self.answers else self.status)


@asynccontextmanager
async def receiving(host: str, directory: Path, *more_hosts: str) -> AsyncIterator[Receiver]:
    """A receiver for host names, on a free port."""
    receiver = Receiver(ca_file=str(directory / "ca.pem"))
    context = _context_for((host, *more_hosts), directory)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", receiver.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        receiver.release.set()
        await runner.cleanup()


def _context_for(hosts: Sequence[str], directory: Path) -> ssl.SSLContext:
    """Make an authority and a certificate of it for the hosts; the authority goes to `ca.pem`."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("Test authority", ca_key, "Test authority", ca_key)
    certificate = _certificate(hosts[0], key, "Test authority", ca_key, hosts)
    (directory / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (directory / "host.pem").write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "host.pem")
    return context


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str] = (),
) -> x509.Certificate:
    now = datetime.now(UTC)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=not hosts, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority, critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
