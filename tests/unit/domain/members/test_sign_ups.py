"""Sign-up: the name of an account, and how many may be asked for."""

from datetime import UTC, datetime, timedelta

import pytest

from meetcore.domain.errors import InvalidRequest, RateLimited
from meetcore.domain.members.sign_in_links import (
    REQUEST_WINDOW_S,
    address_counter,
    email_counter,
    request_window,
)
from meetcore.domain.members.sign_ups import (
    ALL_SIGN_UPS,
    MAX_FULL_NAME,
    SIGN_UPS_IN_ALL,
    SIGN_UPS_PER_ADDRESS,
    check_full_name,
    check_sign_ups,
    sign_up_counter,
    sign_up_email_counter,
)

AT = datetime(2026, 12, 1, 0, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a" * (MAX_FULL_NAME + 1)])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_full_name(name)
    assert caught.value.details == {"fields": {"full_name": ["Write a name of 1 to 120 characters."]}}


def test_a_name_has_no_spaces_around_it() -> None:
    assert check_full_name(" Perkumpulan Émile ") == "Perkumpulan Émile"
    assert check_full_name("a") == "a"
    assert check_full_name("a" * MAX_FULL_NAME) == "a" * MAX_FULL_NAME


def test_sign_ups_are_counted_by_address_and_apart_from_links() -> None:
    one = sign_up_counter("192.0.2.1")
    assert one == sign_up_counter("192.0.2.1")
    assert len({one, sign_up_counter("192.0.2.2"), sign_up_counter(None), ALL_SIGN_UPS}) == 4
    assert one != address_counter("192.0.2.1")
    assert sign_up_email_counter("Dewi@example.com") == sign_up_email_counter("dewi@EXAMPLE.com")
    assert sign_up_email_counter("dewi@example.com") != email_counter("dewi@example.com")
    assert sign_up_email_counter("192.0.2.1") != one


@pytest.mark.parametrize(
    ("from_address", "in_all", "limit"),
    [
        (SIGN_UPS_PER_ADDRESS + 1, 1, SIGN_UPS_PER_ADDRESS),
        (1, SIGN_UPS_IN_ALL + 1, SIGN_UPS_IN_ALL),
        (SIGN_UPS_PER_ADDRESS, SIGN_UPS_IN_ALL + 1, SIGN_UPS_IN_ALL),
    ],
)
def test_too_many_are_refused_until_the_window_is_over(from_address: int, in_all: int, limit: int) -> None:
    check_sign_ups(SIGN_UPS_PER_ADDRESS, SIGN_UPS_IN_ALL, AT)
    with pytest.raises(RateLimited) as caught:
        check_sign_ups(from_address, in_all, AT)
    assert caught.value.details == {"limit": limit, "window_seconds": REQUEST_WINDOW_S}
    assert caught.value.message == "Too many sign-ups. Wait some minutes."
    over = AT + timedelta(seconds=caught.value.retry_after_s)
    assert request_window(over) == request_window(AT) + REQUEST_WINDOW_S
    assert request_window(over - timedelta(seconds=1)) == request_window(AT)
