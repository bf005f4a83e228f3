"""One-time links: how long they are valid, and how many may be asked for."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import RateLimited
from meetcore.domain.members.sign_in_links import (
    MAX_PORTAL_MINUTES,
    REQUEST_WINDOW_S,
    REQUESTS_PER_ADDRESS,
    REQUESTS_PER_EMAIL,
    REQUESTS_PER_PAIR,
    InvalidMinutes,
    address_counter,
    check_minutes,
    check_requests,
    email_counter,
    link_unusable,
    pair_counter,
    request_window,
)
from meetcore.domain.members.tokens import TOKEN_BYTES, is_token, mint_token, token_digest

AT = datetime(2026, 12, 1, 0, 1, 10, tzinfo=UTC)


@given(st.integers(-5, 100))
@example(0)
@example(1)
@example(60)
@example(61)
def test_a_portal_link_is_valid_for_a_minute_to_an_hour(minutes: int) -> None:
    if 1 <= minutes <= MAX_PORTAL_MINUTES:
        assert check_minutes(minutes) == timedelta(minutes=minutes)
        return
    with pytest.raises(InvalidMinutes, match=r"^a portal link is valid for 1 to 60 minutes$"):
        check_minutes(minutes)


def test_requests_are_counted_for_an_address_and_for_an_email_in_any_case() -> None:
    assert address_counter("192.0.2.1") == address_counter("192.0.2.1") != address_counter("192.0.2.2")
    assert address_counter(None) != address_counter("192.0.2.1")
    assert email_counter("Dewi@example.com") == email_counter("dewi@EXAMPLE.com")
    assert email_counter("192.0.2.1") != address_counter("192.0.2.1")
    both = pair_counter("192.0.2.1", "Dewi@example.com")
    assert both == pair_counter("192.0.2.1", "dewi@EXAMPLE.com")
    assert both != pair_counter("192.0.2.2", "dewi@example.com")
    assert both != pair_counter("192.0.2.1", "sari@example.com")
    assert both not in (address_counter("192.0.2.1"), email_counter("dewi@example.com"))


def test_one_client_address_takes_no_more_than_a_part_of_what_an_email_address_may_be_asked_for() -> None:
    assert REQUESTS_PER_PAIR < REQUESTS_PER_ADDRESS < REQUESTS_PER_EMAIL
    assert REQUESTS_PER_EMAIL >= 5 * REQUESTS_PER_PAIR


def test_windows_follow_each_other() -> None:
    start = request_window(AT)
    assert start == int(AT.timestamp()) - 70
    assert request_window(AT + timedelta(seconds=REQUEST_WINDOW_S - 71)) == start
    assert request_window(AT + timedelta(seconds=REQUEST_WINDOW_S - 70)) == start + REQUEST_WINDOW_S


@pytest.mark.parametrize("limit", [REQUESTS_PER_ADDRESS, REQUESTS_PER_PAIR, REQUESTS_PER_EMAIL])
def test_too_many_requests_are_refused_until_the_window_is_over(limit: int) -> None:
    check_requests(limit, limit, AT)
    with pytest.raises(RateLimited) as caught:
        check_requests(limit + 1, limit, AT)
    assert caught.value.details == {"limit": limit, "window_seconds": REQUEST_WINDOW_S}
    assert caught.value.retry_after_s == REQUEST_WINDOW_S - 70
    assert caught.value.message == "Too many sign-in links were asked for. Wait some minutes."


def test_a_token_has_a_form_and_a_digest() -> None:
    token = mint_token(bytes(range(TOKEN_BYTES)))
    assert is_token(token)
    assert len(token_digest(token)) == 32
    assert token_digest(token) != token_digest(token[::-1])
    for text in ("", token + "x", token[:-1], token[:-1] + "!", token[:-1] + "\n"):
        assert not is_token(text)
    with pytest.raises(ValueError, match="32 random bytes"):
        mint_token(bytes(31))


def test_a_link_that_cannot_be_used_is_gone() -> None:
    refusal = link_unusable()
    assert refusal.code == "gone"
    assert refusal.message == (
        "This link was used, has expired, or was asked for in another browser. Ask for a new one in the "
        "browser in which you want to sign in."
    )
