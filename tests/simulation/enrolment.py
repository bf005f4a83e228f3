"""What is there before a run begins: hosts, accounts with their customers, and endpoints for webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from meetcore.composition.policy import Periods, Policy
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.requests.idempotency import IdempotentRequest
from meetcore.usecases.webhooks.endpoints import Registration
from tests.simulation.customers import TIERS, Account, Customer
from tests.simulation.guests import Guests
from tests.simulation.loop import Process

CREDITS: Final = 400
"""What an account is given for each of its customers."""
POLICY: Final = Policy(
    catalogue=TIERS,
    orphan_window_s=60.0,
    empty_for=timedelta(seconds=40),
    periods=Periods(
        sweep_s=4.0, provider_events_s=4.0, payments_s=4.0, recordings_s=4.0, retention_s=20.0,
        requests_s=20.0,
    ),
)  # fmt: skip
"""Idle rounds are most of a run, so that they are rarer than by default; what they wait for is sooner."""


async def enrol(
    process: Process,
    guests: Guests,
    *,
    hosts: int,
    customers: Sequence[int],
) -> list[Customer]:
    """Add hosts, and an account for each number of `customers`, whose meetings have the `guests`."""
    found: list[Customer] = []

    async def add_all() -> None:
        for number in range(hosts):
            guests.provider.hosts[f"host-{number}"] = seats = 100 if number % 4 else 300
            await process.application.administration.hosts.add(f"host-{number}", seats)
        for number, size in enumerate(customers):
            found.extend(await _add_account(process, guests, number, size))

    await process.start(add_all())
    return found


async def _add_account(process: Process, guests: Guests, number: int, customers: int) -> list[Customer]:
    """Add an account with an endpoint, and a key for each of its customers."""
    application, loop = process.application, process.loop
    administration, credits = application.administration, CREDITS * customers
    added = await administration.create_account(f"{number}@example.com", "A", credits)
    account, found = Account(added.id, credits), []
    for each in range(customers):
        minted = await administration.keys.create(account.id, tuple(Scope))
        name = f"customer {number}.{each}"
        found.append(Customer(loop, name, account, digest(minted.text), guests.some_server, guests.visit))
    caller = await application.ports.queries.find_caller(found[0].digest)
    assert caller is not None
    wanted = Registration(parse_webhook_url(f"https://93.184.216.3{number}/hook"), tuple(EventKind))
    request = IdempotentRequest(None, fingerprint("POST", "/webhooks", ""))
    await application.api.register_webhook(caller, wanted, request, loop.now())
    return found
