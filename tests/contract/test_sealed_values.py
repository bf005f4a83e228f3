"""Moving to another secrets key: every sealed column, under load, interrupted, and without the old key."""

from __future__ import annotations

import asyncio
import os
from uuid import UUID

import pytest
import structlog
from structlog.testing import capture_logs

from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.memory.sealed_values import MemorySealedValues
from meetcore.adapters.postgres import sealed_values
from meetcore.adapters.postgres.deliveries.outbox import event_context
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.sealed_values import COLUMNS, LOGGED_AT_MOST, PostgresSealedValues
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.testing.contracts import SealedValuesContract, SealedValuesRig
from meetcore.testing.contracts.transactions import AT, new_id, open_customer
from meetcore.usecases.reseal_secrets import ResealSecrets
from meetcore.usecases.runtime import Runtime
from tests.contract.test_sealed_columns import everything, live
from tests.support.postgres_rig import PostgresRig

VALUES = 2_000


class Keys:
    """An old key and a new one, and ciphers on them."""

    def __init__(self) -> None:
        self._keys = {name: os.urandom(KEY_BYTES) for name in ("old", "new")}
        self.old_id, self.new_id = (self.cipher(name).key_ids[0].hex() for name in ("old", "new"))

    def cipher(self, *names: str) -> AesGcmCipher:
        return AesGcmCipher([self._keys[name] for name in names])


class MemorySealed(Keys):
    """Two columns in memory."""

    def __init__(self) -> None:
        super().__init__()
        old = self.cipher("old")
        self._values = {
            column: {f"{column}/{n}": old.seal(b"%d" % n, f"{column}/{n}") for n in range(7)}
            for column in ("a", "b")
        }

    def values(self, *names: str) -> MemorySealedValues:
        return MemorySealedValues(self._values, self.cipher(*names))

    async def check(self, *names: str) -> None:
        for values in self._values.values():
            for context, value in values.items():
                assert self.cipher(*names).open(value, context) == context.partition("/")[2].encode()


class PostgresSealed(Keys):
    """A life in which every sealed column of the database is written."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self.rig = PostgresRig(pool, self.cipher("old"))

    async def empty(self) -> None:
        """Leave nothing that another test sealed."""
        await self.rig.reset()
        for table in (
            "transcript_chunks", "notes", "recordings", "events", "idempotency_keys", "provider_events",
            "mails", "webhook_endpoints",
        ):  # fmt: skip
            await self.rig.rows(f"DELETE FROM {table}")
        await self.rig.rows("UPDATE hosts SET host_key = NULL")
        await self.rig.rows("UPDATE meetings SET password = NULL, sealed_join_url = NULL")

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


class TestMemorySealedValues(SealedValuesContract):
    @pytest.fixture
    def sealed(self) -> SealedValuesRig:
        return MemorySealed()


class TestPostgresSealedValues(SealedValuesContract):
    @pytest.fixture
    async def sealed(self, store_pool: Pool) -> SealedValuesRig:
        sealed = PostgresSealed(store_pool)
        await sealed.empty()
        await live(sealed.rig)
        return sealed


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
    await sealed.empty()
    owner = (await open_customer(sealed.rig)).account_id
    ids = list(await fill(sealed, owner, LOGGED_AT_MOST + 3))
    with capture_logs() as lines:
        for after in (None, (owner, ids[49])):
            await sealed.values("new").reseal("events.payload", after, 50)
    assert [(line["table"], line["account_id"], line["id"]) for line in lines] == [
        ("events", str(owner), str(id_)) for id_ in ids[:100]
    ]
    values = sealed.values("new")
    with capture_logs() as lines:
        found = await values.reseal("events.payload", None, VALUES)
    assert (found.unreadable, len(lines)) == (len(ids), LOGGED_AT_MOST)


async def test_many_values_are_resealed_under_load_and_after_a_kill(store_pool: Pool) -> None:
    sealed = PostgresSealed(store_pool)
    await sealed.empty()
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
    async with asyncio.timeout(20):
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
