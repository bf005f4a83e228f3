"""Cancelling a meeting (spec 3), by what has become of it."""

from __future__ import annotations

from typing import Any

import pytest

from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.state import SandboxCall, SandboxFault, SandboxFaults
from tests.support.api_harness import (
    BASE_URL,
    Customer,
    Funds,
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
