"""A service that really delivers, to a receiver on loopback, in a database of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from attrs import frozen

from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.app import Service
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import Network
from tests.support import servers
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    ApiHarness,
    Customer,
    Slots,
    client_of,
    pool_of,
    settings_for,
    started,
    until,
)
from tests.support.names import Names
from tests.support.policy_changes import policy_changed
from tests.support.webhook_receiver import Received, Receiver, receiving

HOST = "hooks.test"


@frozen
class DeliveryHarness:
    """A service that delivers, alone in its database, and its receiver."""

    harness: ApiHarness
    receiver: Receiver
    names: Names
    contract: Contract

    async def register(self, customer: Customer, *kinds: str, host: str = HOST) -> dict[str, Any]:
        return await customer.make_webhook(url=f"https://{host}/in?from=meetcore", event_types=list(kinds))

    async def subscriber(self, *kinds: str, host: str = HOST) -> tuple[Customer, dict[str, Any]]:
        """A new customer with a webhook at the receiver."""
        customer = await self.harness.customer()
        return customer, await self.register(customer, *kinds, host=host)

    async def next(self, count: int = 1) -> list[Received]:
        """Wait for a number of deliveries, check them against their documentation, and take them."""
        await until(lambda: len(self.receiver.received) >= count)
        taken = list(self.receiver.received)
        self.receiver.received.clear()
        for each in taken:
            self.contract.check_payload(each.headers, json.loads(each.body))
        return taken

    async def shown(self, customer: Customer, webhook: dict[str, Any], **fields: object) -> dict[str, Any]:
        """Wait until the webhook shows these fields, and give it."""

        async def look() -> dict[str, Any] | None:
            record: dict[str, Any] = (await customer.get(f"/webhooks/{webhook['id']}")).json()
            return record if fields.items() <= record.items() else None

        found: dict[str, Any] = await until(look)
        return found


Opened = Callable[..., AbstractAsyncContextManager[DeliveryHarness]]


def delivery_harnesses(
    postgres_server_url: str, contract: Contract, directories: pytest.TempPathFactory
) -> Opened:
    """Opens a post office with a retry schedule, changes of the policy, and what else is set.

    `hosts` lead to the receiver, too; `lookups` answers for the system where real look-ups are wanted.
    """

    @asynccontextmanager
    async def open_with(
        schedule: str,
        hosts: Sequence[str] = (),
        lookups: Callable[..., Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> AsyncIterator[DeliveryHarness]:
        here = dict.fromkeys((HOST, *hosts), "127.0.0.1")
        names = Names({**here, "rebind.test": "93.184.216.34"})
        applications: list[Application] = []

        def keep(application: Application) -> list[Any]:
            applications.append(application)
            return []

        changed = policy_changed(**policy or {})
        with servers.migrated_database(postgres_server_url) as url, changed:
            async with receiving(directories.mktemp("receiver"), HOST, *hosts) as receiver:
                settings = settings_for(
                    url,
                    webhook_allowed_networks="127.0.0.0/8",
                    ca_file=receiver.ca_file,
                    webhook_retry_schedule=schedule,
                    **more,
                )
                there = dict.fromkeys((HOST, *hosts), ("127.0.0.1", receiver.port))
                network = Network(names if lookups is None else SystemResolver(lookup=lookups), there)
                service = Service(settings, network, extra_routes=keep)
                async with (
                    started(service),
                    client_of(service, contract) as http,
                    pool_of(settings) as pool,
                ):
                    await applications[0].administration.hosts.add("host@example.test", 1000)
                    harness = ApiHarness(applications[0], http, Slots(), settings, network, pool, contract)
                    yield DeliveryHarness(harness, receiver, names, contract)

    return open_with
