"""The pages of meetings: who made one, its invitation, its file for calendars, and the order of the list."""

from __future__ import annotations

from tests.support.api_harness import Customer
from tests.support.pages import form_fields
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors


def unfolded(file: str) -> list[str]:
    return file.replace("\r\n ", "").splitlines()


async def test_a_meeting_has_its_id_its_maker_and_an_invitation(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    body = customer.body(title="Rapat <1>", description="Agenda:\nBudget & plan")
    by_key = (await customer.post("/meetings", body)).json()
    page = (await browser.get(f"/dashboard/meetings/{by_key['id']}")).text
    assert_contains(
        page, by_key["id"], customer.key.key.name, f"…{customer.key.key.last_four}", 'data-copy="invitation"',
        "Rapat &lt;1&gt;\n", "Agenda:\nBudget &amp; plan\n", f"Password: {by_key['password']}",
    )  # fmt: skip
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    fields["start_time"] = "21:00"
    made = await browser.post("/dashboard/meetings", **fields | {"seen_credits": "10", "form_key": "by hand"})
    assert customer.email in (await browser.get(made.headers["location"])).text.partition("<main")[2]


async def test_a_meeting_is_downloaded_for_calendars(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    meeting = (
        await customer.post("/meetings", customer.body(title="Rapat; tim", description="Agenda,\nBudget"))
    ).json()
    path = f"/dashboard/meetings/{meeting['id']}"
    answer = await browser.get(f"{path}.ics")
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert f'filename="meeting-{meeting["id"]}.ics"' in answer.headers["content-disposition"]
    start = meeting["start_at"].replace("-", "").replace(":", "")
    assert_contains(
        unfolded(answer.text), r"SUMMARY:Rapat\; tim", f"DTSTART:{start}", f"URL:{meeting['join_url']}",
        f"UID:{meeting['id']}", "STATUS:CONFIRMED",
    )  # fmt: skip
    await browser.post(f"{path}/cancel", form_key="a", confirmed="yes")
    lines = unfolded((await browser.get(f"{path}.ics")).text)
    assert_contains(lines, "STATUS:CANCELLED", r"DESCRIPTION:Agenda\,\nBudget")
    assert meeting["join_url"] not in "".join(lines)
    assert "data-copy" not in (await browser.get(path)).text


async def test_an_operator_gets_no_way_into_a_meeting(customer: Customer, visitors: Visitors) -> None:
    meeting = (await customer.post("/meetings", customer.body(title="Rapat"))).json()
    operator = await visitors.operator()
    await operator.post(f"/console/accounts/{customer.account_id}/view")
    path = f"/dashboard/meetings/{meeting['id']}"
    for text in ((await operator.get(path)).text, (await operator.get(f"{path}.ics")).text):
        assert meeting["id"] in text
        assert meeting["password"] not in text
        assert meeting["join_url"] not in text
    assert form_fields((await operator.get(path)).text, f"{path}/cancel") == {}
