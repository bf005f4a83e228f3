"""Cancelling a meeting (spec 3), by what has become of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from meetcore.adapters.sandbox.faults import SandboxCall, SandboxFault, SandboxFaults
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.testing.clock import ManualClock
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    BASE_URL,
    Customer,
    Funds,
    api_on,
    client_of,
    code_of,
    new_key,
)
from tests.support.sandbox_recordings import press


async def status_of(customer: Customer, meeting: dict[str, Any]) -> str:
    return str((await customer.get(f"/meetings/{meeting['id']}")).json()["status"])


@pytest.mark.spec("3/cancel-before", "3/cancel-shape", "1/op/meeting-delete")
async def test_before_the_start_the_credits_come_back(customer: Customer) -> None:
    meeting = await customer.make_meeting(auto_notulen=True)
    assert await customer.balance() == 985
    answer = await customer.delete(f"/meetings/{meeting['id']}")
    assert answer.status_code == 200
    assert answer.json() == {"id": meeting["id"], "status": "cancelled", "credits_refunded": 15}
    assert await customer.funds() == Funds(1000, 0, 3)
    assert await customer.hosts_taken() == 0
    shown = (await customer.get(f"/meetings/{meeting['id']}")).json()
    assert shown == meeting | {"status": "cancelled"}
    again = await customer.delete(f"/meetings/{meeting['id']}")
    assert again.json() == answer.json(), "the same answer again"
    assert await customer.funds() == Funds(1000, 0, 3)


@pytest.mark.spec("3/cancel-running", "3/cancel-shape", "1/op/meeting-delete")
async def test_a_meeting_that_the_provider_started(customer: Customer) -> None:
    meeting = await customer.make_meeting()
    await press(customer, meeting, "start")
    assert await status_of(customer, meeting) == "started"
    answer = await customer.delete(f"/meetings/{meeting['id']}")
    assert answer.status_code == 200
    assert answer.json() == {"id": meeting["id"], "status": "ended", "credits_refunded": 0}
    assert await customer.funds() == Funds(990, 0, 2)
    assert await status_of(customer, meeting) == "ended"
    assert await customer.hosts_taken() == 0


@pytest.mark.spec("3/cancel-shape", "7/409", "1/op/meeting-delete")
async def test_a_meeting_that_has_ended(customer: Customer) -> None:
    meeting = await customer.make_meeting()
    await press(customer, meeting, "start")
    await press(customer, meeting, "end")
    answer = await customer.delete(f"/meetings/{meeting['id']}")
    assert code_of(answer) == (409, "conflict")
    assert answer.json()["error"]["details"] == {"id": meeting["id"]}
    assert await customer.funds() == Funds(990, 0, 2)


@pytest.mark.spec("3/cancel-running", "3/cancel-before", "3/cancel-shape")
@pytest.mark.parametrize(
    ("minutes", "status", "refunded"),
    [(-0.001, "cancelled", 10), (0, "ended", 0), (59.999, "ended", 0), (60, None, 0)],
)
async def test_the_clock_starts_and_ends_a_meeting(
    customer: Customer, contract: Contract, minutes: float, status: str | None, refunded: int
) -> None:
    meeting = await customer.make_meeting()
    start = datetime.fromisoformat(meeting["start_at"])
    clock = ManualClock(start + timedelta(minutes=minutes))
    async with api_on(customer.application, clock=clock) as api, client_of(api, contract) as http:
        answer = await customer.at(http).delete(f"/meetings/{meeting['id']}")
    if status is None:
        assert code_of(answer) == (409, "conflict")
    else:
        assert answer.json() == {"id": meeting["id"], "status": status, "credits_refunded": refunded}
    assert (await customer.funds()).balance == 990 + refunded


@pytest.mark.spec("3/cancel-running")
async def test_running_at_the_provider_without_an_event(customer: Customer) -> None:
    meeting = await customer.make_meeting()
    await customer.query(
        "INSERT INTO sandbox_meetings (provider_meeting_id, state) VALUES (%s, 'started')",
        meeting["provider_meeting_id"],
    )
    answer = await customer.delete(f"/meetings/{meeting['id']}")
    assert answer.json() == {"id": meeting["id"], "status": "ended", "credits_refunded": 0}
    assert await customer.funds() == Funds(990, 0, 2)


@pytest.mark.spec("7/502", "3/cancel-before")
@pytest.mark.parametrize("fault", [fault for fault in SandboxFault if fault is not SandboxFault.FULL])
async def test_a_provider_that_does_not_cancel(customer: Customer, fault: SandboxFault) -> None:
    meeting = await customer.make_meeting()
    key = new_key()
    faults = SandboxFaults()
    faults.plan(SandboxCall.REMOVE, fault)
    state = PostgresSandboxState(customer.harness.pool)
    provider = SandboxProvider(BASE_URL, state, bytes(32), faults=faults, timeout_s=0.05)
    path = f"/meetings/{meeting['id']}"
    async with customer.on(provider=provider) as there:
        assert code_of(await there.delete(path, idem=key)) == (502, "upstream_error")
        assert await customer.funds() == Funds(990, 0, 2), "nothing is refunded yet"
        assert await status_of(customer, meeting) == "scheduled"
        assert await customer.hosts_taken() == 1
        answer = await there.delete(path, idem=key)
    assert answer.json()["credits_refunded"] == 10, "the key was free to try again"
    assert await customer.funds() == Funds(1000, 0, 3)


@pytest.mark.spec("4.4/3", "7/404", "5/8", "1/op/meeting-delete")
@pytest.mark.parametrize("name", ["x", "01890000-0000-7000-8000-000000000000", "' OR 1=1", "a" * 500])
async def test_an_id_without_a_record(customer: Customer, name: str) -> None:
    for key in (None, new_key()):
        assert code_of(await customer.delete(f"/meetings/{name}", idem=key)) == (404, "not_found")


@pytest.mark.spec("4/idem-replay", "4/idem-accepted", "3/cancel-before")
async def test_cancelling_is_replayed_under_its_key(customer: Customer) -> None:
    meeting, key = await customer.make_meeting(), new_key()
    path = f"/meetings/{meeting['id']}"
    first = await customer.delete(path, idem=key)
    second = await customer.delete(path, idem=key)
    assert first.content == second.content
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert await customer.funds() == Funds(1000, 0, 3)
