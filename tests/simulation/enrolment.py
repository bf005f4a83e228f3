"""What is there before a run begins: hosts, accounts with their customers, and endpoints for webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations
from typing import Final

from attrs import define, field

from meetcore.composition.policy import Periods, Policy
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.payments.packages import CreditPackage, PackageCatalogue
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.requests.retention import Retention
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.requests.idempotency import IdempotentRequest
from meetcore.usecases.webhooks.endpoints import Registration
from tests.simulation.clients import Client
from tests.simulation.customers import TIERS, Account, Customer
from tests.simulation.guests import Guests
from tests.simulation.loop import Process
from tests.simulation.operators import ABOVE, SimulatedOperator, sign_in
from tests.simulation.payments import PACKAGE, Buyer, SimulatedGateway
from tests.simulation.readers import Reader

CREDITS: Final = 400
"""What an account is given for each of its customers."""
CAP: Final = 30
"""The daily cap of some keys, in credits."""
POLICY: Final = Policy(
    catalogue=TIERS,
    packages=PackageCatalogue.of((CreditPackage(PACKAGE, 40, 40_000, "IDR"),), tax_basis_points=1_100),
    four_eyes_above=ABOVE,
    retention=Retention(meeting_days=30),
    orphan_window_s=60.0,
    empty_for=timedelta(seconds=40),
    periods=Periods(
        deliveries_s=2.0, notes_s=4.0, sweep_s=4.0, provider_events_s=4.0, payments_s=4.0, recordings_s=4.0,
        retention_s=20.0, requests_s=20.0,
    ),
)  # fmt: skip
"""Idle rounds are most of a run, so that they are rarer than by default; what they wait for is sooner."""


@define(eq=False)
class Crowd:
    """Everyone outside of the service. Some runs have no buyers, some no operators, some no readers."""

    gateway: SimulatedGateway
    wants_notes: bool
    grows_old: bool
    erased_events: set[str] = field(factory=set)
    accounts: list[Account] = field(factory=list)
    customers: list[Customer] = field(factory=list)
    buyers: list[Buyer] = field(factory=list)
    operators: list[SimulatedOperator] = field(factory=list)
    readers: list[Reader] = field(factory=list)

    async def act(self, requests: int) -> None:
        """Let each ask for so many things."""
        acting = [each.act(requests) for each in self.customers]
        acting += [each.act(requests) for each in self.buyers]
        acting += [each.act(requests) for each in self.operators]
        acting += [each.act(requests // 2) for each in self.readers]
        await asyncio.gather(*acting)

    def asked(self) -> int:
        """Return how many things were asked for."""
        others: list[Buyer | SimulatedOperator | Reader] = [*self.buyers, *self.operators, *self.readers]
        asked = sum(each.asked for each in others)
        return asked + sum(len(each.wanted) + len(each.cancels) for each in self.customers)


async def enrol(
    process: Process, guests: Guests, crowd: Crowd, *, hosts: int, customers: Sequence[int]
) -> None:
    """Add hosts, operators, and an account for each number of `customers`; `guests` visit their meetings."""

    async def add_all() -> None:
        random = process.loop.random
        has_buyers, has_operators = random.random() < 0.6, random.random() < 0.6
        for number in range(hosts):
            guests.provider.hosts[f"host-{number}"] = seats = 100 if number % 4 else 300
            await process.application.administration.hosts.add(f"host-{number}", seats)
        for number, size in enumerate(customers):
            await _add_account(process, guests, crowd, number, size)
            if has_buyers:
                one = crowd.customers[-1]
                name = f"buyer {number}"
                crowd.buyers.append(Buyer(one.loop, name, one.account, one.digest, one.client, crowd.gateway))
        if has_operators:
            await _add_operators(process, crowd)

    await process.start(add_all())


async def _add_operators(process: Process, crowd: Crowd) -> None:
    loop, client = process.loop, crowd.customers[0].client
    for number in range(2):
        email = f"operator-{number}@example.com"
        one = await process.application.access.operators.add(email, OperatorRole.ADMIN)
        signed_in = sign_in(loop.now(), one)
        crowd.operators.append(SimulatedOperator(loop, signed_in, client, crowd.accounts, crowd.buyers))
    for one, other in permutations(crowd.operators):
        one.second = other


async def _add_account(process: Process, guests: Guests, crowd: Crowd, number: int, customers: int) -> None:
    """Add an account with an endpoint, and a key for each of its customers."""
    application, loop = process.application, process.loop
    administration, credits = application.administration, CREDITS * customers
    added = await administration.create_account(f"{number}@example.com", "A", credits)
    account, client = Account(added.id, credits), Client(loop, guests.some_server)
    crowd.accounts.append(account)
    for each in range(customers):
        cap = CAP if number == each else None
        minted = await administration.keys.create(account.id, tuple(Scope), cap)
        name = f"customer {number}.{each}"
        crowd.customers.append(
            Customer(
                loop,
                name,
                account,
                digest(minted.text),
                client,
                guests.visit,
                minted.key.id,
                cap,
                crowd.wants_notes,
            )
        )
        if crowd.wants_notes:
            crowd.readers.append(Reader(crowd.customers[-1]))
    caller = await application.ports.queries.find_caller(crowd.customers[-1].digest)
    assert caller is not None
    wanted = Registration(parse_webhook_url(f"https://93.184.216.3{number}/hook"), tuple(EventKind))
    request = IdempotentRequest(None, fingerprint("POST", "/webhooks", ""))
    await application.api.webhooks.register(caller, wanted, request, loop.now())
