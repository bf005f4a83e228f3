"""Pages and assets are compressed, and no page tells another site's visitor anything by its size (BREACH)."""

from __future__ import annotations

import gzip
import re

import pytest
from starlette.datastructures import Headers

from meetcore.adapters.web.cookies import form_token, is_form_token, may_compress
from tests.support.api_harness import Customer
from tests.support.pages import TOKEN, Browser
from tests.support.visitors import Visitors

PAGE = "/dashboard/settings"


async def _encoding(browser: Browser, path: str, **headers: str) -> str:
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    answer = await browser.http.get(path, headers={"Accept-Encoding": "gzip, br"} | sent)
    assert answer.status_code == 200
    return str(answer.headers.get("Content-Encoding", ""))


@pytest.mark.parametrize("site", ["same-origin", "none"])
async def test_a_page_that_its_reader_asks_for_is_compressed(
    site: str, customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    plain = await browser.get(PAGE)
    headers = {"Accept-Encoding": "gzip", "Sec-Fetch-Site": site}
    async with browser.http.stream("GET", PAGE, headers=headers) as answer:
        body = b"".join([part async for part in answer.aiter_raw()])
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Cache-Control"] == "no-store"
    assert int(answer.headers["Content-Length"]) == len(body) < len(plain.content) / 2
    assert TOKEN.sub("", gzip.decompress(body).decode()) == TOKEN.sub("", plain.text)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "made-up"])
async def test_a_page_that_another_site_may_have_asked_for_is_not(
    site: str, customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    assert await _encoding(browser, PAGE, **({"Sec_Fetch_Site": site} if site else {})) == ""
    assert await _encoding(browser, PAGE, Sec_Fetch_Site="none", Accept_Encoding="identity") == ""


@pytest.mark.parametrize(
    ("accepted", "is_accepted"),
    [
        ("gzip", True), ("br, GZip ; q=0.1", True), ("br;q=0, gzip;q=1", True),
        ("", False), ("br", False), ("gzip;q=0", False), ("br, gzip; q=0.000", False), ("gzip;q=no", False),
        ("x-gzip-2", False),
    ],
)  # fmt: skip
def test_gzip_of_the_weight_0_is_not_accepted(accepted: str, is_accepted: bool) -> None:
    assert may_compress(Headers({"accept-encoding": accepted, "sec-fetch-site": "none"})) is is_accepted


async def test_downloads_and_the_api_stay_as_they_are(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    for path in ("/dashboard/ledger.csv", "/api/v1/openapi.json"):
        assert await _encoding(browser, path, Sec_Fetch_Site="same-origin") == ""


async def test_assets_and_documents_are_compressed_for_everyone(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    assets = re.findall(r'"(/dashboard/assets/[^"]+\.(?:css|js))"', (await browser.get(PAGE)).text)
    assert len(assets) == 2
    for path in (*assets, "/docs/webhooks", "/docs/errors"):
        assert (await browser.get(path)).headers["Cache-Control"].startswith("public, max-age=")
        assert await _encoding(browser, path, Sec_Fetch_Site="cross-site") == "gzip"
        assert await _encoding(browser, path, Accept_Encoding="identity") == ""


async def test_the_token_of_forms_is_another_on_each_page(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    tokens = {token for _ in range(2) for token in TOKEN.findall((await browser.get(PAGE)).text)}
    assert len(tokens) == 2, "one for all forms of a page"
    for token in tokens:
        answer = await browser.http.post(
            "/dashboard/language",
            data={"form_token": token, "language": "id", "next": PAGE},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status_code == 303


def test_a_masked_token_is_that_of_its_cookie_alone() -> None:
    token = form_token("a session")
    assert is_form_token(token, "a session")
    assert not is_form_token(token, "another session")
    assert not is_form_token(form_token("another session"), "a session")


@pytest.mark.parametrize(
    "text", ["", "A", "A" * 32, "A" * 63, "A" * 64, "A" * 68, "\N{SNOWMAN}" * 64, "*" * 64]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    assert not is_form_token(text, "a session")
