"""The ledger of one API key on the dashboard: as a page and as a file."""

from __future__ import annotations

import csv
import io
import re

from meetcore.composition.application import Application
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.keys import Scope
from tests.support.api_harness import ApiHarness, Customer
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in

__all__ = ["browsers", "sign_in"]  # fixtures

PAGE = "/dashboard/ledger"


async def test_entries_are_filtered_by_the_key_that_caused_them(
    harness: ApiHarness, application: Application, customer: Customer, sign_in: SignIn
) -> None:
    scopes = [Scope.MEETINGS_WRITE]
    second = await application.administration.create_key(customer.account_id, scopes, name="Two")
    await customer.make_meeting()
    headers = {"Authorization": f"Bearer {second.text}"}
    made = await customer.http.post("/meetings", json=harness.body(), headers=headers)
    assert made.status_code == 201
    browser = await sign_in(customer.account_id, Role.FINANCE)
    first, all_of_it = customer.key.key.id, (await browser.get(f"{PAGE}?key=any")).text
    assert f'<option value="{second.key.id}">Two' in all_of_it
    assert all_of_it.count('data-is="Balance after"') == 3
    for key_id in (first, second.key.id):
        for query in (f"key={key_id}", f"key={key_id}&kind=meeting_charge", f"key={key_id}&from=2020-01-01"):
            page = (await browser.get(f"{PAGE}?{query}")).text
            assert page.count('data-is="Balance after"') == 1, query
        rows = list(csv.DictReader(io.StringIO((await browser.get(f"{PAGE}.csv?key={key_id}")).text)))
        assert [row["api_key_id"] for row in rows] == [str(key_id)]
        nothing = (await browser.get(f"{PAGE}?key={key_id}&kind=topup")).text
        assert "No entries here." in nothing
    assert re.search(rf'href="{PAGE}\?key={first}"', (await browser.get("/dashboard/keys")).text)
