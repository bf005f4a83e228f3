"""Forms that wait for a fresh sign-in: kept in a cookie of the browser, and shown again on their page.

Nothing of a form is stored by the service or written into an address. What a cookie cannot hold is not kept,
and neither are passwords and the answers of authenticators.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from attrs import asdict, field, frozen

KEPT_FOR: Final = timedelta(minutes=20)
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


def encode(form: KeptForm) -> str | None:
    """Return a form as the value of a cookie; `None` if it is too long."""
    kept = asdict(form)
    kept["fields"] = {name: text for name, text in form.fields.items() if name not in _NEVER_KEPT}
    text = base64.urlsafe_b64encode(zlib.compress(json.dumps(kept).encode())).decode()
    return text if len(text) <= MAX_ENCODED else None


def decode(text: str) -> KeptForm | None:
    """Read the value of a cookie; `None` for any text that `encode` does not return."""
    try:
        reader = zlib.decompressobj()
        found = json.loads(reader.decompress(base64.urlsafe_b64decode(text), _MAX_DECODED))
        form = KeptForm(**found)
        texts = [form.owner, form.page, form.sent_to, *form.fields, *form.fields.values()]
    except (ValueError, TypeError, AttributeError, zlib.error):
        return None
    return form if all(isinstance(each, str) for each in texts) else None
