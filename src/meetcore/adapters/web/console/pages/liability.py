"""The liability report: what is owed to all customers, and what was moved by month, as a page and as CSV."""

import csv
import io
from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.visit import HEADERS
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members.roles import OperatorAction

ROOT: Final = "/console/liability"
_COLUMNS: Final = ("month", "sold", "charged", "refunded", "adjusted", "owed_at_end", "entries")


@ConsolePage("GET", ROOT, OperatorAction.VIEW_LIABILITY)
async def show_liability(visit: ConsoleVisit) -> Response:
    """The balances now, and every month."""
    report = await visit.use.liability.report(visit.signed_in)
    return visit.page("console/liability.html", report=report)


@ConsolePage("GET", f"{ROOT}.csv", OperatorAction.VIEW_LIABILITY)
async def download_liability(visit: ConsoleVisit) -> Response:
    """Every month as CSV (RFC 4180), the newest first."""
    report = await visit.use.liability.report(visit.signed_in)
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(_COLUMNS)
    for each in report.months:
        month = f"{each.month:%Y-%m}"
        moved = (each.sold, each.charged, each.refunded, each.adjusted)
        rows.writerow((month, *moved, each.owed, each.entries))
    name = f"liability-{cap_day(visit.now)}.csv"
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(out.getvalue(), 200, headers, "text/csv; charset=utf-8")
