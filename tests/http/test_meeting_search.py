"""Search of meetings by words of their titles on the dashboard."""

from __future__ import annotations

import re

from tests.support.api_harness import Customer
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in

__all__ = ["browsers", "sign_in"]  # fixtures

PAGE = "/dashboard/meetings"


def titles(page: str) -> list[str]:
    return re.findall(r'<a href="/dashboard/meetings/[0-9a-f-]{36}">([^<]*)</a>', page)


async def test_meetings_are_found_by_words_of_their_titles(customer: Customer, sign_in: SignIn) -> None:
    for title in ("Rapat Anggaran", "Demo produk", "rapat besar"):
        await customer.make_meeting(title=title)
    browser = await sign_in(customer.account_id)
    assert titles((await browser.get(f"{PAGE}?search=RAPAT")).text) == ["rapat besar", "Rapat Anggaran"]
    assert titles((await browser.get(f"{PAGE}?search=angg+rap&status=scheduled")).text) == ["Rapat Anggaran"]
    assert titles((await browser.get(f"{PAGE}?search=rapat&status=cancelled")).text) == []
    assert len(titles((await browser.get(f"{PAGE}?search=%27%26%7C")).text)) == 3, "no words: no filter"
    shown = (await browser.get(f"{PAGE}?search=%22%3E%3Cscript%3E")).text
    assert 'value="&#34;&gt;&lt;script&gt;"' in shown


async def test_the_pages_of_a_search_meet(customer: Customer, sign_in: SignIn) -> None:
    for number in range(27):
        await customer.make_meeting(title=f"Rapat {number}")
    await customer.make_meeting(title="Demo")
    browser = await sign_in(customer.account_id)
    first = (await browser.get(f"{PAGE}?search=rapat")).text
    [older] = re.findall(r'<a href="([^"]+)" rel="next">', first)
    rest = titles((await browser.get(older.replace("&amp;", "&"))).text)
    assert titles(first) + rest == [f"Rapat {number}" for number in reversed(range(27))]
