"""Passkeys: whose they are, their names and numbers, the sign counter, and how many attempts there are."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidRequest, RateLimited, Unprocessable
from meetcore.domain.members import passkeys
from meetcore.domain.members.sign_in import REQUEST_WINDOW_S, request_window

AT = datetime(2026, 12, 1, 0, 1, 10, tzinfo=UTC)
USER, OPERATOR = UUID(int=1), UUID(int=2)
PASSKEY = passkeys.Passkey(UUID(int=3), USER, None, b"secret-id", b"secret-key", 7, "Laptop", AT)


def test_a_passkey_is_of_a_user_or_of_an_operator() -> None:
    assert PASSKEY.owner == passkeys.PasskeyOwner(USER)
    assert PASSKEY.owner.id == USER
    operators = evolve(PASSKEY, user_id=None, operator_id=OPERATOR).owner
    assert operators == passkeys.PasskeyOwner(operator_id=OPERATOR)
    assert operators.id == OPERATOR
    for both in ((None, None), (USER, OPERATOR)):
        with pytest.raises(ValueError, match=r"^a passkey is of a user or of an operator$"):
            passkeys.PasskeyOwner(*both)
    assert "secret" not in repr(PASSKEY)


@given(st.text(max_size=passkeys.MAX_NAME + 5))
@example("")
@example("  ")
@example("a\nb")
@example("a")
@example(" " + "a" * passkeys.MAX_NAME + " ")
@example("a" * (passkeys.MAX_NAME + 1))
def test_a_name_is_short_and_printed(text: str) -> None:
    name = text.strip()
    if 1 <= len(name) <= passkeys.MAX_NAME and name.isprintable():
        assert passkeys.check_name(text) == name
        return
    with pytest.raises(InvalidRequest) as caught:
        passkeys.check_name(text)
    assert caught.value.details == {"fields": {"name": ["Write a name of 1 to 60 characters."]}}


def test_there_is_room_for_ten() -> None:
    passkeys.check_room([PASSKEY] * (passkeys.MAX_PASSKEYS - 1))
    with pytest.raises(Unprocessable) as refusal:
        passkeys.check_room([PASSKEY] * passkeys.MAX_PASSKEYS)
    assert refusal.value.message == "There can be 10 passkeys. Remove one that you do not use first."


@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32))
@example(0, 0)
@example(0, 1)
@example(1, 0)
@example(1, 1)
@example(1, 2)
def test_a_counter_goes_up_or_is_never_used(stored: int, seen: int) -> None:
    passkey = evolve(PASSKEY, sign_count=stored)
    if seen > stored or seen == stored == 0:
        assert passkeys.record_use(passkey, seen, AT) == evolve(passkey, sign_count=seen, last_used_at=AT)
        return
    with pytest.raises(Unprocessable) as caught:
        passkeys.record_use(passkey, seen, AT)
    assert caught.value.message == passkeys.passkey_refused().message
    assert caught.value.message == "The passkey was not accepted. Try again, or sign in by e-mail."


def test_attempts_are_counted_by_step_and_address() -> None:
    counters = {
        passkeys.attempts_counter(step, address)
        for step in ("a", "b")
        for address in ("192.0.2.1", "192.0.2.2", None)
    }
    assert len(counters) == 6
    assert passkeys.attempts_counter("a", "192.0.2.1") in counters


def test_too_many_attempts_are_refused_until_the_window_is_over() -> None:
    passkeys.check_attempts(passkeys.ATTEMPTS_PER_ADDRESS, AT)
    with pytest.raises(RateLimited) as caught:
        passkeys.check_attempts(passkeys.ATTEMPTS_PER_ADDRESS + 1, AT)
    over = AT + timedelta(seconds=caught.value.retry_after_s)
    assert request_window(over) == request_window(AT) + REQUEST_WINDOW_S
    assert request_window(over - timedelta(seconds=1)) == request_window(AT)
    assert caught.value.message == "Too many attempts. Wait some minutes."
    assert caught.value.details == {
        "limit": passkeys.ATTEMPTS_PER_ADDRESS,
        "window_seconds": REQUEST_WINDOW_S,
    }


@pytest.mark.parametrize(("base_url", "rp_id"), [
    ("https://meet.example", "meet.example"),
    ("https://meet.example:8443", "meet.example"),
    ("http://localhost:8000", "localhost"),
    ("http://meet.example", None),
    ("http://127.0.0.1:8000", None),
    ("https://192.0.2.1", None),
    ("https://[2001:db8::1]", None),
    ("https://", None),
])  # fmt: skip
def test_passkeys_are_of_a_host_name(base_url: str, rp_id: str | None) -> None:
    assert passkeys.relying_party(base_url) == rp_id
