"""The types of settings: the rule of a value, in the annotation of its field.

An impossible value is refused with the name of its variable and its rule, never with the value itself.
"""

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import urlsplit

import psycopg
from attrs import Attribute, frozen
from attrs.validators import and_
from psycopg.conninfo import conninfo_to_dict

from meetcore.adapters.settings import names, tiers
from meetcore.domain.mails.mails import parse_sender
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.keys import is_prefix
from meetcore.domain.webhooks import addresses, retry_schedule
from meetcore.ports.plugins import SecretStr


@frozen
class Rule:
    """The rule of a value: `holds` returns False or raises for others, with a message if `with_reason`."""

    must: str
    holds: Callable[[Any], object]
    with_reason: bool = False

    def __call__(self, _: object, attribute: "Attribute[Any]", value: Any) -> None:
        """Validate the value of a field; a `ValueError` names the variable and the rule."""
        reason = ""
        try:
            if self.holds(value) is not False:
                return
        except (ValueError, OSError, TypeError, KeyError, AttributeError) as error:
            reason = f": {error}" if self.with_reason else ""
        raise ValueError(f"{names.PREFIX}{attribute.name.upper()} {self.must}{reason}")


@frozen
class Form:
    """A normalisation of a text before its check."""

    of: Callable[[str], str]


def from_annotations(_: type, attributes: "list[Attribute[Any]]") -> "list[Attribute[Any]]":
    """Give each field of a class its converter and its validator, from its annotation."""
    return [_from_annotation(each) for each in attributes]


def _from_annotation(attribute: "Attribute[Any]") -> "Attribute[Any]":
    if get_origin(attribute.type) is not Annotated:
        return attribute
    kind, *notes = get_args(attribute.type)
    rules = [note for note in notes if isinstance(note, Rule)]
    forms = [note.of for note in notes if isinstance(note, Form)]
    return attribute.evolve(type=kind, validator=and_(*rules), converter=forms[0] if forms else None)


def at_least(lowest: int) -> Rule:
    """Return the rule of a whole number of at least this."""
    return Rule(f"must be a whole number of at least {lowest}", lambda number: number >= lowest)


def from_to(lowest: int, highest: int) -> Rule:
    """Return the rule of a whole number in a range."""
    return Rule(
        f"must be a whole number from {lowest} to {highest}", lambda number: lowest <= number <= highest
    )


def days(lowest: int) -> Rule:
    """Return the rule of a whole number of days, at most a century: dates have their limits."""
    return from_to(lowest, 36_500)


def one_of(*values: str) -> Rule:
    """Return the rule of one of some texts."""
    return Rule(f"must be one of: {', '.join(values)}", lambda text: text in values)


def networks(text: str) -> tuple[addresses.Network, ...]:
    """Read networks, comma separated; raises `ValueError`."""
    return tuple(ip_network(item) for item in _items(text))


def schedule(text: str) -> retry_schedule.RetrySchedule:
    """Read delays in whole seconds, comma separated; raises `ValueError`."""
    return retry_schedule.RetrySchedule(tuple(int(item) for item in _items(text)))


