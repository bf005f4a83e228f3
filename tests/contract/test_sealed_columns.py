"""Sealed columns hold no plain text, and their values can be named and rotated."""

from __future__ import annotations

import asyncio
import os
from uuid import UUID

import pytest
import structlog
from attrs import evolve

from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.requests import sealed_values
from meetcore.adapters.postgres.requests.sealed_values import COLUMNS, LOGGED_AT_MOST, PostgresSealedValues
from meetcore.adapters.postgres.webhooks.rows import event_context
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.domain.notes.transcripts import Utterance
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.ports.maintenance import SealedValues
from meetcore.ports.runtime import CipherRefused, Lease
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.usecases.requests.erasure import ResealSecrets
from meetcore.usecases.runtime import Runtime
from tests.support.kept_log import capture_own_logs
from tests.support.note_transactions import (
    claim_notes,
    completed,
    erase,
    find_note,
    keep_recording,
    new_recording,
    queued,
    written,
)
from tests.support.postgres_rig import PostgresRig
from tests.support.records import add_event, add_mails, new_file, new_mail, provider_event
from tests.support.texts import assert_contains
from tests.support.transactions import (
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
    await rig.alone.idempotency.save(customer.account_id, record)
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
    assert await rig.alone.notes.save_transcript_chunk(
        task, "source", 0, (Utterance(0, 1, "SEALED-heard", "SEALED-speaker"),)
    )
    assert await rig.alone.notes.postpone(task, written(task.note), 60)


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
    assert_contains(stored, PLAIN.encode(), absent=(b"SEALED",))
    view = await sealed_rig.alone.idempotency.load_locked(customer.account_id, "b")
    assert view.record is not None
    assert view.record.encoded_outcome == b"SEALED-bound"


async def test_the_search_for_secrets_finds_them_where_nothing_is_sealed(rig: PostgresRig):
    await live(rig)
    stored = await everything(rig)
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
    assert stored.count(b"SEALED-link") == 2, "in the meeting and its event"


async def test_a_sealed_value_does_not_open_in_another_record(rig: PostgresRig):
    customer = await open_customer(rig, 100)
    first = await register(rig, new_endpoint(customer))
    second = await register(rig, new_endpoint(customer))
    await rig.rows(
        """UPDATE webhook_endpoints SET secret = (SELECT secret FROM webhook_endpoints WHERE id = %(a)s)
        WHERE id = %(b)s""",
        a=first.id, b=second.id,
    )  # fmt: skip
    assert await rig.queries.find_endpoint(customer.account_id, second.id) == evolve(second, secret=None)


async def test_a_hosts_key_does_not_open_on_another_host(rig: PostgresRig):
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


async def test_a_transcript_does_not_decrypt_in_another_note(rig: PostgresRig):
    customer = await open_customer(rig, 100)
    one, other = await completed(rig, customer), await completed(rig, customer)
    await rig.rows(
        "UPDATE notes SET content = (SELECT content FROM notes WHERE id = %(a)s) WHERE id = %(b)s",
        a=one.id, b=other.id,
    )  # fmt: skip
    assert await find_note(rig, other) == evolve(other, draft=None, transcript=())


async def test_a_chunk_does_not_decrypt_as_another_piece(rig: PostgresRig):
    await queued(rig, await open_customer(rig, 100))
    (task,) = await claim_notes(rig)
    assert await rig.alone.notes.save_transcript_chunk(task, "source", 0, (Utterance(0, 1, "satu"),))
    await rig.rows("UPDATE transcript_chunks SET number = 1")
    async with rig.store.begin() as tx:
        with pytest.raises(CipherRefused):
            await tx.notes.load_transcript_chunks(task, "source")


async def test_nothing_spoken_is_left_after_erasure(rig: PostgresRig):
    customer = await open_customer(rig, 100)
    note = await completed(rig, customer)
    assert b"SEALED-said" in await everything(rig)
    await erase(rig, note)
    stored = await everything(rig)
    for word in (b"said", b"summary", b"decision", b"task", b"owner", b"topic"):
        assert b"SEALED-" + word not in stored
    assert b"Postgres" not in stored


async def walk(values: SealedValues, limit: int, *, dry_run: bool = False) -> tuple[dict[str, int], int, int]:
    """What was found under each key, how many were resealed, and how many do not open."""
    found: dict[str, int] = {}
    resealed = unreadable = 0
    for column in values.columns:
        after: tuple[object, ...] | None = None
        while True:
            portion = await (values.count if dry_run else values.reseal)(column, after, limit)
            for key, count in portion.found.items():
                found[key] = found.get(key, 0) + count
            resealed, unreadable = resealed + portion.resealed, unreadable + portion.unreadable
            if (after := portion.after) is None:
                break
    return found, resealed, unreadable


VALUES = 2_000


class Keys:
    """An old key and a new one, and ciphers on them."""

    def __init__(self) -> None:
        self._keys = {name: os.urandom(KEY_BYTES) for name in ("old", "new")}
        self.old_id, self.new_id = (self.cipher(name).key_ids[0].hex() for name in ("old", "new"))

    def cipher(self, *names: str) -> AesGcmCipher:
        return AesGcmCipher([self._keys[name] for name in names])


class PostgresSealed(Keys):
    """A life in which every sealed column of the database is written."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self.rig = PostgresRig(pool, self.cipher("old"))

    def values(self, *names: str) -> PostgresSealedValues:
        return PostgresSealedValues(self._pool, self.cipher(*names))

    async def check(self, *names: str) -> None:
        cipher = self.cipher(*names)
        for column in COLUMNS:
            rows = await self.rig.rows(f"SELECT * FROM {column.table} WHERE {column.name} IS NOT NULL")
            assert rows, f"nothing is sealed in {column.table}.{column.name}: the test has to write it"
            for row in rows:
                cipher.open(row[column.name], column.context(*(row[name] for name, _ in column.key)))
        others = {"old", "new"} - set(names)
        for other in others:
            header = b"\x01" + self.cipher(other).key_ids[0]
            assert header not in await everything(self.rig), "a sealed column is not among COLUMNS"


@pytest.fixture
async def sealed(store_pool: Pool) -> PostgresSealed:
    """A store with values under the old key."""
    sealed = PostgresSealed(store_pool)
    await sealed.rig.reset()
    await live(sealed.rig)
    return sealed


async def test_every_value_is_sealed_again_and_opens_without_the_old_key(sealed: PostgresSealed) -> None:
    await sealed.check("old")
    values = sealed.values("new", "old")
    assert list(values.key_ids) == [sealed.new_id, sealed.old_id]
    before, _, _ = await walk(values, 3, dry_run=True)
    assert set(before) == {sealed.old_id}
    assert await walk(values, 1) == (before, before[sealed.old_id], 0)
    after, resealed, unreadable = await walk(values, 2)
    assert (after, resealed, unreadable) == ({sealed.new_id: before[sealed.old_id]}, 0, 0)
    await sealed.check("new")


async def test_what_does_not_open_is_left_alone(sealed: PostgresSealed) -> None:
    before, resealed, unreadable = await walk(sealed.values("new"), 5)
    assert (set(before), resealed, unreadable) == ({sealed.old_id}, 0, before[sealed.old_id])
    await sealed.check("old")


async def fill(sealed: PostgresSealed, owner: UUID, number: int = VALUES) -> dict[UUID, bytes]:
    """Many events of an account, sealed under the old key; their contents."""
    old, found = sealed.cipher("old"), {new_id(): os.urandom(40) for _ in range(number)}
    await sealed.rig.rows(
        "INSERT INTO events (account_id, id, kind, payload, created_at)"
        " SELECT %(owner)s, e.id, 'meeting.created', e.payload, now()"
        " FROM unnest(%(ids)s::uuid[], %(payloads)s::bytea[]) AS e (id, payload) RETURNING id",
        owner=owner, ids=list(found),
        payloads=[old.seal(content, event_context(owner, id_)) for id_, content in found.items()],
    )  # fmt: skip
    return found


async def recorded(sealed: PostgresSealed) -> list[str]:
    """What the audit log has of reseals to this new key."""
    found = await sealed.rig.rows(
        "SELECT action FROM audit_log WHERE action LIKE 'secrets.%%' AND target_id = %(key)s ORDER BY action",
        key=sealed.new_id,
    )
    return [row["action"] for row in found]


async def test_values_that_do_not_open_are_named_up_to_a_number(
    store_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_values, "log", structlog.get_logger("meetcore.postgres"))
    sealed = PostgresSealed(store_pool)
    await sealed.rig.reset()
    owner = (await open_customer(sealed.rig)).account_id
    ids = list(await fill(sealed, owner, LOGGED_AT_MOST + 3))
    with capture_own_logs() as lines:
        for after in (None, (owner, ids[49])):
            await sealed.values("new").reseal("events.payload", after, 50)
    assert [(line["table"], line["account_id"], line["id"]) for line in lines] == [
        ("events", str(owner), str(id_)) for id_ in ids[:100]
    ]
    values = sealed.values("new")
    with capture_own_logs() as lines:
        found = await values.reseal("events.payload", None, VALUES)
    assert (found.unreadable, len(lines)) == (len(ids), LOGGED_AT_MOST)


async def test_many_values_are_resealed_under_load_and_after_a_kill(store_pool: Pool) -> None:
    sealed = PostgresSealed(store_pool)
    await sealed.rig.reset()
    owner = (await open_customer(sealed.rig)).account_id
    contents = await fill(sealed, owner)
    both, stop = sealed.cipher("new", "old"), asyncio.Event()
    update = "UPDATE events SET payload = %(fresh)s WHERE id = %(id)s RETURNING id"
    select = "SELECT payload FROM events WHERE account_id = %(owner)s AND id = %(id)s"

    async def write_and_read(ids: list[UUID]) -> int:
        """Write some values anew, and read each as customers do."""
        looked_at = 0
        while not stop.is_set():
            id_ = ids[looked_at % len(ids)]
            (row,) = await sealed.rig.rows(select, owner=owner, id=id_)
            assert both.open(row["payload"], event_context(owner, id_)) == contents[id_]
            if looked_at % 3 == 0:
                contents[id_] = os.urandom(40)
                fresh = both.seal(contents[id_], event_context(owner, id_))
                await sealed.rig.rows(update, fresh=fresh, id=id_)
            looked_at += 1
        return looked_at

    ids = list(contents)
    load = [asyncio.create_task(write_and_read(ids[start::4])) for start in range(4)]
    clock = ManualClock(AT)
    reseal = ResealSecrets(
        sealed.values("new", "old"), sealed.rig.store, Runtime(clock, SeededEntropy(3)), portion=25
    )
    killed = asyncio.create_task(reseal())
    old_key = b"\x01" + sealed.cipher("old").key_ids[0]
    resealed = "SELECT count(*) AS number FROM events WHERE substr(payload, 1, %(length)s) <> %(old_key)s"
    async with asyncio.timeout(120):
        while (await sealed.rig.rows(resealed, length=len(old_key), old_key=old_key))[0]["number"] < 100:
            pass
    while not killed.done():  # `asyncio.wait_for` before Python 3.12 loses one that comes as its result does
        killed.cancel()
        await asyncio.sleep(0)
    assert killed.cancelled()
    assert await recorded(sealed) == ["secrets.reseal_started"]
    half = await reseal(dry_run=True)
    steps: list[tuple[int, int]] = []
    done = await reseal(on_progress=lambda *step: steps.append(step))
    again = await reseal()
    stop.set()
    assert min(await asyncio.gather(*load)) > 0
    assert not half.is_done
    assert again.is_done
    assert (again.resealed, again.unreadable) == (0, 0)
    assert await recorded(sealed) == ["secrets.reseal_started", "secrets.reseal_started", "secrets.resealed"]
    assert steps == sorted(steps)
    assert 0 < steps[-1][0] <= steps[-1][1] == steps[0][1]
    assert again.left[sealed.new_id] >= VALUES
    assert done.unreadable == 0
    new = sealed.cipher("new")
    rows = await sealed.rig.rows("SELECT id, payload FROM events WHERE account_id = %(owner)s", owner=owner)
    assert {row["id"]: new.open(row["payload"], event_context(owner, row["id"])) for row in rows} == contents
