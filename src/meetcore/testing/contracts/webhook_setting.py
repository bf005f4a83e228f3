"""The surroundings of a webhook sender under test: what it is made with, whom it asks, what it posts."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType
from typing import TypeAlias
from uuid import UUID

from attrs import define, evolve, frozen

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address, Network
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.resolver import Resolver
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender
from meetcore.testing.receiver import Authority, Behaviour, receiving

__all__ = [
    "ACCOUNT",
    "HOST",
    "LOCAL",
    "LOOPBACK",
    "NOW",
    "SOON_S",
    "HangingResolver",
    "MakeSender",
    "SenderSetting",
    "StaticResolver",
    "a_post",
    "attempt_at",
    "sender_to",
]

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


def sender_to(authority: Authority, port: int) -> SenderSetting:
    """A sender that finds every name on this machine and may dial it."""
    return SenderSetting(authority.ca_file, StaticResolver((LOCAL,)), port)


async def attempt_at(
    make_sender: MakeSender, authority: Authority, behaviour: Behaviour, timeout_s: float = 5.0
) -> Attempt:
    """What a new sender makes of one post to a receiver that behaves so; `timeout_s` is in seconds."""
    async with (
        receiving(authority.certified(HOST), behaviour) as receiver,
        make_sender(evolve(sender_to(authority, receiver.port), timeout_s=timeout_s)) as sender,
    ):
        return await sender.post(a_post())
