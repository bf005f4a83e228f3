"""What an operator types to find an account, and what of it may stand in an address."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from meetcore.domain.ids import uuid7
from meetcore.domain.requests.keys import digest, mint
from meetcore.ports.console_queries import AccountSearch
from meetcore.usecases.account_search import read_search, without_secret

AT = datetime(2026, 12, 1, tzinfo=UTC)
ID = uuid7(AT, bytes(10))
KEY = mint("mk", bytes(32))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" Sari@Example.com ", AccountSearch("Sari@Example.com")),
        ("Toko Maju", AccountSearch("Toko Maju")),
        ("Sari", AccountSearch("Sari", last_four="Sari")),
        (str(ID), AccountSearch(id=ID, id_made_at=AT)),
        (KEY, AccountSearch(key_digest=digest(KEY))),
        ("mk_live_…AAAA", AccountSearch(last_four="AAAA")),
        ("mk_live_...AAAA", AccountSearch(last_four="AAAA")),
        ("…AAAA", AccountSearch(last_four="AAAA")),
        ("sk_live_…AAAA", AccountSearch("sk_live_…AAAA")),
        ("mk_live_", AccountSearch("mk_live_")),
        ("a\0b", AccountSearch()),
        ("x" * 255, AccountSearch()),
    ],
)
def test_a_text_says_what_to_find(text: str, wanted: AccountSearch) -> None:
    assert read_search(text, "mk") == wanted


def test_a_whole_key_is_masked() -> None:
    assert without_secret(f" {KEY} ", "mk") == "mk_live_…AAAA"
    assert without_secret("Toko Maju", "mk") == "Toko Maju"
    assert read_search(without_secret(KEY, "mk"), "mk").last_four == "AAAA"
