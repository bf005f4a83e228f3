"""The ledger: entries with their running balance, as a page and as CSV."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from attrs import frozen
from starlette.responses import Response, StreamingResponse

from meetcore.adapters.web.filters import PAGE_SIZE, DayRange, read_days
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import TRANSFER_KINDS, _
from meetcore.adapters.web.visit import HEADERS, Visit
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import wib_text
from meetcore.domain.members.roles import Action
from meetcore.domain.money.ledger import Entry, TransferKind
from meetcore.ports.queries import EntriesOfKey, TransactionFilter

_PAGES: Final = {
    "meeting": ("/dashboard/meetings/{id}", _("Meeting")),
    "note": ("/dashboard/notes/{id}", _("Notes")),
}
"""The page of what an entry is for, and what it is, by the type of the reference."""

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
    days, by_key = read_days(visit), bool(visit.query("key"))
    found = await _find(visit, TransactionFilter(_read_kind(visit), days.begins_at, days.ends_at))
    shown = found.entries[:PAGE_SIZE]
    further = shown[-1].number if len(found.entries) > PAGE_SIZE else found.reached
    # A page makes three trips at most: with the keys it leaves out the statements.
    use = visit.use
    keys = await use.keys.list_use(visit.signed_in) if by_key else []
    months = [] if by_key else await use.statements.list_months(visit.signed_in, visit.now)
    return visit.page(
        "ledger.html",
        balance=visit.signed_in.account.balance,
        held=visit.signed_in.account.held,
        rows=[_row(visit, entry) for entry in shown],
        older=_older(visit, further) if further is not None else "",
        is_far=further is not None and len(found.entries) <= PAGE_SIZE,
        by_key=by_key,
        keys=[
            ("any", visit.text(_("all"))),
            *((str(each.key.id), f"{each.key.name} …{each.key.last_four or ''}") for each in keys),
        ],
        errors=days.errors,
        chosen={
            "from": visit.query("from"),
            "to": visit.query("to"),
            "kind": visit.query("kind"),
            "key": visit.query("key"),
        },
        months=months,
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


async def _find(visit: Visit, wanted: TransactionFilter) -> EntriesOfKey:
    """A page of entries, one more than is shown; of one key as far as they are looked at."""
    reads, before, key_id = visit.use.reads, _read_before(visit), _read_key(visit)
    if key_id is None:
        return EntriesOfKey(await reads.list_entries(visit.signed_in, wanted, PAGE_SIZE + 1, before))
    return await reads.list_entries_of_key(visit.signed_in, key_id, wanted, PAGE_SIZE + 1, before)


def _read_key(visit: Visit) -> UUID | None:
    try:
        return parse_id(visit.query("key"), "key")
    except NotFound:
        return None


async def _show_problem(visit: Visit) -> Response:
    assert show_ledger.handle is not None
    return await show_ledger.handle(visit)


async def _csv(visit: Visit, wanted: TransactionFilter) -> AsyncIterator[bytes]:
    yield _line(_COLUMNS)
    reads, who, key_id = visit.use.reads, visit.signed_in, _read_key(visit)
    pages = (
        reads.all_entries(who, wanted) if key_id is None else reads.all_entries_of_key(who, key_id, wanted)
    )
    async for page in pages:
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
    if (paths := _PAGES.get(reference.type)) is not None:
        path, about = paths
        return _Row(entry, kind, visit.text(about), path.format(id=reference.id))
    is_opening = reference.id == f"opening-{entry.account_id}"
    return _Row(entry, kind, visit.text(_("Opening balance")) if is_opening else reference.id, "")


def _read_kind(visit: Visit) -> TransferKind | None:
    text = visit.query("kind")
    return TransferKind(text) if text in set(TransferKind) else None


def _read_before(visit: Visit) -> int | None:
    text = visit.query("before")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _older(visit: Visit, number: int) -> str:
    kept = {name: visit.query(name) for name in ("from", "to", "kind", "key")}
    return "/dashboard/ledger?" + urlencode(
        {name: text for name, text in kept.items() if text} | {"before": number}
    )
