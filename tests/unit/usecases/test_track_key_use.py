"""The last use of a key: to the minute, in few writes, with bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.track_key_use import TrackKeyUse
from tests.unit.usecases.application import ApplicationHarness

AT = datetime(2026, 12, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
THIS_MINUTE = datetime(2026, 12, 1, 2, 3, tzinfo=UTC)


def key(number: int, last_used_at: datetime | None = None) -> ApiKey:
    return ApiKey(UUID(int=number), UUID(int=99), (), None, AT, last_used_at=last_used_at)


@define
class Writes:
    """What was written; fails, or lets something happen meanwhile, when it is set to."""

    written: list[dict[UUID, datetime]] = field(factory=list)
    fault: Exception | None = None
    meanwhile: tuple[TrackKeyUse, ApiKey, datetime] | None = None

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        if self.fault is not None:
            raise self.fault
        if self.meanwhile is not None:
            track, used_key, at = self.meanwhile
            track.add(used_key, at)
        self.written.append(dict(used))


async def test_many_requests_of_a_minute_are_one_write() -> None:
    track = TrackKeyUse(writes := Writes())
    for seconds in (0, 10, 40, 20, 70, 30):
        track.add(key(1), AT + timedelta(seconds=seconds))
    track.add(key(2), AT)
    await track()
    await track()
    assert writes.written == [{UUID(int=1): THIS_MINUTE + MINUTE, UUID(int=2): THIS_MINUTE}]


async def test_a_minute_that_is_stored_is_not_written_again() -> None:
    """Another process may have written it: a request reads its key anyway."""
    track = TrackKeyUse(writes := Writes())
    track.add(key(1, THIS_MINUTE), AT)
    track.add(key(2, THIS_MINUTE + MINUTE), AT)
    track.add(key(3, THIS_MINUTE - MINUTE), AT)
    await track()
    assert writes.written == [{UUID(int=3): THIS_MINUTE}]


async def test_uses_are_kept_while_the_store_is_unavailable() -> None:
    track = TrackKeyUse(writes := Writes(fault=StoreUnavailable("away")))
    track.add(key(1), AT)
    with pytest.raises(StoreUnavailable):
        await track()
    track.add(key(2), AT)
    writes.fault = None
    await track()
    assert writes.written == [{UUID(int=1): THIS_MINUTE, UUID(int=2): THIS_MINUTE}]


@pytest.mark.parametrize(("later", "is_kept"), [(timedelta(seconds=1), False), (MINUTE, True)])
async def test_a_use_during_the_write_waits_for_the_next(later: timedelta, is_kept: bool) -> None:
    track = TrackKeyUse(writes := Writes())
    track.add(key(1), AT)
    writes.meanwhile = track, key(1), AT + later
    await track()
    writes.meanwhile = None
    await track()
    assert writes.written[1:] == ([{UUID(int=1): THIS_MINUTE + MINUTE}] if is_kept else [])


async def test_memory_is_bounded() -> None:
    track = TrackKeyUse(writes := Writes(), at_most=2)
    for number in (1, 2, 3):
        track.add(key(number), AT)
    track.add(key(1), AT + MINUTE)
    await track()
    track.add(key(3), AT + MINUTE)
    await track()
    assert writes.written == [
        {UUID(int=1): THIS_MINUTE + MINUTE, UUID(int=2): THIS_MINUTE},
        {UUID(int=3): THIS_MINUTE + MINUTE},
    ]


async def test_a_key_that_was_accepted_is_used_and_a_refused_one_is_not() -> None:
    harness = await ApplicationHarness().start()
    application = harness.process()
    minted = [await harness.administration.create_key(harness.caller.account.id, ()) for _ in range(2)]
    await harness.administration.revoke_key(minted[1].key.id)
    await application.admit.authenticate(f"Bearer {minted[0].text}", AT)
    with pytest.raises(InvalidApiKey):
        await application.admit.authenticate(f"Bearer {minted[1].text}", AT)
    await application.admit.uses()
    stored = {each.id: each for each in await harness.registry.list_keys(harness.caller.account.id)}
    assert stored[minted[0].key.id] == evolve(minted[0].key, last_used_at=THIS_MINUTE)
    assert stored[minted[1].key.id].last_used_at is None
