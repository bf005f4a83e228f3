"""The surroundings of a webhook sender under test: what it is made with, whom it asks, what it posts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from attrs import define, evolve, frozen

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address, Network
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.resolver import Resolver
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender
from meetcore.testing.receiver import Authority, Behaviour, Receiver, receiving

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
HOST = "hooks.test"
ACCOUNT = UUID(int=1)
LOOPBACK = IPv4Network("127.0.0.0/8")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
LOCAL = IPv4Address("127.0.0.1")
SOON_S = 0.4
"""The time limit where running out of time is the point."""


@define
class StaticResolver:
    """Return the configured addresses; count the lookups."""

    addresses: tuple[Address, ...]
    lookups: int = 0

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Give the addresses.

        Raises:
            HostUnresolved: there are none.
        """
        self.lookups += 1
        if not self.addresses:
            raise HostUnresolved(host)
        return self.addresses


@define
class HangingResolver:
    """Never answers."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Wait for ever."""
        return await asyncio.Future()


@frozen
class SenderSetting:
    """What a sender under test must be made with.

    Attributes:
        ca_file: an authority to believe beside those of the system (PEM); None for no other.
        resolver: asked for the addresses of a name.
        port: dialled where a sender in service dials 443, since no test may listen there.
        allowed_networks: exempt from the address rule.
        timeout_s: the limit of an attempt as a whole.
        now: the wall clock; it stands still.
    """

    ca_file: str | None
    resolver: Resolver
    port: int = 9
    allowed_networks: tuple[Network, ...] = (LOOPBACK,)
    timeout_s: float = 5.0
    now: Callable[[], datetime] = lambda: NOW


MakeSender: TypeAlias = Callable[[SenderSetting], AbstractAsyncContextManager[WebhookSender]]


def a_post(
    url: str = f"https://{HOST}/hook?x=1",
    headers: Mapping[str, str] = _NO_HEADERS,
    body: bytes = b'{"id":"1"}',
) -> OutgoingPost:
    """A post to the suite's host."""
    return OutgoingPost(ACCOUNT, parse_webhook_url(url), headers, body)


@frozen
class SenderBench:
    """Senders under test and receivers for them, with certificates of one authority."""

    make_sender: MakeSender
    authority: Authority

    def sender(self, port: int = 9, **changes: Any) -> AbstractAsyncContextManager[WebhookSender]:
        """A sender that finds every name on this machine and may dial it; `changes` are of its setting."""
        setting = SenderSetting(self.authority.ca_file, StaticResolver((LOCAL,)), port)
        return self.make_sender(evolve(setting, **changes))

    @asynccontextmanager
    async def open(
        self, behaviour: Behaviour, *names: str | Address, **changes: Any
    ) -> AsyncIterator[tuple[WebhookSender, Receiver]]:
        """A sender, and a receiver that behaves so with a certificate for these names, or else for `HOST`."""
        async with (
            receiving(self.authority.certified(*(names or (HOST,))), behaviour) as receiver,
            self.sender(receiver.port, **changes) as sender,
        ):
            yield sender, receiver

    async def attempt(self, behaviour: Behaviour, timeout_s: float = 5.0) -> Attempt:
        """Return what a new sender makes of one post to a receiver that behaves so."""
        async with self.open(behaviour, timeout_s=timeout_s) as (sender, _):
            return await sender.post(a_post())
