"""The records of spec 2, and what never shows in a repr."""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from uuid import UUID

import attrs
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import meetcore.domain
from meetcore.domain.fields import as_json, in_utc, shown_fields, shown_value
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingPlan,
    MeetingRequest,
    MeetingStatus,
    Provisioned,
    shown_status,
)
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.domain.money.hash_chain import ChainKey, Entry
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds, open_account, top_up
from meetcore.domain.money.pricing import DEFAULT_TIERS, Quote, RecordingFlags, quote_meeting
from meetcore.domain.money.transfers import Book, Reference, Transfer, TransferKind
from meetcore.domain.notes.notes import (
    ActionItem,
    Decision,
    Language,
    Note,
    NoteDraft,
    NoteFault,
    NoteStatus,
    NoteStep,
    complete,
    describe,
    fail,
)
from meetcore.domain.notes.recordings import FileKind, RecordingStatus
from meetcore.domain.notes.transcripts import Utterance
from meetcore.domain.records import accounts as credit_records
from meetcore.domain.records import meetings as meeting_records
from meetcore.domain.records import notes as note_records
from meetcore.domain.records import webhooks as webhook_records
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus, hold
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointState
from meetcore.domain.webhooks.events import EncodedEvent, Event, EventKind
from meetcore.domain.webhooks.views import Claimed
from meetcore.testing.strategies.meetings import meetings, notes
from meetcore.testing.strategies.moments import near
from meetcore.testing.strategies.webhooks import attempts, deliveries
from tests.unit.domain.notes.test_recordings import a_file, opened

JSON_KINDS = {dict, list, str, int, bool, type(None)}


