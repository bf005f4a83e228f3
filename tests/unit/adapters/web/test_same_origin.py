"""Which requests may change something, and where a page may send a browser on to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from meetcore.adapters.web.cookies import form_token, is_form_token, is_same_origin
from meetcore.adapters.web.visit import own_path

HERE = {"host": "meet.example"}
BASE_URL = "https://meet.example"


@pytest.mark.parametrize(("headers", "is_ours"), [
    ({"origin": "https://meet.example", "sec-fetch-site": "same-origin"}, True),
    ({"origin": "https://meet.example"}, True),
    ({"origin": "https://meet.example:443"}, True),
    ({"origin": "https://meet.example", "host": "meetcore_upstream"}, True),
    ({"origin": "https://meet.example", "host": "10.0.0.7:8000"}, True),
    ({"origin": "https://meet.example", "host": "meet.example:443"}, True),
    ({"origin": "http://127.0.0.1:8000", "host": "127.0.0.1:8000"}, True),
    ({"origin": "null", "sec-fetch-site": "same-origin"}, True),
    ({"origin": "https://evil.example", "host": "meetcore_upstream"}, False),
    ({"origin": "http://meet.example", "host": "meetcore_upstream"}, False),
    ({"origin": "https://", "host": ""}, False),
    ({"origin": "https://meet.example:x"}, False),
    ({"origin": "null", "host": "null"}, False),
    ({"origin": "https://MEET.example"}, True),
    ({"sec-fetch-site": "same-origin"}, True),
    ({}, False),
    ({"origin": "null"}, False),
    ({"origin": "https://evil.example"}, False),
    ({"origin": "https://meet.example.evil.example"}, False),
    ({"origin": "https://meet.example:8443"}, False),
    ({"origin": "https://meet.example", "sec-fetch-site": "cross-site"}, False),
    ({"origin": "https://meet.example", "sec-fetch-site": "same-site"}, False),
    ({"sec-fetch-site": "none"}, False),
])  # fmt: skip
def test_a_change_comes_from_a_page_of_ours(headers: dict[str, str], is_ours: bool) -> None:
    assert is_same_origin(Headers(HERE | headers), BASE_URL) is is_ours


def test_without_a_host_only_the_base_url_is_ours() -> None:
    assert is_same_origin(Headers({"origin": "https://meet.example"}), BASE_URL)
    assert not is_same_origin(Headers({"origin": "https://other.example"}), BASE_URL)
    assert not is_same_origin(Headers({"origin": ""}), BASE_URL)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_form_token_belongs_to_one_cookie(cookie: str, other: str) -> None:
    token = form_token(cookie)
    assert is_form_token(token, cookie)
    assert is_form_token(token, other) is (cookie == other)
    assert not is_form_token("", cookie)


@pytest.mark.parametrize(
    "path", ["/dashboard", "/dashboard/keys", "/dashboard/meetings?status=ended", "/dashboard?done=x"]
)
def test_a_browser_is_sent_on_to_pages_of_ours(path: str) -> None:
    assert own_path(path, "/dashboard") == path


@pytest.mark.parametrize("path", [
    "", "/", "//evil.example", "https://evil.example", "/dashboardevil", "/dashboard\\evil", "/docs",
    "/\\evil.example", "javascript:alert(1)", "/dashboard/\r\nSet-Cookie: a=b", "/dashboard/é", " /dashboard",
    "/dashboard/" + "x" * 1000,
])  # fmt: skip
def test_a_browser_is_sent_nowhere_else(path: str) -> None:
    assert own_path(path, "/dashboard") == "/dashboard"


@given(st.text(max_size=80))
def test_where_it_goes_is_always_below_the_root(path: str) -> None:
    assert own_path(path, "/dashboard").startswith("/dashboard")
    assert own_path("/dashboard/" + path, "/dashboard").isprintable()
