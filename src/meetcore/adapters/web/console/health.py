"""The health of the service, and the prices in force."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.records.pages import QueueName
from meetcore.ports.figures import HealthStatus

STATES: Final[Mapping[HealthStatus, tuple[str, str]]] = {
    HealthStatus.OK: (_("well"), "good"),
    HealthStatus.WARNING: (_("warning"), "warn"),
    HealthStatus.FAILED: (_("failed"), "bad"),
    HealthStatus.SKIPPED: (_("not checked"), ""),
}
QUEUES: Final[Mapping[QueueName, tuple[str, str]]] = {
    QueueName.DELIVERIES: (
        _("Deliveries of webhooks"),
        _("No worker sends them, or it is too slow: start another meetcore worker."),
    ),
    QueueName.MAILS: (
        _("Mails"),
        _("No worker sends them, or the mail server does not take them: see the check of mail."),
    ),
    QueueName.NOTES: (_("Notes"), _("No worker writes them: start meetcore worker with the extra notes.")),
    QueueName.RECORDINGS: (
        _("Recordings to be measured"),
        _("No worker measures them: start meetcore worker with the extra notes."),
    ),
    QueueName.PROVIDER_EVENTS: (
        _("Events of the provider"),
        _("No worker handles them: start meetcore worker."),
    ),
    QueueName.MEETINGS: (
        _("Meetings that a process left"),
        _("No worker takes them over, or the provider does not answer: see the meetings in doubt."),
    ),
    QueueName.REMOVALS: (
        _("Looks for meetings without a record"),
        _("No worker looks, or the provider does not answer: see the check of the provider."),
    ),
}
"""The name of each queue, and the remedy where it is late."""
CHECKS: Final[Mapping[str, str]] = {
    "ai": _("AI provider"),
    "base_url": _("Own address"),
    "broker": _("Broker"),
    "clock": _("Clock"),
    "database": _("Database"),
    "durability": _("Durability"),
    "gateway": _("Payment gateway"),
    "hosts": _("Licensed hosts"),
    "mail": _("Mail server"),
    "meetings": _("Meetings beyond their end"),
    "oidc": _("OpenID provider"),
    "outbound": _("Outgoing connections"),
    "partitions": _("Partitions"),
    "pooler": _("Pooler"),
    "provider": _("Video provider"),
    "rate_store": _("Store of rate limits"),
    "recordings": _("Deleted recordings"),
    "role": _("Role in the database"),
    "schema": _("Schema"),
    "sealed": _("Sealed values"),
    "secrets": _("Secrets key"),
    "settings": _("Settings"),
    "standby": _("Standby for lists"),
    "traces": _("Collector of traces"),
    "writable": _("Writes to the database"),
}
"""The name of each check, by its key in the output of `meetcore doctor`."""
MOST_SHOWN: Final = 1000


@ConsolePage("GET", "/console/health", OperatorAction.VIEW_HEALTH)
async def show_health(visit: ConsoleVisit) -> Response:
    """Show checks, queues and figures of the database."""
    health = await visit.use.health.look(visit.signed_in)
    return visit.page(
        "console/health.html",
        health=health,
        has_warnings=any(check.status is HealthStatus.WARNING for check in health.checks.values()),
        checks=[
            (key, visit.text(CHECKS.get(key, "")), *visit.mark(STATES[check.status]), check.message)
            for key, check in health.checks.items()
        ],
        queues=[
            (each, *map(visit.text, QUEUES[each.queue.name]), _seconds(each.waited)) for each in health.queues
        ],
        clock_ms=round(health.clock_difference / timedelta(milliseconds=1)),
        oldest_s=None if health.oldest_transaction is None else _seconds(health.oldest_transaction),
        most_shown=MOST_SHOWN,
    )


@ConsolePage("GET", "/console/prices", OperatorAction.VIEW_PRICES)
async def show_prices(visit: ConsoleVisit) -> Response:
    catalogue, without_host = await visit.use.prices.list_prices(visit.signed_in)
    return visit.page("console/prices.html", prices=catalogue, without_host=without_host)


def _seconds(length: timedelta) -> int:
    return int(length.total_seconds())
