"""What customers keep secret never lies in the clear in any column of the database."""

import os

import pytest
from attrs import evolve

from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.domain.notes.transcripts import Utterance
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.lease import Lease
from meetcore.testing.contracts.mail_repository import add_mails, new_mail
from meetcore.testing.contracts.note_transactions import (
    claim_notes,
    completed,
    erase,
    find_note,
    queued,
    written,
)
from meetcore.testing.contracts.provider_event_inbox import add_event, new_file, provider_event
from meetcore.testing.contracts.recording_transactions import keep_recording, new_recording
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    finish_cancelling,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    save_endpoint,
    schedule,
    start_cancelling,
)
from tests.support.postgres_rig import PostgresRig

PLAIN = "not-a-secret"


@pytest.fixture
async def sealed_rig(store_pool: Pool) -> PostgresRig:
    rig = PostgresRig(store_pool, AesGcmCipher([os.urandom(KEY_BYTES)]))
    await rig.reset()
    return rig


async def live(rig: PostgresRig) -> Customer:
    """A customer's life in which every sealed column is written, by every statement that writes one."""
    customer = await open_customer(rig, 1000)
    await rig.put_hosts(new_host(max_concurrent=9), new_host(capacity=1))
    async with rig.store.begin() as tx:
        (due,) = await tx.host_keys.claim_due(10, Lease(new_id(), 60.0))
        assert await tx.host_keys.save(due.host_id, due.token, "SEALED-host-key")
    endpoint = await register(rig, new_endpoint(customer, secret="SEALED-hook", description=PLAIN))
    await save_endpoint(
        rig,
        evolve(endpoint, secret="SEALED-hook-2", previous_secret="SEALED-hook-1", previous_secret_until=AT),
    )
    made = await reserved(rig, customer, MeetingSpec(key="a", password="SEALED-draft-pw"))
    await reserved(rig, customer, MeetingSpec(key="left in progress", password="SEALED-draft-pw"))
    link = "https://meet.example/j/7?pwd=SEALED-link"
    meeting = await schedule(rig, made, password="SEALED-room-pw", link=link)
    assert meeting is not None
    lease = await start_cancelling(rig, meeting)
    await finish_cancelling(rig, meeting, lease)
    record = IdempotencyRecord("b", b"f" * 32, is_done=True, encoded_outcome=b"SEALED-bound")
    async with rig.store.begin() as tx:
        await tx.idempotency.save(customer.account_id, record)
    await add_event(rig, provider_event(files=(new_file(url="https://files.example/SEALED-told"),)))
    await keep_recording(rig, new_recording(customer))
    await add_mails(rig, new_mail(rig))
    await live_with_notes(rig, customer)
    return customer


async def live_with_notes(rig: PostgresRig, customer: Customer) -> None:
    """A note that is being made and one that is there, and the transcript of one."""
    await completed(rig, customer)
    await queued(rig, customer)
    (task,) = await claim_notes(rig)
    async with rig.store.begin() as tx:
        assert await tx.notes.save_transcript_chunk(
            task, "source", 0, (Utterance(0, 1, "SEALED-heard", "SEALED-speaker"),)
        )
    async with rig.store.begin() as tx:
        assert await tx.notes.postpone(task, written(task.note), 60)


async def everything(rig: PostgresRig) -> bytes:
    """Every value of every column of every table, as text and with bytes as bytes."""
    tables = await rig.rows(
        """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
            AND relkind IN ('r', 'p') AND NOT relispartition"""
    )
    found = []
    for table in tables:
        for row in await rig.rows(f"SELECT * FROM {table['relname']}"):
            values = row.values()
            found += [value if isinstance(value, bytes) else repr(value).encode() for value in values]
    return b"\n".join(found)


async def test_no_column_holds_a_secret_in_the_clear(sealed_rig: PostgresRig):
    customer = await live(sealed_rig)
    stored = await everything(sealed_rig)
    assert PLAIN.encode() in stored
    assert b"SEALED" not in stored
    async with sealed_rig.store.begin() as tx:
        view = await tx.idempotency.load_locked(customer.account_id, "b")
    assert view.record is not None
    assert view.record.encoded_outcome == b"SEALED-bound"