def kinds_in(value: object) -> set[type]:
    """The exact types in a JSON value: an enum that equals its text is another one."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return {type(value)}.union(*map(kinds_in, inner))


def shown(make: Callable[..., object]) -> Callable[..., dict[str, Any]]:
    """The record of a function as a JSON object."""

    def made(*args: Any, **options: Any) -> dict[str, Any]:
        record = dict(as_json(make(*args, **options)))
        assert kinds_in(record) <= JSON_KINDS
        return record

    return made


balance_record = shown(credit_records.balance_record)
cancellation_record = shown(meeting_records.cancellation_record)
credits_record = shown(credit_records.credits_record)
delivery_record = shown(webhook_records.delivery_record)
endpoint_record = shown(webhook_records.endpoint_record)
estimate_record = shown(credit_records.estimate_record)
meeting_event_record = shown(meeting_records.meeting_event_record)
meeting_record = shown(meeting_records.meeting_record)
note_record = shown(note_records.note_record)
recording_record = shown(note_records.recording_record)
tier_record = shown(credit_records.tier_record)
transaction_record = shown(credit_records.transaction_record)

ID = UUID("01930000-0000-7000-8000-000000000001")
START = datetime(2026, 12, 1, 2, tzinfo=UTC)
SECRET = "s3cret-0123456789"
MEETING = Meeting(
    id=ID, account_id=UUID(int=2), api_key_id=UUID(int=3), status=MeetingStatus.SCHEDULED, title="Rapat",
    description="Hal-hal", start_at=START, end_at=START + timedelta(hours=1), duration=60, capacity=100,
    pricing_tier_id="standard-100", credits=15,
    options=MeetingOptions(with_recording=True, auto_notulen=True), host_id=UUID(int=4), provider="sandbox",
    created_at=START - timedelta(days=1, microseconds=1), password=SECRET, host_key="654321",
    join_url="https://meet.example/900123", provider_meeting_id="900123", charge_id=UUID(int=5),
)  # fmt: skip
ENDPOINT = Endpoint(
    id=ID, account_id=UUID(int=2), url="https://Hooks.example", url_key="https://hooks.example/",
    description=None, event_types=(EventKind.MEETING_ENDED, EventKind.CREDIT_LOW), state=EndpointState.ACTIVE,
    consecutive_failures=3, disabled_at=None, created_by=str(UUID(int=3)), created_at=START, secret=SECRET,
)  # fmt: skip
MOVE = Transfer(
    ID, "meeting:7", TransferKind.MEETING_CHARGE, 15, Book.CUSTOMER, Book.MEETINGS,
    Reference("meeting", "7"), api_key_id=UUID(int=3), cap_day=date(2026, 12, 1),
)  # fmt: skip

# Spec 2.1: the name, and what its value may be.
MEETING_FIELDS: dict[str, tuple[type, ...]] = {
    "id": (str,), "title": (str,), "status": (str,), "start_at": (str,), "start_at_wib": (str,),
    "end_at": (str, type(None)), "duration": (int, type(None)), "duration_unit": (str, type(None)),
    "capacity": (int, type(None)), "join_url": (str, type(None)), "password": (str, type(None)),
    "host_key": (str, type(None)), "provider_meeting_id": (str, type(None)), "auto_notulen": (bool,),
    "created_at": (str,), "with_recording": (bool,), "credits_deducted": (int, type(None)),
}  # fmt: skip

moments = near(START)


@pytest.mark.spec("2.1/fields")
@given(meetings(START), moments)
def test_a_meeting_has_exactly_the_17_fields_in_the_order_of_the_spec(
    meeting: Meeting, now: datetime
) -> None:
    record = meeting_record(meeting, now)
    assert list(record) == list(MEETING_FIELDS)
    assert len(record) == 17
    for name, value in record.items():
        assert type(value) in MEETING_FIELDS[name], name
    assert json.loads(json.dumps(record)) == record


@given(meetings(START), moments)
def test_an_event_contains_the_meeting_without_its_password_and_host_key(
    meeting: Meeting, now: datetime
) -> None:
    record, event = meeting_record(meeting, now), meeting_event_record(meeting, now)
    assert list(event) == list(record)
    assert (event["password"], event["host_key"]) == (None, None)
    assert {**event, "password": record["password"], "host_key": record["host_key"]} == record


@pytest.mark.spec("2.1/fields", "2.1/with_recording")
def test_a_meeting_as_the_contract_writes_it() -> None:
    record = meeting_record(MEETING, START - timedelta(minutes=15))
    early = meeting_record(MEETING, START - timedelta(minutes=15, microseconds=1))
    assert early == record | {"host_key": None}, "the host key is not due yet"
    assert record == {
        "id": "01930000-0000-7000-8000-000000000001",
        "title": "Rapat",
        "status": "scheduled",
        "start_at": "2026-12-01T02:00:00Z",
        "start_at_wib": "2026-12-01T09:00:00+07:00",
        "end_at": "2026-12-01T03:00:00Z",
        "duration": 60,
        "duration_unit": "minutes",
        "capacity": 100,
        "join_url": "https://meet.example/900123",
        "password": SECRET,
        "host_key": "654321",
        "provider_meeting_id": "900123",
        "auto_notulen": True,
        "created_at": "2026-11-30T01:59:59Z",
        "with_recording": True,
        "credits_deducted": 15,
    }


@given(meetings(START), moments)
def test_both_records_of_a_meeting_show_the_same_status(meeting: Meeting, now: datetime) -> None:
    status = shown_status(meeting, now).value
    assert meeting_record(meeting, now)["status"] == status
    assert cancellation_record(meeting, now) == {
        "id": str(meeting.id), "status": status, "credits_refunded": meeting.credits_refunded or 0,
    }  # fmt: skip


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize("zone", [UTC, WIB])
@pytest.mark.parametrize("microsecond", [0, 1, 999_999])
def test_instants_of_a_record_have_whole_seconds_and_their_zone(zone: tzinfo, microsecond: int) -> None:
    meeting = evolve(MEETING, start_at=(START + timedelta(microseconds=microsecond)).astimezone(zone))
    record = meeting_records.meeting_record(meeting, START)
    assert (record.start_at, record.start_at.tzinfo) == (START, UTC)
    assert (record.start_at_wib, record.start_at_wib.utcoffset()) == (START, timedelta(hours=7))
    assert in_utc(START) is START, "an instant in UTC is not made anew"


ENDPOINT_FIELDS = [
    "id", "url", "description", "event_types", "is_active", "consecutive_failures", "disabled_at",
    "created_by", "created_at",
]  # fmt: skip


@pytest.mark.spec("2.3/fields", "2.3/secret")
def test_a_webhook_has_exactly_the_fields_of_the_spec_and_its_secret_only_where_it_is_given() -> None:
    record = endpoint_record(ENDPOINT, with_secret=False)
    assert list(record) == ENDPOINT_FIELDS
    assert SECRET not in json.dumps(record)
    assert endpoint_record(ENDPOINT, with_secret=True) == {**record, "secret": SECRET}
    assert list(endpoint_record(ENDPOINT, with_secret=True)) == [*ENDPOINT_FIELDS, "secret"]
    assert endpoint_record(evolve(ENDPOINT, secret=None), with_secret=True) == record, (
        "it cannot be decrypted"
    )


@pytest.mark.spec("2.3/fields")
@pytest.mark.parametrize(("state", "disabled_at", "is_active", "expected"), [
    (EndpointState.ACTIVE, None, True, None),
    (EndpointState.PAUSED, None, False, None),
    (EndpointState.DISABLED, START + timedelta(microseconds=9), False, "2026-12-01T02:00:00Z"),
])  # fmt: skip
def test_a_webhook_as_the_contract_writes_it(
    state: EndpointState, disabled_at: datetime | None, is_active: bool, expected: str | None
) -> None:
    endpoint = evolve(ENDPOINT, state=state, disabled_at=disabled_at, description="Kantor")
    assert endpoint_record(endpoint, with_secret=False) == {
        "id": "01930000-0000-7000-8000-000000000001",
        "url": "https://Hooks.example",
        "description": "Kantor",
        "event_types": ["meeting.ended", "credit.low"],
        "is_active": is_active,
        "consecutive_failures": 3,
        "disabled_at": expected,
        "created_by": "00000000-0000-0000-0000-000000000003",
        "created_at": "2026-12-01T02:00:00Z",
    }


DELIVERY = Delivery(
    id=ID, account_id=UUID(int=2), endpoint_id=UUID(int=3), event_id=UUID(int=4),
    event_kind=EventKind.MEETING_CREATED, status=DeliveryStatus.PENDING, attempts_made=2,
    next_attempt_at=START + timedelta(seconds=30, microseconds=999_999), created_at=START,
)  # fmt: skip


@pytest.mark.spec("6/7")
def test_a_delivery_as_the_contract_writes_it() -> None:
    lost = Attempt(START, 10_000, error="response_timeout", address="203.0.113.7", retry_after_s=9)
    refused = Attempt(
        START + timedelta(seconds=6), 41, status_code=503, error="status_503", response_excerpt="sibuk"
    )
    assert delivery_record(DELIVERY, [lost, refused]) == {
        "id": "01930000-0000-7000-8000-000000000001",
        "event_id": "00000000-0000-0000-0000-000000000004",
        "event_type": "meeting.created",
        "status": "pending",
        "attempts": [
            {
                "at": "2026-12-01T02:00:00Z", "duration_ms": 10_000, "status_code": None,
                "error": "response_timeout", "response_excerpt": None,
            },
            {
                "at": "2026-12-01T02:00:06Z", "duration_ms": 41, "status_code": 503,
                "error": "status_503", "response_excerpt": "sibuk",
            },
        ],
        "next_attempt_at": "2026-12-01T02:00:30Z",
        "created_at": "2026-12-01T02:00:00Z",
    }  # fmt: skip
    record = delivery_record(hold(DELIVERY, START), [])
    assert (record["status"], record["attempts"], record["next_attempt_at"]) == ("held", [], None)


@pytest.mark.spec("6/7")
@given(deliveries(), st.lists(attempts(), max_size=3))
def test_a_delivery_never_shows_the_address_it_was_sent_to(delivery: Delivery, tried: list[Attempt]) -> None:
    dialled = [evolve(attempt, address="192.0.2.77") for attempt in tried]
    record = delivery_record(delivery, dialled)
    assert json.loads(json.dumps(record)) == record
    assert "192.0.2.77" not in json.dumps(record)
    assert record == delivery_record(delivery, [evolve(attempt, address=None) for attempt in tried])


def test_a_tier_as_the_contract_writes_it() -> None:
    assert tier_record(DEFAULT_TIERS.find("plus-300")) == {
        "id": "plus-300", "name": "Plus 300", "capacity": 300, "max_duration": 180,
        "duration_unit": "minutes", "credits": 40, "recording_credits": 15,
    }  # fmt: skip


def test_a_transaction_as_the_contract_writes_it() -> None:
    charge = {
        "id": str(ID), "kind": "meeting_charge", "amount": -15, "balance_after": 85,
        "reference": {"type": "meeting", "id": "7"}, "reverses": None,
        "api_key_id": "00000000-0000-0000-0000-000000000003", "created_at": "2026-12-01T02:00:00Z",
    }  # fmt: skip
    assert transaction_record(Entry(ID, 3, MOVE, -15, 85, START, bytes(32))) == charge
    back = evolve(MOVE, kind=TransferKind.MEETING_REFUND, reverses=ID, api_key_id=None)
    refund = charge | {"kind": "meeting_refund", "amount": 15, "balance_after": 100, "reverses": str(ID)}
    assert transaction_record(Entry(ID, 4, back, 15, 100, START, bytes(32))) == refund | {"api_key_id": None}
    by_hand = Entry(ID, 3, evolve(MOVE, api_key_id=ID), -15, 85, START, bytes(32))
    assert transaction_record(by_hand) == charge | {"api_key_id": None}


def test_the_parts_of_a_record_are_records_of_their_own() -> None:
    transaction = credit_records.transaction_record(Entry(ID, 3, MOVE, -15, 85, START, bytes(32)))
    assert transaction.reference == credit_records.TransactionReference("meeting", "7")
    quote = quote_meeting(DEFAULT_TIERS.find("standard-100"), RecordingFlags())
    estimate = credit_records.estimate_record("meeting", quote, 12, is_sufficient=True)
    assert estimate.items == (credit_records.EstimateItem("meeting", 10),)


def test_a_balance_as_events_contain_it() -> None:
    posting = top_up(evolve(open_account(ID), held=30), ID, "INV-7", 100, START)
    assert posting.entry is not None
    record = balance_record(posting.funds, posting.entry)
    transaction = transaction_record(posting.entry)
    assert record == {"balance": 100, "held": 30, "available": 70, "transaction": transaction}
    assert transaction["reference"] == {"type": "topup", "id": "INV-7"}


# What holds a secret does not show it

REQUEST = MeetingRequest("Rapat", "2026-12-01", "09:00", "standard-100", password=SECRET)
HOLDERS = (
    REQUEST,
    MeetingPlan(REQUEST, DEFAULT_TIERS.find("standard-100"), Quote((), 10, False), START, START),
    Provisioned("900123", "https://meet.example/900123", SECRET),
    evolve(MEETING, host_key=SECRET),
    ENDPOINT,
    IdempotencyRecord(
        "key-1", bytes(32), is_done=True, encoded_outcome=json.dumps({"secret": SECRET}).encode()
    ),
    Event(ID, ID, EventKind.MEETING_CREATED, START, meeting_record(MEETING, START)),
    meeting_records.meeting_record(MEETING, START - timedelta(minutes=15)),
    webhook_records.endpoint_record(ENDPOINT, with_secret=True),
    webhook_records.Event(
        id=str(ID), type="meeting.created", created_at=START, api_version="v1", data={"password": SECRET}
    ),
    ChainKey(b"", SECRET.encode()),
    ProviderOrder(ID, "host", "Rapat", None, START, 60, SECRET, MeetingOptions()),
    Claimed(ID, ID, ID, ID, "webhook.test", "https://hooks.example/", SECRET, b"{}", ID),
)


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_no_secret_shows_in_a_repr(holder: Any) -> None:
    assert SECRET in str(attrs.asdict(holder))
    assert SECRET not in repr(holder)
    assert SECRET not in str(holder)


def fields_of_the_domain() -> Iterator[tuple[type, Any]]:
    for module in pkgutil.walk_packages(meetcore.domain.__path__, "meetcore.domain."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if attrs.has(kind) and kind.__module__ == module.name:
                for field in attrs.fields(kind):
                    yield kind, field


SECRETIVE = {"password", "host_key", "secret", "answer", "data", "token"}


def test_every_field_that_is_named_like_a_secret_is_left_out() -> None:
    """For classes to come: the holders above are those of today. A `PasswordRule` is no password."""
    held = {type(holder) for holder in HOLDERS}
    for kind, field in fields_of_the_domain():
        if field.name in SECRETIVE and "PasswordRule" not in str(field.type):
            assert not field.repr, (kind, field.name)
            # The token of a lease is an id: it opens nothing.
            assert kind in held or field.type is UUID, f"{kind} belongs among the holders"


def test_every_class_of_the_domain_is_frozen() -> None:
    kinds = {kind for kind, _ in fields_of_the_domain()}
    assert {Funds, Meeting, Endpoint} <= kinds
    for kind in kinds:
        assert {"__setattr__", "__delattr__"} <= vars(kind).keys(), kind


@given(
    st.integers(-5, 50), st.integers(0, 20), st.none() | st.integers(0, 40), st.integers(0, 30),
    st.integers(0, 20),
)  # fmt: skip
def test_the_credits_of_a_key(balance: int, held: int, cap: int | None, spent: int, on_hold: int) -> None:
    usage = CapUsage(ID, date(2026, 12, 1), spent, on_hold)
    record = credits_record(balance, held, cap, usage)
    assert list(record) == ["balance", "held", "available", "daily_cap"]
    assert (record["balance"], record["held"], record["available"]) == (balance, held, balance - held)
    if cap is None:
        assert record["daily_cap"] is None
    else:
        left = cap - spent - on_hold
        assert record["daily_cap"] == {
            "cap": cap, "spent": spent + on_hold, "remaining": left if left > 0 else 0,
            "resets_at": "2026-12-01T17:00:00Z",
        }  # fmt: skip


@pytest.mark.parametrize("payload", [None, b'{"api_version": "v1", "data": {"id": "a"}}'])
def test_an_event_is_shown_as_it_was_sent(payload: bytes | None) -> None:
    shown = as_json(webhook_records.event_record(EncodedEvent(ID, EventKind.CREDIT_LOW, START, payload)))
    assert shown == {
        "id": str(ID), "type": "credit.low", "created_at": "2026-12-01T02:00:00Z", "api_version": "v1",
        "data": None if payload is None else {"id": "a"},
    }  # fmt: skip


def test_an_estimate_is_itemised() -> None:
    quote = quote_meeting(DEFAULT_TIERS.find("standard-100"), RecordingFlags(auto_notulen=True))
    assert estimate_record("meeting", quote, 12, is_sufficient=False) == {
        "type": "meeting",
        "credits": 15,
        "items": [{"name": "meeting", "credits": 10}, {"name": "recording", "credits": 5}],
        "with_recording": True,
        "balance": 12,
        "sufficient": False,
    }


RECORDING = evolve(
    opened(a_file(media_s=3600.5, size_bytes=210), a_file("a2", kind=FileKind.AUDIO, size_bytes=300)),
    status=RecordingStatus.AVAILABLE,
)
NOTE = Note(
    ID, UUID(int=2), UUID(int=3), UUID(int=9), UUID(int=1), Language.INDONESIAN, NoteStatus.PROCESSING,
    NoteStep.SETTLE, 61, START,
    draft=NoteDraft(
        "Ringkasan", (Decision("Postgres", "kita pakai Postgres", 3.9),),
        (
            ActionItem("menulis", "saya menulis besok", 64.0, "Dewi", "besok", date(2026, 12, 2)),
            ActionItem("b", "c", 65.0),
        ),
        ("anggaran",),
    ),
    transcript=(
        Utterance(3.9, 5.0, "kita pakai Postgres", "Dewi"),
        Utterance(64.0, 65.0, "saya menulis besok"),
    ),
    written_by="gpt-4o-mini",
)  # fmt: skip


def test_a_recording_as_the_contract_writes_it() -> None:
    measured = evolve(RECORDING, files=tuple(evolve(file, media_s=3600.5) for file in RECORDING.files))
    record = recording_record(measured, START)
    assert recording_record(measured, measured.expires_at) == record | {"status": "expired"}
    assert record == {
        "id": str(RECORDING.id),
        "meeting_id": str(RECORDING.meeting_id),
        "status": "available",
        "duration": 61,
        "duration_unit": "minutes",
        "size_bytes": 210,
        "recorded_at": "2026-12-01T02:00:00Z",
        "expires_at": "2027-03-01T02:00:00Z",
    }


def test_a_completed_note_as_the_contract_writes_it() -> None:
    done, _ = complete(NOTE, 2, UUID(int=5), START + timedelta(minutes=3))
    assert note_record(done) == {
        "id": str(ID),
        "recording_id": str(UUID(int=9)),
        "meeting_id": str(UUID(int=1)),
        "status": "completed",
        "language": "id",
        "summary": "Ringkasan",
        "decisions": [{"text": "Postgres", "quote": "kita pakai Postgres", "at": 3}],
        "action_items": [
            {
                "task": "menulis",
                "owner": "Dewi",
                "due": "besok",
                "due_on": "2026-12-02",
                "quote": "saya menulis besok",
                "at": 64,
            },
            {"task": "b", "owner": None, "due": None, "due_on": None, "quote": "c", "at": 65},
        ],
        "topics": ["anggaran"],
        "transcript": [
            {"speaker": "Dewi", "at": 3, "text": "kita pakai Postgres"},
            {"speaker": None, "at": 64, "text": "saya menulis besok"},
        ],
        "written_by": "gpt-4o-mini",
        "duration": 2,
        "credits_charged": 2,
        "error": None,
        "created_at": "2026-12-01T02:00:00Z",
        "completed_at": "2026-12-01T02:03:00Z",
        "edited_at": None,
    }


@given(notes())
def test_a_note_shows_no_content_before_it_is_paid_or_after_it_is_erased(note: Note) -> None:
    record = note_record(note)
    assert set(record) == set(note_record(NOTE))
    if note.status is not NoteStatus.COMPLETED:
        contents = ("summary", "decisions", "action_items", "topics", "transcript")
        assert [record[name] for name in contents] == [None, [], [], [], []]
        assert (record["duration"], record["written_by"]) == (None, None)
    json.dumps(record)


def test_a_failed_note_shows_its_fault_and_that_it_is_free() -> None:
    record = note_record(fail(NOTE, NoteFault.NO_SPEECH)[0])
    assert (record["status"], record["credits_charged"]) == ("failed", 0)
    assert record["error"] == describe(NoteFault.NO_SPEECH)


def test_a_value_is_shown_as_people_and_programs_read_it() -> None:
    at = datetime(2026, 12, 1, 9, 30, 15, 999, tzinfo=WIB)
    assert shown_fields(Reference("meeting", "7"), "id") == {"id": "7"}
    values = shown_value((at, at.date(), UUID(int=1), NoteStatus.FAILED, 7, None, "text"))
    assert values == [
        "2026-12-01T02:30:15Z", "2026-12-01", "00000000-0000-0000-0000-000000000001", "failed", 7,
        None, "text",
    ]  # fmt: skip
    assert kinds_in(values) <= JSON_KINDS
