"""The lifecycle of a meeting, as one table, and the plan of a new one.

A meeting in PROVISIONING is invisible; one in CANCELLING is still shown as scheduled. STARTED means that a
session of it runs (`sessions`), SCHEDULED that none does. Beside the events the clock moves what is shown: a
meeting counts as started once `start_at` has passed and as ended once `end_at` has.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import DomainError, InvalidRequest, Unprocessable, refusal_of
from meetcore.domain.fields import FieldInfo
from meetcore.domain.machine import find_step, step
from meetcore.domain.meetings import hosts, schedule
from meetcore.domain.money.pricing import PricingTier, Quote, RecordingFlags, TierCatalogue, quote_meeting
from meetcore.domain.texts import TextLimits

_CANNOT_BE_HAD: Final = "cannot be had from the provider that runs the meetings"


class MeetingStatus(StrEnum):
    """The state of a meeting."""

    PROVISIONING = "provisioning"
    SCHEDULED = "scheduled"
    CANCELLING = "cancelling"
    STARTED = "started"
    ENDED = "ended"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"


class MeetingEvent(StrEnum):
    """An event of a meeting."""

    PROVISIONED = "provisioned"
    ABANDON = "abandon"
    CANCEL = "cancel"
    CANCEL_FAILED = "cancel_failed"
    CANCELLED = "cancelled"
    START = "start"
    LEAVE = "leave"
    END = "end"


TRANSITIONS: Final = {
    (MeetingStatus.PROVISIONING, MeetingEvent.PROVISIONED): MeetingStatus.SCHEDULED,
    (MeetingStatus.PROVISIONING, MeetingEvent.ABANDON): MeetingStatus.ABANDONED,
    (MeetingStatus.SCHEDULED, MeetingEvent.CANCEL): MeetingStatus.CANCELLING,
    (MeetingStatus.SCHEDULED, MeetingEvent.START): MeetingStatus.STARTED,
    (MeetingStatus.SCHEDULED, MeetingEvent.END): MeetingStatus.ENDED,
    (MeetingStatus.CANCELLING, MeetingEvent.CANCEL_FAILED): MeetingStatus.SCHEDULED,
    (MeetingStatus.CANCELLING, MeetingEvent.CANCELLED): MeetingStatus.CANCELLED,
    (MeetingStatus.CANCELLING, MeetingEvent.END): MeetingStatus.ENDED,
    (MeetingStatus.STARTED, MeetingEvent.LEAVE): MeetingStatus.SCHEDULED,
    (MeetingStatus.STARTED, MeetingEvent.CANCEL): MeetingStatus.CANCELLING,
    (MeetingStatus.STARTED, MeetingEvent.END): MeetingStatus.ENDED,
}

VISIBLE: Final = frozenset(MeetingStatus) - {MeetingStatus.PROVISIONING, MeetingStatus.ABANDONED}
"""The states in which a customer can see a meeting."""

OPEN: Final = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.CANCELLING, MeetingStatus.STARTED})
"""The states of a meeting that can still take place, as far as is known."""

TITLE: Final = TextLimits(200, min_length=1)
DESCRIPTION: Final = TextLimits(1000, has_lines=True)


HOST_KEY_SHOWN_BEFORE: Final = timedelta(minutes=15)
"""How long before its start a meeting shows the key of its host."""

_CLOCKS_DIFFER_BY: Final = timedelta(minutes=1)


@frozen
class ProviderAbilities:
    """The abilities of a provider. It turns off what it lacks: recordings, capacity, logins, muting, mail and
    hosts are True by default, and so is `remembers_meetings`.

    `password` is `None` without passwords. `has_capacity`: a meeting takes the seats of its tier, else it has
    no limit that is known. `has_hosts`: each meeting needs a licensed host; `creations_per_host_day` is its
    limit between midnights in UTC, `host_key_digits` the length of its key, `None` without either.
    `remembers_meetings`: it knows which meetings exist; `lists_meetings`: it lists those of a host, with our
    reference. `leaves_orphans`: one request may make two meetings, or make one after it was given up.
    """

    name: str
    password: hosts.PasswordRule | None
    has_recording: bool = True
    has_capacity: bool = True
    has_login: bool = True
    has_mute: bool = True
    has_notification: bool = True
    has_hosts: bool = True
    creations_per_host_day: int | None = None
    host_key_digits: int | None = None
    remembers_meetings: bool = True
    leaves_orphans: bool = False
    lists_meetings: bool = False


@frozen
class MeetingOptions:
    """The flags of a meeting (rule 4.1/flags). With its tier they decide its price."""

    with_recording: Annotated[
        bool, FieldInfo("Record the meeting; auto_notulen forces it on. False when absent.")
    ] = False
    auto_notulen: Annotated[
        bool, FieldInfo("Write notes when the recording is ready. False when absent.")
    ] = False
    must_login: Annotated[
        bool, FieldInfo("Only those who log in at the provider may join. False when absent.")
    ] = False
    mic_off: Annotated[bool, FieldInfo("Participants join with the microphone off. False when absent.")] = (
        False
    )
    email_notification: Annotated[bool, FieldInfo("The provider mails the host. False when absent.")] = False


@frozen
class MeetingRequest:
    """A requested meeting as it was sent; `plan_meeting` checks it."""

    title: str
    date: str
    start_time: str
    pricing_tier_id: str
    description: str | None = None
    password: str | None = field(default=None, repr=False)
    options: MeetingOptions = MeetingOptions()


@frozen
class MeetingPlan:
    """The decisions before anything is reserved."""

    request: MeetingRequest
    tier: PricingTier
    quote: Quote
    start_at: datetime
    end_at: datetime

    @property
    def options(self) -> MeetingOptions:
        """The requested flags, coerced by the quote (rules 2.1/with_recording and 4.1/1)."""
        return evolve(self.request.options, with_recording=self.quote.with_recording)


@frozen
class Provisioned:
    """The provider's answer. `None` where it cannot state or enforce a value."""

    provider_meeting_id: str
    join_url: str = field(repr=False)
    password: str | None = field(default=None, repr=False)


