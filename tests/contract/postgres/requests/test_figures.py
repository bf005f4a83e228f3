"""Figures for an operator, the state of the verification among them."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
from attrs import evolve

from meetcore.adapters.postgres.console import PostgresFigures
from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.notes.recordings import RecordingStatus, removed
from meetcore.domain.payments.payments import Doubt, Payment
from meetcore.ports.figures import Figures
from tests.support import servers
from tests.support.note_transactions import (
    claim_notes,
    claim_recordings,
    keep_recording,
    queued,
    recorded,
)
from tests.support.outbox import claim, outbox
from tests.support.postgres_rig import PostgresRig
from tests.support.records import add_mails, claim_mails, new_mail, record_mail
from tests.support.transactions import Customer, MeetingSpec, adjust, new_host, open_customer, reserved

STATES = ("pending", "held", "parked")


async def test_an_empty_store_has_every_figure_at_zero(rig: PostgresRig) -> None:
    await rig.reset()
    found = await rig.figures.read()
    assert dict(found.deliveries) == dict.fromkeys(STATES, 0)
    assert (found.endpoints["paused"], found.endpoints["disabled"]) == (0, 0)
    assert found.endpoints["active"] >= 0
    assert dict(found.hosts) == {"free": 0, "busy": 0, "unavailable": 0, "disabled": 0}
    assert dict(found.notes_oldest_due_s) == {"fetch": 0, "transcribe": 0, "write": 0, "settle": 0}
    assert found.deliveries_oldest_due_s == found.provider_events_oldest_due_s == 0
    assert found.mails_oldest_due_s == found.meetings_oldest_in_progress_s == 0
    assert found.mails_oldest_failing_s == 0
    for ages in (found.notes_oldest_failing_s, found.notes_oldest_s):
        assert dict(ages) == {"fetch": 0, "transcribe": 0, "write": 0, "settle": 0}
    assert (found.ledger_verified_at, found.ledger_is_sound) == (None, True)


async def test_deliveries_are_counted_and_one_that_is_claimed_is_not_due(rig: PostgresRig) -> None:
    await outbox(rig, 3)
    found = await rig.figures.read()
    assert dict(found.deliveries) == {"pending": 3, "held": 0, "parked": 0}
    assert 0 <= found.deliveries_oldest_due_s < 60
    await claim(rig)
    found = await rig.figures.read()
    assert found.deliveries["pending"] == 3
    assert found.deliveries_oldest_due_s == 0


async def test_hosts_are_counted_by_what_they_can_take_now(rig: PostgresRig) -> None:
    soon = rig.now() + timedelta(minutes=10)
    await rig.put_hosts(
        new_host(50), new_host(50), new_host(50, is_active=False), new_host(50, unavailable_until=soon),
        new_host(50, unavailable_until=rig.now() - timedelta(minutes=1)),
    )  # fmt: skip
    found = await rig.figures.read()
    assert dict(found.hosts) == {"free": 3, "busy": 0, "unavailable": 1, "disabled": 1}
    for start_at in (rig.now(), rig.now() + timedelta(days=1)):
        await reserved(rig, await open_customer(rig, 50), MeetingSpec(start_at=start_at))
    found = await rig.figures.read()
    assert (found.hosts["free"], found.hosts["busy"]) == (2, 1)


async def test_a_note_that_is_due_has_an_age_at_its_step(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    await queued(rig, customer, await recorded(rig, customer))
    found = await rig.figures.read()
    assert 0 <= found.notes_oldest_due_s["fetch"] < 60
    assert found.notes_oldest_due_s["settle"] == 0


async def test_a_note_that_fails_and_is_tried_again_has_an_age_though_it_is_not_due(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    await queued(rig, customer, at=rig.now() - timedelta(minutes=1))
    (task,) = await claim_notes(rig)
    found = await rig.figures.read()
    assert found.notes_oldest_s["fetch"] >= 60
    assert found.notes_oldest_failing_s["fetch"] == 0
    assert await rig.alone.notes.postpone(task, evolve(task.note, tries=1), 3600.0)
    found = await rig.figures.read()
    assert found.notes_oldest_due_s["fetch"] == 0
    assert found.notes_oldest_failing_s["fetch"] >= 60
    assert found.notes_oldest_failing_s["write"] == 0


async def test_a_deleted_recording_that_the_provider_keeps_is_counted(rig: PostgresRig) -> None:
    await rig.reset()
    customer = await open_customer(rig, 50)
    kept = await recorded(rig, customer, status=RecordingStatus.EXPIRED)
    for tries in range(1, 5):
        assert (await rig.figures.read()).recordings_not_removed == 0, tries
        (task,) = await claim_recordings(rig)
        await rig.alone.recordings.postpone(task, 0.0)
    assert (await rig.figures.read()).recordings_not_removed == 1
    await keep_recording(rig, removed(kept, {file.provider_file_id for file in kept.files}))
    assert (await rig.figures.read()).recordings_not_removed == 0


async def test_payments_that_wait_for_an_operator_are_counted_by_their_doubt(rig: PostgresRig) -> None:
    await rig.reset()
    customer = await open_customer(rig, 50)
    made = Payment(
        id=UUID(int=1), account_id=customer.account_id, gateway="sandbox", credits=1, price=1, tax=0,
        currency="IDR", created_at=rig.now(), expires_at=rig.now(), doubt=Doubt.REVERSED,
    )  # fmt: skip
    settled = evolve(made, id=UUID(int=2), doubt_closed_at=rig.now())
    for payment in (made, settled, evolve(made, id=UUID(int=3), doubt=None)):
        await rig.alone.payments.add(payment)
    found = await rig.figures.read()
    assert dict(found.payments_in_doubt) == dict.fromkeys(Doubt, 0) | {Doubt.REVERSED: 1}


async def test_a_mail_that_fails_and_is_tried_again_has_an_age_though_it_is_not_due(rig: PostgresRig) -> None:
    mail = new_mail(rig)
    await add_mails(rig, evolve(mail, created_at=mail.created_at - timedelta(minutes=1)))
    (claimed,) = await claim_mails(rig)
    assert (await rig.figures.read()).mails_oldest_failing_s == 0
    await record_mail(rig, claimed, "timeout", retry_s=3600)
    found = await rig.figures.read()
    assert found.mails_oldest_due_s == 0
    assert found.mails_oldest_failing_s >= 60


async def test_the_credits_of_today_are_summed_by_kind(rig: PostgresRig, customer: Customer) -> None:
    before = (await rig.figures.read()).credits_today
    today, yesterday = rig.now(), rig.now() - timedelta(days=1)
    for number, (amount, at) in enumerate([(500, yesterday), (70, today), (-20, today)]):
        await adjust(rig, customer, amount, str(number), at)
    found = (await rig.figures.read()).credits_today
    if cap_day(rig.now()) == cap_day(today):  # else the day has turned meanwhile
        assert found["adjustment"] - before["adjustment"] == 50
        assert found["topup"] == before["topup"]


async def read(url: str) -> Figures:
    pool = make_pool(url, max_size=1)
    await pool.open()
    try:
        return await PostgresFigures(pool).read()
    finally:
        await pool.close()


async def test_what_a_role_may_not_see_of_the_server_is_no_figure(postgres_server_url: str) -> None:
    servers.skip_without_roles(postgres_server_url)
    with servers.migrated_database(postgres_server_url) as url, servers.service_role(url) as service_url:
        found = await read(service_url)
        assert (found.oldest_transaction_s, found.replication_lag_s) == (None, None)
        assert found.is_archiving_failing is None, "this server archives nothing"
        assert found.database_bytes > 5_000_000
        assert 0 < found.oldest_xid_age < 2_000_000_000
        with psycopg.connect(url) as connection:  # a transaction of another role, open to the end
            role = urlsplit(service_url).username
            with psycopg.connect(url, autocommit=True) as other:
                other.execute(f"GRANT pg_read_all_stats TO {role}".encode())
            connection.execute("SELECT 1")
            found = await read(service_url)
            assert found.oldest_transaction_s is not None
            assert found.oldest_transaction_s > 0
            assert found.replication_lag_s is not None
