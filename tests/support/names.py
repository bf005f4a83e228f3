"""A name server in memory."""

from collections.abc import Mapping
from ipaddress import ip_address
from uuid import UUID

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address


class Names:
    """Addresses by name, separated by spaces; mutable by tests."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.known = dict(known)

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        if host not in self.known:
            raise HostUnresolved(f"The host {host} did not resolve.")
        return tuple(map(ip_address, self.known[host].split()))
