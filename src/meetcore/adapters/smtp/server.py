"""The mail server of a URL, and how the way to it is secured."""

from enum import Enum
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from attrs import field, frozen


class Security(Enum):
    """TLS from the beginning, TLS before anything else is said, or none on this machine."""

    TLS = "tls"
    STARTTLS = "starttls"
    PLAIN = "plain"


_PORTS = {Security.TLS: 465, Security.STARTTLS: 587, Security.PLAIN: 25}


@frozen
class SmtpServer:
    """A mail server; without a user nobody logs in. `ca_file` has the authorities beside the system's."""

    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str | None = None


def server_from_url(url: str, ca_file: str | None = None) -> SmtpServer:
    """Read `smtps://` (TLS from the beginning) or `smtp://` (STARTTLS, but for a loopback address plain).

    Args:
        url: with percent-encoded user and password, if any, and a port, if it is not 465, 587 or 25.
        ca_file: PEM certificates.
    """
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
