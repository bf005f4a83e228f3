"""The records of meetings (spec 2.1)."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from attrs import field, frozen

from meetcore.domain.fields import DURATION_UNIT, Credits, FieldInfo, Id, Utc, record_of
from meetcore.domain.meetings import meetings, schedule


class MeetingState(StrEnum):
    """How a meeting stands. It counts as started when the provider says so or its start has passed."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    ENDED = "ended"
    CANCELLED = "cancelled"


_State = Annotated[str, FieldInfo(known_values=MeetingState)]


@frozen(kw_only=True)
class Meeting:
    """A meeting at the video provider. What the provider does not know is null."""

    id: Id
    title: str
    status: _State
    start_at: Utc
    start_at_wib: Annotated[datetime, FieldInfo("The same instant at +07:00.")]
    end_at: Annotated[datetime | None, FieldInfo("The start plus the tier's maximum duration, in UTC.")] = (
        None
    )
    duration: Annotated[int | None, FieldInfo("Whole minutes.")] = None
    duration_unit: Annotated[str | None, FieldInfo("`minutes`.")] = None
    capacity: Annotated[int | None, FieldInfo("How many participants fit: the tier's seats.")] = None
    join_url: Annotated[str | None, FieldInfo("To be shared with the participants.")] = field(
        default=None, repr=False
    )
    password: Annotated[str | None, FieldInfo("What participants are asked for.")] = field(
        default=None, repr=False
    )
    host_key: Annotated[
        str | None, FieldInfo("Makes a participant the host; from 15 minutes before the start.")
    ] = field(default=None, repr=False)
    provider_meeting_id: Annotated[str | None, FieldInfo("Its id at the video provider.")] = None
    auto_notulen: bool
    created_at: Utc
    with_recording: Annotated[bool, FieldInfo("The effective value: `auto_notulen` forces it on.")]
    credits_deducted: Annotated[int | None, FieldInfo("Whole credits.")] = None


@frozen
class Cancellation:
    """What became of a meeting, and the credits that were returned (rule 3/cancel-shape)."""

    id: Id
    status: _State
    credits_refunded: Credits


def meeting_record(meeting: meetings.Meeting, now: datetime) -> Meeting:
    """Return the 17 fields of spec 2.1 in order (rule 2.1/fields)."""
    return _record(meeting, now, password=meeting.password, host_key=meetings.shown_host_key(meeting, now))


def meeting_event_record(meeting: meetings.Meeting, now: datetime) -> Meeting:
    """Return the meeting as events contain it: `password` and `host_key` are null.

    A receiver needs no more than `webhooks:write`; these secrets are read with a meeting scope.
    """
    return _record(meeting, now, password=None, host_key=None)


def _record(
    meeting: meetings.Meeting, now: datetime, *, password: str | None, host_key: str | None
) -> Meeting:
    return record_of(
        Meeting,
        meeting,
        status=meetings.shown_status(meeting, now).value,
        start_at_wib=meeting.start_at.astimezone(schedule.WIB).replace(microsecond=0),
        duration_unit=DURATION_UNIT,
        password=password,
        host_key=host_key,
        auto_notulen=meeting.options.auto_notulen,
        with_recording=meeting.options.with_recording,
        credits_deducted=meeting.credits,
    )


def cancellation_record(meeting: meetings.Meeting, now: datetime) -> Cancellation:
    """Return the result of cancelling: the state of the meeting, and the credits returned."""
    return record_of(
        Cancellation,
        meeting,
        status=meetings.shown_status(meeting, now).value,
        credits_refunded=meeting.credits_refunded or 0,
    )
