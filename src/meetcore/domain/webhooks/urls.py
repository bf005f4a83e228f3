"""The rule for webhook URLs (spec 4.3): which text is one, and when two texts are the same one.

`addresses` decides whether the host may be sent to, at registration and before every delivery.
The text is not parsed by `urllib.parse`, which silently drops tabs and line breaks: the checked URL must be
the contacted one. Path and query are kept byte for byte; invalid characters in them are refused instead of
repaired, so that one resource has one spelling. An empty query (`/?`) is no query.
Names are mapped by IDNA 2003 (`encodings.idna`). Where IDNA 2008 would read a name as another host
(sharp s, final sigma, joiners) or knows letters that 2003 does not, the name is refused with the advice
to write the label in its `xn--` form: a guess could send the customer's events to a third party.
"""

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address

from attrs import frozen

from meetcore.domain.errors import InvalidRequest
from meetcore.domain.webhooks.addresses import Address

__all__ = [
    "MAX_URL_LENGTH", "WebhookUrl", "parse_webhook_url",
]  # fmt: skip

MAX_URL_LENGTH = 1000
"""Code points (spec 4.3)."""

_MAX_NAME_LENGTH = 253
_PARTS = re.compile(
    r"(?:(?P<scheme>[^:/?#]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?"
    r"(?P<fragment>#.*)?",
    re.DOTALL,
)
_TARGET = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]]|%[0-9A-Fa-f]{2})*")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_IDNA_DEVIATIONS = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zs", "Zl", "Zp"})


@frozen
class WebhookUrl:
    """A URL that keeps the rule.

    `text` is as the caller gave it; `normalized` is ASCII and the same for two spellings of one URL (rule
    4.3/2); `host` is an A-label name without a final dot, or an IP address without brackets; `request_target`
    is path and query as they are sent.
    """

    text: str
    normalized: str
    host: str
    request_target: str

    @property
    def address(self) -> Address | None:
        """The host as an address when it is written as one, else `None`: the name must be resolved."""
        if ":" in self.host:
            return IPv6Address(self.host)
        return IPv4Address(self.host) if self.host.rpartition(".")[2].isdigit() else None


class _BadHost(Exception):
    """The problem of the host, as a sentence after `url`."""


def parse_webhook_url(text: str) -> WebhookUrl:
    """Read a webhook URL: https, port 443, no user information, no fragment (rules 4.3/url and 6/1).

    Raises `InvalidRequest`; every problem is named at once.
    """
    problems = _character_problems(text)
    if len(text) > MAX_URL_LENGTH:
        # Nothing below looks at more than the allowed length of a hostile text.
        raise InvalidRequest({"url": [*problems, f"must be at most {MAX_URL_LENGTH} characters long"]})
    parts = _PARTS.fullmatch(text)
    # Every group is optional and the last ones take any character, so the pattern fits every text.
    assert parts is not None
    if (parts["scheme"] or "").lower() != "https":
        problems.append("must begin with https://")
    if parts["fragment"] is not None:
        problems.append("must not have a fragment (#...)")
    target = (parts["path"] or "/") + (f"?{parts['query']}" if parts["query"] else "")
    if not _TARGET.fullmatch(target):
        problems.append("must percent-encode, as %XX, what a URI cannot carry in its path and query")
    host, host_problems = _read_authority(parts["authority"])
    problems += host_problems
    if problems:
        raise InvalidRequest({"url": problems})
    bracketed = f"[{host}]" if ":" in host else host
    return WebhookUrl(text, f"https://{bracketed}{target}", host, target)


def _character_problems(text: str) -> list[str]:
    if any(unicodedata.category(char) in _FORBIDDEN_CATEGORIES for char in text):
        return ["must not contain white space, control characters or lone surrogates"]
    return ["must not contain a backslash"] if "\\" in text else []


def _read_authority(authority: str | None) -> tuple[str, list[str]]:
    """Return the host in its normal form, and the problems of the authority."""
    if not authority:
        return "", ["must name a host"]
    problems: list[str] = []
    user, at, host_and_port = authority.rpartition("@")
    if user or at:
        problems.append("must not contain user information (user:password@)")
    # The colon of a port stands after the brackets of an IPv6 address.
    bare, colon, port = host_and_port.rpartition(":")
    if not colon or "]" in port:
        bare, port = host_and_port, ""
    if port not in ("", "443"):
        problems.append("must use port 443")
    try:
        return _read_host(bare), problems
    except _BadHost as bad:
        return "", [*problems, str(bad)]


def _read_host(text: str) -> str:
    if not text:
        raise _BadHost("must name a host")
    if text.startswith("["):
        return _read_ipv6(text)
    name = ".".join(_to_ascii(label) for label in _DOTS.split(_without_final_dot(text)))
    if len(name) > _MAX_NAME_LENGTH:
        raise _BadHost(f"must have a host name of at most {_MAX_NAME_LENGTH} characters")
    # Resolvers read 127.1, 0x7f.1 and 2130706433 as addresses, each in its own way.
    if _NUMERIC_LABEL.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise _BadHost("must write an IPv4 address as four decimal numbers") from None
    return name


def _without_final_dot(name: str) -> str:
    return name[:-1] if _DOTS.fullmatch(name[-1]) else name


def _read_ipv6(text: str) -> str:
    inner = text[1:-1]
    # A scope id means a link of this machine, and is meaningless elsewhere.
    if not text.endswith("]") or "%" in inner:
        raise _BadHost("must have a valid IPv6 address, without a zone, in its brackets")
    try:
        return str(IPv6Address(inner))
    except ValueError:
        raise _BadHost("must have a valid IPv6 address, without a zone, in its brackets") from None


def _to_ascii(label: str) -> str:
    """Return one label of a name in lower case, as the A-label of anything outside ASCII."""
    if label.isascii():
        ascii_label = label.lower()
    else:
        if any(map(_is_ambiguous, label)):
            raise _BadHost("must write each part of the host that IDNA versions disagree on as xn--...")
        try:
            ascii_label = label.encode("idna").decode().lower()
        except UnicodeError:
            raise _BadHost("must have a host name that IDNA can encode") from None
    if not _LABEL.fullmatch(ascii_label):
        raise _BadHost("must have a valid host name (labels of 1 to 63 letters, digits and hyphens)")
    return ascii_label


def _is_ambiguous(char: str) -> bool:
    # Letters that Unicode 3.2, which IDNA 2003 is bound to, had not assigned are passed through
    # without their case mapping.
    return char in _IDNA_DEVIATIONS or unicodedata.ucd_3_2_0.category(char) == "Cn"
