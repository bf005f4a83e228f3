"""The console's page of doubts over HTTP."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from meetcore.domain.members.roles import OperatorRole
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import SignIn, logged

ROOT = "/console/doubts"


async def in_doubt(customer: Customer, harness: ApiHarness) -> UUID:
    """A meeting whose cancellation the provider did not answer; no process works on it."""
    meeting = await customer.make_meeting(title="<b>Doubtful</b>")
    await harness.query(
        "UPDATE meetings SET status = 'cancelling', lease_token = %s, "
        "lease_until = now() + interval '1 hour' WHERE id = %s RETURNING id",
        uuid4(),
        meeting["id"],
    )
    return UUID(str(meeting["id"]))


async def status_of(harness: ApiHarness, meeting_id: UUID) -> object:
    [row] = await harness.query("SELECT status FROM meetings WHERE id = %s", meeting_id)
    return row["status"]


async def test_a_removal_is_given_up_with_a_reason(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    meeting_id, browser = await in_doubt(customer, harness), await sign_in(OperatorRole.SUPPORT)
    path = f"{ROOT}/{customer.account_id}/{meeting_id}"
    page = (await browser.get(ROOT)).text
    assert f'action="{path}/finish"' in page
    assert "&lt;b&gt;Doubtful" in page
    assert "<b>Doubtful" not in page
    before = await customer.balance()
    wrong = await browser.post(f"{path}/give-up", reason=" ")
    assert wrong.status_code == 422
    assert "Write 1 to 200 characters." in wrong.text
    answer = await browser.post(f"{path}/give-up", reason="removed by hand")
    assert answer.headers["location"] == f"{ROOT}?done=doubt_given_up"
    assert await status_of(harness, meeting_id) == "cancelled"
    assert await customer.balance() == before + 10
    again = await browser.post(f"{path}/give-up", reason="removed by hand")
    assert again.status_code == 409
    assert "not in doubt any more" in again.text
    assert await customer.balance() == before + 10
    [entry] = [
        each
        for each in await logged(harness, "meeting.removal_given_up")
        if each["account_id"] == customer.account_id
    ]
    assert (entry["actor_kind"], entry["details"]) == ("operator", {"reason": "removed by hand"})


async def test_a_cancellation_is_finished(customer: Customer, sign_in: SignIn, harness: ApiHarness) -> None:
    meeting_id, browser = await in_doubt(customer, harness), await sign_in()
    answer = await browser.post(f"{ROOT}/{customer.account_id}/{meeting_id}/finish")
    assert answer.headers["location"] == f"{ROOT}?done=doubt_finished"
    assert await status_of(harness, meeting_id) == "cancelled"
    assert str(meeting_id) not in (await browser.get(ROOT)).text


async def test_a_cancellation_that_no_process_works_on_is_undone(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    meeting_id, browser = await in_doubt(customer, harness), await sign_in()
    await harness.query(
        "UPDATE meetings SET lease_until = now() - interval '1 second' WHERE id = %s RETURNING id", meeting_id
    )
    answer = await browser.post(f"{ROOT}/{customer.account_id}/{meeting_id}/undo")
    assert answer.headers["location"] == f"{ROOT}?done=doubt_undone"
    assert await status_of(harness, meeting_id) == "scheduled"


@pytest.mark.parametrize("change", ["finish", "undo", "give-up", "retry-removal", "give-up-removal"])
async def test_what_is_not_in_doubt_cannot_be_decided(
    change: str, customer: Customer, sign_in: SignIn
) -> None:
    meeting, browser = await customer.make_meeting(), await sign_in()
    for id in (meeting["id"], uuid4()):
        path = f"{ROOT}/{customer.account_id}/{id}/{change}"
        assert (await browser.post(path, reason="x")).status_code == 409
    assert (await browser.post(f"{ROOT}/x/y/{change}", reason="x")).status_code == 404


async def test_a_removal_that_failed_is_retried_and_given_up(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    meeting, browser = await customer.make_meeting(title="Left behind"), await sign_in()
    await harness.query(
        "INSERT INTO orphan_checks (account_id, meeting_id, since, due_at, failures) "
        "VALUES (%s, %s, now(), now() + interval '1 hour', 3) RETURNING meeting_id",
        customer.account_id,
        meeting["id"],
    )
    path = f"{ROOT}/{customer.account_id}/{meeting['id']}"
    assert f'action="{path}/retry-removal"' in (await browser.get(ROOT)).text
    answer = await browser.post(f"{path}/give-up-removal", reason="removed by hand")
    assert answer.headers["location"] == f"{ROOT}?done=doubt_given_up"
    assert not await harness.query("SELECT FROM orphan_checks WHERE meeting_id = %s", meeting["id"])


async def test_finance_neither_sees_nor_decides(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(OperatorRole.FINANCE)
    assert (await browser.get(ROOT)).status_code == 403
    path = f"{ROOT}/{customer.account_id}/{uuid4()}/finish"
    assert (await browser.post(path)).status_code == 403
