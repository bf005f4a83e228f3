"""Names to addresses, as the webhook rules need it.

Owns the one question; whether an address may be sent to is `meetcore.domain.webhooks.addresses`' business.
"""

from typing import Protocol
from uuid import UUID

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address

__all__ = ["LookupsBusy", "Resolver"]


class LookupsBusy(HostUnresolved):
    """The name was not looked up: too many look-ups are under way for the account or the domain.

    Nothing is known about the name.
    """


class Resolver(Protocol):
    """Looks a host name up."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Give every address the name has now, without doubles, never none.

        Args:
            host: an A-label name. An address literal is not a name: ask `WebhookUrl.address` first.
            account_id: the account it is looked up for. Names that hang take the room of their own account
                and of their own domain only.

        Raises:
            LookupsBusy: no room came free in time.
            HostUnresolved: no answer within 3 s, no such name, or no address.
        """
