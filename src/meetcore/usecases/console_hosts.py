"""Hosts as operators see and change them."""

import asyncio
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.ports.console_queries import ConsoleQueries, HostBooking
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.administration import Administration

MAX_BOOKINGS = 2000
"""Meetings of a week that are shown."""


@frozen
class HostWeek:
    """Hosts, and what occupies them in the seven days from a Monday on (WIB)."""

    monday: date
    hosts: Sequence[Host]
    bookings: Sequence[HostBooking]

    def of(self, host: Host, day: date) -> Sequence[HostBooking]:
        """What occupies a host on a day, by its start."""
        begins_at = datetime(day.year, day.month, day.day, tzinfo=WIB)
        ends_at = begins_at + timedelta(days=1)
        return [
            each
            for each in self.bookings
            if each.host_id == host.id and each.starts_at < ends_at and each.ends_at > begins_at
        ]


@frozen
class ConsoleHosts:
    """The use cases of hosts. Each raises `ActionNotAllowed` where the role does not allow it."""

    administration: Administration
    queries: ConsoleQueries

    async def week(self, who: SignedInOperator, day: date) -> HostWeek:
        """Every host, the smallest first, with what occupies it in the week (WIB) of a day."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_HOSTS)
        monday = day - timedelta(days=day.weekday())
        begins_at = datetime(monday.year, monday.month, monday.day, tzinfo=WIB)
        hosts, bookings = await asyncio.gather(
            self.administration.registry.list_hosts(),
            self.queries.list_bookings(begins_at, begins_at + timedelta(days=7), MAX_BOOKINGS),
        )
        return HostWeek(monday, hosts, bookings)

    async def enable(self, who: SignedInOperator, client_address: str | None, host_id: UUID) -> None:
        """Give a host meetings again; see `Administration.enable_host`."""
        check_operator_allowed(who.operator.role, OperatorAction.MANAGE_HOSTS)
        await self.administration.acting_as(who.origin(client_address)).hosts.enable(host_id)

    async def disable(self, who: SignedInOperator, client_address: str | None, host_id: UUID) -> None:
        """Give a host no new meetings; see `Administration.disable_host`."""
        check_operator_allowed(who.operator.role, OperatorAction.MANAGE_HOSTS)
        await self.administration.acting_as(who.origin(client_address)).hosts.disable(host_id)