def duration_s(text: str) -> int:
    """Read a duration such as `24h`, `90m` or `3600` (seconds), in seconds; raises `ValueError`."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS_S else (text, "s")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise ValueError("no duration")
    return int(number) * _UNITS_S[unit]


def fields(text: str) -> dict[str, str]:
    """Read header fields such as `x-key=abc`, comma separated; raises `ValueError`."""
    pairs = [item.partition("=") for item in _items(text)]
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if not all(_FIELD_NAME.fullmatch(name) and _is_printable(value) for name, value in found.items()):
        raise ValueError("no header field")
    return found


def _is_printable(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    is_place = bool(parts.hostname) and parts.port != 0  # reading the port raises for an invalid one
    return parts.scheme in ("http", "https") and is_place and not (parts.query or parts.fragment)


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _as_browsers_write(text: str) -> str:
    """Return an address with its host in small letters, without its scheme's own port and a last slash.

    Browsers name the origin of a page so, in `Origin` and to their authenticators.
    """
    text = text.rstrip("/")
    try:
        parts = urlsplit(text)
        is_default = parts.port == _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        return text  # refused by its rule
    if not parts.hostname or "@" in parts.netloc:
        return text
    place = parts.netloc.lower()
    return parts._replace(netloc=place.rpartition(":")[0] if is_default else place).geturl()


def _is_public_origin(text: str) -> bool:
    """Return whether a URL may be used in public links: it contains no user name and no password."""
    return _is_origin(text) and "@" not in urlsplit(text).netloc


def _is_endpoint(text: str) -> bool:
    """Return whether it is an address with a path."""
    return _is_public_origin(text) and urlsplit(text).path not in ("", "/")


def _is_issuer(text: str) -> bool:
    """Return whether it is the address of an OpenID provider: with TLS, except on this machine."""
    is_local = urlsplit(text).hostname in ("127.0.0.1", "localhost")
    return _is_public_origin(text) and (text.startswith("https://") or is_local)


def _check_database(text: str) -> None:
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError
    try:
        parts = conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        raise ValueError from None  # its message may hold the password
    for port in _items(str(parts.get("port", ""))):
        int(port)


def _is_server(text: str, *schemes: str) -> bool:
    """Return whether it is the address of a server, or of several with semicolons."""
    places = map(urlsplit, text.split(";"))
    return all(place.scheme in schemes and place.port != 0 for place in places)


def _is_smtp(text: str) -> bool:
    """Return whether it is the address of a mail server, with a user and password or none."""
    parts = urlsplit(text)
    is_server = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    has_login = (parts.username is None) == (parts.password is None)
    is_bare = not (parts.path.strip("/") or parts.query or parts.fragment)
    return is_server and has_login and is_bare


def _is_one_word(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _check_authorities(path: str) -> None:
    SSLContext(PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)


def paths(text: str) -> tuple[str, ...]:
    """Read paths, separated by commas."""
    return tuple(_items(text))


def _are_fonts(text: str) -> bool:
    return all(path.lower().endswith((".ttf", ".otf")) and Path(path).is_file() for path in paths(text))


def or_empty(must: str, holds: Callable[[str], object]) -> Rule:
    """Return a rule that an empty text fulfils, too."""
    return Rule(must, lambda text: not text or holds(text))


_WITHOUT_SLASH = Form(lambda text: text.rstrip("/"))
_ADDRESS = Rule("must be an http:// or https:// address", _is_origin)
_WORD = Rule("must be one word of ASCII, as it is shown at the provider", _is_one_word)

_FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}

_MAX_S = retry_schedule.MAX_DELAY_S
"""The longest wait that a setting may ask for, in seconds."""

Positive = Annotated[int, at_least(1)]
Seconds = Annotated[int, from_to(1, _MAX_S)]
AtLeastZero = Annotated[int, at_least(0)]
SecondsOrEmpty = Annotated[
    str,
    or_empty(
        f"must be a whole number from 0 to {_MAX_S}, or empty for what fits the provider",
        lambda text: text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _MAX_S,
    ),
]
Percent = Annotated[int, Rule("must be from 1 to 100", lambda percent: 1 <= percent <= 100)]
CpuPercent = Annotated[
    int,
    Rule(
        "must be from 10 to 100, or 0 for what fits the machine",
        lambda percent: percent in (0, *range(10, 101)),
    ),
]
Share = Annotated[float, Rule("must be a number from 0 to 1", lambda share: 0 <= share <= 1)]
LogLevel = Annotated[str, Form(str.lower), one_of("debug", "info", "warning", "error")]
KeyPrefix = Annotated[str, Rule("must be 1 to 16 lower-case letters and digits, a letter first", is_prefix)]
Word = Annotated[str, _WORD]
SecretWord = Annotated[SecretStr, _WORD]
ModelName = Annotated[str, Rule("must be one word of ASCII, or empty to do it on this machine", _is_one_word)]
SpokenLanguage = Annotated[
    str,
    Rule(
        "must be note, auto, or an ISO 639-1 code such as id",
        lambda text: text in ("note", "auto") or bool(re.fullmatch("[a-z]{2}", text)),
    ),
]
Duration = Annotated[str, Rule("must be a duration such as 24h, 90m or 3600 (seconds), or 0", duration_s)]
Schedule = Annotated[str, Rule(f"must be whole seconds up to {_MAX_S}, comma separated", schedule)]
PrivateNetworks = Annotated[str, Rule("must be networks such as 10.0.0.0/8, comma separated", networks)]
PublicNetworks = Annotated[str, Rule("must be networks such as 203.0.113.0/24, comma separated", networks)]
SecretFields = Annotated[
    SecretStr, Rule("must be header fields such as x-key=abc, comma separated, or empty", fields)
]

DatabaseUrl = Annotated[SecretStr, or_empty("must be a postgresql:// address", _check_database)]
BrokerUrl = Annotated[
    SecretStr,
    or_empty(
        "must be a redis:// or amqp:// address, or empty for in-process",
        lambda text: _is_server(text, "redis", "rediss", "amqp", "amqps"),
    ),
]
RateStoreUrl = Annotated[
    SecretStr,
    or_empty(
        "must be a redis:// address, or empty for the database",
        lambda text: _is_server(text, "redis", "rediss"),
    ),
]
SmtpUrl = Annotated[
    SecretStr,
    or_empty(
        "must be an smtp:// or smtps:// address, with user:password@ where it wants a login, or empty",
        _is_smtp,
    ),
]
MailFrom = Annotated[
    str,
    or_empty(
        "must be an e-mail address without two dots in a row, or a name with one in angle brackets",
        parse_sender,
    ),
]
Origin = Annotated[str, _WITHOUT_SLASH, _ADDRESS]
OriginOrEmpty = Annotated[
    str,
    _WITHOUT_SLASH,
    or_empty("must be an http:// or https:// address, or empty for the gateway's own", _is_public_origin),
]
Contact = Annotated[
    str,
    or_empty(
        "must be an e-mail address or an https:// address, or empty",
        lambda text: check_email(text) if "@" in text and ":" not in text else text.startswith("https://"),
    ),
]
PublicOrigin = Annotated[
    str,
    Form(_as_browsers_write),
    Rule("must be an http:// or https:// address, without a user in it", _is_public_origin),
]
AiAddress = Annotated[
    str,
    _WITHOUT_SLASH,
    or_empty(
        "must be an http:// or https:// address without a user in it, or empty for this machine",
        _is_public_origin,
    ),
]
TracesAddress = Annotated[
    str,
    or_empty(
        "must be an http:// or https:// address with a path, as http://127.0.0.1:4318/v1/traces, or empty",
        _is_endpoint,
    ),
]
Issuer = Annotated[
    str, or_empty("must be an https:// address, as the provider itself writes it, or empty", _is_issuer)
]
TiersFile = Annotated[
    str,
    Rule("must be a TOML file of [[tier]] tables; see docs/operating.md", tiers.read_tiers, with_reason=True),
    Rule(
        "must be a TOML file of [[package]] tables; see docs/operating.md",
        tiers.read_packages,
        with_reason=True,
    ),
]
Authorities = Annotated[str, or_empty("must be a file of PEM certificates", _check_authorities)]
Directory = Annotated[
    str, or_empty("must be a directory, or empty for the system", lambda path: Path(path).is_dir())
]
FontFiles = Annotated[
    str, Rule("must be paths of font files (TTF, OTF), comma separated, or empty", _are_fonts)
]
