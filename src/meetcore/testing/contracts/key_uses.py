"""The last uses of keys: the latest of all processes is what is stored."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from meetcore.testing.contracts.store_rig import KeyUsesRig
from meetcore.testing.contracts.transactions import AT, new_id, open_customer

MINUTE = timedelta(minutes=1)


async def _last_used(rig: KeyUsesRig, account_ids: Sequence[UUID]) -> list[datetime | None]:
    return [(await rig.registry.list_keys(account_id))[0].last_used_at for account_id in account_ids]


@pytest.mark.asyncio
class KeyUsesContract:
    """What `ports.key_uses.KeyUses` promises."""

    async def test_the_latest_use_is_stored_whenever_it_is_written(self, rig: KeyUsesRig) -> None:
        first, second, unused = [await open_customer(rig) for _ in range(3)]
        accounts = [customer.account_id for customer in (first, second, unused)]
        assert await _last_used(rig, accounts) == [None] * 3
        await rig.key_uses.save({first.key_id: AT, second.key_id: AT + MINUTE, new_id(): AT})
        assert await _last_used(rig, accounts) == [AT, AT + MINUTE, None]
        await rig.key_uses.save({first.key_id: AT + MINUTE, second.key_id: AT})
        assert await _last_used(rig, accounts) == [AT + MINUTE, AT + MINUTE, None]

    async def test_processes_that_write_the_same_keys_at_once_wait_for_each_other(
        self, rig: KeyUsesRig
    ) -> None:
        customers = [await open_customer(rig) for _ in range(20)]
        await asyncio.gather(
            *(
                rig.key_uses.save({one.key_id: AT + minute * MINUTE for one in customers[:: (-1) ** minute]})
                for minute in range(12)
            )
        )
        assert await _last_used(rig, [one.account_id for one in customers]) == [AT + 11 * MINUTE] * 20
