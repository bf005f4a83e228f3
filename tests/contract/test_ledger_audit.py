"""Proving the ledger, in every store: what is right is proven, what was tampered with is named."""

import pytest

from meetcore.usecases.verify_ledger import VerifyLedger
from tests.contract.acts import Wish, new_host, open_customer, reserved, scheduled, top_up
from tests.contract.rigs import Rig


async def test_a_ledger_that_lived_is_sound_and_every_entry_was_looked_at(rig: Rig):
    await rig.plant(new_host(), new_host())
    customer = await open_customer(rig)
    await top_up(rig, customer, 50, "first")
    await scheduled(rig, customer, Wish())
    await reserved(rig, customer, Wish())
    told: list[tuple[int, int]] = []
    audit = await VerifyLedger(rig.audit)(lambda done, total: told.append((done, total)))
    mine = [finding for finding in audit.findings if str(customer.account_id) in finding]
    assert mine == []
    assert audit.entries == told[-1][0] == told[-1][1]
    assert audit.accounts >= 1


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_an_entry_that_was_changed_is_named(rig: Rig, number: int):
    customer = await open_customer(rig)
    for reference in ("a", "b", "c"):
        await top_up(rig, customer, 10, reference)
    await rig.tamper(customer.account_id, number)
    audit = await VerifyLedger(rig.audit)()
    assert not audit.is_sound
    assert f"account {customer.account_id}: entry {number} is wrong" in audit.findings
