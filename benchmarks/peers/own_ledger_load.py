"""Our ledger over PostgreSQL under the load of `credit_ledger_load`, by so many tasks on one event loop.

The application is wired as in production, and its use cases are called, in three ways. `charge` takes a
credit by an adjustment, `top_up` adds one and writes the outbox's event; both write the audit log, too.
`meeting` looks the key of the customer up, reserves the credits of a meeting with its host, and settles them
when the sandbox has answered.
"""

import argparse
import asyncio
import base64
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from uuid import UUID

import psycopg
import uvloop
from attrs import frozen

from benchmarks.places import REDIS_URL
from benchmarks.seeds import wired
from meetcore.composition.application import Application
from meetcore.domain.meetings.meetings import MeetingRequest
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.requests.keys import Scope, digest
from meetcore.ports.queries import CallerIncludes
from meetcore.usecases.idempotency import IdempotentRequest

_CREDITS = 10**9
_HOSTS = 64
_DAYS = 300


@frozen
class _Account:
    id: UUID
    key_digest: bytes


Operation = Callable[[Application, _Account], Awaitable[object]]


async def _charge(application: Application, account: _Account) -> object:
    return await application.administration.adjust(account.id, -1, "usage", os.urandom(16).hex())


async def _top_up(application: Application, account: _Account) -> object:
    return await application.administration.top_up(account.id, 1, os.urandom(16).hex())


async def _create_meeting(application: Application, account: _Account) -> object:
    now, key = application.runtime.now(), os.urandom(16).hex()
    includes = CallerIncludes(state_on=cap_day(now), idempotency_key=key)
    caller = await application.ports.queries.find_caller(account.key_digest, includes)
    if caller is None:
        raise RuntimeError("the key is not known")
    start_at = now + timedelta(days=random.randrange(2, _DAYS))
    wanted = MeetingRequest(
        "Weekly planning", f"{start_at:%Y-%m-%d}", f"{random.randrange(24):02}:00", "standard-100"
    )
    made = await application.api.create_meeting(caller, wanted, IdempotentRequest(key, b"f" * 32), now)
    if made.refusal is not None:
        raise RuntimeError(f"refused: {made.refusal.code}")
    return made


_WAYS: dict[str, Operation] = {"charge": _charge, "top_up": _top_up, "meeting": _create_meeting}


async def _load(
    application: Application, accounts: Sequence[_Account], operation: Operation, clients: int, seconds: float
) -> dict[str, float]:
    made = 0

    async def client(number: int, stop: float) -> None:
        nonlocal made
        while time.monotonic() < stop:
            await operation(application, accounts[number % len(accounts)])
            made += 1
            number += clients

    await asyncio.gather(*(client(number, time.monotonic() + 0.3) for number in range(clients)))
    made, began, cpu_s = 0, time.monotonic(), time.process_time()
    await asyncio.gather(*(client(number, began + seconds) for number in range(clients)))
    took_s = time.monotonic() - began
    return {"count": made, "seconds": took_s, "cpu_s": time.process_time() - cpu_s}


async def _open_account(application: Application) -> _Account:
    email = f"{os.urandom(8).hex()}@example.com"
    account = await application.administration.create_account(email, "Peers", _CREDITS)
    minted = await application.administration.create_key(account.id, [Scope.MEETINGS_WRITE])
    return _Account(account.id, digest(minted.text))


async def _run(url: str, way: str, clients: int, accounts: int, seconds: float) -> dict[str, float]:
    secrets_key = base64.urlsafe_b64encode(bytes(32)).decode()  # the runs on one database share it
    async with wired(url, REDIS_URL, secrets_key) as application:
        if not await application.ports.registry.list_hosts():
            for number in range(_HOSTS):
                await application.administration.hosts.add(f"host-{number}", 100)
        opened = [await _open_account(application) for _ in range(accounts)]
        return await _load(application, opened, _WAYS[way], clients, seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("way", choices=_WAYS)
    parser.add_argument("clients", type=int)
    parser.add_argument("accounts", type=int)
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(asked.database_url, asked.way, asked.clients, asked.accounts, asked.seconds))
    with psycopg.connect(asked.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM ledger_transfers").fetchone()
    if row is None or row[0] < found["count"]:
        raise SystemExit("a charge is not in the ledger")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
