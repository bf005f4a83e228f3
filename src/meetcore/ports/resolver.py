"""Names to addresses, as the webhook rules need it.

Owns the one question; whether an address may be sent to is `meetcore.domain.addresses`' business.
"""

from typing import Protocol

from meetcore.domain.addresses import Address

__all__ = ["Resolver"]


class Resolver(Protocol):
    """Looks a host name up."""

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """Give every address the name has now, without doubles, never none.

        Args:
            host: an A-label name. An address literal is not a name: ask `WebhookUrl.address` first.

        Raises:
            HostUnresolved: no answer within 3 s, no such name, or no address.
        """
        ...