@frozen
class Meeting:
    """A meeting as it is stored. Durations are minutes, `credits` the price and the charge, of which
    `recording_credits` are for its recording.

    `host_id` is `None` with a provider without hosts. `host_key` is the host's present key where this meeting
    is the next on its host; `shown_host_key` decides whether to show it.
    """

    id: UUID
    account_id: UUID
    api_key_id: UUID
    status: MeetingStatus
    title: str
    description: str | None
    start_at: datetime
    end_at: datetime
    duration: int
    capacity: int | None
    pricing_tier_id: str
    credits: int
    options: MeetingOptions
    host_id: UUID | None
    provider: str
    created_at: datetime
    password: str | None = field(default=None, repr=False)
    host_key: str | None = field(default=None, repr=False)
    join_url: str | None = field(default=None, repr=False)
    provider_meeting_id: str | None = None
    charge_id: UUID | None = None
    credits_refunded: int | None = None
    recording_credits: int = 0


@frozen
class MeetingCreated:
    """A meeting was made at the provider and paid for."""

    meeting: Meeting


@frozen
class MeetingEnded:
    """A meeting has ended."""

    meeting: Meeting


def mark_scheduled(meeting: Meeting, made: Provisioned, charge_id: UUID) -> tuple[Meeting, MeetingCreated]:
    """Schedule a meeting that the provider has made and that is paid for, or raise IllegalStep."""
    scheduled = evolve(
        meeting,
        status=step(TRANSITIONS, meeting.status, MeetingEvent.PROVISIONED),
        provider_meeting_id=made.provider_meeting_id,
        join_url=made.join_url,
        password=made.password,
        charge_id=charge_id,
    )
    return scheduled, MeetingCreated(scheduled)


def end(meeting: Meeting) -> tuple[Meeting, MeetingEnded] | None:
    """End a meeting, by its customer or by the clock; `None` where the table has no such step.

    `None`, too, for a meeting that is being cancelled: its cancellation asks the provider.
    """
    status = find_step(TRANSITIONS, meeting.status, MeetingEvent.END)
    if meeting.status is MeetingStatus.CANCELLING or status is None:
        return None
    ended = evolve(meeting, status=status)
    return ended, MeetingEnded(ended)


def plan_meeting(
    request: MeetingRequest, catalogue: TierCatalogue, abilities: ProviderAbilities, now: datetime
) -> MeetingPlan:
    """Decide the tier, the price and the time range of a request.

    Raises:
        InvalidRequest: the title or the description breaks its limits, or the date or time does not exist.
        NotFound: the tier is unknown or retired.
        Unprocessable: the start is past or too far ahead, or the provider cannot do what is requested.
    """
    for refusal in meeting_refusals(request, catalogue, abilities, now):
        raise refusal
    start_at = schedule.meeting_start(request.date, request.start_time)
    tier = catalogue.find(request.pricing_tier_id)
    quote = _quote(tier, request.options, abilities)
    return MeetingPlan(request, tier, quote, start_at, start_at + timedelta(minutes=tier.max_duration))


