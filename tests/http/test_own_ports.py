"""`Service(ports=…)`: a program sells meetings through ports that it makes by itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.jitsi import JitsiProvider
from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.composition.application import Part
from meetcore.composition.infrastructure import open_application
from meetcore.composition.plugins import OwnPorts
from meetcore.domain.meetings.meetings import ProviderAbilities
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.payments import (
    Checkout,
    CheckoutOrder,
    GatewayRecord,
    GatewayRefused,
    Notification,
    NotificationInvalid,
)
from meetcore.ports.video_provider import ProviderWebhook, SignatureInvalid
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, client_of, started
from tests.support.fakes import FakeMailer


class Rooms(JitsiProvider):
    """A provider of the program's own."""

    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, name="rooms")


class OneCounter:
    """Rate counters that remember the classes of requests."""

    def __init__(self) -> None:
        self.hits: list[OperationClass] = []

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        self.hits.append(operation_class)
        return len(self.hits)


def parse(body: bytes, headers: Mapping[str, str], now: datetime) -> ProviderWebhook:
    if headers.get("x-rooms") != "signed":
        raise SignatureInvalid
    return ProviderWebhook(
        ProviderEvent("rooms", ProviderEventKind.MEETING_CLOSED, json.loads(body)["room"], now)
    )


class Till:
    """A gateway of the program's own, of which only the name is asked."""

    name = "till"

    async def open_checkout(self, order: CheckoutOrder) -> Checkout:
        raise GatewayRefused

    async def find(self, payment: Payment) -> GatewayRecord | None:
        raise GatewayRefused

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        raise GatewayRefused


def parse_notification(body: bytes, headers: Mapping[str, str], now: datetime) -> Notification | None:
    if headers.get("x-till") != "signed":
        raise NotificationInvalid
    return None


@pytest.fixture
def counter() -> OneCounter:
    return OneCounter()


@pytest.fixture
def own(counter: OneCounter) -> OwnPorts:
    provider = Rooms("https://rooms.example", bytes(32))
    return OwnPorts(provider=provider, webhook_parser=parse, counters=counter)


@pytest.fixture
async def own_customer(
    own: OwnPorts, customer: Customer, contract: Contract, service_settings: Settings
) -> AsyncIterator[Customer]:
    """A customer of a service with these ports, which names Zoom without its credentials."""
    settings = evolve(service_settings, provider="zoom")
    service = Service(settings, customer.harness.network, ports=own)
    async with started(service), client_of(service, contract) as http:
        yield customer.at(http)


async def test_a_meeting_is_sold_through_the_programs_own_provider(
    own_customer: Customer, counter: OneCounter, harness: ApiHarness
) -> None:
    meeting = await own_customer.make_meeting()
    assert meeting["join_url"].startswith("https://rooms.example/")
    assert counter.hits == [OperationClass.CREDIT]
    (row,) = await harness.query("SELECT provider FROM meetings WHERE id = %s", UUID(meeting["id"]))
    assert row["provider"] == "rooms"


async def test_its_webhooks_are_taken_under_its_name(own_customer: Customer) -> None:
    body = json.dumps({"room": "a"})
    path = f"{BASE_URL}/provider-events"
    signed = {"x-rooms": "signed"}
    assert (await own_customer.http.post(f"{path}/rooms", content=body, headers=signed)).status_code == 204
    assert (await own_customer.http.post(f"{path}/rooms", content=body)).status_code == 401
    assert (await own_customer.http.post(f"{path}/zoom", content=body, headers=signed)).status_code == 404


async def test_notifications_of_its_gateway_are_taken_under_its_name(
    customer: Customer, contract: Contract, service_settings: Settings
) -> None:
    own = OwnPorts(gateway=Till(), notification_parser=parse_notification)
    service = Service(service_settings, customer.harness.network, ports=own)
    async with started(service), client_of(service, contract) as http:
        path = f"{BASE_URL}/payment-events"
        assert (await http.post(f"{path}/till", content=b"{}", headers={"x-till": "signed"})).is_success
        assert (await http.post(f"{path}/till", content=b"{}")).status_code == 401
        assert (await http.post(f"{path}/sandbox", content=b"{}")).status_code == 404


async def test_ports_of_a_workers_parts_are_taken_too(
    service_settings: Settings, harness: ApiHarness
) -> None:
    mailer, writer = FakeMailer(), LocalNoteWriter()
    own = OwnPorts(mailer=mailer, note_writer=writer)
    async with open_application(
        service_settings, harness.network, [Part.WEBHOOKS, Part.NOTES], own=own
    ) as application:
        ports = application.ports
        assert application.policy.sends_mails
        assert ports.mails is not None
        assert ports.mails.mailer is mailer
        assert ports.notes is not None
        assert ports.notes.note_writer is writer
