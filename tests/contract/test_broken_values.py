"""One value that does not decrypt breaks its own record and no other, and nothing that is stored."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import structlog
from attrs import evolve

from meetcore.adapters.postgres.notes import rows as notes
from meetcore.adapters.postgres.notes import rows as recordings
from meetcore.adapters.postgres.webhooks import deliveries
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.views import MeetingFilter
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.records.webhooks import event_record
from meetcore.domain.webhooks.events import EventKind, encode_event
from meetcore.domain.webhooks.views import EventFilter
from meetcore.ports.runtime import Lease
from tests.support.kept_log import capture_own_logs
from tests.support.note_transactions import completed, keep_recording, new_recording
from tests.support.outbox import claim, outbox, sweep
from tests.support.postgres_rig import PostgresRig
from tests.support.records import post
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    save_endpoint,
    scheduled,
)

ALL = MeetingFilter(datetime(2026, 12, 1, tzinfo=UTC))
BROKEN = b"\x01 nothing that opens"


@pytest.fixture
def fresh_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers not used yet: a used one keeps its first destination."""
    for module in (notes, recordings, deliveries):
        monkeypatch.setattr(module, "log", structlog.get_logger())


@pytest.fixture
async def customer(rig: PostgresRig) -> Customer:
    await rig.put_hosts(new_host(max_concurrent=9))
    return await open_customer(rig, 1000)


async def break_values(rig: PostgresRig, table: str, id_: UUID, *columns: str) -> None:
    for column in columns:
        await rig.rows(f"UPDATE {table} SET {column} = %(broken)s WHERE id = %(id)s", broken=BROKEN, id=id_)


@pytest.mark.spec("7/500")
@pytest.mark.usefixtures("fresh_logs")
async def test_a_meeting_shows_null_for_what_does_not_open(rig: PostgresRig, customer: Customer):
    first, broken, last = [await scheduled(rig, customer) for _ in range(3)]
    await break_values(rig, "meetings", broken.id, "password", "join_url")
    shown = evolve(broken, password=None, join_url=None)
    with capture_own_logs() as logs:
        found = await rig.queries.list_meetings(customer.account_id, ALL, 10, None)
        assert list(found) == [last, shown, first]
        assert await rig.queries.find_meeting(customer.account_id, broken.id) == shown
    assert len(logs) == 4
    assert all(log["log_level"] == "error" and str(broken.id) in log["context"] for log in logs)


async def test_a_meeting_that_does_not_open_still_ends(rig: PostgresRig, customer: Customer):
    over = MeetingSpec(start_at=datetime(2026, 1, 1, tzinfo=UTC))
    meetings = [await scheduled(rig, customer, over) for _ in range(2)]
    await break_values(rig, "meetings", meetings[0].id, "password", "join_url")
    due = await rig.alone.meetings.claim_due(10, 60)
    assert {one.meeting.id for one in due} == {meeting.id for meeting in meetings}
    view = await rig.alone.meetings.load_locked(customer.account_id, meetings[0].id, None)
    assert view is not None
    assert view.meeting.status is MeetingStatus.SCHEDULED


async def test_an_endpoint_without_a_readable_secret_is_listed_changed_and_rotated(
    rig: PostgresRig, customer: Customer
):
    first, broken, last = [await register(rig, new_endpoint(customer)) for _ in range(3)]
    await break_values(rig, "webhook_endpoints", broken.id, "secret")
    shown = evolve(broken, secret=None)
    assert list(await rig.queries.list_endpoints(customer.account_id, 10, None)) == [last, shown, first]
    assert await rig.queries.find_secrets(broken.url_key) == []
    assert await rig.alone.endpoints.load_locked(customer.account_id, broken.id) == shown
    await save_endpoint(rig, evolve(shown, description="changed"))
    ((stored,),) = [
        row.values()
        for row in await rig.rows("SELECT secret FROM webhook_endpoints WHERE id = %(id)s", id=broken.id)
    ]
    assert stored == BROKEN, "another key may open it"
    await save_endpoint(rig, evolve(shown, secret="whsec_rotated"))
    found = await rig.queries.find_endpoint(customer.account_id, broken.id)
    assert found == evolve(shown, secret="whsec_rotated")


