"""Provider events and checks for orphans: claimed by one worker at a time, kept until they are done."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.postgres.meetings.upkeep import provider_event_context
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.provider_events import MAX_TRIES, ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.views import ClaimedEvent, LeaseView, OrphanCheck
from meetcore.domain.notes.recordings import FileKind
from meetcore.ports.runtime import Lease
from tests.support.fakes import PlainCipher
from tests.support.postgres_rig import PostgresRig
from tests.support.records import add_event, claim_events, finish_event, new_file, provider_event
from tests.support.transactions import (
    Customer,
    MeetingSpec,
    abandon,
    new_id,
    open_customer,
    open_with_host,
    reserved,
)


async def _postpone(
    rig: PostgresRig, claimed: ClaimedEvent, seconds: float, token: UUID | None = None
) -> None:
    await rig.alone.inbox.postpone(claimed.id, token or claimed.token, seconds)


@pytest.mark.parametrize(
    "event",
    [
        provider_event(),
        provider_event(
            kind=ProviderEventKind.MEETING_STARTED, provider="sandbox", provider_meeting_id="room/ü=="
        ),
        provider_event(
            kind=ProviderEventKind.RECORDING_READY,
            files=(new_file(), new_file("a2", kind=FileKind.TRANSCRIPT, size_bytes=0)),
        ),
    ],
    ids=["ended", "started", "recording"],
)
async def test_an_event_is_read_back_as_it_was_received(rig: PostgresRig, event: ProviderEvent) -> None:
    id_ = await add_event(rig, event)
    (claimed,) = await claim_events(rig)
    assert (claimed.id, claimed.event, claimed.tries) == (id_, event, 1)


async def test_the_same_bytes_of_a_provider_are_taken_in_once(rig: PostgresRig) -> None:
    first = await add_event(rig, provider_event(), b"d" * 32)
    assert await add_event(rig, provider_event(), b"d" * 32) is None
    assert await add_event(rig, provider_event(provider="sandbox"), b"d" * 32) is not None
    assert await add_event(rig, provider_event(), b"e" * 32) is not None
    claimed = await claim_events(rig)
    assert len(claimed) == 3
    assert claimed[0].id == first


async def test_doubles_at_the_same_time_are_taken_in_once(rig: PostgresRig) -> None:
    ids = await asyncio.gather(*(add_event(rig, provider_event(), b"d" * 32) for _ in range(8)))
    assert len([id_ for id_ in ids if id_ is not None]) == 1
    assert len(await claim_events(rig)) == 1


async def test_claims_at_the_same_time_share_what_is_due(rig: PostgresRig) -> None:
    ids = [await add_event(rig, provider_event()) for _ in range(12)]
    shares = await asyncio.gather(*(claim_events(rig, limit=4) for _ in range(6)))
    taken = [one.id for share in shares for one in share]
    assert len(taken) == len(set(taken))
    taken += [one.id for one in await claim_events(rig)]
    assert sorted(taken) == sorted(id_ for id_ in ids if id_ is not None)


async def test_what_a_dead_worker_left_is_due_again(rig: PostgresRig) -> None:
    await add_event(rig, provider_event())
    (left,) = await claim_events(rig, seconds=-1)
    (again,) = await claim_events(rig)
    assert (again.id, again.event) == (left.id, left.event)
    assert again.token != left.token
    assert (left.tries, again.tries) == (1, 2)
    assert (left.had_expired_lease, again.had_expired_lease) == (False, True)


@pytest.mark.parametrize("action", [finish_event, lambda rig, one: _postpone(rig, one, 3600)])
async def test_a_lost_claim_changes_nothing(rig: PostgresRig, action: Any) -> None:
    await add_event(rig, provider_event())
    (left,) = await claim_events(rig, seconds=-1)
    await claim_events(rig, seconds=-1)
    await action(rig, left)
    (third,) = await claim_events(rig)
    assert third.tries == 3


async def test_an_event_that_was_released_is_no_longer_claimed(rig: PostgresRig) -> None:
    await add_event(rig, provider_event())
    (claimed,) = await claim_events(rig)
    await _postpone(rig, claimed, -1)
    await finish_event(rig, claimed)
    assert len(await claim_events(rig)) == 1


async def test_an_event_that_does_not_open_keeps_no_other_from_being_worked_on(rig: PostgresRig):
    other_key = PostgresRig(rig.pool, AesGcmCipher([bytes(KEY_BYTES)]))
    await add_event(other_key, provider_event(provider_meeting_id="sealed under another key"))
    await add_event(rig, provider_event(provider_meeting_id="ours"))
    assert [one.event.provider_meeting_id for one in await claim_events(rig)] == ["ours"]


async def test_an_event_that_does_not_open_is_tried_every_hour_and_dropped_at_the_last_try(rig: PostgresRig):
    other_key = PostgresRig(rig.pool, AesGcmCipher([bytes(KEY_BYTES)]))
    id_ = await add_event(other_key, provider_event())
    assert await claim_events(rig) == []
    [row] = await rig.rows(
        "SELECT lease_token, due_at > now() + interval '59 minutes' AS waits FROM provider_events"
    )
    assert row == {"lease_token": None, "waits": True}
    rig.write("UPDATE provider_events SET due_at = now()")
    (again,) = await claim_events(other_key)
    assert (again.id, again.tries) == (id_, 2), "its key may be given again"
    rig.write("UPDATE provider_events SET due_at = now(), tries = %(tries)s", tries=MAX_TRIES - 1)
    assert await claim_events(rig) == []
    [row] = await rig.rows("SELECT payload, due_at, lease_token FROM provider_events")
    assert set(row.values()) == {None}


async def test_an_event_of_another_release_keeps_no_other_from_being_worked_on(rig: PostgresRig):
    await add_event(rig, provider_event(provider_meeting_id="of a kind that is not known yet"))
    await add_event(rig, provider_event(provider_meeting_id="ours"))
    [first, _] = await rig.rows("SELECT id FROM provider_events ORDER BY due_at")
    payload = PlainCipher().seal(b'{"kind": "meeting_renamed"}', provider_event_context(first["id"]))
    async with rig.pool.connection() as connection:
        await connection.execute(
            "UPDATE provider_events SET payload = %(payload)s WHERE id = %(id)s", first | {"payload": payload}
        )
    assert [one.event.provider_meeting_id for one in await claim_events(rig)] == ["ours"]


async def test_what_is_done_leaves_its_digest_only(rig: PostgresRig):
    await add_event(rig, provider_event())
    (claimed,) = await claim_events(rig)
    await finish_event(rig, claimed)
    [row] = await rig.rows("SELECT payload, due_at, lease_token FROM provider_events")
    assert set(row.values()) == {None}


async def _made(
    rig: PostgresRig, customer: Customer, window_s: float | None, lease_s: float = 0.0
) -> LeaseView:
    """A meeting in the making, whose check is due so long after the lease."""
    return await reserved(rig, customer, MeetingSpec(lease_s=lease_s, orphan_window_s=window_s))


async def _due(rig: PostgresRig, limit: int = 10, lease_s: float = 60.0) -> list[OrphanCheck]:
    return list(await rig.alone.orphan_checks.claim_due(limit, Lease(new_id(), lease_s)))


async def _postpone_check(
    rig: PostgresRig, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
) -> None:
    await rig.alone.orphan_checks.postpone(check, after_s, failures=failures, is_sighting=is_sighting)


async def _close(rig: PostgresRig, check: OrphanCheck) -> None:
    await rig.alone.orphan_checks.close(check)


async def _open(rig: PostgresRig, made: LeaseView) -> None:
    await rig.alone.orphan_checks.open(made.meeting.account_id, made.meeting.id)


async def test_the_age_is_negative_while_the_request_may_be_under_way(rig: PostgresRig) -> None:
    await _made(rig, await open_with_host(rig), -60, lease_s=60)
    (check,) = await _due(rig)
    assert -60 <= check.age_s < -30


async def test_the_longest_due_checks_come_first_up_to_the_limit(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    made = [(await _made(rig, customer, -seconds)).meeting.id for seconds in (20, 40, 30)]
    assert [check.meeting.id for check in await _due(rig, 2)] == [made[1], made[2]]
    assert [check.meeting.id for check in await _due(rig, 2)] == [made[0]]


async def test_the_age_continues_over_checks_unless_an_orphan_was_found(rig: PostgresRig) -> None:
    await _made(rig, await open_with_host(rig), 0, lease_s=-100)
    (check,) = await _due(rig)
    assert check.age_s >= 100
    await _postpone_check(rig, check, -1, failures=3)
    (again,) = await _due(rig)
    assert (again.age_s >= check.age_s, again.failures) == (True, 3)
    await _postpone_check(rig, again, -1, is_sighting=True)
    (anew,) = await _due(rig)
    assert (anew.age_s < 30, anew.failures) == (True, 0)


async def test_a_lost_lease_changes_nothing(rig: PostgresRig) -> None:
    await _made(rig, await open_with_host(rig), -1)
    (lost,) = await _due(rig, lease_s=-1)
    (held,) = await _due(rig)
    await _close(rig, lost)
    await _postpone_check(rig, lost, -1)
    assert await _due(rig) == [], "it is the other's"
    await _postpone_check(rig, held, -1)
    assert len(await _due(rig)) == 1


async def test_a_reopened_check_has_no_lease(rig: PostgresRig) -> None:
    made = await _made(rig, await open_with_host(rig), 0, lease_s=-100)
    (lost,) = await _due(rig)
    await _open(rig, made)
    await _close(rig, lost)
    (check,) = await _due(rig)
    assert check.age_s < 30, "an orphan was seen now"


async def test_a_meeting_without_a_check_is_given_one(rig: PostgresRig) -> None:
    made = await _made(rig, await open_with_host(rig), None)
    await _open(rig, made)
    (check,) = await _due(rig)
    assert check.meeting == made.meeting


async def test_an_abandoned_creation_is_checked_on_request(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    for window_s in (None, -1, 60):
        unmade, waits, due = [await _made(rig, customer, window_s) for _ in range(3)]
        assert await abandon(rig, unmade, look_again_s=None)
        assert await abandon(rig, waits, look_again_s=60)
        assert await abandon(rig, due, look_again_s=0, was_made=True)
        (check,) = await _due(rig)
        assert check.meeting == evolve(due.meeting, status=MeetingStatus.ABANDONED)


async def test_giving_up_ends_the_lease_on_a_check(rig: PostgresRig) -> None:
    made = await _made(rig, await open_with_host(rig), -1)
    (lost,) = await _due(rig)
    assert await abandon(rig, made, look_again_s=0)
    await _close(rig, lost)
    assert len(await _due(rig)) == 1


async def test_a_meeting_without_a_host_is_checked_too(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    await reserved(rig, customer, MeetingSpec(needs_host=False, lease_s=0.0, orphan_window_s=-1))
    assert [check.provider_user_id for check in await _due(rig)] == [""]
