"""What a customer is answered for what was removed past its retention (rule 7/410)."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from tests.support.api_harness import ApiHarness, Customer, code_of
from tests.support.sandbox_recordings import store_recording

GONE = (410, "gone")
FAR = timedelta(days=2_000)


async def remove(harness: ApiHarness) -> None:
    """Remove everything that is over, as if it were long past its retention."""
    await harness.query("UPDATE retention_progress SET due_at = now(), after_id = NULL")
    await harness.query("UPDATE meetings SET due_at = NULL WHERE status IN ('ended', 'cancelled')")
    await harness.query("DELETE FROM orphan_checks")
    later = harness.application.runtime.now() + FAR
    for removal in (
        harness.application.ports.retention.remove_notes,
        harness.application.ports.retention.remove_meetings,
    ):
        found = await removal(later, 100_000)
        assert found is not None


@pytest.mark.spec("7/410", "5/8")
async def test_a_removed_meeting_is_gone_for_its_account_and_unknown_to_others(
    harness: ApiHarness, customer: Customer
) -> None:
    cancelled = await customer.make_meeting()
    kept = await customer.make_meeting()
    await customer.delete(f"/meetings/{cancelled['id']}")
    before = (await customer.get("/credits/transactions")).json()
    await remove(harness)
    path = f"/meetings/{cancelled['id']}"
    assert code_of(await customer.get(path)) == GONE
    assert code_of(await customer.delete(path)) == GONE
    assert [one["id"] for one in (await customer.get("/meetings")).json()["data"]] == [kept["id"]]
    assert (await customer.get(f"/meetings/{kept['id']}")).status_code == 200
    other = await harness.customer()
    assert code_of(await other.get(path)) == code_of(await other.get(f"/meetings/{uuid4()}"))
    assert code_of(await other.get(path)) == (404, "not_found")
    assert (await customer.get("/credits/transactions")).json() == before
    assert cancelled["id"] in {one["reference"]["id"] for one in before["data"]}


@pytest.mark.spec("7/410")
async def test_a_removed_recording_and_its_note_are_gone(harness: ApiHarness, customer: Customer) -> None:
    recording = await store_recording(customer)
    note = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    await customer.delete(f"/recordings/{recording['id']}")
    await harness.query("UPDATE recordings SET due_at = NULL WHERE id = %s", recording["id"])
    await harness.query(
        "DELETE FROM host_reservations WHERE account_id = %s AND meeting_id = %s",
        customer.account_id, recording["meeting_id"],
    )  # fmt: skip
    await harness.query("UPDATE meetings SET status = 'ended' WHERE id = %s", recording["meeting_id"])
    await remove(harness)
    for path in (
        f"/notes/{note['id']}",
        f"/meetings/{recording['meeting_id']}",
        f"/recordings/{recording['id']}",
        f"/recordings/{recording['id']}/download-url",
    ):
        assert code_of(await customer.get(path)) == GONE, path
    assert code_of(await customer.post("/notes", {"recording_id": recording["id"]})) == GONE
    assert code_of(await customer.delete(f"/recordings/{recording['id']}")) == GONE
    for path in ("/meetings", "/recordings", "/notes"):
        assert (await customer.get(path)).json()["data"] == [], path
