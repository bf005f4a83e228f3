"""Protection against requests that another site makes a browser send (CSRF).

A change must come from a page of ours. The browser says so in `Sec-Fetch-Site` (Fetch Metadata) or
`Origin`; both are checked, and each form also carries a token that only the session's own pages know.
"""

import base64
import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def is_same_origin(headers: Headers) -> bool:
    """Whether a request that changes something was sent by a page of this origin.

    False where the browser says neither: every browser of today sends one with a form.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    return site == "same-origin"


def form_token(cookie: str) -> str:
    """The token of forms for the holder of a cookie: derived from it, so that nothing has to be stored."""
    mac = hmac.digest(cookie.encode(), b"meetcore form", hashlib.sha256)
    return base64.urlsafe_b64encode(mac[:24]).decode()


def is_form_token(text: str, cookie: str) -> bool:
    """Whether a form carries the token of this cookie; compared in constant time."""
    return hmac.compare_digest(text.encode(), form_token(cookie).encode())
