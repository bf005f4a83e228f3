"""Provider events in every store: added once, worked on by one at a time, kept until they are done."""

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.inbox.events import provider_event_context
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.testing.contracts import ProviderEventInboxContract
from meetcore.testing.contracts.provider_event_inbox import (
    add_event,
    claim_events,
    finish_event,
    provider_event,
)
from tests.support.postgres_rig import PostgresRig


class TestProviderEventInbox(ProviderEventInboxContract):
    """In memory and in Postgres."""


async def test_an_event_that_does_not_open_keeps_no_other_from_being_worked_on(postgres_rig: PostgresRig):
    other_key = PostgresRig(postgres_rig.pool, AesGcmCipher([bytes(KEY_BYTES)]))
    await add_event(other_key, provider_event(provider_meeting_id="sealed under another key"))
    await add_event(postgres_rig, provider_event(provider_meeting_id="ours"))
    assert [one.event.provider_meeting_id for one in await claim_events(postgres_rig)] == ["ours"]


async def test_an_event_of_another_release_keeps_no_other_from_being_worked_on(postgres_rig: PostgresRig):
    await add_event(postgres_rig, provider_event(provider_meeting_id="of a kind that is not known yet"))
    await add_event(postgres_rig, provider_event(provider_meeting_id="ours"))
    [first, _] = await postgres_rig.rows("SELECT id FROM provider_events ORDER BY due_at")
    payload = PlainCipher().seal(b'{"kind": "meeting_renamed"}', provider_event_context(first["id"]))
    async with postgres_rig.pool.connection() as connection:
        await connection.execute(
            "UPDATE provider_events SET payload = %(payload)s WHERE id = %(id)s", first | {"payload": payload}
        )
    assert [one.event.provider_meeting_id for one in await claim_events(postgres_rig)] == ["ours"]


async def test_what_is_done_leaves_its_digest_only(postgres_rig: PostgresRig):
    await add_event(postgres_rig, provider_event())
    (claimed,) = await claim_events(postgres_rig)
    await finish_event(postgres_rig, claimed)
    [row] = await postgres_rig.rows("SELECT payload, due_at, lease_token FROM provider_events")
    assert set(row.values()) == {None}
