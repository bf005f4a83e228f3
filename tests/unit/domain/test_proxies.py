"""The proxy that an environment names."""

import pytest

from meetcore.domain.proxies import check_proxy, is_in_the_clear, is_this_machine, proxy_of

URL = "https://meet.example.com"
PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(("variables", "proxy"), [
    ({}, None),
    ({"HTTPS_PROXY": PROXY}, PROXY),
    ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
    ({"HTTPS_PROXY": "", "ALL_PROXY": PROXY}, PROXY),
    ({"ALL_PROXY": "http://other", "https_proxy": PROXY}, PROXY),
    ({"HTTP_PROXY": PROXY}, None),
    ({"https_proxy": " proxy.example:3128 "}, PROXY),
    ({"all_proxy": "SOCKS5H://proxy.example"}, "SOCKS5H://proxy.example"),
])  # fmt: skip
def test_the_variable_of_the_scheme_comes_before_that_of_all(
    variables: dict[str, str], proxy: str | None
) -> None:
    assert proxy_of(URL, variables) == proxy


@pytest.mark.parametrize(("url", "entries", "is_exempt"), [
    (URL, "*", True),
    (URL, "meet.example.com", True),
    (URL, "a.example, MEET.example.com", True),
    (URL, "a.example meet.example.com", True),
    (URL, "example.com", True),
    (URL, ".example.com", True),
    (URL, "*.example.com", True),
    (URL, "xample.com", False),
    (URL, "meet.example.com:443", True),
    (URL, "meet.example.com:8443", False),
    (f"{URL}:8443", "meet.example.com:8443", True),
    (f"{URL}:8443", "*:8443", True),
    (URL, ". : / [] :443 ,, 10.0.0.0/8 10.0.0.0/99 999.1.1.1/8 a/b", False),
    ("http://10.1.2.3", "10.0.0.0/8", True),
    ("http://10.1.2.3", "10.1.2.0/8", True),
    ("http://10.1.2.3", "11.0.0.0/8 fe80::/10 a/b", False),
    ("http://10.1.2.3", "10.1.2.3", True),
    ("http://10.1.2.3", "10.1.2.3:80", True),
    ("http://10.1.2.3", "10.1.2.3:81", False),
    ("http://10.1.2.3", "10.1.2.4 2.3", False),
    ("http://[::1]:8000", "::1", True),
    ("http://[::1]:8000", "[::1]", True),
    ("http://[::1]:8000", "[0:0::1]:8000", True),
    ("http://[::1]:8000", "[::1]:80", False),
    ("http://[fe80::7]", "fe80::/10", True),
])  # fmt: skip
def test_no_proxy_names_what_is_reached_directly(url: str, entries: str, is_exempt: bool) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert proxy_of(url, {"all_proxy": PROXY, name: entries}) == (None if is_exempt else PROXY)


@pytest.mark.parametrize(("url", "is_readable"), [
    ("http://meet.example.com", True), ("http://10.0.0.7:8000", True), ("http://[2001:db8::1]", True),
    ("http://localhost.example.com", True), ("http://127.0.0.1.example.com", True),
    ("https://meet.example.com", False), ("http://localhost:8000", False), ("http://api.localhost", False),
    ("http://127.8.8.8", False), ("http://[::1]:8000", False), ("HTTP://LOCALHOST", False),
])  # fmt: skip
def test_only_this_machine_is_reached_in_the_clear_without_being_read(url: str, is_readable: bool) -> None:
    assert is_in_the_clear(url) is is_readable


@pytest.mark.parametrize(("url", "is_here"), [
    ("http://127.0.0.1:8000", True),
    ("https://localhost", True),
    ("http://[::1]:8000", True),
    ("https://127.0.0.1.example.com", False),
    ("https://localhost.example.com", False),
    ("https://meet.example.com", False),
])  # fmt: skip
def test_this_machine_is_loopback_alone(url: str, is_here: bool) -> None:
    assert is_this_machine(url) is is_here


@pytest.mark.parametrize(("proxy", "message"), [
    ("http://a b", "^no address of a proxy$"), ("http://a\tb", "^no address of a proxy$"),
    ("http://a:0", "^no address of a proxy$"), ("http://a:65536", "Port"), ("http://[::", "Invalid IPv6"),
])  # fmt: skip
def test_a_proxy_to_which_nothing_can_connect_is_refused(proxy: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_proxy(proxy)
    for usable in (None, PROXY, "socks5://u:p@[::1]:1080"):
        assert check_proxy(usable) == usable
