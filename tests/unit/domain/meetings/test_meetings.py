"""A meeting's life: every pair of state and event, what is shown, what is planned."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve, fields
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InvalidRequest, NotFound, Unprocessable
from meetcore.domain.machine import IllegalStep, find_step, step
from meetcore.domain.meetings import hosts
from meetcore.domain.meetings.cancellation import is_refundable
from meetcore.domain.meetings.meetings import (
    OPTION_ABILITIES,
    TRANSITIONS,
    VISIBLE,
    Meeting,
    MeetingCreated,
    MeetingEnded,
    MeetingEvent,
    MeetingOptions,
    MeetingRequest,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
    can_have_shown_host_key,
    end,
    estimate_meeting,
    has_host_key_due,
    mark_scheduled,
    meeting_refusals,
    plan_meeting,
    shown_host_key,
    shown_status,
)
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.money.pricing import PricingTier, TierCatalogue
from meetcore.testing.strategies.meetings import (
    meeting_requests,
    meetings,
    password_rules,
    provider_abilities,
    provisioned,
)
from meetcore.testing.strategies.moments import TICK, clock_times, days, instants, near
from meetcore.testing.strategies.money import catalogues, tiers

PROVISIONING, SCHEDULED, CANCELLING, STARTED, ENDED, CANCELLED, ABANDONED = MeetingStatus
START = datetime(2026, 12, 1, 2, tzinfo=UTC)
END = START + timedelta(hours=1)
BEFORE, DURING, AFTER = START - TICK, START, END
ID = UUID("01930000-0000-7000-8000-000000000001")
MEETING = Meeting(
    id=ID, account_id=ID, api_key_id=ID, status=SCHEDULED, title="Rapat", description=None, start_at=START,
    end_at=END, duration=60, capacity=100, pricing_tier_id="standard-100", credits=10,
    options=MeetingOptions(), host_id=ID,
    provider="sandbox", created_at=START - timedelta(days=1),
)  # fmt: skip

# The whole life, written down a second time: what is not here is illegal.
EXPECTED = {
    PROVISIONING: {MeetingEvent.PROVISIONED: SCHEDULED, MeetingEvent.ABANDON: ABANDONED},
    SCHEDULED: {MeetingEvent.CANCEL: CANCELLING, MeetingEvent.START: STARTED, MeetingEvent.END: ENDED},
    CANCELLING: {
        MeetingEvent.CANCEL_FAILED: SCHEDULED,
        MeetingEvent.CANCELLED: CANCELLED,
        MeetingEvent.END: ENDED,
    },
    STARTED: {MeetingEvent.LEAVE: SCHEDULED, MeetingEvent.CANCEL: CANCELLING, MeetingEvent.END: ENDED},
    ENDED: {},
    CANCELLED: {},
    ABANDONED: {},
}

statuses = st.sampled_from(MeetingStatus)
moments = near(START, END, within=timedelta(days=1))


@pytest.mark.parametrize("event", MeetingEvent)
@pytest.mark.parametrize("status", MeetingStatus)
def test_every_state_and_event_follows_the_table_and_an_illegal_pair_raises(
    status: MeetingStatus, event: MeetingEvent
) -> None:
    expected = EXPECTED[status].get(event)
    assert find_step(TRANSITIONS, status, event) is expected
    if expected is not None:
        assert step(TRANSITIONS, status, event) is expected
    else:
        with pytest.raises(IllegalStep, match=f"^MeetingStatus {status} has no step {event}$"):
            step(TRANSITIONS, status, event)


@pytest.mark.parametrize("status", MeetingStatus)
def test_a_meeting_ends_by_the_table_unless_it_is_being_cancelled(status: MeetingStatus) -> None:
    decided = end(evolve(MEETING, status=status))
    ended = evolve(MEETING, status=ENDED)
    can_end = MeetingEvent.END in EXPECTED[status] and status is not CANCELLING
    assert decided == ((ended, MeetingEnded(ended)) if can_end else None)


@pytest.mark.parametrize("status", MeetingStatus)
@given(meetings(START), provisioned(), st.uuids())
def test_provisioning_is_legal_once_and_otherwise_changes_nothing(
    status: MeetingStatus, meeting: Meeting, made: Provisioned, charge_id: UUID
) -> None:
    meeting, before = evolve(meeting, status=status), evolve(meeting, status=status)
    if meeting.status is PROVISIONING:
        scheduled, fact = mark_scheduled(meeting, made, charge_id)
        assert scheduled == evolve(
            before, status=SCHEDULED, provider_meeting_id=made.provider_meeting_id, join_url=made.join_url,
            password=made.password, charge_id=charge_id,
        )  # fmt: skip
        assert fact == MeetingCreated(scheduled)
    else:
        with pytest.raises(ValueError, match=f"{meeting.status} has no step provisioned"):
            mark_scheduled(meeting, made, charge_id)
    assert meeting == before


@pytest.mark.parametrize(("status", "before", "during", "after"), [
    (PROVISIONING, PROVISIONING, PROVISIONING, PROVISIONING),
    (SCHEDULED, SCHEDULED, STARTED, ENDED),
    (CANCELLING, SCHEDULED, STARTED, ENDED),
    (STARTED, STARTED, STARTED, ENDED),
    (ENDED, ENDED, ENDED, ENDED),
    (CANCELLED, CANCELLED, CANCELLED, CANCELLED),
    (ABANDONED, ABANDONED, ABANDONED, ABANDONED),
])  # fmt: skip
def test_the_clock_advances_the_shown_status(
    status: MeetingStatus, before: MeetingStatus, during: MeetingStatus, after: MeetingStatus
) -> None:
    meeting = evolve(MEETING, status=status)
    moments = {BEFORE: before, START: during, END - TICK: during, END: after, END + TICK: after}
    assert {now: shown_status(meeting, now) for now in moments} == moments


@given(statuses, moments, moments)
def test_the_shown_status_never_goes_back(status: MeetingStatus, one: datetime, two: datetime) -> None:
    order = [PROVISIONING, SCHEDULED, STARTED, ENDED, CANCELLED, ABANDONED]
    meeting = evolve(MEETING, status=status)
    earlier, later = (shown_status(meeting, now) for now in sorted((one, two)))
    assert order.index(earlier) <= order.index(later)
    assert CANCELLING not in (earlier, later)


@pytest.mark.spec("3/cancel-before", "3/cancel-running")
@given(moments, statuses)
@example(BEFORE, SCHEDULED)
@example(DURING, SCHEDULED)
@example(BEFORE, STARTED)
@example(END - TICK, CANCELLING)
@example(AFTER, CANCELLED)
def test_credits_are_returned_before_the_start_of_a_meeting_that_is_to_be_held(
    now: datetime, status: MeetingStatus
) -> None:
    meeting = evolve(MEETING, status=status)
    if status in (PROVISIONING, ABANDONED):
        assert status not in VISIBLE
        with pytest.raises(NotFound) as hidden:
            is_refundable(meeting, now)
        assert hidden.value.message == "No meeting with this id."
    elif shown_status(meeting, now) is ENDED:
        with pytest.raises(Conflict) as over:
            is_refundable(meeting, now)
        assert over.value.message == "The meeting has ended and cannot be cancelled."
        assert over.value.details == {"id": str(ID)}
    else:
        assert is_refundable(meeting, now) == (
            status is not CANCELLED and status is not STARTED and now < START
        )


# Passwords

randoms = st.binary(min_size=hosts.PASSWORD_RANDOM_BYTES, max_size=64)
DIGITS = hosts.PasswordRule("0123456789", 4, 10)
CATALOGUE = TierCatalogue.of(
    [
        PricingTier("standard", "Standard", 100, 60, 10, 5),
        PricingTier("old", "Old", 100, 60, 10, 5, is_retired=True),
    ]
)
FLAGS = ("with_recording", "auto_notulen", "must_login", "mic_off", "email_notification")
ABLE = ProviderAbilities("sandbox", DIGITS)
UNABLE = ProviderAbilities(
    "jitsi", None, has_recording=False, has_capacity=False, has_login=False, has_mute=False,
    has_notification=False, has_hosts=False,
)  # fmt: skip
REQUEST = MeetingRequest("Rapat", "2026-12-01", "09:00", "standard")


def changed(request: MeetingRequest, changes: dict[str, Any]) -> MeetingRequest:
    """The request with other fields or flags."""
    flags = {option.name for option in fields(MeetingOptions)} & set(changes)
    options = evolve(request.options, **{name: changes[name] for name in flags})
    return evolve(request, options=options, **{name: changes[name] for name in set(changes) - flags})


NOW = START - timedelta(days=30)


@given(password_rules(), randoms)
def test_a_generated_password_always_satisfies_its_rule(rule: hosts.PasswordRule, random: bytes) -> None:
    password = hosts.generate_password(rule, random)
    assert len(password) == rule.max_length
    assert set(password) <= set(rule.alphabet)
    plan_meeting(evolve(REQUEST, password=password), CATALOGUE, ProviderAbilities("any", rule), NOW)


@given(st.binary(max_size=hosts.PASSWORD_RANDOM_BYTES - 1))
@example(b"")
def test_a_password_needs_enough_random_bytes(random: bytes) -> None:
    with pytest.raises(ValueError, match="16 random bytes"):
        hosts.generate_password(DIGITS, random)


@given(st.integers(0, 10**10 - 1), st.integers(0, 10**20))
def test_every_password_can_be_generated_from_exactly_one_number(number: int, rest: int) -> None:
    random = (rest * 10**10 + number).to_bytes(16, "big")
    assert hosts.generate_password(DIGITS, random) == str(number).rjust(10, "0")[::-1]


def test_by_default_a_provider_takes_4_to_10_characters_and_has_recording_and_seats() -> None:
    rule = hosts.PasswordRule("0123456789")
    assert rule == DIGITS
    assert ProviderAbilities("any", rule) == ProviderAbilities(
        "any", rule, has_recording=True, has_capacity=True, has_login=True, has_mute=True,
        has_notification=True, has_hosts=True, creations_per_host_day=None, host_key_digits=None,
    )  # fmt: skip


@given(st.one_of(st.text(max_size=12), st.text("0123456789", max_size=12)))
@example("123")
@example("12345678901")
@example("1234a")
@example("١٢٣٤")
@example("")
def test_any_other_password_is_refused_naming_the_alphabet_and_not_itself(password: str) -> None:
    assume(not (4 <= len(password) <= 10 and set(password) <= set("0123456789")))
    with pytest.raises(Unprocessable) as refused:
        plan_meeting(evolve(REQUEST, password=password), CATALOGUE, ABLE, NOW)
    assert refused.value.message == "A password has 4 to 10 characters of: 0123456789"
    assert refused.value.details == {"alphabet": "0123456789"}


def test_every_refusal_of_a_request_is_found_at_once() -> None:
    past = evolve(REQUEST, title="", date="2020-01-01", pricing_tier_id="gone", password="ab")
    found = meeting_refusals(past, CATALOGUE, ABLE, NOW)
    assert [type(each) for each in found] == [InvalidRequest, NotFound, Unprocessable, Unprocessable]
    with pytest.raises(InvalidRequest):
        plan_meeting(past, CATALOGUE, ABLE, NOW)
    assert meeting_refusals(REQUEST, CATALOGUE, ABLE, NOW) == []


# Keys of hosts


@given(st.integers(1, 10), randoms)
def test_a_host_key_has_the_requested_number_of_digits(digits: int, random: bytes) -> None:
    key = hosts.generate_host_key(digits, random)
    assert (len(key), key.isdigit(), key.isascii()) == (digits, True, True)
    assert key == str(int.from_bytes(random) % 10**digits).rjust(digits, "0")[::-1]


@pytest.mark.spec("2.1/fields")
@pytest.mark.parametrize(("at", "is_shown"), [
    (START - timedelta(minutes=15) - TICK, False),
    (START - timedelta(minutes=15), True),
    (BEFORE, True),
    (DURING, True),
    (END - TICK, True),
    (AFTER, False),
])  # fmt: skip
@pytest.mark.parametrize("status", MeetingStatus)
def test_a_hosts_key_is_shown_near_a_meeting_that_is_not_over(
    status: MeetingStatus, at: datetime, is_shown: bool
) -> None:
    is_open = status in (SCHEDULED, CANCELLING, STARTED)
    meeting = evolve(MEETING, status=status, host_key="123456")
    assert shown_host_key(meeting, at) == ("123456" if is_shown and is_open else None)
    assert shown_host_key(evolve(meeting, host_key=None), at) is None
    assert has_host_key_due(meeting, at) is (at >= START - timedelta(minutes=15))


def test_a_clock_that_is_a_minute_ahead_may_have_shown_a_key() -> None:
    near = START - timedelta(minutes=15)
    ahead = near - timedelta(minutes=1)
    can = {ahead - TICK: False, ahead: True, near: True, END + timedelta(days=9): True}
    assert {now: can_have_shown_host_key(MEETING, now) for now in can} == can


# Plans

NO_PASSWORD = "^The provider jitsi takes no password: leave it out.$"
NO_RECORDING = "^The provider jitsi records no meetings: send neither with_recording nor auto_notulen.$"


@pytest.mark.spec("4.1/1", "4.1/2")
@pytest.mark.parametrize(("with_recording", "auto_notulen", "credits"), [
    (False, False, 10), (True, False, 15), (False, True, 15), (True, True, 15),
])  # fmt: skip
def test_a_plan_holds_tier_price_and_range(with_recording: bool, auto_notulen: bool, credits: int) -> None:
    request = evolve(
        REQUEST, options=MeetingOptions(with_recording=with_recording, auto_notulen=auto_notulen)
    )
    plan = plan_meeting(request, CATALOGUE, ABLE, NOW)
    assert plan.request is request
    assert plan.tier is CATALOGUE.tiers["standard"]
    assert (plan.start_at, plan.end_at) == (START, START + timedelta(minutes=60))
    assert plan.quote.credits == credits
    assert plan.quote.with_recording is (with_recording or auto_notulen)
    assert plan.options == MeetingOptions(with_recording or auto_notulen, auto_notulen)


@pytest.mark.spec("4.1/title", "4.1/description")
@pytest.mark.parametrize(("changes", "fields"), [
    ({"title": ""}, {"title"}),
    ({"title": "x" * 201}, {"title"}),
    ({"title": "a\nb"}, {"title"}),
    ({"description": "x" * 5001 + "\0"}, {"description"}),
    ({"description": "a\0b"}, {"description"}),
    ({"title": "\ud800", "description": "\x7f", "date": "", "start_time": ""},
     {"title", "description", "date", "start_time"}),
])  # fmt: skip
def test_texts_beyond_their_limits_are_refused_with_every_other_bad_field(
    changes: dict[str, Any], fields: set[str]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        plan_meeting(changed(REQUEST, changes), CATALOGUE, ABLE, NOW)
    named = refused.value.details["fields"]
    assert isinstance(named, dict)
    assert named.keys() == fields


def test_texts_at_their_limits_are_planned() -> None:
    request = evolve(REQUEST, title="é" * 200, description="a\tb\r\n" + "x" * 995)
    assert plan_meeting(request, CATALOGUE, ABLE, NOW).request is request


@given(catalogues(), provider_abilities(), instants(), st.data())
def test_every_request_that_a_provider_can_fulfil_is_planned(
    catalogue: TierCatalogue, abilities: ProviderAbilities, now: datetime, data: st.DataObject
) -> None:
    assume(2 < now.year < 9990)
    request = data.draw(meeting_requests(catalogue, abilities, now), "request")
    plan = plan_meeting(request, catalogue, abilities, now)
    assert (plan.request, plan.tier) == (request, catalogue.tiers[request.pricing_tier_id])
    assert now <= plan.start_at <= now + timedelta(days=365)
    assert plan.end_at - plan.start_at == timedelta(minutes=plan.tier.max_duration)


@given(days(date(2, 1, 1), date(9990, 12, 31)), clock_times(), tiers(is_retired=False))
@example(date(2028, 2, 28), "23:59", PricingTier("t", "T", 1, 1, 1, 0))
@example(date(2028, 2, 28), "23:59", PricingTier("t", "T", 1, 1441, 1, 0))
@example(date(2027, 2, 28), "23:59", PricingTier("t", "T", 1, 1, 1, 0))
@example(date(2100, 2, 28), "12:00", PricingTier("t", "T", 1, 720, 1, 0))
@example(date(2027, 12, 31), "23:00", PricingTier("t", "T", 1, 525_600, 1, 0))
def test_end_at_is_the_start_and_the_tiers_minutes_over_midnights_months_and_leap_days(
    day: date, at: str, tier: PricingTier
) -> None:
    """Told by the calendar of WIB: as if the clock on the wall had run for so many minutes."""
    request = evolve(REQUEST, date=day.isoformat(), start_time=at, pricing_tier_id=tier.id)
    on_the_wall = datetime.fromisoformat(f"{day}T{at}+07:00")
    plan = plan_meeting(request, TierCatalogue.of([tier]), ABLE, on_the_wall)
    assert plan.start_at == on_the_wall
    ends = datetime.combine(day, time.fromisoformat(at)) + timedelta(minutes=tier.max_duration)
    assert utc_text(plan.end_at) == (ends - timedelta(hours=7)).isoformat(timespec="seconds") + "Z"


@pytest.mark.parametrize(
    ("changes", "abilities", "now", "refusal", "message"),
    [
        ({"date": "2026-02-30"}, ABLE, NOW, InvalidRequest, "date"),
        ({"start_time": "24:00"}, ABLE, NOW, InvalidRequest, "start_time"),
        ({"pricing_tier_id": "no-such"}, ABLE, NOW, NotFound, "pricing tier"),
        ({"pricing_tier_id": "old"}, ABLE, NOW, NotFound, "pricing tier"),
        ({}, ABLE, START + TICK, Unprocessable, "past"),
        ({}, ABLE, START - timedelta(days=365) - TICK, Unprocessable, "365 days"),
        ({"with_recording": True}, UNABLE, NOW, Unprocessable, NO_RECORDING),
        ({"auto_notulen": True}, UNABLE, NOW, Unprocessable, NO_RECORDING),
        ({"password": "1234"}, UNABLE, NOW, Unprocessable, NO_PASSWORD),
        ({"must_login": True}, UNABLE, NOW, Unprocessable,
         "^The provider jitsi has no logins: leave must_login out.$"),
        ({"mic_off": True}, UNABLE, NOW, Unprocessable,
         "^The provider jitsi cannot mute participants: leave mic_off out.$"),
        ({"email_notification": True}, UNABLE, NOW, Unprocessable,
         "^The provider jitsi sends no mail: leave email_notification out.$"),
        ({"mic_off": True, "with_recording": True, "password": "1234"}, UNABLE, NOW, Unprocessable,
         "^The provider jitsi records no meetings: send neither with_recording nor auto_notulen; "
         "it cannot mute participants: leave mic_off out.$"),
        # A body that is no request comes before a tier that is not there, and that before a bad moment.
        ({"date": "2026-02-30", "pricing_tier_id": "no-such"}, ABLE, NOW, InvalidRequest, "date"),
        ({"pricing_tier_id": "no-such"}, ABLE, START + TICK, NotFound, "pricing tier"),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused(
    changes: dict[str, Any],
    abilities: ProviderAbilities,
    now: datetime,
    refusal: type[Exception],
    message: str,
) -> None:
    with pytest.raises(refusal, match=message):
        plan_meeting(changed(REQUEST, changes), CATALOGUE, abilities, now)


@pytest.mark.spec("7/422")
@pytest.mark.parametrize(("changes", "fields"), [
    ({"with_recording": True, "auto_notulen": True}, {"with_recording", "auto_notulen"}),
    ({"auto_notulen": True, "mic_off": True}, {"auto_notulen", "mic_off"}),
    ({"must_login": True, "email_notification": True}, {"must_login", "email_notification"}),
    ({"password": "1234"}, {"password"}),
])  # fmt: skip
def test_the_fields_that_a_provider_cannot_serve_are_named(changes: dict[str, Any], fields: set[str]) -> None:
    with pytest.raises(Unprocessable) as caught:
        plan_meeting(changed(REQUEST, changes), CATALOGUE, UNABLE, NOW)
    named = caught.value.details["fields"]
    assert isinstance(named, dict)
    assert named.keys() == fields


@given(catalogues(), st.data())
def test_the_estimate_equals_the_planned_price(catalogue: TierCatalogue, data: st.DataObject) -> None:
    tier_id = data.draw(st.sampled_from([*catalogue.tiers, "no-such"]), "tier")
    flags: dict[str, Any] = data.draw(st.fixed_dictionaries(dict.fromkeys(FLAGS, st.booleans())), "flags")
    abilities = data.draw(st.sampled_from([ABLE, UNABLE]), "abilities")
    request = changed(REQUEST, {"pricing_tier_id": tier_id, **flags})
    assert request.options == MeetingOptions(**flags)
    try:
        planned: object = plan_meeting(request, catalogue, abilities, NOW).quote
    except (NotFound, Unprocessable) as error:
        planned = (type(error), error.message)
    try:
        estimated: object = estimate_meeting(tier_id, MeetingOptions(**flags), catalogue, abilities)
    except (NotFound, Unprocessable) as error:
        estimated = (type(error), error.message)
    assert estimated == planned


def test_every_option_names_the_ability_that_it_needs() -> None:
    """Without one, a provider that cannot carry the option out would accept it in silence."""
    named = [name for names, _, _ in OPTION_ABILITIES for name in names]
    assert sorted(named) == sorted(option.name for option in fields(MeetingOptions))
    abilities = {ability.name for ability in fields(ProviderAbilities)}
    assert {ability for _, ability, _ in OPTION_ABILITIES} <= abilities
