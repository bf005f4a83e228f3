"""One meeting, and creating and cancelling one by hand with the price shown first."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.web.calendar_files import MEDIA_TYPE, CalendarEvent, calendar_file
from meetcore.adapters.web.formats import format_clock, format_count, format_instant
from meetcore.adapters.web.forms import FORM, apply, apply_again, back_to, explain, explain_all, send_file
from meetcore.adapters.web.pages.credits import buy_hint
from meetcore.adapters.web.pages.meeting_lists import ROOT, meeting_state
from meetcore.adapters.web.pages.notes import ROOT as NOTES
from meetcore.adapters.web.pages.notes import note_state, player_of
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Page, Question, Visit, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.meetings import cancellation, hosts, schedule
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingRequest,
    MeetingStatus,
    shown_host_key,
    shown_status,
)
from meetcore.domain.members.roles import Action
from meetcore.domain.money.pricing import PricingTier, Quote, started_minutes
from meetcore.domain.notes.notes import Language, blocks_new_note, is_in_progress
from meetcore.domain.notes.recordings import is_gone
from meetcore.domain.records.pages import MeetingDetails
from meetcore.usecases.notes.note_charges import NoteRequest

_OPEN: Final = (MeetingStatus.SCHEDULED, MeetingStatus.STARTED)
_MADE: Final = "meeting_created"
_TO_CANCEL: Final = "cancel"
_TO_END: Final = "end"
_FILES_WITHIN: Final = timedelta(hours=1)
"""How long after a meeting its page waits for a recording and notes that have not come."""
OPTIONS: Final[Mapping[str, str]] = {
    "with_recording": _("Record the meeting"),
    "auto_notulen": _("Write notes in Indonesian when the recording is ready; this turns the recording on"),
    "must_login": _("Only those who log in at the provider may join"),
    "mic_off": _("Participants join with the microphone off"),
    "email_notification": _("The provider mails the host"),
}


@Page("GET", f"{ROOT}/new", Action.MANAGE_MEETINGS)
async def ask_for_meeting(visit: Visit) -> Response:
    return _form(visit, {"date": schedule.cap_day(visit.now).isoformat(), "start_time": "", "title": ""}, {})


@Page("POST", ROOT, Action.MANAGE_MEETINGS)
async def create_meeting(visit: Visit) -> Response:
    """Show the price of a meeting, or create it once the price was shown."""
    form, use, who = visit.form, visit.use.by_hand, visit.signed_in
    try:
        options = MeetingOptions(**{name: name in form for name in OPTIONS})
        texts = {name: form.get(name, "") for name in ("title", "date", "start_time", "pricing_tier_id")}
        # A line break is one character, as the field counts it, though browsers send two.
        description = form.get("description", "").replace("\r\n", "\n") or None
        password = form.get("password") or None
        wanted = MeetingRequest(**texts, description=description, password=password, options=options)
        errors = _problems(visit, wanted)
        if "seen_credits" not in form and errors:
            return _form(visit, form, errors)
        quote = use.quote_meeting(who, wanted.pricing_tier_id, options)
        if form.get("seen_credits") != str(quote.credits):
            return _form(visit, form, errors, quote=None if errors else quote)
    except DomainError as refusal:
        return _form(visit, form, explain(visit.look, refusal))
    record, refused, again = await apply_again(visit, lambda sent: use.create_meeting(who, wanted, sent))
    return (
        _form(visit, again, errors or refused, needed=quote.credits)
        if refused
        else see_other(f"{ROOT}/{record['id']}?done={_MADE}")
    )


def _problems(visit: Visit, wanted: MeetingRequest) -> dict[str, str]:
    """Return the errors of all fields of a meeting, in the order of the form."""
    refusals = visit.use.by_hand.check_meeting(visit.signed_in, wanted, visit.now)
    found = explain_all(visit.look, [each for each in refusals if "alphabet" not in each.details])
    rule = visit.use.by_hand.api.estimate.abilities.password
    if rule and any("alphabet" in each.details for each in refusals):
        found["password"] = visit.text(
            "Write %(least)s to %(most)s characters of these: %(alphabet)s",
            least=rule.min_length,
            most=rule.max_length,
            alphabet=rule.alphabet,
        )
    order = ("title", "date", "start_time", "description", *OPTIONS, "password")
    return {
        name: found[name]
        for name in sorted(found, key=lambda name: order.index(name) if name in order else -1)
    }


@Page("GET", f"{ROOT}/{{id}}.ics", Action.VIEW_MEETINGS)
async def download_event(visit: Visit) -> Response:
    """Send a meeting as a file for calendars; without its link to operators, and once it is over."""
    found = await visit.use.reads.find_meeting(visit.signed_in, visit.path_id("meeting"))
    meeting = found.meeting
    event = CalendarEvent(
        meeting.id,
        meeting.title,
        meeting.start_at,
        meeting.end_at,
        _invitation(visit, meeting) or meeting.description or "",
        _join_url(visit, meeting) or "",
        shown_status(meeting, visit.now) is MeetingStatus.CANCELLED,
    )
    return send_file(calendar_file(event, visit.now), f"meeting-{meeting.id}.ics", MEDIA_TYPE)


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_MEETINGS)
async def show_meeting(visit: Visit) -> Response:
    """Show a meeting with its link, money, recording and notes."""
    return await _show(visit, {})


async def _ask_to_cancel(visit: Visit) -> Question | None:
    """Ask about a meeting that can still be cancelled or ended; the use case refuses any other."""
    found = await visit.use.reads.find_meeting(visit.signed_in, visit.path_id("meeting"))
    meeting, now = found.meeting, visit.now
    if shown_status(meeting, now) not in _OPEN:
        return None
    if not cancellation.is_refundable(meeting, now):
        return Question(
            visit.text("End the meeting now?"),
            visit.text("The meeting is in progress: it ends for all participants, and no credits come back."),
            visit.text("End the meeting"),
            _TO_END,
        )
    credits = format_count(meeting.credits, visit.look.language)
    return Question(
        visit.text("Cancel the meeting?"),
        visit.look.plural(
            "%(title)s is removed at the provider, its join link stops working, and %(credits)s credit "
            "comes back. A cancelled meeting cannot be restored.",
            "%(title)s is removed at the provider, its join link stops working, and %(credits)s credits "
            "come back. A cancelled meeting cannot be restored.",
            meeting.credits,
            title=meeting.title,
            credits=credits,
        ),
        visit.text("Cancel the meeting"),
        _TO_CANCEL,
    )


@Page("POST", f"{ROOT}/{{id}}/cancel", Action.MANAGE_MEETINGS, ask=_ask_to_cancel)
async def cancel_meeting(visit: Visit) -> Response:
    """Cancel a meeting, or end one that runs."""
    use, who, meeting_id = visit.use.by_hand, visit.signed_in, visit.path_id("meeting")
    record, errors = await apply(visit, lambda sent: use.cancel_meeting(who, meeting_id, sent))
    if errors:
        return await _show(visit, errors)
    return see_other(f"{ROOT}/{meeting_id}?done=meeting_{record['status']}")


@Page("POST", f"{ROOT}/{{id}}/notes", Action.MANAGE_NOTES)
async def have_notes_written(visit: Visit) -> Response:
    """Have notes written of a recording, in the language of the button."""
    meeting_id, language = visit.path_id("meeting"), visit.form.get("language", "")
    if language not in set(Language):
        return await _show(visit, {FORM: visit.text("The form cannot be read. Load it again.")})
    wanted = NoteRequest(visit.form.get("recording_id", ""), Language(language))
    record, errors = await apply(
        visit, lambda sent: visit.use.by_hand.create_note(visit.signed_in, meeting_id, wanted, sent)
    )
    return await _show(visit, errors) if errors else see_other(f"{NOTES}/{record['id']}")


@frozen
class _NoteOffer:
    """A recording of which notes can be written, in these languages, each at this price."""

    recording_id: UUID
    languages: Sequence[Language]
    credits: int


def _note_offers(visit: Visit, found: MeetingDetails) -> list[_NoteOffer]:
    """Return what can be written of the recordings of a meeting, by those who may."""
    if not visit.may(Action.MANAGE_NOTES) or visit.is_view:
        return []
    there = {(each.recording_id, each.language) for each in found.notes if blocks_new_note(each)}
    return [
        _NoteOffer(
            each.id,
            languages,
            visit.use.by_hand.api.estimate.notulen(started_minutes(each.duration_s)).credits,
        )
        for each in found.recordings
        if each.duration_s
        and not is_gone(each, visit.now)
        and (languages := [one for one in Language if (each.id, one) not in there])
    ]


async def _show(visit: Visit, errors: Mapping[str, str]) -> Response:
    found = await visit.use.reads.find_meeting(visit.signed_in, visit.path_id("meeting"))
    meeting, now = found.meeting, visit.now
    status = shown_status(meeting, now)
    is_open, refresh_s = status in _OPEN, _refresh_s(found, now)
    return visit.form_page(
        "meeting.html",
        errors,
        **({"notice": ""} if status is MeetingStatus.ENDED and visit.query("done") == _MADE else {}),
        coming=_coming(visit, found) if refresh_s and status is MeetingStatus.ENDED else "",
        is_recording_missing=status is MeetingStatus.ENDED and _is_recording_missing(found),
        is_for_calendars=status is not MeetingStatus.ENDED,
        back=back_to(visit, ROOT),
        meeting=meeting,
        state=meeting_state(visit, meeting),
        tier=_tier_name(visit, meeting.pricing_tier_id),
        join_url=_join_url(visit, meeting),
        invitation=_invitation(visit, meeting),
        made_by=found.made_by,
        password=meeting.password if is_open and not visit.is_view else None,
        host_key=None if visit.is_view else shown_host_key(meeting, now),
        refresh_s=refresh_s,
        recordings=found.recordings,
        notes=found.notes,
        sessions=found.sessions,
        players=[player_of(visit, each) for each in found.recordings],
        note_offers=_note_offers(visit, found),
        note_states=[note_state(visit, each) for each in found.notes],
        can_cancel=is_open and visit.may(Action.MANAGE_MEETINGS),
        is_refundable=is_open and cancellation.is_refundable(meeting, now),
        form_key=visit.new_form_key(),
    )


def _refresh_s(found: MeetingDetails, now: datetime) -> int:
    """Return after how many seconds the page is renewed; 0 where nothing of the meeting is under way."""
    status = shown_status(found.meeting, now)
    if status in _OPEN:
        return 15
    over_at = max((each.ended_at for each in found.sessions if each.ended_at), default=found.meeting.end_at)
    is_awaited = _is_recording_missing(found) or (found.meeting.options.auto_notulen and not found.notes)
    is_soon = status is MeetingStatus.ENDED and is_awaited and now < over_at + _FILES_WITHIN
    return 5 if is_soon or any(is_in_progress(each) for each in found.notes) else 0


def _is_recording_missing(found: MeetingDetails) -> bool:
    return found.meeting.options.with_recording and not found.recordings


def _coming(visit: Visit, found: MeetingDetails) -> str:
    """Say what an ended meeting waits for; empty where its notes show it."""
    if not _is_recording_missing(found):
        return "" if found.notes else visit.text("The notes are being prepared.")
    if found.meeting.options.auto_notulen:
        return visit.text("The recording is being prepared; the notes are written after it.")
    return visit.text("The recording is being prepared.")


def _join_url(visit: Visit, meeting: Meeting) -> str | None:
    """Return the link of a meeting that can be joined; `None` for operators, who do not see it."""
    is_open = shown_status(meeting, visit.now) in _OPEN
    return meeting.join_url if is_open and not visit.is_view else None


def _invitation(visit: Visit, meeting: Meeting) -> str:
    """Write the invitation to a meeting that can be joined; empty for any other."""
    url, language = _join_url(visit, meeting), visit.look.language
    if url is None:
        return ""
    ends = format_clock(meeting.end_at, language)
    lines = [
        meeting.title,
        f"{format_instant(meeting.start_at, language).removesuffix(' WIB')}\N{EN DASH}{ends} WIB (UTC+7)",
        *(["", meeting.description] if meeting.description else []),
        "",
        visit.text("Join: %(url)s", url=url),
        *([visit.text("Password: %(password)s", password=meeting.password)] if meeting.password else []),
    ]
    return "\n".join(lines)


def _form(
    visit: Visit, values: Mapping[str, str], errors: Mapping[str, str], *, quote: Quote | None = None,
    needed: int | None = None,
) -> Response:  # fmt: skip
    """Show the form; `needed` are the credits of a meeting without a quote, else those of the cheapest."""
    tiers = visit.use.by_hand.api.catalogue.on_sale()
    available = visit.signed_in.account.balance - visit.signed_in.account.held
    if needed is None:
        needed = min((tier.credits for tier in tiers), default=0) if quote is None else quote.credits
    tier_id = values.get("pricing_tier_id", tiers[0].id if tiers else "")
    too_few = visit.text("There are too few credits for this meeting.")
    return visit.form_page(
        "new_meeting.html",
        errors,
        values=values,
        quote=quote,
        available=available,
        earliest=visit.now.replace(second=0, microsecond=0) + timedelta(minutes=1),
        notes_credits=visit.use.by_hand.api.estimate.notulen(1).credits,
        recording_prices=sorted({tier.recording_credits for tier in tiers}),
        short=buy_hint(visit, too_few) if available < needed else None,
        tiers=[_tier_row(visit, tier) for tier in tiers],
        tier_id=tier_id,
        tier_name=_tier_name(visit, tier_id),
        options=[(name, visit.text(label)) for name, label in OPTIONS.items()],
        form_key=values.get("form_key") or visit.new_form_key(),
        max_password=hosts.MAX_PASSWORD_LENGTH,
    )


def _tier_row(visit: Visit, tier: PricingTier) -> tuple[str, str, str, int, int]:
    """Describe a tier for the form: id, name, seats and minutes, credits without and with a recording."""
    text = visit.text(
        "%(seats)s participants, %(minutes)s minutes",
        seats=format_count(tier.capacity, visit.look.language),
        minutes=format_count(tier.max_duration, visit.look.language),
    )
    return tier.id, tier.name, text, tier.credits, tier.credits + tier.recording_credits


def _tier_name(visit: Visit, tier_id: str) -> str:
    """Return the name of a tier, on sale or not; the id of an unknown one."""
    tier = visit.use.by_hand.api.catalogue.tiers.get(tier_id)
    return tier_id if tier is None else tier.name