def meeting_refusals(
    request: MeetingRequest, catalogue: TierCatalogue, abilities: ProviderAbilities, now: datetime
) -> Sequence[DomainError]:
    """Return every refusal of a request; `plan_meeting` raises the first one."""
    checks: Sequence[Callable[[], object]] = (
        lambda: _check_fields(request),
        lambda: catalogue.find(request.pricing_tier_id),
        lambda: _check_start(request, now),
        lambda: _check_abilities(request.options, abilities),
        lambda: _check_password(request.password, abilities),
    )
    return [refusal for check in checks if (refusal := refusal_of(check)) is not None]


def _check_start(request: MeetingRequest, now: datetime) -> None:
    """Check a start that exists; `_check_fields` names the others."""
    if not schedule.start_problems(request.date, request.start_time):
        schedule.check_start(schedule.meeting_start(request.date, request.start_time), now)


def estimate_meeting(
    tier_id: str, options: MeetingOptions, catalogue: TierCatalogue, abilities: ProviderAbilities
) -> Quote:
    """Price a meeting before it is requested, as `plan_meeting` would at any time (rule 4.1/5).

    Raises:
        NotFound: the tier is unknown or retired.
        Unprocessable: the provider cannot do what is requested.
    """
    return _quote(catalogue.find(tier_id), options, abilities)


def _quote(tier: PricingTier, options: MeetingOptions, abilities: ProviderAbilities) -> Quote:
    _check_abilities(options, abilities)
    return quote_meeting(tier, RecordingFlags(options.with_recording, options.auto_notulen))


OPTION_ABILITIES: Final = (
    (("with_recording", "auto_notulen"), "has_recording",
     "records no meetings: send neither with_recording nor auto_notulen"),
    (("must_login",), "has_login", "has no logins: leave must_login out"),
    (("mic_off",), "has_mute", "cannot mute participants: leave mic_off out"),
    (("email_notification",), "has_notification", "sends no mail: leave email_notification out"),
)  # fmt: skip
"""Options, the ability of a provider that they need, and the problem where it is lacking."""


def _check_abilities(options: MeetingOptions, abilities: ProviderAbilities) -> None:
    lacking = [
        (problem, [name for name in names if getattr(options, name)])
        for names, ability, problem in OPTION_ABILITIES
        if not getattr(abilities, ability) and any(getattr(options, name) for name in names)
    ]
    if lacking:
        raise Unprocessable(
            f"The provider {abilities.name} {'; it '.join(problem for problem, _ in lacking)}.",
            {"fields": {name: [_CANNOT_BE_HAD] for _, names in lacking for name in names}},
        )


def _check_fields(request: MeetingRequest) -> None:
    problems = schedule.start_problems(request.date, request.start_time)
    if found := TITLE.problems(request.title):
        problems["title"] = found
    if request.description and (found := DESCRIPTION.problems(request.description)):
        problems["description"] = found
    if problems:
        raise InvalidRequest(problems)


def _check_password(password: str | None, abilities: ProviderAbilities) -> None:
    if password is None:
        return
    rule = abilities.password
    if rule is None:
        raise Unprocessable(
            f"The provider {abilities.name} takes no password: leave it out.",
            {"fields": {"password": [_CANNOT_BE_HAD]}},
        )
    if not rule.min_length <= len(password) <= rule.max_length or set(password) - set(rule.alphabet):
        raise Unprocessable(
            f"A password has {rule.min_length} to {rule.max_length} characters of: {rule.alphabet}",
            {"alphabet": rule.alphabet},
        )


def has_host_key_due(meeting: Meeting, now: datetime) -> bool:
    """Return whether its host's key is, or was, to be shown: from 15 minutes before its start."""
    return now >= meeting.start_at - HOST_KEY_SHOWN_BEFORE


def can_have_shown_host_key(meeting: Meeting, now: datetime) -> bool:
    """Return whether its host's key may have been shown, by a clock up to a minute ahead of this one."""
    return has_host_key_due(meeting, now + _CLOCKS_DIFFER_BY)


def shown_host_key(meeting: Meeting, now: datetime) -> str | None:
    """Return the host's key as a customer sees it: near the meeting only, until it is over."""
    is_near = has_host_key_due(meeting, now) and shown_status(meeting, now) in OPEN
    return meeting.host_key if is_near else None


def shown_status(meeting: Meeting, now: datetime) -> MeetingStatus:
    """Return the status as a customer sees it: the recorded or the clock's, whichever is later."""
    status = meeting.status
    if status is MeetingStatus.CANCELLING:
        status = MeetingStatus.SCHEDULED
    if status is MeetingStatus.SCHEDULED and now >= meeting.start_at:
        status = MeetingStatus.STARTED
    if status is MeetingStatus.STARTED and now >= meeting.end_at:
        status = MeetingStatus.ENDED
    return status
