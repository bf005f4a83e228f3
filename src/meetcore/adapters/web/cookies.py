"""The cookies of the pages, and protection against requests that another site makes a browser send (CSRF).

A change must come from a page of ours. The browser says so in `Sec-Fetch-Site` (Fetch Metadata) or `Origin`;
one of them must, and each form also carries a token that only the pages of the session know.

A form that waits for a fresh sign-in is kept in a cookie, and shown again on its page: nothing of it is
stored by the service or written into an address. What a cookie cannot hold is not kept, and neither are
passwords and the answers of authenticators.
"""

import base64
import hashlib
import hmac
import json
import secrets
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import Factory, asdict, field, frozen
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from meetcore.adapters.catalogues import read_weights

DASHBOARD: Final = "meetcore"
"""The prefix of the dashboard's cookies."""
LANGUAGE_KEPT: Final = timedelta(days=365)
_MAX_COOKIE: Final = 1000
_TOKEN_BYTES: Final = 24
_OWN_SITES: Final = ("same-origin", "none")
"""Of `Sec-Fetch-Site`: a page of ours, and the reader's own hand."""


def _named(ending: str, site: str = "") -> Any:
    """Declare the name of a cookie, of the site if none is given."""

    def name(cookies: "Cookies") -> str:
        return f"{'__Host-' if cookies.is_secure else ''}{site or cookies.site}{ending}"

    return field(init=False, default=Factory(name, takes_self=True))


@frozen
class Cookies:
    """The names and attributes of the cookies of one part of the site.

    A name with the prefix `__Host-` is bound to this host, to TLS and to the whole path (RFC 6265bis,
    4.1.3.2). On plain http, which is for a loopback address, browsers refuse the prefix.

    `session` holds the session. A sign-in link is bound to `browser`, a sign-in at an OpenID provider to
    `provider`; `after` is the page to go on to after signing in, `form` what was typed there before, and
    `language` the language chosen.
    """

    site: str
    is_secure: bool
    session: str = _named("")
    browser: str = _named("-browser")
    after: str = _named("-after")
    provider: str = _named("-provider")
    form: str = _named("-form")
    language: str = _named("-language", "meetcore")

    @property
    def playground(self) -> str:
        """The name of the cookie with a key. `__Host-` is not for a cookie that is bound to a path."""
        return f"{'__Secure-' if self.is_secure else ''}{self.site}-playground"

    def read(self, request: Request, name: str, longest: int = _MAX_COOKIE) -> str | None:
        """Return the value of a cookie; `None` where it is missing or longer than any of ours."""
        value = request.cookies.get(name)
        return value if value and len(value) <= longest else None

    def set(self, response: Response, name: str, value: str, kept: timedelta, path: str = "/") -> None:
        """Set a cookie that no script reads, for so long; one of a path comes with no link from elsewhere."""
        response.set_cookie(
            name, value, max_age=int(kept.total_seconds()), path=path, secure=self.is_secure, httponly=True,
            samesite="lax" if path == "/" else "strict",
        )  # fmt: skip

    def clear(self, response: Response, name: str) -> None:
        """Delete a cookie."""
        response.delete_cookie(name, path="/", secure=self.is_secure, httponly=True, samesite="lax")


_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def is_same_origin(headers: Headers, base_url: str) -> bool:
    """Return whether a page of this origin sent a change; false where the browser says nothing.

    A browser's `Sec-Fetch-Site` is proof by itself: no page can set it. Without it `Origin` must be that of
    the base URL, or name the host that was asked, which a proxy may have rewritten. The default port may be
    written out anywhere.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return False
    sent = _origin(origin)
    return sent is not None and sent in (_origin(base_url), _origin(f"{sent[0]}://{headers.get('host', '')}"))


def _origin(url: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of an address; `None` where it has no host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS.get(parts.scheme)


def form_token(cookie: str) -> str:
    """Derive the token of forms from a cookie, so that nothing has to be stored.

    It is masked by other random bytes each time, so that the size of compressed pages tells nothing of it.
    """
    mask = secrets.token_bytes(_TOKEN_BYTES)
    return base64.urlsafe_b64encode(mask + _xor(mask, _bare_token(cookie))).decode()


def is_form_token(text: str, cookie: str) -> bool:
    """Compare a form's token with that of a cookie, in constant time."""
    try:
        sent = base64.urlsafe_b64decode(text)
    except ValueError:
        return False
    mask, masked = sent[:_TOKEN_BYTES], sent[_TOKEN_BYTES:]
    return len(masked) == _TOKEN_BYTES and hmac.compare_digest(_xor(mask, masked), _bare_token(cookie))


def _bare_token(cookie: str) -> bytes:
    return hmac.digest(cookie.encode(), b"meetcore form", hashlib.sha256)[:_TOKEN_BYTES]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def may_compress(headers: Headers) -> bool:
    """Return whether a page can be sent compressed: gzip is accepted, and no other site asked for the page.

    What another site makes a browser ask for, with texts of its choice in the address, would otherwise tell
    by its compressed size what else is on the page, such as a join link (BREACH).
    """
    weights = dict(read_weights(headers.get("accept-encoding", "")))
    return weights.get("gzip", 0.0) > 0 and headers.get("sec-fetch-site") in _OWN_SITES


FORM_KEPT: Final = timedelta(minutes=20)
"""A sign-in link works for 15 minutes."""
MAX_ENCODED: Final = 3500
"""Characters of a cookie's value: browsers take 4096 bytes with name and attributes (RFC 6265, 6.1)."""
_MAX_DECODED: Final = 64 * 1024
_NEVER_KEPT: Final = frozenset({"password", "credential", "confirmed"})


@frozen
class KeptForm:
    """A form of `owner`, sent to a path from the page that has it."""

    owner: str
    page: str
    sent_to: str
    fields: Mapping[str, str] = field(repr=False)


def encode_form(form: KeptForm) -> str | None:
    """Return a form as the value of a cookie; `None` if it is too long."""
    kept = asdict(form)
    kept["fields"] = {name: text for name, text in form.fields.items() if name not in _NEVER_KEPT}
    text = base64.urlsafe_b64encode(zlib.compress(json.dumps(kept).encode())).decode()
    return text if len(text) <= MAX_ENCODED else None


def decode_form(text: str) -> KeptForm | None:
    """Read the value of a cookie; `None` for any text that `encode_form` does not return."""
    try:
        reader = zlib.decompressobj()
        found = json.loads(reader.decompress(base64.urlsafe_b64decode(text), _MAX_DECODED))
        form = KeptForm(**found)
        texts = [form.owner, form.page, form.sent_to, *form.fields, *form.fields.values()]
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error):
        return None
    return form if all(isinstance(each, str) for each in texts) else None
