"""Meetings: the list, one meeting, and creating and cancelling one by hand with the price shown first."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.web.filters import PAGE_SIZE, read_before, read_days
from meetcore.adapters.web.formats import format_count
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.pages.notes import note_state, player_of
from meetcore.adapters.web.problems import explain
from meetcore.adapters.web.texts import MEETING_STATES, _
from meetcore.adapters.web.visit import AreaVisit, Visit, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.cancellation import can_cancel
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingRequest,
    MeetingStatus,
    shown_host_key,
    shown_status,
)
from meetcore.domain.meetings.passwords import MAX_PASSWORD_LENGTH
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.meetings.title_search import search_words
from meetcore.domain.members.roles import Action
from meetcore.domain.money.pricing import PricingTier, Quote
from meetcore.ports.queries import MeetingFilter

ROOT: Final = "/dashboard/meetings"
OPTIONS: Final[Mapping[str, str]] = {
    "with_recording": _("Record the meeting"),
    "auto_notulen": _("Write notes when the recording is ready; this turns the recording on"),
    "must_login": _("Only those who log in at the provider may join"),
    "mic_off": _("Participants join with the microphone off"),
    "email_notification": _("The provider mails the host"),
}


@frozen
class _Row:
    """A meeting in a list; `state` is the text and the kind of its mark, `credits` the price less refunds."""

    id: UUID
    title: str
    start_at: object
    state: tuple[str, str]
    credits: int


@Page("GET", ROOT, Action.VIEW_MEETINGS)
async def list_meetings(visit: Visit) -> Response:
    """A page of meetings with filters."""
    days, text = read_days(visit), visit.query("status")
    status = MeetingStatus(text) if text in [each.value for each in MEETING_STATES] else None
    search = visit.query("search").strip()
    words = search_words(search)
    wanted = MeetingFilter(visit.now, status, days.begins_at, days.ends_at, words)
    found = await visit.use.reads.list_meetings(visit.signed_in, wanted, PAGE_SIZE + 1, read_before(visit))
    shown = found[:PAGE_SIZE]
    return visit.page(
        "meetings.html",
        meetings=meeting_rows(visit, shown),
        older=_older(visit, shown[-1].id) if len(found) > PAGE_SIZE else "",
        errors=days.errors,
        chosen={"from": visit.query("from"), "to": visit.query("to"), "status": text, "search": search},
        statuses=[
            ("", visit.text(_("all"))),
            *((each.value, visit.text(label)) for each, (label, _kind) in MEETING_STATES.items()),
        ],
    )


@Page("GET", f"{ROOT}/new", Action.MANAGE_MEETINGS)
async def ask_for_meeting(visit: Visit) -> Response:
    """The form of a new meeting."""
    return _form(visit, {"date": cap_day(visit.now).isoformat(), "start_time": "", "title": ""}, {})


@Page("POST", ROOT, Action.MANAGE_MEETINGS)
async def create_meeting(visit: Visit) -> Response:
    """Show the price of a meeting, or make it once its price was seen."""
    form = visit.form
    try:
        options = MeetingOptions(**{name: name in form for name in OPTIONS})
        texts = {name: form.get(name, "") for name in ("title", "date", "start_time", "pricing_tier_id")}
        description, password = form.get("description") or None, form.get("password") or None
        wanted = MeetingRequest(**texts, description=description, password=password, options=options)
        quote = visit.use.by_hand.quote_meeting(visit.signed_in, wanted.pricing_tier_id, options)
        if form.get("seen_credits") != str(quote.credits):
            visit.use.by_hand.check_meeting(visit.signed_in, wanted, visit.now)
            return _form(visit, form, {}, quote=quote)
        outcome = await visit.use.by_hand.create_meeting(visit.signed_in, wanted, visit.sent_form())
    except DomainError as refusal:
        return _form(visit, form, explain(visit.look, refusal), status=422)
    if outcome.refusal is not None:
        return _form(visit, form, explain(visit.look, outcome.refusal), status=422)
    assert outcome.record is not None
    return see_other(f"{ROOT}/{outcome.record['id']}?done=meeting_created")


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_MEETINGS)
async def show_meeting(visit: Visit) -> Response:
    """One meeting with its link, its money, its recording and its notes."""
    return await _show(visit, {})


@Page("POST", f"{ROOT}/{{id}}/cancel", Action.MANAGE_MEETINGS)
async def cancel_meeting(visit: Visit) -> Response:
    """Cancel a meeting, or end one that runs."""
    meeting_id = parse_id(visit.request.path_params["id"], "meeting")
    try:
        outcome = await visit.use.by_hand.cancel_meeting(visit.signed_in, meeting_id, visit.sent_form())
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    if outcome.refusal is not None:
        return await _show(visit, explain(visit.look, outcome.refusal))
    return see_other(f"{ROOT}/{meeting_id}?done=meeting_cancelled")


async def _show(visit: Visit, errors: Mapping[str, str]) -> Response:
    meeting_id = parse_id(visit.request.path_params["id"], "meeting")
    found = await visit.use.reads.find_meeting(visit.signed_in, meeting_id)
    meeting, now = found.meeting, visit.now
    status = shown_status(meeting, now)
    is_open = status in (MeetingStatus.SCHEDULED, MeetingStatus.STARTED)
    return visit.page(
        "meeting.html",
        422 if errors else 200,
        errors=errors,
        meeting=meeting,
        state=_state(visit, meeting),
        tier=_tier_name(visit, meeting.pricing_tier_id),
        join_url=meeting.join_url if is_open and not visit.is_view else None,
        password=meeting.password if is_open and not visit.is_view else None,
        host_key=None if visit.is_view else shown_host_key(meeting, now),
        recordings=found.recordings,
        notes=found.notes,
        players=[player_of(visit, each) for each in found.recordings],
        note_states=[note_state(visit, each) for each in found.notes],
        can_cancel=is_open and visit.may(Action.MANAGE_MEETINGS),
        refund=meeting.credits if is_open and can_cancel(meeting, now) else 0,
        form_key=visit.new_form_key(),
    )


def meeting_rows(visit: AreaVisit[Any, Any, Any], meetings: Sequence[Meeting]) -> list[_Row]:
    """Meetings as rows of `meeting_rows.html`."""
    return [
        _Row(
            each.id,
            each.title,
            each.start_at,
            _state(visit, each),
            each.credits - (each.credits_refunded or 0),
        )
        for each in meetings
    ]


def _state(visit: AreaVisit[Any, Any, Any], meeting: Meeting) -> tuple[str, str]:
    label, kind = MEETING_STATES[shown_status(meeting, visit.now)]
    return visit.text(label), kind


def _form(
    visit: Visit, values: Mapping[str, str], errors: Mapping[str, str], *, quote: Quote | None = None,
    status: int = 200,
) -> Response:  # fmt: skip
    tiers = visit.use.by_hand.api.catalogue.on_sale()
    return visit.page(
        "new_meeting.html",
        status,
        values=values,
        errors=errors,
        quote=quote,
        available=visit.signed_in.account.balance - visit.signed_in.account.held,
        tiers=[_tier_row(visit, tier) for tier in tiers],
        options=[(name, visit.text(label)) for name, label in OPTIONS.items()],
        form_key=values.get("form_key") or visit.new_form_key(),
        max_password=MAX_PASSWORD_LENGTH,
    )


def _tier_row(visit: Visit, tier: PricingTier) -> tuple[str, str, str, int]:
    """A tier of the form: its id, its name, what it holds, and its credits."""
    text = visit.text(
        _("%(seats)s participants, %(minutes)s minutes"),
        seats=format_count(tier.capacity, visit.look.language),
        minutes=format_count(tier.max_duration, visit.look.language),
    )
    return tier.id, tier.name, text, tier.credits


def _tier_name(visit: Visit, tier_id: str) -> str:
    """The name of a tier, also of one that is sold no more; its id where there is none of that id."""
    tier = visit.use.by_hand.api.catalogue.tiers.get(tier_id)
    return tier_id if tier is None else tier.name


def _older(visit: Visit, last: UUID) -> str:
    kept = {name: visit.query(name) for name in ("search", "status", "from", "to")}
    return f"{ROOT}?" + urlencode({name: text for name, text in kept.items() if text} | {"before": str(last)})
