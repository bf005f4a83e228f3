"""Forms: filters in the address of a page, refusals of the domain as texts of fields, and files to keep."""

import csv
import io
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from attrs import field, frozen
from starlette.responses import Response

from meetcore.adapters.web.refusals import has_text, translate_refusal
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import HEADERS, AreaVisit, Look, Visit, own_path
from meetcore.domain.errors import CreationsUsedUp, DomainError, HostUnresolved, NoHostFree, NotFound
from meetcore.domain.ids import is_id
from meetcore.domain.meetings.schedule import WIB, cap_day
from meetcore.usecases.members.dashboard import SentForm
from meetcore.usecases.requests.idempotency import Outcome, Refusal

PAGE_SIZE = 25

Item = TypeVar("Item")
Choice = TypeVar("Choice", bound=str)


@frozen
class DayRange:
    """Days from a form, both included; `errors` has the texts of fields that are no day."""

    first: date | None = None
    last: date | None = None
    errors: dict[str, str] = field(factory=dict)

    @property
    def begins_at(self) -> datetime | None:
        """When the first day begins, in WIB."""
        return None if self.first is None else _midnight(self.first)

    @property
    def ends_at(self) -> datetime | None:
        """When the last day is over, in WIB."""
        return None if self.last is None else _midnight(self.last + timedelta(days=1))


def read_days(visit: Visit, first_name: str = "from", last_name: str = "to") -> DayRange:
    """Read two fields of a page's address; one and the same stands for a single day."""
    found: dict[str, date] = {}
    errors: dict[str, str] = {}
    for name in (first_name, last_name):
        if text := visit.query(name):
            try:
                found[name] = date.fromisoformat(text)
            except ValueError:
                errors[name] = visit.text("Write the day as YYYY-MM-DD.")
    first, last = found.get(first_name), found.get(last_name)
    if not errors and (first or date.min) > (last or date.max):
        errors[first_name] = visit.text("The first day lies after the last one.")
    is_in_range = all(day is None or 1970 <= day.year < 9999 for day in (first, last))
    return (
        DayRange(first, last, errors)
        if is_in_range
        else DayRange(errors={first_name: visit.text("There is no such day.")})
    )


def read_choice(visit: Visit, name: str, choices: Iterable[Choice], errors: dict[str, str]) -> Choice | None:
    """Read a field of a page's address that is one of `choices`; add an error for any other text."""
    text = visit.query(name)
    found = next((each for each in choices if each == text), None)
    if text and found is None:
        errors[name] = visit.text("Choose one from the list.")
    return found


def read_week(visit: AreaVisit[Any, Any, Any]) -> date:
    """Return the Monday of the week that the address names, as `2026-W48` or by a day of it.

    Anything else, and a week that is years away, means the present one (WIB).
    """
    today = cap_day(visit.now)
    try:
        day = date.fromisoformat(visit.query("week"))
    except ValueError:
        day = today
    if abs(day - today) >= timedelta(days=1000):
        day = today
    return day - timedelta(days=day.weekday())


def read_id(text: str) -> UUID | None:
    """Read an id in its 36-character form; `None` for any other text."""
    return UUID(text) if is_id(text) else None


def read_before(visit: AreaVisit[Any, Any, Any]) -> UUID | None:
    """Read the id that a list goes on below; anything that is no id means its beginning."""
    return read_id(visit.query("before"))


def read_key(visit: Visit) -> UUID | None:
    """Read the id of a key that a list is of; anything that is no id means every key."""
    return read_id(visit.query("key"))


def first_page(
    visit: AreaVisit[Any, Any, Any],
    found: Sequence[Item],
    id_of: Callable[[Item], UUID],
    *kept: str,
    path: str = "",
) -> tuple[Sequence[Item], str]:
    """Split items, one more than a page shows, into the page and the next one's address with its filters."""
    shown = found[:PAGE_SIZE]
    if len(found) <= PAGE_SIZE:
        return shown, ""
    return shown, older(visit, id_of(shown[-1]), *kept, path=path)


def older(visit: AreaVisit[Any, Any, Any], last: object, *kept: str, path: str = "") -> str:
    """Return the address of the page below an item, with this one's filters, at another `path` if given."""
    filters = {name: visit.query(name) for name in kept}
    return address(path or visit.request.url.path, **filters, before=str(last))


def address(path: str, /, **parameters: str) -> str:
    """Return the address of a page with those of its parameters that are not empty."""
    query = urlencode({name: text for name, text in parameters.items() if text})
    return f"{path}?{query}" if query else path


