"""The ledger with its running balance, as a page and as CSV."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.api.streams import PacedResponse
from meetcore.adapters.web import forms
from meetcore.adapters.web.texts import BY_HAND, TRANSFER_KINDS, _
from meetcore.adapters.web.visit import Page, Visit
from meetcore.domain.meetings.schedule import wib_text
from meetcore.domain.members.roles import Action
from meetcore.domain.money import ledger, views
from meetcore.domain.money.transfers import Reference
from meetcore.domain.payments.payments import payment_in
from meetcore.domain.records.pages import DescribedEntry, KeyName

_PAGES: Final[Mapping[str, tuple[str, str, Action]]] = {
    "meeting": ("/dashboard/meetings/{id}", _("Meeting"), Action.VIEW_MEETINGS),
    "note": ("/dashboard/notes/{id}", _("Notes"), Action.VIEW_NOTES),
    "payment": ("/dashboard/credits/{id}", _("Payment"), Action.VIEW_LEDGER),
}
"""By the type of an entry's reference: its page, a name where it has no title, and the action of the page."""

_FILTERS: Final = ("from", "to", "kind", "key")
_COLUMNS: Final = (
    "number",
    "time",
    "kind",
    "credits",
    "balance_after",
    "reference_type",
    "reference_id",
    "api_key_id",
    "title",
    "api_key_name",
    "member",
)


@frozen
class _Row:
    """An entry as the page shows it; `path` leads to its reference, if that has a page for the role."""

    entry: ledger.Entry
    kind: str
    about: str
    payer: str
    path: str


@Page("GET", "/dashboard/ledger", Action.VIEW_LEDGER)
async def show_ledger(visit: Visit) -> Response:
    days = forms.read_days(visit)
    kind = forms.read_choice(visit, "kind", ledger.TransferKind, days.errors)
    wanted = views.TransactionFilter(kind, days.begins_at, days.ends_at)
    # One more than the page shows; with a key, as far as the search reached.
    found = await visit.use.reads.list_entries(
        visit.signed_in, wanted, forms.PAGE_SIZE + 1, _read_before(visit), forms.read_key(visit)
    )
    shown = found.entries[: forms.PAGE_SIZE]
    further = shown[-1].number if len(found.entries) > forms.PAGE_SIZE else found.reached
    described = await visit.use.reads.describe_entries(visit.signed_in, shown)
    return visit.page(
        "ledger.html",
        balance=visit.signed_in.account.balance,
        held=visit.signed_in.account.held,
        rows=[_row(visit, each) for each in described.entries],
        older="" if further is None else forms.older(visit, further, *_FILTERS, path="/dashboard/ledger"),
        is_far=further is not None and len(found.entries) <= forms.PAGE_SIZE,
        by_key=bool(visit.query("key")),
        keys=[("any", visit.text("all")), *((str(key.id), key_label(key)) for key in described.keys)],
        errors=days.errors,
        chosen={name: visit.query(name) for name in _FILTERS},
        kinds=visit.choices((each.value, text) for each, text in TRANSFER_KINDS.items()),
    )


@Page("GET", "/dashboard/ledger.csv", Action.VIEW_LEDGER)
async def download_ledger(visit: Visit) -> Response:
    """Stream every entry of a range as CSV (RFC 4180)."""
    days = forms.read_days(visit)
    kind = forms.read_choice(visit, "kind", ledger.TransferKind, days.errors)
    if days.errors:
        return await _show_problem(visit)
    wanted = views.TransactionFilter(kind, days.begins_at, days.ends_at)
    headers = forms.attachment(_file_name(days))
    pages = await visit.use.reads.file_of_entries(
        visit.signed_in, visit.client_address, wanted, forms.read_key(visit)
    )
    return PacedResponse(_csv(pages), headers, "text/csv; charset=utf-8")


async def _show_problem(visit: Visit) -> Response:
    assert show_ledger.handle is not None
    response = await show_ledger.handle(visit)
    response.status_code = 422  # a script must not keep the page as its file
    return response


async def _csv(pages: AsyncGenerator[Sequence[DescribedEntry], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pages):
        yield forms.CSV_MARK + forms.csv_lines([_COLUMNS])
        async for page in pages:
            yield forms.csv_lines(map(_values, page))


def _values(described: DescribedEntry) -> tuple[object, ...]:
    entry = described.entry
    transfer = entry.transfer
    key_id = transfer.api_key_id
    return (
        entry.number, wib_text(entry.at), transfer.kind.value, entry.amount, entry.balance_after,
        transfer.reference.type, _harmless(transfer.reference.id),
        "" if key_id in (None, entry.account_id) else key_id,
        *(_harmless(text or "") for text in (described.title, described.key_name, described.member)),
    )  # fmt: skip


def _harmless(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _file_name(days: forms.DayRange) -> str:
    parts = [str(day) for day in (days.first, days.last) if day is not None]
    return "-".join(["ledger", *parts]) + ".csv"


def _row(visit: Visit, described: DescribedEntry) -> _Row:
    transfer = described.entry.transfer
    reference = _subject(transfer.reference)
    page, path = _PAGES.get(reference.type), ""
    if page is not None and visit.may(page[2]):
        path = page[0].format(id=reference.id)
    kind = visit.text(TRANSFER_KINDS[transfer.kind])
    return _Row(described.entry, kind, about(visit, described), payer(visit, described), path)


def _subject(reference: Reference) -> Reference:
    """Return the payment of a top-up that a payment made; any other reference unchanged."""
    payment_id = payment_in(reference.id) if reference.type == "topup" else None
    return reference if payment_id is None else Reference("payment", str(payment_id))


def about(visit: Visit, described: DescribedEntry) -> str:
    """Return the title of the meeting that an entry is for, else the kind of record, else its reference."""
    entry, reference = described.entry, _subject(described.entry.transfer.reference)
    if (page := _PAGES.get(reference.type)) is not None:
        return described.title or visit.text(page[1])
    is_opening = reference.id == f"opening-{entry.account_id}"
    return visit.text("Opening balance") if is_opening else reference.id


def payer(visit: Visit, described: DescribedEntry) -> str:
    """Return the name of the key that caused an entry, or the member who did by hand; empty for neither."""
    if described.entry.transfer.api_key_id != described.entry.account_id:
        return described.key_name or ""
    return described.member or visit.text(BY_HAND)


def key_label(key: KeyName) -> str:
    """Return the name of a key with the end of its text."""
    return f"{key.name} …{key.last_four or ''}"


def _read_before(visit: Visit) -> int | None:
    text = visit.query("before")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
