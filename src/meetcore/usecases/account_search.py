"""Read what an operator typed to find an account."""

from typing import Final
from uuid import UUID

from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.ids import instant_of
from meetcore.domain.requests.accounts import MAX_EMAIL
from meetcore.domain.requests.keys import digest, last_four, read_bearer
from meetcore.ports.console_queries import AccountSearch

_LAST_FOUR: Final = 4


def read_search(text: str, prefix: str) -> AccountSearch:
    """Read an e-mail address, a name, an id, a key, its masked form or its last four characters.

    Args:
        text: what was typed; where it is too long or not printable, the search matches nothing.
        prefix: the keys' own.
    """
    text = text.strip()
    if not text.isprintable() or len(text) > MAX_EMAIL:
        return AccountSearch()
    if (shown := _end_of_masked(text, prefix)) is not None:
        return AccountSearch(last_four=shown)
    try:
        return AccountSearch(key_digest=digest(read_bearer(f"Bearer {text}", prefix)))
    except InvalidApiKey:
        pass
    try:
        id_ = UUID(text)
    except ValueError:
        return AccountSearch(text, last_four=text if len(text) == _LAST_FOUR else None)
    return AccountSearch(id=id_, id_made_at=instant_of(id_))


def without_secret(text: str, prefix: str) -> str:
    """What was typed, with a whole key masked, so that it can stand in an address."""
    try:
        key = read_bearer(f"Bearer {text.strip()}", prefix)
    except InvalidApiKey:
        return text
    return f"{prefix}_live_…{last_four(key)}"


def _end_of_masked(text: str, prefix: str) -> str | None:
    """The end of a key as it is shown: `mk_live_…abcd`."""
    lead, dots, end = text.replace("...", "…").partition("…")
    return end if dots and lead in ("", f"{prefix}_live_") and len(end) == _LAST_FOUR else None
