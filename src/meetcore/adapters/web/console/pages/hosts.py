"""Licensed hosts: the list, and which of them get new meetings."""

from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.visit import see_other
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import OperatorAction

ROOT: Final = "/console/hosts"


@ConsolePage("GET", ROOT, OperatorAction.VIEW_HOSTS)
async def list_hosts(visit: ConsoleVisit) -> Response:
    """Every host, the smallest first."""
    return visit.page("console/hosts.html", hosts=await visit.use.hosts.list_hosts(visit.signed_in))


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