@pytest.mark.usefixtures("fresh_logs")
async def test_an_event_that_does_not_open_is_listed_without_its_payload(rig: PostgresRig):
    customer, endpoint = await outbox(rig, 0)
    first, broken = [await post(rig, endpoint, EventKind.WEBHOOK_TEST, AT) for _ in range(2)]
    await break_values(rig, "events", broken.id, "payload")
    found = await rig.queries.list_events(customer.account_id, EventFilter(AT), 10, None)
    assert {one.id: one.payload for one in found} == {first.id: encode_event(first), broken.id: None}
    (shown,) = [one for one in found if one.id == broken.id]
    assert event_record(shown).data is None


@pytest.mark.usefixtures("fresh_logs")
async def test_a_previous_secret_that_does_not_open_stops_no_delivery_and_is_not_overwritten(
    rig: PostgresRig,
):
    _, endpoint = await outbox(rig)
    until = datetime.now(UTC) + timedelta(hours=1)
    rotated = evolve(endpoint, secret="whsec_new", previous_secret="whsec_old", previous_secret_until=until)
    await save_endpoint(rig, rotated)
    await break_values(rig, "webhook_endpoints", endpoint.id, "previous_secret")
    await save_endpoint(rig, evolve(rotated, previous_secret=None, description="changed"))
    ((claimed,), _) = await claim(rig)
    assert (claimed.secret, claimed.previous_secret) == ("whsec_new", None)
    ((stored,),) = [
        row.values()
        for row in await rig.rows(
            "SELECT previous_secret FROM webhook_endpoints WHERE id = %(id)s", id=endpoint.id
        )
    ]
    assert stored == BROKEN


@pytest.mark.usefixtures("fresh_logs")
async def test_a_delivery_that_does_not_open_takes_no_room_and_comes_when_its_key_is_back(rig: PostgresRig):
    _, endpoint = await outbox(rig, 0)
    broken, good = [await post(rig, endpoint, EventKind.WEBHOOK_TEST, AT) for _ in range(2)]
    [[kept]] = [
        row.values() for row in await rig.rows("SELECT payload FROM events WHERE id = %(id)s", id=broken.id)
    ]
    await break_values(rig, "events", broken.id, "payload")
    with capture_own_logs() as logs:
        assert (await claim(rig, per_endpoint=1, per_host=2))[0] == []
    [delivery] = await rig.rows("SELECT id FROM deliveries WHERE event_id = %(id)s", id=broken.id)
    assert [(line["number"], line["delivery_id"]) for line in logs] == [(1, str(delivery["id"]))]
    await sweep(rig)  # what waited behind it
    ((claimed,), _) = await claim(rig, per_endpoint=1, per_host=2)
    assert claimed.event_id == good.id
    await rig.rows("UPDATE events SET payload = %(kept)s WHERE id = %(id)s", kept=kept, id=broken.id)
    await rig.rows("UPDATE deliveries SET due_at = now() WHERE event_id = %(id)s", id=broken.id)
    ((again,), _) = await claim(rig)
    assert (again.event_id, again.had_expired_lease) == (broken.id, False)


@pytest.mark.usefixtures("fresh_logs")
async def test_a_note_that_does_not_decrypt_shows_nothing(rig: PostgresRig, customer: Customer):
    first, broken, last = [await completed(rig, customer) for _ in range(3)]
    await break_values(rig, "notes", broken.id, "content")
    shown = evolve(broken, draft=None, transcript=())
    with capture_own_logs() as logs:
        found = await rig.queries.list_notes(customer.account_id, NoteFilter(), 10, None)
        assert list(found) == [last, shown, first]
        assert await rig.queries.find_note(customer.account_id, broken.id) == shown
    assert [log["note_id"] for log in logs] == [str(broken.id)] * 2


async def test_a_recording_that_does_not_open_has_no_files(rig: PostgresRig, customer: Customer):
    kept = new_recording(customer), new_recording(customer)
    for one in kept:
        await keep_recording(rig, one)
    await break_values(rig, "recordings", kept[0].id, "files")
    assert await rig.queries.find_recording(customer.account_id, kept[0].id) == evolve(kept[0], files=())
    assert await rig.queries.find_recording(customer.account_id, kept[1].id) == kept[1]


async def test_a_claim_of_checks_survives_a_value_that_does_not_open(rig: PostgresRig, customer: Customer):
    meetings = [
        await scheduled(rig, customer, MeetingSpec(lease_s=0.0, orphan_window_s=-1)) for _ in range(2)
    ]
    await break_values(rig, "meetings", meetings[0].id, "password")
    checks = await rig.alone.orphan_checks.claim_due(10, Lease(new_id(), 60.0))
    assert {check.meeting.id for check in checks} == {meeting.id for meeting in meetings}