async def test_the_search_for_secrets_finds_them_where_nothing_is_sealed(postgres_rig: PostgresRig):
    await live(postgres_rig)
    stored = await everything(postgres_rig)
    for kind in (
        b"draft-pw",
        b"room-pw",
        b"link",
        b"bound",
        b"hook-2",
        b"hook-1",
        b"told",
        b"file",
        b"host-key",
        b"heard",
        b"speaker",
        b"said",
        b"summary",
        b"decision",
        b"task",
        b"owner",
        b"topic",
        b"one-time",
    ):
        assert b"SEALED-" + kind in stored
    assert stored.count(b"SEALED-link") == 3, "in the meeting, its event and the answer under its key"


async def test_a_sealed_value_does_not_open_in_another_record(postgres_rig: PostgresRig):
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    first = await register(rig, new_endpoint(customer))
    second = await register(rig, new_endpoint(customer))
    await rig.rows(
        """UPDATE webhook_endpoints SET secret = (SELECT secret FROM webhook_endpoints WHERE id = %(a)s)
        WHERE id = %(b)s""",
        a=first.id, b=second.id,
    )  # fmt: skip
    found = await rig.queries.find_endpoint(customer.account_id, second.id)
    assert found == evolve(second, secret=None)


async def test_a_hosts_key_does_not_open_on_another_host(postgres_rig: PostgresRig):
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    one, other = new_host(), new_host()
    await rig.put_hosts(one, other)
    async with rig.store.begin() as tx:
        for due in await tx.host_keys.claim_due(10, Lease(new_id(), 60.0)):
            assert await tx.host_keys.save(due.host_id, due.token, f"{due.host_id}")
    meeting = await schedule(rig, await reserved(rig, customer, MeetingSpec()))
    assert meeting is not None
    found = await rig.queries.find_meeting(customer.account_id, meeting.id)
    assert found is not None
    assert found.host_key == str(meeting.host_id)
    await rig.rows(
        "UPDATE hosts SET host_key = (SELECT host_key FROM hosts h WHERE h.id <> hosts.id) WHERE id = %(id)s",
        id=meeting.host_id,
    )
    found = await rig.queries.find_meeting(customer.account_id, meeting.id)
    assert found is not None
    assert found.host_key is None


async def test_a_transcript_does_not_decrypt_in_another_note(postgres_rig: PostgresRig):
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    one, other = await completed(rig, customer), await completed(rig, customer)
    await rig.rows(
        "UPDATE notes SET content = (SELECT content FROM notes WHERE id = %(a)s) WHERE id = %(b)s",
        a=one.id, b=other.id,
    )  # fmt: skip
    found = await find_note(rig, other)
    assert found == evolve(other, draft=None, transcript=())


async def test_a_chunk_does_not_decrypt_as_another_piece(postgres_rig: PostgresRig):
    rig = postgres_rig
    await queued(rig, await open_customer(rig, 100))
    (task,) = await claim_notes(rig)
    async with rig.store.begin() as tx:
        assert await tx.notes.save_transcript_chunk(task, "source", 0, (Utterance(0, 1, "satu"),))
    await rig.rows("UPDATE transcript_chunks SET number = 1")
    async with rig.store.begin() as tx:
        with pytest.raises(CipherRefused):
            await tx.notes.load_transcript_chunks(task, "source")


async def test_nothing_spoken_is_left_after_erasure(postgres_rig: PostgresRig):
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    note = await completed(rig, customer)
    assert b"SEALED-said" in await everything(rig)
    await erase(rig, note)
    stored = await everything(rig)
    for word in (b"said", b"summary", b"decision", b"task", b"owner", b"topic"):
        assert b"SEALED-" + word not in stored
    assert b"Postgres" not in stored
