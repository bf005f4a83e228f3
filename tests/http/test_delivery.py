"""Webhooks from end to end (spec parts 3 and 6): a customer, a meeting, and a receiver on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from attrs import frozen

from meetcore.adapters.postgres.migrate import migrate
from meetcore.app import Network, Service, Wiring
from meetcore.domain import signature
from meetcore.domain.addresses import Address
from tests import servers
from tests.http.contract import Contract
from tests.http.house import Customer, House, Slots, client_of, settings_for, started, until
from tests.http.receiver import Received, Receiver, receiving

HOST = "hooks.test"
SIGNATURE = signature.SIGNATURE_HEADER.lower()


class Names:
    """A name server whose answers change."""

    def __init__(self) -> None:
        self.known = {HOST: "127.0.0.1", "rebind.test": "93.184.216.34"}

    async def resolve(self, host: str) -> tuple[Address, ...]:
        return (ip_address(self.known[host]),)


@frozen
class PostOffice:
    """A service that delivers, in a database where nobody else does, and who receives."""

    house: House
    receiver: Receiver
    names: Names

    async def register(self, customer: Customer, *kinds: str, host: str = HOST) -> dict[str, Any]:
        return await customer.make_webhook(url=f"https://{host}/in?from=meetcore", event_types=list(kinds))

    async def next(self, count: int = 1) -> list[Received]:
        """Wait until so many have come, and take them."""
        await until(lambda: len(self.receiver.received) >= count)
        taken = list(self.receiver.received)
        self.receiver.received.clear()
        return taken

    async def shown(self, customer: Customer, webhook: dict[str, Any], **fields: object) -> dict[str, Any]:
        """Wait until the webhook shows these fields, and give it."""

        async def look() -> dict[str, Any] | None:
            record: dict[str, Any] = (await customer.get(f"/webhooks/{webhook['id']}")).json()
            return record if fields.items() <= record.items() else None

        found: dict[str, Any] = await until(look)
        return found


@pytest.fixture
def opened(postgres_server_url: str, contract: Contract, tmp_path: Path) -> Any:
    """Opens a post office with a retry schedule."""

    @asynccontextmanager
    async def open_with(schedule: str) -> AsyncIterator[PostOffice]:
        names = Names()
        wirings: list[Wiring] = []

        def keep(wiring: Wiring) -> list[Any]:
            wirings.append(wiring)
            return []

        with servers.fresh_database(postgres_server_url) as url:
            migrate(url)
            async with receiving(HOST, tmp_path) as receiver:
                settings = settings_for(
                    url,
                    webhook_allowed_networks="127.0.0.0/8",
                    webhook_ca_file=receiver.ca_file,
                    webhook_retry_schedule=schedule,
                )
                network = Network(names, {HOST: ("127.0.0.1", receiver.port)})
                service = Service(settings, network, extra_routes=keep)
                async with started(service), client_of(service, contract) as http:
                    await wirings[0].operate.add_host("host@example.test", 1000)
                    yield PostOffice(House(wirings[0], http, Slots()), receiver, names)

    return open_with


@pytest.mark.spec("6/1", "6/2", "6/3", "5/9", "1/webhooks", "4.3/3", "6/kinds")
async def test_a_delivery_is_signed_and_tells_the_record(opened: Any) -> None:
    async with opened("") as office:
        customer = await office.house.customer()
        webhook = await office.register(customer, "meeting.created")
        meeting = await customer.make_meeting(title="Rapat 🎉")
        [sent] = await office.next()

        assert (sent.method, sent.path) == ("POST", "/in?from=meetcore")
        assert sent.headers["host"] == HOST
        assert sent.headers["content-type"] == "application/json"
        assert sent.headers["x-service-event"] == "meeting.created"
        assert sent.headers["x-service-delivery"]
        assert "authorization" not in sent.headers
        secret = webhook["secret"]
        assert secret.encode() not in sent.body
        assert secret not in str(sent.headers)

        payload = json.loads(sent.body)
        assert set(payload) == {"id", "type", "created_at", "api_version", "data"}
        assert payload["id"] == sent.headers["webhook-id"]
        assert (payload["type"], payload["api_version"]) == ("meeting.created", "v1")
        assert datetime.fromisoformat(payload["created_at"]).utcoffset() is not None
        assert payload["data"] == meeting

        now, told = int(time.time()), sent.headers[SIGNATURE]
        assert told.startswith("t=")
        signature.verify([secret], sent.body, told, now)
        assert standardwebhooks.Webhook(secret).verify(sent.body.decode(), sent.headers) == payload

        reserialised = json.dumps(payload).encode()
        assert reserialised != sent.body
        with pytest.raises(signature.WrongSignature):
            signature.verify([secret], reserialised, told, now)
        with pytest.raises(signature.TimestampRejected):
            signature.verify([secret], sent.body, told, now + 306)
        with pytest.raises(signature.WrongSignature):
            signature.verify([secret.swapcase()], sent.body, told, now)
        await office.shown(customer, webhook, consecutive_failures=0, is_active=True)


@pytest.mark.spec("1/webhooks", "6/kinds", "4.3/event_types", "5/8")
async def test_only_what_was_asked_for_is_told(opened: Any) -> None:
    async with opened("") as office:
        customer, stranger = await office.house.customer(150), await office.house.customer()
        await office.register(customer, "meeting.ended", "credit.low", "credit.topup.succeeded")
        await stranger.make_meeting()
        meeting = await customer.make_meeting(pricing_tier_id="large-500")
        [low] = await office.next()
        assert low.headers["x-service-event"] == "credit.low"
        assert json.loads(low.body)["data"]["balance"] == 70
        await office.house.query(
            "INSERT INTO sandbox_meetings (provider_meeting_id, state) VALUES (%s, 'started')",
            meeting["provider_meeting_id"],
        )
        await customer.delete(f"/meetings/{meeting['id']}")
        [ended] = await office.next()
        told = json.loads(ended.body)
        assert told["type"] == "meeting.ended"
        assert told["data"] == meeting | {"status": "ended"}
        await office.house.wiring.operate.top_up(customer.account_id, 30)
        [topped] = await office.next()
        assert json.loads(topped.body)["data"]["balance"] == 100


@pytest.mark.spec("6/2", "6/4", "3/re-enable")
async def test_a_retry_brings_the_same_event(opened: Any) -> None:
    async with opened("0,0") as office:
        customer = await office.house.customer()
        webhook = await office.register(customer, "meeting.created")
        office.receiver.answers[:] = [500, 302]
        await customer.make_meeting()
        sent = await office.next(3)
        assert len({each.body for each in sent}) == 1
        assert len({each.headers["webhook-id"] for each in sent}) == 1
        for each in sent:
            signature.verify([webhook["secret"]], each.body, each.headers[SIGNATURE], int(time.time()))
        await office.shown(customer, webhook, consecutive_failures=0)


@pytest.mark.spec("3/pause")
async def test_what_a_paused_endpoint_missed_comes_when_it_resumes(opened: Any) -> None:
    async with opened("") as office:
        customer = await office.house.customer()
        webhook = await office.register(customer, "meeting.created")
        path = f"/webhooks/{webhook['id']}"
        await customer.patch(path, {"is_active": False})
        meetings = [await customer.make_meeting() for _ in range(3)]
        other = await office.register(await office.house.customer(), "meeting.created")
        assert other["is_active"] is True
        assert office.receiver.received == []
        await customer.patch(path, {"is_active": True})
        sent = await office.next(3)
        told = [json.loads(each.body)["data"]["id"] for each in sent]
        assert sorted(told) == sorted(meeting["id"] for meeting in meetings)


@pytest.mark.spec("3/disable-at-20", "3/re-enable", "4.4/2", "6/5")
async def test_twenty_failures_disable_and_a_patch_enables_again(opened: Any) -> None:
    async with opened("") as office:
        customer = await office.house.customer()
        webhook = await office.register(customer, "credit.topup.succeeded")
        top_up = office.house.wiring.operate.top_up
        path = f"/webhooks/{webhook['id']}"
        office.receiver.status = 500

        for _ in range(2):
            for _ in range(19):
                await top_up(customer.account_id, 1)
            shown = await office.shown(customer, webhook, consecutive_failures=19)
            assert (shown["is_active"], shown["disabled_at"]) == (True, None)
            await top_up(customer.account_id, 1)
            shown = await office.shown(customer, webhook, consecutive_failures=20)
            assert shown["is_active"] is False
            assert datetime.fromisoformat(shown["disabled_at"]).utcoffset() is not None
            assert len(await office.next(20)) == 20

            enabled = (await customer.patch(path, {"is_active": True})).json()
            assert enabled["is_active"] is True
            assert (enabled["consecutive_failures"], enabled["disabled_at"]) == (0, None)

        office.receiver.answers[:] = [500]
        await top_up(customer.account_id, 1)
        await office.shown(customer, webhook, consecutive_failures=1)
        await top_up(customer.account_id, 1)
        await office.shown(customer, webhook, consecutive_failures=2)
        office.receiver.status = 200
        await top_up(customer.account_id, 1)
        await office.shown(customer, webhook, consecutive_failures=0, is_active=True)


@pytest.mark.spec("3/disable-at-20", "3/re-enable")
async def test_nothing_is_sent_to_a_disabled_endpoint(opened: Any) -> None:
    async with opened("") as office:
        customer = await office.house.customer()
        webhook = await office.register(customer, "credit.topup.succeeded")
        witness = await office.house.customer()
        await office.register(witness, "credit.topup.succeeded")
        top_up = office.house.wiring.operate.top_up
        office.receiver.status = 500
        for _ in range(20):
            await top_up(customer.account_id, 1)
        await office.shown(customer, webhook, is_active=False)
        await office.next(20)
        office.receiver.status = 200
        await top_up(customer.account_id, 777)
        await top_up(witness.account_id, 888)
        [seen] = await office.next()
        assert json.loads(seen.body)["data"]["transaction"]["amount"] == 888
        await customer.patch(f"/webhooks/{webhook['id']}", {"is_active": True})
        [held] = await office.next()
        assert json.loads(held.body)["data"]["transaction"]["amount"] == 777


@pytest.mark.spec("4.3/1")
async def test_the_address_is_vetted_again_before_a_delivery(opened: Any) -> None:
    async with opened("") as office:
        customer = await office.house.customer()
        webhook = await office.register(customer, "meeting.created", host="rebind.test")
        office.names.known["rebind.test"] = "10.0.0.1"
        await customer.make_meeting()
        await office.shown(customer, webhook, consecutive_failures=1)
        [attempt] = await office.house.query(
            "SELECT status_code, error, address FROM delivery_attempts WHERE account_id = %s",
            customer.account_id,
        )
        assert attempt["status_code"] is None
        assert attempt["error"]
        assert office.receiver.received == []
