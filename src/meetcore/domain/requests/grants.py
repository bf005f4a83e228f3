"""OAuth grants of agents: clients, redirect URIs, authorizations and tokens (OAuth 2.1, RFC 8252, RFC 9700).

A grant is an API key whose text does not exist: scopes, cap, expiry and revocation are those of keys. Its
digest is that of the access token that was issued last. A code and a refresh token work once; a second use
revokes the grant, because one of the two users is not the client.
"""

import json
import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final
from urllib.parse import urlencode
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import frozen

from meetcore.domain.errors import Gone, InvalidRequest, require_record
from meetcore.domain.members.sign_in import check_hits, is_token
from meetcore.domain.requests.clients import one_client
from meetcore.domain.requests.keys import MAX_NAME, Scope
from meetcore.domain.webhooks.urls import WebhookUrl, parse_webhook_url

ANSWER_WITHIN: Final = timedelta(minutes=15)
"""The time for which an authorization waits for a member's answer."""
CODE_FOR: Final = timedelta(minutes=1)
ACCESS_FOR: Final = timedelta(hours=1)
DOCUMENT_FOR: Final = timedelta(hours=1)
"""The time after which a client's metadata document is fetched again."""
ANSWERED_KEPT_FOR: Final = timedelta(days=1)
USED_TOKENS_KEPT_FOR: Final = timedelta(days=7)
UNUSED_CLIENTS_KEPT_FOR: Final = timedelta(days=1)
CLIENTS_KEPT_FOR: Final = timedelta(days=180)
"""The time for which a client without a grant that works is kept after its last one was given."""

MAX_REDIRECT_URIS: Final = 10
MAX_URI: Final = 1000
MAX_STATE: Final = 2000
MAX_DOCUMENT_BYTES: Final = 16 * 1024

_URI = re.compile(
    r"(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?([/?][A-Za-z0-9\-._~:/?@!$&'()*+,;=%\[\]]*)?",
    re.ASCII,
)
_PRIVATE_URI = re.compile(
    r"((?:cursor|vscode|vscode-insiders|windsurf)(?=://)|[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+):"
    r"//?[A-Za-z0-9][A-Za-z0-9\-._~:/?@!$&'()*+,;=%]*",
    re.ASCII,
)
"""Of desktop programs known by name, and of those whose scheme is a domain reversed (RFC 8252, 7.1)."""
_LOOPBACK: Final = ("127.0.0.1", "[::1]", "localhost")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_COUNTERS: Final = uuid5(NAMESPACE_URL, "meetcore:oauth")


class InvalidClient(ValueError):
    """Metadata of a client that cannot be accepted; the message says why."""


class Act(Enum):
    """What strangers may do so many times in a window: from one client address, and from anywhere."""

    REGISTER = (30, 500)
    AUTHORIZE = (60, 3000)
    FETCH = (20, 300)
    TOKEN = (600, 30_000)


@frozen
class OAuthClient:
    """A program that asks for grants, known by its redirect URIs: every client is public, without a secret.

    `fetched_at` is `None` for a client that registered; the id of another one is the URL of its document.
    """

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    created_at: datetime
    fetched_at: datetime | None = None


@frozen
class Authorization:
    """A client's request for a grant, and its code once a member has allowed it; then it has a `key_id`.

    `expires_at` is the end of the time for an answer, and after it that of the code; `key_expires_at` that of
    the grant.
    """

    id: UUID
    client_id: str
    redirect_uri: str
    state: str | None
    code_challenge: str
    scopes: tuple[Scope, ...]
    expires_at: datetime
    key_id: UUID | None = None
    key_expires_at: datetime | None = None
    used_at: datetime | None = None


@frozen
class RefreshToken:
    """A refresh token as it is stored, without its text."""

    key_id: UUID
    client_id: str
    used_at: datetime | None


def counter(act: Act, client_address: str | None) -> UUID:
    """Return the id under which an act is counted for a client address."""
    return uuid5(_COUNTERS, f"{act.name} {one_client(client_address)}")


def counter_of_all(act: Act) -> UUID:
    """Return the id under which an act is counted for all."""
    return uuid5(_COUNTERS, act.name)


def check_count(hits: int, limit: int, now: datetime) -> None:
    """Raise `RateLimited` for more than the limit in a window of `sign_in`, the present act included."""
    check_hits(hits, limit, now, "Too many requests of clients. Wait some minutes.")


