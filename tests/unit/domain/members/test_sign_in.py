"""One-time links, sign-up, and the limits of both."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidRequest, RateLimited
from meetcore.domain.members import sign_in

AT = datetime(2026, 12, 1, 0, 1, 10, tzinfo=UTC)


@given(st.integers(-5, 100))
@example(0)
@example(1)
@example(60)
@example(61)
def test_a_portal_link_is_valid_for_a_minute_to_an_hour(minutes: int) -> None:
    if 1 <= minutes <= sign_in.MAX_PORTAL_MINUTES:
        assert sign_in.check_minutes(minutes) == timedelta(minutes=minutes)
        return
    with pytest.raises(sign_in.InvalidMinutes, match=r"^a portal link is valid for 1 to 60 minutes$"):
        sign_in.check_minutes(minutes)


def test_requests_are_counted_for_an_address_and_for_an_email_in_any_case() -> None:
    assert (
        sign_in.address_counter("192.0.2.1")
        == sign_in.address_counter("192.0.2.1")
        != sign_in.address_counter("192.0.2.2")
    )
    assert sign_in.address_counter(None) != sign_in.address_counter("192.0.2.1")
    assert sign_in.email_counter("Dewi@example.com") == sign_in.email_counter("dewi@EXAMPLE.com")
    assert sign_in.email_counter("192.0.2.1") != sign_in.address_counter("192.0.2.1")
    both = sign_in.pair_counter("192.0.2.1", "Dewi@example.com")
    assert both == sign_in.pair_counter("192.0.2.1", "dewi@EXAMPLE.com")
    assert both != sign_in.pair_counter("192.0.2.2", "dewi@example.com")
    assert both != sign_in.pair_counter("192.0.2.1", "sari@example.com")
    assert both not in (sign_in.address_counter("192.0.2.1"), sign_in.email_counter("dewi@example.com"))


def test_one_client_address_takes_no_more_than_a_part_of_what_an_email_address_may_be_asked_for() -> None:
    assert sign_in.REQUESTS_PER_PAIR < sign_in.REQUESTS_PER_ADDRESS < sign_in.REQUESTS_PER_EMAIL
    assert sign_in.REQUESTS_PER_EMAIL >= 5 * sign_in.REQUESTS_PER_PAIR


def test_windows_follow_each_other() -> None:
    start = sign_in.request_window(AT)
    assert start == int(AT.timestamp()) - 70
    assert sign_in.request_window(AT + timedelta(seconds=sign_in.REQUEST_WINDOW_S - 71)) == start
    assert (
        sign_in.request_window(AT + timedelta(seconds=sign_in.REQUEST_WINDOW_S - 70))
        == start + sign_in.REQUEST_WINDOW_S
    )


@pytest.mark.parametrize(
    "limit", [sign_in.REQUESTS_PER_ADDRESS, sign_in.REQUESTS_PER_PAIR, sign_in.REQUESTS_PER_EMAIL]
)
def test_too_many_requests_are_refused_until_the_window_is_over(limit: int) -> None:
    sign_in.check_requests(limit, limit, AT)
    with pytest.raises(RateLimited) as caught:
        sign_in.check_requests(limit + 1, limit, AT)
    assert caught.value.details == {"limit": limit, "window_seconds": sign_in.REQUEST_WINDOW_S}
    assert caught.value.retry_after_s == sign_in.REQUEST_WINDOW_S - 70
    assert caught.value.message == "Too many sign-in links were asked for. Wait some minutes."


def test_a_token_has_a_form_and_a_digest() -> None:
    token = sign_in.mint_token(bytes(range(sign_in.TOKEN_BYTES)))
    assert sign_in.is_token(token)
    assert len(sign_in.token_digest(token)) == 32
    assert sign_in.token_digest(token) != sign_in.token_digest(token[::-1])
    for text in ("", token + "x", token[:-1], token[:-1] + "!", token[:-1] + "\n"):
        assert not sign_in.is_token(text)
    with pytest.raises(ValueError, match="32 random bytes"):
        sign_in.mint_token(bytes(31))


def test_a_link_that_cannot_be_used_is_gone() -> None:
    refusal = sign_in.link_unusable()
    assert refusal.code == "gone"
    assert refusal.message == (
        "This link was used, has expired, or was asked for in another browser. Ask for a new one in the "
        "browser in which you want to sign in."
    )


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a" * (sign_in.MAX_FULL_NAME + 1)])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sign_in.check_full_name(name)
    assert caught.value.details == {"fields": {"full_name": ["Write a name of 1 to 120 characters."]}}


def test_a_name_has_no_spaces_around_it() -> None:
    assert sign_in.check_full_name(" Perkumpulan Émile ") == "Perkumpulan Émile"
    assert sign_in.check_full_name("a") == "a"
    assert sign_in.check_full_name("a" * sign_in.MAX_FULL_NAME) == "a" * sign_in.MAX_FULL_NAME


def test_sign_ups_are_counted_by_address_and_apart_from_links() -> None:
    one = sign_in.sign_up_counter("192.0.2.1")
    assert one == sign_in.sign_up_counter("192.0.2.1")
    assert (
        len({one, sign_in.sign_up_counter("192.0.2.2"), sign_in.sign_up_counter(None), sign_in.ALL_SIGN_UPS})
        == 4
    )
    assert one != sign_in.address_counter("192.0.2.1")
    assert sign_in.sign_up_email_counter("Dewi@example.com") == sign_in.sign_up_email_counter(
        "dewi@EXAMPLE.com"
    )
    assert sign_in.sign_up_email_counter("dewi@example.com") != sign_in.email_counter("dewi@example.com")
    assert sign_in.sign_up_email_counter("192.0.2.1") != one


@pytest.mark.parametrize(("from_address", "in_all", "limit"), [
    (sign_in.SIGN_UPS_PER_ADDRESS + 1, 1, sign_in.SIGN_UPS_PER_ADDRESS),
    (1, sign_in.SIGN_UPS_IN_ALL + 1, sign_in.SIGN_UPS_IN_ALL),
    (sign_in.SIGN_UPS_PER_ADDRESS, sign_in.SIGN_UPS_IN_ALL + 1, sign_in.SIGN_UPS_IN_ALL),
])  # fmt: skip
def test_too_many_are_refused_until_the_window_is_over(from_address: int, in_all: int, limit: int) -> None:
    sign_in.check_sign_ups(sign_in.SIGN_UPS_PER_ADDRESS, sign_in.SIGN_UPS_IN_ALL, AT)
    with pytest.raises(RateLimited) as caught:
        sign_in.check_sign_ups(from_address, in_all, AT)
    assert caught.value.details == {"limit": limit, "window_seconds": sign_in.REQUEST_WINDOW_S}
    assert caught.value.message == "Too many sign-ups. Wait some minutes."
    over = AT + timedelta(seconds=caught.value.retry_after_s)
    assert sign_in.request_window(over) == sign_in.request_window(AT) + sign_in.REQUEST_WINDOW_S
    assert sign_in.request_window(over - timedelta(seconds=1)) == sign_in.request_window(AT)


@pytest.mark.parametrize(("purpose", "browser", "method"), [
    (sign_in.LinkPurpose.EMAIL, b"digest", sign_in.SignInMethod.EMAIL_LINK),
    (sign_in.LinkPurpose.PORTAL, None, sign_in.SignInMethod.PORTAL_LINK),
    (sign_in.LinkPurpose.INVITATION, b"digest", sign_in.SignInMethod.INVITATION),
    (sign_in.LinkPurpose.OPERATOR, b"digest", sign_in.SignInMethod.EMAIL_LINK),
])  # fmt: skip
def test_a_link_tells_how_it_signs_in(
    purpose: sign_in.LinkPurpose, browser: bytes | None, method: sign_in.SignInMethod
) -> None:
    assert (
        sign_in.method_of(sign_in.SignInLink(UUID(int=1), purpose, AT, AT, browser_digest=browser)) is method
    )


ADDRESSES = [
    "PT Bank: verify at https://evil.example/login", "evil.example", "See WWW.Evil.COM now", "t.me/x",
    "someone@evil", "PT.Maju", "evil\u3002com", "evil\u2024com",
    "evil\uff0ecom", "evil\uff61com", "a\uff20evil",
]  # fmt: skip


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_name_with_an_address_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sign_in.check_full_name(name)
    problem = "Write the name without a web or e-mail address, and a space after each full stop."
    assert caught.value.details == {"fields": {"full_name": [problem]}}
    assert sign_in.name_of("dewi.ayu@example.com", name) == "dewi ayu"


@pytest.mark.parametrize(
    "name", ["PT Bank Maju Tbk.", "Dr. R. A. Kartini, S.H.", "Toko No. 1/2 & 3.5", "Émile: Ö"]
)
def test_names_with_full_stops_are_names(name: str) -> None:
    assert sign_in.check_full_name(name) == name
    assert sign_in.name_of("a@example.com", name) == name


def test_a_name_of_an_address_has_no_full_stops_and_one_of_others_is_cut() -> None:
    assert sign_in.name_of("www.evil.example@example.com") == "www evil example"
    assert sign_in.name_of("dewi@example.com", "\n \x00") == "dewi"
    assert sign_in.name_of("a@example.com", " Dewi\n" + "x" * 200) == "Dewi" + "x" * (
        sign_in.MAX_FULL_NAME - 4
    )
