"""Licensed hosts: the list, and which of them get new meetings."""

from datetime import date, timedelta
from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.visit import see_other
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members.roles import OperatorAction
from meetcore.usecases.console_hosts import MAX_BOOKINGS

ROOT: Final = "/console/hosts"


@ConsolePage("GET", ROOT, OperatorAction.VIEW_HOSTS)
async def list_hosts(visit: ConsoleVisit) -> Response:
    """Every host with its week, the smallest first."""
    week = await visit.use.hosts.week(visit.signed_in, _read_day(visit))
    days = [week.monday + timedelta(days=number) for number in range(7)]
    return visit.page(
        "console/hosts.html",
        hosts=[(host, [(day, week.of(host, day)) for day in days]) for host in week.hosts],
        days=days,
        today=cap_day(visit.now),
        earlier=f"{ROOT}?week={week.monday - timedelta(days=7)}",
        later=f"{ROOT}?week={week.monday + timedelta(days=7)}",
        is_cut=len(week.bookings) == MAX_BOOKINGS,
    )


def _read_day(visit: ConsoleVisit) -> date:
    """The day whose week is asked for; today where it is none of the next or last years."""
    today = cap_day(visit.now)
    try:
        day = date.fromisoformat(visit.query("week"))
    except ValueError:
        return today
    return day if abs(day - today) < timedelta(days=1000) else today


@ConsolePage("POST", f"{ROOT}/{{id}}/enable", OperatorAction.MANAGE_HOSTS)
async def enable_host(visit: ConsoleVisit) -> Response:
    """Give a host meetings again."""
    host_id = parse_id(visit.request.path_params["id"], "host")
    await visit.use.hosts.enable(visit.signed_in, visit.client_address, host_id)
    return see_other(f"{ROOT}?done=host_enabled")


@ConsolePage("POST", f"{ROOT}/{{id}}/disable", OperatorAction.MANAGE_HOSTS)
async def disable_host(visit: ConsoleVisit) -> Response:
    """Give a host no new meetings."""
    host_id = parse_id(visit.request.path_params["id"], "host")
    await visit.use.hosts.disable(visit.signed_in, visit.client_address, host_id)
    return see_other(f"{ROOT}?done=host_disabled")
