"""The surroundings of a webhook sender under test: its settings, its resolver, and receivers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from attrs import define, evolve, frozen

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks import deliveries, urls
from meetcore.domain.webhooks.addresses import Address, Network
from meetcore.ports.webhook_sender import OutgoingPost, Resolver, SenderFailed, WebhookSender
from meetcore.testing.receiver import Authority, Behaviour, Receiver, receiving

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
HOST = "hooks.test"
ACCOUNT = UUID(int=1)
LOOPBACK, LOCAL = IPv4Network("127.0.0.0/8"), IPv4Address("127.0.0.1")
SOON_S = 0.4
"""The limit of attempts that are meant to time out."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@define
class StaticResolver:
    """Returns the configured addresses and counts the lookups."""

    addresses: tuple[Address, ...]
    lookups: int = 0

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Return the addresses; raise HostUnresolved where there are none."""
        self.lookups += 1
        if not self.addresses:
            raise HostUnresolved(host)
        return self.addresses


class HangingResolver:
    """Never returns."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Wait for ever."""
        return await asyncio.Future()


@frozen
class SenderSetting:
    """The settings of a sender under test; `now` stands still, `timeout_s` bounds an attempt as a whole.

    `ca_file` is an authority to trust beside those of the system (PEM), `port` replaces 443, on which no test
    may listen, and `allowed_networks` are exempt from the address rule.
    """

    ca_file: str | None
    resolver: Resolver
    port: int = 9
    allowed_networks: tuple[Network, ...] = (LOOPBACK,)
    timeout_s: float = 30.0
    now: Callable[[], datetime] = lambda: NOW


MakeSender: TypeAlias = Callable[[SenderSetting], AbstractAsyncContextManager[WebhookSender]]


def a_post(
    url: str = f"https://{HOST}/hook?x=1",
    headers: Mapping[str, str] = _NO_HEADERS,
    body: bytes = b'{"id":"1"}',
) -> OutgoingPost:
    """Make a post to the suite's host."""
    return OutgoingPost(ACCOUNT, urls.parse_webhook_url(url), headers, body)


@frozen
class SenderBench:
    """Senders under test and receivers for them, with certificates of one authority."""

    make_sender: MakeSender
    authority: Authority

    def sender(self, port: int = 9, **changes: Any) -> AbstractAsyncContextManager[WebhookSender]:
        """Make a sender for which every name is this machine; `changes` are of its settings."""
        setting = SenderSetting(self.authority.ca_file, StaticResolver((LOCAL,)), port)
        return self.make_sender(evolve(setting, **changes))

    @asynccontextmanager
    async def open(
        self, behaviour: Behaviour, *names: str | Address, **changes: Any
    ) -> AsyncIterator[tuple[WebhookSender, Receiver]]:
        """Open a sender and a receiver whose certificate is for these names, or for `HOST`."""
        async with (
            receiving(self.authority.certified(*(names or (HOST,))), behaviour) as receiver,
            self.sender(receiver.port, **changes) as sender,
        ):
            yield sender, receiver

    async def attempt(self, behaviour: Behaviour, timeout_s: float = 30.0) -> deliveries.Attempt:
        """Return the result of one post by a new sender."""
        async with self.open(behaviour, timeout_s=timeout_s) as (sender, _):
            return await sender.post(a_post())

    async def timed_out(self, behaviour: Behaviour) -> tuple[deliveries.Attempt, float]:
        """Return the result of a post that is to time out, and its limit.

        The limit is short, or else longer: on a busy machine the post may not arrive within the short one.
        """
        for timeout_s in (SOON_S, 10 * SOON_S):
            async with self.open(behaviour, timeout_s=timeout_s) as (sender, receiver):
                with suppress(SenderFailed):
                    attempt = await sender.post(a_post())
                    if receiver.heads:
                        return attempt, timeout_s
        raise AssertionError(f"no post arrived within {timeout_s} s")
