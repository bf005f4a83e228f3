"""Proving the ledger of a store: what is right is proven, what was tampered with is named."""

import pytest

from meetcore.testing.contracts.acts import Wish, new_host, open_customer, reserved, scheduled, top_up
from meetcore.testing.contracts.store_rig import LedgerAuditRig
from meetcore.usecases.verify_ledger import VerifyLedger

__all__ = ["LedgerAuditContract"]


@pytest.mark.asyncio
class LedgerAuditContract:
    """What `ports.audit.LedgerAudit` promises, as `meetcore.usecases.verify_ledger` reads it.

    Give a fixture `rig` that is a `LedgerAuditRig`, where you like::

        class TestMySQLLedgerAudit(LedgerAuditContract):
            @pytest_asyncio.fixture
            async def rig(self, mysql_pool):
                return await fresh_mysql_rig(mysql_pool)
    """

    async def test_a_ledger_that_lived_is_sound_and_every_entry_was_looked_at(
        self, rig: LedgerAuditRig
    ) -> None:
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

    async def test_a_snapshot_is_of_the_moment_it_was_opened(self, rig: LedgerAuditRig) -> None:
        customer = await open_customer(rig, 100)
        async with rig.audit.snapshot() as snapshot:
            await top_up(rig, customer, 5, "later")
            async for portion in snapshot.accounts():
                for stored in portion:
                    if stored.funds.account_id == customer.account_id:
                        assert (stored.funds.entries, stored.funds.balance) == (1, 100)
        async with rig.audit.snapshot() as snapshot:
            found = [stored.funds async for portion in snapshot.accounts() for stored in portion]
        assert [one.balance for one in found if one.account_id == customer.account_id] == [105]

    @pytest.mark.parametrize("number", [1, 2, 3])
    async def test_an_entry_that_was_changed_is_named(self, rig: LedgerAuditRig, number: int) -> None:
        customer = await open_customer(rig)
        for reference in ("a", "b", "c"):
            await top_up(rig, customer, 10, reference)
        await rig.tamper(customer.account_id, number)
        audit = await VerifyLedger(rig.audit)()
        assert not audit.is_sound
        assert f"account {customer.account_id}: entry {number} is wrong" in audit.findings