def check_redirect_uri(text: str) -> str:
    """Return a redirect URI in its normal form: https, or http on this machine, without user and fragment.

    A URI with the scheme of a desktop program is returned as it is: PKCE keeps a code from another program
    that takes the same scheme. Raises `InvalidClient`.
    """
    if len(text) <= MAX_URI and _PRIVATE_URI.fullmatch(text):
        return text
    found = _URI.fullmatch(text) if len(text) <= MAX_URI else None
    if found is None or (found[1] == "http" and found[2].lower() not in _LOOPBACK):
        raise InvalidClient(
            "a redirect URI is https, or http on 127.0.0.1, [::1] or localhost, or has a scheme like "
            "com.example.program, without a fragment"
        )
    scheme, host, port, rest = found.groups()
    given = f":{port}" if port and port != _DEFAULT_PORTS[scheme] else ""
    rest = rest or "/"
    return f"{scheme}://{host.lower()}{given}{rest if rest.startswith('/') else '/' + rest}"


def origin_of(redirect_uri: str) -> str:
    """Return scheme, host and port of a redirect URI; of a desktop program's the scheme alone."""
    private = _PRIVATE_URI.fullmatch(redirect_uri)
    if private is not None:
        return f"{private[1]}:"
    found = _URI.fullmatch(redirect_uri)
    assert found is not None
    return redirect_uri[: len(redirect_uri) - len(found[4] or "")]


def place_of(origin: str) -> str:
    """Return an origin as a member reads it: host and port, or the scheme of a desktop program."""
    return origin.removeprefix("https://").removeprefix("http://").removesuffix(":")


def is_on_this_machine(origin: str) -> bool:
    """Return whether an origin is that of a program on the member's own machine."""
    return not origin.startswith("https:")


def is_registered(redirect_uri: str, registered: Collection[str]) -> bool:
    """Return whether a URI is one of those registered; on this machine with any port (RFC 8252, 7.3)."""
    return redirect_uri in registered or (
        redirect_uri.startswith("http:") and _any_port(redirect_uri) in map(_any_port, registered)
    )


def _any_port(uri: str) -> str:
    return re.sub(r"^(http://[^/]+):[0-9]+(?=/)", r"\1", uri)


def redirection(uri: str, **parameters: str | None) -> str:
    """Return a redirect URI with the parameters of an answer; its own query stays as it is."""
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    return f"{uri}{'&' if '?' in uri else '?'}{query}"


def client_name(text: object, fallback: str) -> str:
    """Return the name that a client gave itself, as far as it is one printable line, else the fallback."""
    name = "".join(each for each in text if each.isprintable()) if isinstance(text, str) else ""
    return name.strip()[:MAX_NAME].strip() or fallback[:MAX_NAME]


def new_client(
    client_id: str, name: object, redirect_uris: object, now: datetime, *, is_fetched: bool = False
) -> OAuthClient:
    """Make a client of its metadata; raise `InvalidClient` for redirect URIs that cannot be accepted."""
    if not isinstance(redirect_uris, Sequence) or not 1 <= len(redirect_uris) <= MAX_REDIRECT_URIS:
        raise InvalidClient(f"redirect_uris has 1 to {MAX_REDIRECT_URIS} URIs")
    uris = tuple(dict.fromkeys(check_redirect_uri(str(each)) for each in redirect_uris))
    shown = place_of(origin_of(uris[0]))
    return OAuthClient(client_id, client_name(name, shown), uris, now, now if is_fetched else None)


def document_url(client_id: str) -> WebhookUrl | None:
    """Read a client id that is the URL of a metadata document: https, with a path, no query; else `None`."""
    try:
        url = parse_webhook_url(client_id)
    except InvalidRequest:
        return None
    segments = url.request_target.split("/")
    has_dots = "." in segments or ".." in segments
    return None if url.request_target == "/" or "?" in client_id or has_dots else url


def read_document(client_id: str, body: bytes, now: datetime) -> OAuthClient:
    """Read a metadata document; raise `InvalidClient` unless it names its own URL as the client's id."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("client_id") != client_id:
        raise InvalidClient("the document is no JSON object whose client_id is its own URL")
    if "client_secret" in found:
        raise InvalidClient("the document holds a secret")
    return new_client(client_id, found.get("client_name"), found.get("redirect_uris"), now, is_fetched=True)


def is_challenge(text: str) -> bool:
    """Return whether a text has the form of a PKCE challenge by S256."""
    return is_token(text)


def is_state(text: str) -> bool:
    """Return whether a text can be the state of a request, which its answer returns unchanged."""
    return len(text) <= MAX_STATE and text.isprintable()


def known_scopes(names: Collection[str]) -> tuple[Scope, ...]:
    """Return the scopes of a request, in our order; others are ignored (RFC 6749, 3.3)."""
    return tuple(scope for scope in Scope if scope.value in names)


def check_open(authorization: Authorization | None, now: datetime) -> Authorization:
    """Return an authorization that waits for an answer; raise `NotFound` without one, `Gone` for another."""
    authorization = require_record(authorization, "request")
    if authorization.key_id is not None or now >= authorization.expires_at:
        raise Gone("The request was answered, or has expired. Connect the program again.")
    return authorization
