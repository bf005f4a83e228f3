"""The checks of `meetcore doctor` as a process runs them for the console's page of health."""

import asyncio
from collections.abc import Sequence

from meetcore.adapters.settings import Settings
from meetcore.ports.health import CheckHealth, HealthCheck, HealthStatus

DEADLINE_S = 4.0
"""Seconds that a check may take: a page waits for it."""
_INBOX = HealthCheck("mail", HealthStatus.OK, "mails go to the inbox of this process, and to nobody else")


def health_checks(settings: Settings, *, has_inbox: bool) -> CheckHealth:
    """Return the checks of a process.

    Args:
        settings: of the process.
        has_inbox: mails go to an inbox of the process and to no server, as `meetcore dev` has it.
    """

    async def check() -> Sequence[HealthCheck]:
        # Imported where it is asked for: a process that shows no page of health needs none of it.
        from meetcore.composition.doctor.run import run_checks

        found = await asyncio.to_thread(run_checks, settings, DEADLINE_S)
        return [
            _INBOX
            if name == _INBOX.name and has_inbox
            else HealthCheck(name, HealthStatus(each.status.value), each.message)
            for name, each in found.items()
        ]

    return check
