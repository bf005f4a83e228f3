"""The ledger: entries with their running balance, as a page and as CSV."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlencode

from attrs import frozen
from starlette.responses import Response, StreamingResponse

from meetcore.adapters.web.filters import PAGE_SIZE, DayRange, read_days
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import TRANSFER_KINDS, _
from meetcore.adapters.web.visit import HEADERS, Visit
from meetcore.domain.meetings.schedule import wib_text
from meetcore.domain.members.roles import Action
from meetcore.domain.money.ledger import Entry, TransferKind
from meetcore.ports.queries import TransactionFilter

_PATHS: Final = {"meeting": "/dashboard/meetings/{id}", "note": "/dashboard/notes/{id}"}
_COLUMNS: Final = (
    "number",
    "time",
    "kind",
    "credits",
    "balance_after",
    "reference_type",
    "reference_id",
    "api_key_id",
)


@frozen
class _Row:
    """An entry as the page shows it; `path` leads to what it is about, if that has a page."""

    entry: Entry
    kind: str
    about: str
    path: str


@Page("GET", "/dashboard/ledger", Action.VIEW_LEDGER)
async def show_ledger(visit: Visit) -> Response:
    """A page of entries with filters."""
    days, kind = read_days(visit), _read_kind(visit)
    wanted = TransactionFilter(kind, days.begins_at, days.ends_at)
    found = await visit.use.reads.list_entries(visit.signed_in, wanted, PAGE_SIZE + 1, _read_before(visit))
    shown = found[:PAGE_SIZE]
    return visit.page(
        "ledger.html",
        balance=visit.signed_in.account.balance,
        held=visit.signed_in.account.held,
        rows=[_row(visit, entry) for entry in shown],
        older=_older(visit, shown[-1].number) if len(found) > PAGE_SIZE else "",
        errors=days.errors,
        chosen={"from": visit.query("from"), "to": visit.query("to"), "kind": visit.query("kind")},
        kinds=[
            ("", visit.text(_("all"))),
            *((each.value, visit.text(text)) for each, text in TRANSFER_KINDS.items()),
        ],
    )


@Page("GET", "/dashboard/ledger.csv", Action.VIEW_LEDGER)
async def download_ledger(visit: Visit) -> Response:
    """Every entry of a range as CSV (RFC 4180), streamed."""
    days = read_days(visit)
    if days.errors:
        return await _show_problem(visit)
    wanted = TransactionFilter(_read_kind(visit), days.begins_at, days.ends_at)
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{_file_name(days)}"'}
    return StreamingResponse(_csv(visit, wanted), headers=headers, media_type="text/csv; charset=utf-8")


async def _show_problem(visit: Visit) -> Response:
    assert show_ledger.handle is not None
    return await show_ledger.handle(visit)


async def _csv(visit: Visit, wanted: TransactionFilter) -> AsyncIterator[bytes]:
    yield _line(_COLUMNS)
    async for page in visit.use.reads.all_entries(visit.signed_in, wanted):
        yield b"".join(_line(_values(entry)) for entry in page)


def _line(values: object) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(values)  # type: ignore[arg-type]  # any iterable
    return out.getvalue().encode()


def _values(entry: Entry) -> tuple[object, ...]:
    transfer = entry.transfer
    key_id = transfer.api_key_id
    return (
        entry.number, wib_text(entry.at), transfer.kind.value, entry.amount, entry.balance_after,
        transfer.reference.type, _harmless(transfer.reference.id),
        "" if key_id in (None, entry.account_id) else key_id,
    )  # fmt: skip


def _harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _file_name(days: DayRange) -> str:
    parts = [str(day) for day in (days.first, days.last) if day is not None]
    return "-".join(["ledger", *parts]) + ".csv"


def _row(visit: Visit, entry: Entry) -> _Row:
    transfer = entry.transfer
    kind, reference = visit.text(TRANSFER_KINDS[transfer.kind]), transfer.reference
    path = _PATHS.get(reference.type, "").format(id=reference.id)
    return _Row(entry, kind, kind if path else reference.id, path)


def _read_kind(visit: Visit) -> TransferKind | None:
    text = visit.query("kind")
    return TransferKind(text) if text in set(TransferKind) else None


def _read_before(visit: Visit) -> int | None:
    text = visit.query("before")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _older(visit: Visit, number: int) -> str:
    kept = {name: visit.query(name) for name in ("from", "to", "kind")}
    return "/dashboard/ledger?" + urlencode(
        {name: text for name, text in kept.items() if text} | {"before": number}
    )
