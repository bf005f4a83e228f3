"""Accounts: whether one may be used, and what an e-mail address is."""

from __future__ import annotations

import pytest

from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.requests import accounts
from tests.unit.domain.money.test_ledger import NOW


def test_an_account_is_active_unless_it_was_suspended() -> None:
    assert accounts.status_of(None) is accounts.AccountStatus.ACTIVE
    assert accounts.status_of(NOW) is accounts.AccountStatus.SUSPENDED


def test_keys_of_a_suspended_account_are_refused() -> None:
    accounts.check_active(None)
    with pytest.raises(InvalidApiKey) as caught:
        accounts.check_active(NOW)
    assert caught.value.message == (
        "The account of this API key is suspended. Ask the operator of the service."
    )


@pytest.mark.parametrize("text", [
    "a@b.id",
    "sari.dewi+meet@mail.example.co.id",
    "O'Neill@EXAMPLE.com",
    "1@x-y.id",
    f"{'l' * 64}@example.com",
])  # fmt: skip
def test_an_email_address_is_accepted_unchanged(text: str) -> None:
    assert accounts.check_email(text) == text


@pytest.mark.parametrize("text", [
    "", "e", "@example.com", "a@", "a@b", "a b@example.com", "a@@example.com", "a@example..com", "a@-x.com",
    "a@x-.com", "a@example.com\n", "Sari <sari@example.com>", "sari@exämple.com", "säri@example.com",
    f"{'l' * 65}@example.com", f"a@{'x' * 64}.com", f"a@{'x.' * 126}com"[: accounts.MAX_EMAIL + 1],
])  # fmt: skip
def test_what_is_no_email_address_is_refused(text: str) -> None:
    with pytest.raises(accounts.InvalidEmail, match=r"^an e-mail address looks like name@example\.com$"):
        accounts.check_email(text)


def test_an_address_may_have_254_characters() -> None:
    label = "x" * 61
    longest = f"a@{label}.{label}.{label}.{label}.abcd"
    assert len(longest) == accounts.MAX_EMAIL == 254
    assert accounts.check_email(longest) == longest
    with pytest.raises(accounts.InvalidEmail):
        accounts.check_email(f"b{longest}")


def test_case_does_not_make_a_different_address() -> None:
    assert (
        accounts.email_key("Sari@Example.COM") == accounts.email_key("sari@example.com") == "sari@example.com"
    )
