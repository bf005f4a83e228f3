"""One client among the limits."""

from ipaddress import ip_address

import pytest

from meetcore.domain.members import passkeys, sign_in
from meetcore.domain.requests.clients import one_client, parse_address

HOME = ("2001:db8:1:2::1", "2001:DB8:1:2:ffff::9", "2001:db8:1:2::%eth0")
EMAIL = "dewi@example.com"


@pytest.mark.parametrize(("text", "expected"), [
    ("192.0.2.1", "192.0.2.1"), ("::FFFF:192.0.2.1", "192.0.2.1"), ("::ffff:c000:201", "192.0.2.1"),
    ("2001:DB8::1", "2001:db8::1"), ("fe80::1%eth0", "fe80::1"), ("fe80::1%a%b", "fe80::1"),
])  # fmt: skip
def test_an_address_is_read_without_its_zone_and_as_ipv4_where_it_is_mapped(text: str, expected: str) -> None:
    assert parse_address(text) == ip_address(expected)


@pytest.mark.parametrize("text", ["", "socket", "192.0.2.256", "192.0.2.1/32", "%eth0", "[::1]"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(("address", "expected"), [
    *((each, "2001:db8:1:2::/64") for each in HOME), ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), (None, "None"), ("socket", "socket"),
])  # fmt: skip
def test_a_client_is_an_ipv4_address_or_an_ipv6_subnet(address: str | None, expected: str) -> None:
    assert one_client(address) == expected


def test_every_limit_by_address_counts_clients() -> None:
    for counter in (
        sign_in.address_counter, sign_in.sign_up_counter,
        lambda address: sign_in.pair_counter(address, EMAIL),
        lambda address: passkeys.attempts_counter("answer", address),
    ):  # fmt: skip
        assert len({counter(address) for address in HOME}) == 1
        assert counter(HOME[0]) != counter("2001:db8:1:3::1")
