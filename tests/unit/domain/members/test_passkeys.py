"""Passkeys: whose they are, their names and numbers, the sign counter, and how many attempts there are."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidRequest, RateLimited, Unprocessable
from meetcore.domain.members.passkeys import (
    ATTEMPTS_PER_ADDRESS,
    MAX_NAME,
    MAX_PASSKEYS,
    Passkey,
    PasskeyOwner,
    attempts_counter,
    check_attempts,
    check_name,
    check_room,
    passkey_refused,
    record_use,
    relying_party,
)
from meetcore.domain.members.sign_in_links import REQUEST_WINDOW_S, request_window

AT = datetime(2026, 12, 1, 0, 1, 10, tzinfo=UTC)
USER, OPERATOR = UUID(int=1), UUID(int=2)
PASSKEY = Passkey(UUID(int=3), USER, None, b"secret-id", b"secret-key", 7, "Laptop", AT)


def test_a_passkey_is_of_a_user_or_of_an_operator() -> None:
    assert PASSKEY.owner == PasskeyOwner(USER)
    assert PASSKEY.owner.id == USER
    operators = evolve(PASSKEY, user_id=None, operator_id=OPERATOR).owner
    assert operators == PasskeyOwner(operator_id=OPERATOR)
    assert operators.id == OPERATOR
    for both in ((None, None), (USER, OPERATOR)):
        with pytest.raises(ValueError, match=r"^a passkey is of a user or of an operator$"):
            PasskeyOwner(*both)
    assert "secret" not in repr(PASSKEY)


@given(st.text(max_size=MAX_NAME + 5))
def test_a_name_is_short_and_printed(text: str) -> None:
    name = text.strip()
    if 1 <= len(name) <= MAX_NAME and name.isprintable():
        assert check_name(text) == name
        return
    with pytest.raises(InvalidRequest) as caught:
        check_name(text)
    assert caught.value.details == {"fields": {"name": ["Write a name of 1 to 60 characters."]}}


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a" * (MAX_NAME + 1)])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_name(name)
    assert check_name("a") == "a"
    assert check_name(f" {'a' * MAX_NAME} ") == "a" * MAX_NAME


def test_there_is_room_for_ten() -> None:
    check_room([PASSKEY] * (MAX_PASSKEYS - 1))
    with pytest.raises(Unprocessable) as refusal:
        check_room([PASSKEY] * MAX_PASSKEYS)
    assert refusal.value.message == "There can be 10 passkeys. Remove one that you do not use first."


@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32))
def test_a_counter_goes_up_or_is_never_used(stored: int, seen: int) -> None:
    passkey = evolve(PASSKEY, sign_count=stored)
    if seen > stored or seen == stored == 0:
        assert record_use(passkey, seen, AT) == evolve(passkey, sign_count=seen, last_used_at=AT)
        return
    with pytest.raises(Unprocessable):
        record_use(passkey, seen, AT)


@pytest.mark.parametrize(
    ("stored", "seen", "is_fine"), [(0, 0, True), (0, 1, True), (1, 0, False), (1, 1, False), (1, 2, True)]
)
def test_the_least_counters(stored: int, seen: int, is_fine: bool) -> None:
    passkey = evolve(PASSKEY, sign_count=stored)
    if is_fine:
        assert record_use(passkey, seen, AT).sign_count == seen
        return
    with pytest.raises(Unprocessable) as caught:
        record_use(passkey, seen, AT)
    assert caught.value.message == passkey_refused().message
    assert caught.value.message == "The passkey was not accepted. Try again, or sign in by e-mail."


def test_attempts_are_counted_by_step_and_address() -> None:
    counters = {
        attempts_counter(step, address) for step in ("a", "b") for address in ("192.0.2.1", "192.0.2.2", None)
    }
    assert len(counters) == 6
    assert attempts_counter("a", "192.0.2.1") in counters


def test_too_many_attempts_are_refused_until_the_window_is_over() -> None:
    check_attempts(ATTEMPTS_PER_ADDRESS, AT)
    with pytest.raises(RateLimited) as caught:
        check_attempts(ATTEMPTS_PER_ADDRESS + 1, AT)
    over = AT + timedelta(seconds=caught.value.retry_after_s)
    assert request_window(over) == request_window(AT) + REQUEST_WINDOW_S
    assert request_window(over - timedelta(seconds=1)) == request_window(AT)
    assert caught.value.message == "Too many attempts. Wait some minutes."
    assert caught.value.details == {"limit": ATTEMPTS_PER_ADDRESS, "window_seconds": REQUEST_WINDOW_S}


@pytest.mark.parametrize(
    ("base_url", "rp_id"),
    [
        ("https://meet.example", "meet.example"),
        ("https://meet.example:8443", "meet.example"),
        ("http://localhost:8000", "localhost"),
        ("http://meet.example", None),
        ("http://127.0.0.1:8000", None),
        ("https://192.0.2.1", None),
        ("https://[2001:db8::1]", None),
        ("https://", None),
    ],
)
def test_passkeys_are_of_a_host_name(base_url: str, rp_id: str | None) -> None:
    assert relying_party(base_url) == rp_id
