"""The address for questions on every page, where one is set."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette

from tests.support.api_harness import Customer, rebuilt
from tests.support.visitors import Visitors, web_routes

PATHS = (
    "/dashboard/sign-in", "/dashboard/sign-up", "/console/sign-in", "/dashboard/sign-in/x",
    "/dashboard/nowhere",
)  # fmt: skip


@pytest.mark.parametrize(
    ("contact", "link"),
    [
        ("help@rapat.example", '<a href="mailto:help@rapat.example">help@rapat.example</a>'),
        ("https://rapat.example/help", '<a href="https://rapat.example/help">https://rapat.example/help</a>'),
    ],
)
async def test_every_page_names_the_support_contact(customer: Customer, contact: str, link: str) -> None:
    application = rebuilt(customer.application, support_contact=contact)
    visitors = Visitors(Starlette(routes=list(web_routes(application))), application)  # type: ignore[arg-type]
    member = await visitors.member(customer.account_id)
    stranger = visitors.stranger()
    assert f"Help: {link}" in (await member.get("/dashboard/settings")).text
    for path in PATHS:
        assert f"Help: {link}" in (await stranger.get(path)).text, path
    for each in visitors.opened:
        await each.aclose()


async def test_without_one_no_page_speaks_of_help(visitors: Visitors) -> None:
    for path in PATHS:
        assert "Help:" not in (await visitors.stranger().get(path)).text, path
