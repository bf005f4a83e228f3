"""What comes after a run: recordings that never came, an account that is erased, the end of retention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from meetcore.domain.requests.retention import Erasure
from tests.simulation.customers import Account
from tests.simulation.database import SimulatedDatabase
from tests.simulation.enrolment import Crowd
from tests.simulation.loop import Process
from tests.simulation.studio import Studio

Judge = Callable[[], list[str]]
Settle = Callable[[Judge], Awaitable[list[str]]]
"""Waits until a judge finds nothing; returns what it finds to the last."""

LOOKS_H: Final = (24, 1, 1, 1, 1, 1, 1, 3, 12, 24, 24)
"""Hours to jump over, until the last look for a recording that never comes."""
RETENTION: Final = timedelta(days=100)
"""Longer than anything is kept."""
A_ROUND: Final = timedelta(hours=2)
"""Longer than from one round of the removal to the next."""
_FORGOTTEN = """SELECT 'meeting ' || id AS what FROM meetings UNION ALL SELECT 'note ' || id FROM notes
    UNION ALL SELECT 'recording ' || id FROM recordings"""
_FUNDS = "SELECT id, balance, held FROM accounts ORDER BY id"
_LEFT = """SELECT
    (SELECT count(*) FROM meetings WHERE account_id = %(id)s AND (title <> 'Erased' OR join_url IS NOT NULL))
        AS meetings,
    (SELECT count(*) FROM notes WHERE account_id = %(id)s AND status <> 'erased') AS notes,
    (SELECT count(*) FROM events WHERE account_id = %(id)s) AS events,
    (SELECT count(*) FROM deliveries WHERE account_id = %(id)s) AS deliveries,
    (SELECT count(*) FROM webhook_endpoints WHERE account_id = %(id)s) AS endpoints,
    (SELECT count(*) FROM idempotency_keys WHERE account_id = %(id)s) AS keys_of_requests,
    (SELECT count(*) FROM api_keys WHERE account_id = %(id)s AND revoked_at IS NULL) AS api_keys,
    (SELECT count(*) FROM accounts WHERE id = %(id)s AND email NOT LIKE 'erased-%%') AS addresses,
    (SELECT count(*) FROM account_erasures WHERE account_id = %(id)s AND finished_at IS NULL) AS unfinished"""


async def grow_old(
    database: SimulatedDatabase, crowd: Crowd, studio: Studio, settle: Settle, judge: Judge
) -> list[str]:
    """Let every meeting end and every look for its recording be made, erase an account, and keep nothing."""
    for hours in LOOKS_H:
        database.loop.jump(timedelta(hours=hours))
        await asyncio.sleep(15.0)
    if faults := await settle(judge):
        return faults
    database.loop.faults.is_active = True
    await _erase(database, crowd)
    database.loop.faults.is_active = False
    return await settle(judge) or await _forget(database, studio, settle)


async def _erase(database: SimulatedDatabase, crowd: Crowd) -> None:
    """Erase an account, which two ask for at once."""
    customer = crowd.customers[-1]
    account = customer.account
    rows = database.control.execute("SELECT id FROM events WHERE account_id = %s", [account.id]).fetchall()

    async def ask(process: Process) -> Erasure:
        found: Erasure = await process.application.account_data.erase(account.id)
        return found

    await asyncio.gather(customer.client.insist(ask), customer.client.insist(ask))
    account.is_erased = True
    crowd.erased_events |= {str(row["id"]) for row in rows}


def judge_erased(database: SimulatedDatabase, account: Account) -> Iterator[str]:
    """Return what is left of an erased account that should not be."""
    [left] = database.control.execute(_LEFT, {"id": account.id}).fetchall()
    for what, number in left.items():
        if number:
            yield f"of the erased account there are {number} {what}"


async def _forget(database: SimulatedDatabase, studio: Studio, settle: Settle) -> list[str]:
    """Let the time pass for which records are kept, and judge what is left."""
    funds = database.control.execute(_FUNDS).fetchall()
    recorded = database.control.execute("SELECT provider_meeting_id FROM recordings").fetchall()
    for over in (RETENTION, A_ROUND, A_ROUND):
        database.loop.jump(over)
        await asyncio.sleep(60.0)
    return await settle(lambda: _judge_forgotten(database, studio, funds, recorded))


def _judge_forgotten(
    database: SimulatedDatabase, studio: Studio, funds: list[dict[str, Any]], recorded: list[dict[str, Any]]
) -> list[str]:
    faults = [
        f"{row['what']} is kept for too long" for row in database.control.execute(_FORGOTTEN).fetchall()
    ]
    if (now := database.control.execute(_FUNDS).fetchall()) != funds:
        faults.append(f"the funds were {funds} and are {now}")
    for row in recorded:
        if studio.files_of(row["provider_meeting_id"]):
            faults.append(f"a recording of {row['provider_meeting_id']} is kept at the provider")
    return faults