def back_to(visit: Visit, path: str) -> str:
    """Return the address of a list, with the filters that it had if the visitor comes from it."""
    _before, mark, query = visit.request.headers.get("referer", "").partition(f"{path}?")
    back = f"{path}?{query}"
    return back if mark and own_path(back, path) == back else path


async def apply(
    visit: AreaVisit[Any, Any, Any], change: Callable[[SentForm], Awaitable[Outcome]]
) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Carry out a change by the form of a visit; return its record, and the errors of a refused one."""
    record, errors, _ = await apply_again(visit, change)
    return record, errors


async def apply_again(
    visit: AreaVisit[Any, Any, Any], change: Callable[[SentForm], Awaitable[Outcome]]
) -> tuple[Mapping[str, Any], dict[str, str], Mapping[str, str]]:
    """Carry out a change as `apply` does; return also the fields that a refused form is shown with again.

    They keep its key while work under it may go on. A refusal for good is stored under the key, which refuses
    other values, too: the form gets a new one.
    """
    try:
        outcome = await change(visit.sent_form())
    except (NoHostFree, CreationsUsedUp, HostUnresolved) as refusal:
        errors = explain(visit.look, refusal)
    except DomainError as refusal:
        return {}, explain(visit.look, refusal), visit.form
    else:
        if outcome.refusal is None:
            return outcome.record or {}, {}, visit.form
        errors = explain(visit.look, outcome.refusal)
    return {}, errors, {name: text for name, text in visit.form.items() if name != "form_key"}


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=WIB)


FORM: Final = "form"
"""The name under which a problem stands that belongs to no field."""

_REFUSALS: Final[Mapping[str, str]] = {
    "insufficient_credits": _("Credits needed: %(required)s. Available: %(available)s."),
    "idempotency_key_reused": _("The form was sent before with other values. Load it again."),
    "rate_limited": _("Too many attempts. Wait a minute and try again."),
    "service_unavailable": _(
        "This cannot be done at the moment. Nothing was charged. Choose another time, or try again later."
    ),
    "upstream_error": _("The meeting provider did not answer. Nothing was charged. Try again in a minute."),
}

_FIELDS: Final[Mapping[str, str]] = {
    "date": _("Choose a day that exists."),
    "event_types": _("Choose at least one event."),
    "start_time": _("Choose a time from 00:00 to 23:59."),
    "title": _("Write 1 to 200 characters on one line."),
}
"""The texts of fields that have one way to be wrong on a page; other problems are those of the domain."""

_START: Final = _(
    "Choose a start between now and a year from now, in the time of Jakarta (WIB). "
    "The next full minute is the earliest."
)
"""For a start in the past and for one too far ahead."""


def explain(look: Look, refusal: DomainError | Refusal) -> dict[str, str]:
    """Translate a refusal into texts by the field of the form; raise its `NotFound` as it is."""
    if refusal.code == NotFound.code:
        raise NotFound(refusal.message)
    details: Mapping[str, Any] = refusal.details
    if fields := details.get("fields"):
        return {name: _explain_field(look, name, problems) for name, problems in fields.items()}
    if (text := _REFUSALS.get(refusal.code)) and not has_text(refusal.message):
        return {FORM: look.text(text, **details)}
    if "start_at" in details:
        return {"start_time": look.text(_START)}
    return {FORM: translate_refusal(look.language, refusal.message)}


def _explain_field(look: Look, name: str, problems: Iterable[str]) -> str:
    if name in _FIELDS:
        return look.text(_FIELDS[name])
    return "; ".join(translate_refusal(look.language, each) for each in problems)


def explain_all(look: Look, refusals: Iterable[DomainError | None]) -> dict[str, str]:
    """Translate all refusals that there are into texts by field; the first text of a field counts."""
    found: dict[str, str] = {}
    for refusal in refusals:
        found = ({} if refusal is None else explain(look, refusal)) | found
    return found


CSV_MARK: Final = "\ufeff".encode()
"""Begins a CSV file: without it Excel reads UTF-8 in the code page of the machine."""


def attachment(name: str) -> dict[str, str]:
    """Return the headers of a file to keep, under an ASCII name."""
    return HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}


def send_file(body: bytes, name: str, media_type: str) -> Response:
    """Answer with a file to keep, under an ASCII name."""
    return Response(body, headers=attachment(name), media_type=media_type)


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as lines of CSV (RFC 4180)."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def send_csv(rows: Iterable[Sequence[object]], name: str) -> Response:
    """Answer with rows as a CSV file, the head of the columns first."""
    return send_file(CSV_MARK + csv_lines(rows), name, "text/csv; charset=utf-8")
