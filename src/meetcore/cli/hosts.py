"""`meetcore host`: licensed hosts at the video provider."""

from uuid import UUID

from cyclopts import App

from meetcore.cli import output, runner
from meetcore.cli.inputs import Json, Whole, check_counts, check_texts
from meetcore.composition.application import Application
from meetcore.domain.fields import shown_fields
from meetcore.domain.meetings.hosts import MAX_CONCURRENT, Host

MAX_SEATS = 1_000_000

host = App(name="host", help="Licensed hosts at the video provider.")


@host.command(name="add")
def add_host(
    *, provider_user_id: str, capacity: Whole, max_concurrent: Whole = 1, json: Json = False
) -> None:
    """Add a licensed host.

    Parameters
    ----------
    provider_user_id:
        The user at the video provider.
    capacity:
        How many seats its licence has.
    max_concurrent:
        How many meetings it may run at a time, at most 100.
    """
    check_texts(provider_user_id=provider_user_id)
    check_counts(1, MAX_SEATS, capacity=capacity)
    check_counts(1, MAX_CONCURRENT, max_concurrent=max_concurrent)

    runner.show_change(
        "host add",
        lambda app: app.administration.hosts.add(provider_user_id, capacity, max_concurrent),
        _record,
        as_json=json,
    )


@host.command(name="list")
def list_hosts(*, json: Json = False) -> None:
    """List hosts, smallest first."""
    runner.show_list(lambda app: app.administration.registry.list_hosts(), _record, as_json=json)


def _record(host_: Host) -> output.Record:
    return shown_fields(
        host_, "id", "provider_user_id", "capacity", "max_concurrent", "uses", "is_active", "creations",
        "creations_on", "unavailable_until",
    )  # fmt: skip


async def _find(application: Application, host_id: UUID) -> Host | None:
    hosts = await application.administration.registry.list_hosts()
    return next((each for each in hosts if each.id == host_id), None)


runner.add_change(
    host, "host disable", "Give a host no new meetings; those it has stay.",
    "the host", lambda app, id_: app.administration.hosts.disable(id_), _record, find=_find,
)  # fmt: skip
runner.add_change(
    host, "host enable", "Give a host meetings again.",
    "the host", lambda app, id_: app.administration.hosts.enable(id_), _record, find=_find,
)  # fmt: skip
