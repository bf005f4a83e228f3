"""The headers of attempts that are kept."""

from __future__ import annotations

import pytest

from meetcore.domain.webhooks.kept_headers import MAX_HEADER, MAX_HEADERS, kept_headers
from meetcore.domain.webhooks.signature import new_secret, signing_headers


def test_headers_are_kept_line_by_line() -> None:
    assert kept_headers({"Server": "nginx", "Retry-After": "5"}) == "Server: nginx\nRetry-After: 5"
    assert kept_headers({}) == ""


@pytest.mark.parametrize("name", [
    "Set-Cookie", "Authorization", "Proxy-Authorization", "X-Api-Key", "X-Auth-Token", "X-Auth",
    "X-Csrf-Token", "X_Session_Id", "Client-Secret", "X-Password",
])  # fmt: skip
def test_a_value_that_may_be_a_secret_is_not_kept(name: str) -> None:
    assert kept_headers({name: "s3cret"}) == f"{name}: (not kept)"


def test_what_says_why_an_attempt_was_refused_is_kept() -> None:
    given = {"Www-Authenticate": 'Basic realm="hooks"', "Keep-Alive": "timeout=5", "Webhook-Id": "0190-a"}
    assert kept_headers(given) == "\n".join(f"{name}: {value}" for name, value in given.items())


def test_the_query_of_an_address_is_not_kept() -> None:
    assert kept_headers({"Location": "https://a.test/in?token=s3cret"}) == "Location: https://a.test/in?…"


def test_signatures_are_shortened() -> None:
    secret, previous = new_secret(b"a" * 32), new_secret(b"b" * 32)
    sent = signing_headers(secret, "0190a7b2-0000-7000-8000-000000000000", b"{}", 1_764_200_000, previous)
    kept = dict(line.split(": ", 1) for line in kept_headers(sent).split("\n"))
    assert kept["webhook-id"] == sent["webhook-id"]
    assert kept["webhook-timestamp"] == "1764200000"
    assert kept["X-Service-Signature"] == sent["X-Service-Signature"][:21] + "…"
    first, second = sent["webhook-signature"].split(" ")
    assert kept["webhook-signature"] == f"{first[:11]}… {second[:11]}…"


def test_what_is_kept_is_bounded_and_printable() -> None:
    many = kept_headers({f"x-{number}": "v" for number in range(MAX_HEADERS + 1)})
    assert len(many.split("\n")) == MAX_HEADERS
    assert kept_headers({"a\0": "b\r\nc" + "é" * MAX_HEADER}) == "a?: b??c" + "é" * (MAX_HEADER - 8)
