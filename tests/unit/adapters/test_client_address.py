"""The client address of a request, with and without trusted proxies."""

from ipaddress import ip_network

import pytest

from meetcore.adapters.api.http_common import client_address

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def scope_of(peer: str | None, *forwarded: str) -> dict[str, object]:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    return {"type": "http", "client": None if peer is None else (peer, 4711), "headers": headers}


@pytest.mark.parametrize(("peer", "forwarded", "client"), [
    ("203.0.113.7", (), "203.0.113.7"),
    ("203.0.113.7", ("198.51.100.1",), "203.0.113.7"),  # its own name for itself
    ("10.1.2.3", (), "10.1.2.3"),  # a health check of the proxy
    ("10.1.2.3", ("198.51.100.1",), "198.51.100.1"),
    ("10.1.2.3", ("192.0.2.9, 198.51.100.1",), "198.51.100.1"),  # the client wrote the first one
    ("10.1.2.3", ("192.0.2.9, 198.51.100.1, 10.9.9.9",), "198.51.100.1"),
    ("10.1.2.3", ("192.0.2.9", "198.51.100.1"), "198.51.100.1"),  # two fields are one list
    ("10.1.2.3", ("10.7.7.7, 10.9.9.9",), "10.7.7.7"),
    ("10.1.2.3", ("198.51.100.1, unknown, 10.9.9.9",), "10.9.9.9"),
    ("10.1.2.3", ("nobody",), "10.1.2.3"),
    ("fd00::1", ("2001:DB8::1",), "2001:db8::1"),
    ("::ffff:10.1.2.3", ("198.51.100.1",), "198.51.100.1"),
    ("::ffff:203.0.113.7", (), "203.0.113.7"),
    (None, ("198.51.100.1",), ""),
])  # fmt: skip
def test_the_client_of_a_request(peer: str | None, forwarded: tuple[str, ...], client: str) -> None:
    assert client_address(scope_of(peer, *forwarded), PROXIES) == client


def test_without_trusted_proxies_the_header_means_nothing() -> None:
    assert client_address(scope_of("10.1.2.3", "198.51.100.1"), ()) == "10.1.2.3"
