"""Requests on the dashboard: what became of each call, who sees it, and that no call pays for it."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from uuid import UUID, uuid4

from meetcore.adapters.memory.clock import ManualClock
from meetcore.composition.application import Application
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import Quotas
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, api_on, client_of
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in

__all__ = ["browsers", "sign_in"]  # fixtures

PAGE = "/dashboard/requests"
ROW = re.compile(r"<tr>(.*?)</tr>", re.S)


def rows(text: str) -> list[str]:
    """The rows of the table, the newest request first, as plain text."""
    found = [re.sub(r"<[^>]*>", " ", row) for row in ROW.findall(text)[1:]]
    return [" ".join(row.split()) for row in found]


async def kept(customer: Customer, number: int) -> None:
    """Return once the service has written so many requests of an account, about a second later."""
    count = "SELECT count(*) AS found FROM api_requests WHERE account_id = %s"
    async with asyncio.timeout(20):
        while (await customer.harness.query(count, customer.account_id))[0]["found"] < number:  # noqa: ASYNC110  # in a database
            await asyncio.sleep(0.05)


async def test_each_call_of_a_key_is_shown_with_what_became_of_it(
    customer: Customer, sign_in: SignIn
) -> None:
    meeting = await customer.make_meeting()
    await customer.get(f"/meetings/{meeting['id']}")
    missing = await customer.get(f"/meetings/{uuid4()}")
    wrong_method = await customer.send("PATCH", "/meetings")
    nowhere = await customer.get("/nowhere?secret=s3cret")
    await kept(customer, 5)
    browser = await sign_in(customer.account_id)
    page = (await browser.get(PAGE)).text
    shown = rows(page)
    assert shown[0].startswith("GET unknown path 404 not_found")
    assert shown[1].startswith("PATCH /meetings 405 invalid_request")
    assert shown[2].startswith("GET /meetings/{id} its meeting 404 not_found")
    assert shown[3].startswith("GET /meetings/{id} its meeting 200")
    assert shown[4].startswith("POST /meetings its meeting 201")
    for answer, row in ((nowhere, shown[0]), (wrong_method, shown[1]), (missing, shown[2])):
        assert answer.headers["X-Request-Id"] in row
    assert all(re.search(r" \d+ ms ", row) and "WIB " in row for row in shown)
    assert f'<a href="/dashboard/meetings/{meeting["id"]}">its meeting</a>' in page
    assert "s3cret" not in page


async def test_a_request_is_found_by_its_id_and_leads_to_its_meeting(
    harness: ApiHarness, application: Application, customer: Customer, sign_in: SignIn
) -> None:
    await customer.get("/me")
    answer = await customer.post("/meetings", harness.body())
    assert answer.status_code == 201, answer.text
    await kept(customer, 2)
    request_id = answer.headers["X-Request-Id"]
    browser = await sign_in(customer.account_id)
    page = (await browser.get(f"{PAGE}?id=%20{request_id}")).text
    assert len(rows(page)) == 1
    assert f'href="/dashboard/meetings/{answer.json()["id"]}"' in page
    other = await sign_in((await harness.customer()).account_id)
    for text in (request_id, "nothing", "%00"):
        nothing = await other.get(f"{PAGE}?id={text}")
        assert nothing.status_code == 200
        assert rows(nothing.text) == []
        assert "No request with this id is kept" in nothing.text
    found = await application.ports.queries.find_request_of_any(UUID(request_id))
    assert found is not None
    assert str(found.subject_id) == answer.json()["id"]


async def test_requests_are_filtered_by_key_and_status(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    second = await application.administration.create_key(
        customer.account_id, [Scope.MEETINGS_READ], name="Two"
    )
    await customer.get("/me")
    await customer.get("/nowhere")
    await customer.http.get("/me", headers={"Authorization": f"Bearer {second.text}"})
    await kept(customer, 3)
    browser = await sign_in(customer.account_id, Role.VIEWER)
    assert len(rows((await browser.get(PAGE)).text)) == 3
    [of_second] = rows((await browser.get(f"{PAGE}?key={second.key.id}")).text)
    assert "Two" in of_second
    [refused] = rows((await browser.get(f"{PAGE}?status=4")).text)
    assert "404" in refused
    assert rows((await browser.get(f"{PAGE}?status=5")).text) == []
    assert len(rows((await browser.get(f"{PAGE}?status=x&key=x&before=x")).text)) == 3


async def test_a_page_leads_to_the_older_requests(customer: Customer, sign_in: SignIn) -> None:
    for _ in range(27):
        await customer.get("/nowhere")
    await kept(customer, 27)
    browser = await sign_in(customer.account_id)
    first = (await browser.get(f"{PAGE}?status=4")).text
    [older] = re.findall(r'<a href="([^"]+)" rel="next">', first)
    rest = rows((await browser.get(older.replace("&amp;", "&"))).text)
    assert (len(rows(first)), len(rest)) == (25, 2)
    assert not set(rest) & set(rows(first))


async def test_a_call_of_no_account_is_not_kept_and_one_over_its_quota_is(
    harness: ApiHarness, customer: Customer, contract: Contract, sign_in: SignIn
) -> None:
    await customer.http.get("/me", headers={"Authorization": "Bearer mk_nobody"})
    await customer.http.get("/me")
    clock = ManualClock(datetime.now(UTC).replace(second=30))  # both requests come in one minute
    async with (
        api_on(harness.application, quotas=Quotas(read=1), clock=clock) as api,
        client_of(api, contract) as http,
    ):
        strict = customer.at(http)
        assert (await strict.get("/me")).status_code == 200
        clock.advance(1)
        assert (await strict.get("/me")).status_code == 429
        await api._pipeline.admit.requests()
    page = (await (await sign_in(customer.account_id)).get(PAGE)).text
    assert [row.split(" ", 4)[:4] for row in rows(page)] == [
        ["GET", "/me", "429", "rate_limited"],
        ["GET", "/me", "200", rows(page)[1].split(" ")[3]],
    ]
