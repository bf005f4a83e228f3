"""Provider events in a store: added once, worked on by one at a time, kept until they are done."""

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ClaimedEvent
from meetcore.testing.contracts.store_rig import Rig, StoreRig
from meetcore.testing.contracts.transactions import AT, new_id


def new_file(id: str = "a1", **fields: Any) -> RecordingFile:
    """A file of a recording; `fields` are attributes of it."""
    url = f"https://files.example/{id}?key=SEALED-file"
    return evolve(
        RecordingFile(id, FileKind.VIDEO, 210_000_000, AT, AT + timedelta(minutes=36), url), **fields
    )


def provider_event(**fields: Any) -> ProviderEvent:
    """Return the event of a meeting that ended; `fields` are attributes of the event."""
    return evolve(ProviderEvent("zoom", ProviderEventKind.MEETING_ENDED, "85746065432", AT), **fields)


async def add_event(rig: Rig, event: ProviderEvent, digest: bytes | None = None) -> UUID | None:
    """Add an event; return its id, or `None` when it is a duplicate."""
    id_ = new_id()
    async with rig.store.begin() as tx:
        is_new = await tx.inbox.add(id_, event, os.urandom(32) if digest is None else digest)
    return id_ if is_new else None


async def claim_events(rig: Rig, limit: int = 100, seconds: float = 60.0) -> Sequence[ClaimedEvent]:
    """Claim what is due for so many seconds."""
    async with rig.store.begin() as tx:
        return list(await tx.inbox.claim(limit, Lease(new_id(), seconds)))


async def finish_event(rig: Rig, claimed: ClaimedEvent, token: UUID | None = None) -> None:
    """Mark an event as done, under its own token or another."""
    async with rig.store.begin() as tx:
        await tx.inbox.done(claimed.id, token or claimed.token)


async def _postpone(rig: Rig, claimed: ClaimedEvent, seconds: float, token: UUID | None = None) -> None:
    async with rig.store.begin() as tx:
        await tx.inbox.postpone(claimed.id, token or claimed.token, seconds)


async def _add_and_fail(rig: Rig, digest: bytes) -> None:
    async with rig.store.begin() as tx:
        await tx.inbox.add(new_id(), provider_event(), digest)
        raise ZeroDivisionError


@pytest.mark.asyncio
class ProviderEventInboxContract:
    """What `ports.provider_events.ProviderEventInbox` promises."""

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
    async def test_an_event_is_read_back_as_it_was_received(
        self, rig: StoreRig, event: ProviderEvent
    ) -> None:
        id_ = await add_event(rig, event)
        (claimed,) = await claim_events(rig)
        assert (claimed.id, claimed.event, claimed.tries) == (id_, event, 1)

    async def test_the_same_bytes_of_a_provider_are_taken_in_once(self, rig: StoreRig) -> None:
        first = await add_event(rig, provider_event(), b"d" * 32)
        assert await add_event(rig, provider_event(), b"d" * 32) is None
        assert await add_event(rig, provider_event(provider="sandbox"), b"d" * 32) is not None
        assert await add_event(rig, provider_event(), b"e" * 32) is not None
        claimed = await claim_events(rig)
        assert len(claimed) == 3
        assert claimed[0].id == first

    async def test_doubles_at_the_same_time_are_taken_in_once(self, rig: StoreRig) -> None:
        ids = await asyncio.gather(*(add_event(rig, provider_event(), b"d" * 32) for _ in range(8)))
        assert len([id_ for id_ in ids if id_ is not None]) == 1
        assert len(await claim_events(rig)) == 1

    async def test_a_double_of_what_is_done_is_known(self, rig: StoreRig) -> None:
        await add_event(rig, provider_event(), b"d" * 32)
        (claimed,) = await claim_events(rig)
        await finish_event(rig, claimed)
        assert await add_event(rig, provider_event(), b"d" * 32) is None

    async def test_nothing_is_kept_of_a_transaction_that_failed(self, rig: StoreRig) -> None:
        with pytest.raises(ZeroDivisionError):
            await _add_and_fail(rig, b"d" * 32)
        assert await claim_events(rig) == []
        assert await add_event(rig, provider_event(), b"d" * 32) is not None

    async def test_a_claimed_event_is_not_claimed_again(self, rig: StoreRig) -> None:
        ids = [await add_event(rig, provider_event()) for _ in range(3)]
        first = await claim_events(rig, limit=2)
        second = await claim_events(rig, limit=2)
        assert [one.id for one in first] == ids[:2], "the longest due first"
        assert [one.id for one in second] == ids[2:]
        assert await claim_events(rig) == []

    async def test_claims_at_the_same_time_share_what_is_due(self, rig: StoreRig) -> None:
        ids = [await add_event(rig, provider_event()) for _ in range(12)]
        shares = await asyncio.gather(*(claim_events(rig, limit=4) for _ in range(6)))
        taken = [one.id for share in shares for one in share]
        assert len(taken) == len(set(taken))
        taken += [one.id for one in await claim_events(rig)]
        assert sorted(taken) == sorted(id_ for id_ in ids if id_ is not None)

    async def test_what_a_dead_worker_left_is_due_again(self, rig: StoreRig) -> None:
        await add_event(rig, provider_event())
        (left,) = await claim_events(rig, seconds=-1)
        (again,) = await claim_events(rig)
        assert (again.id, again.event) == (left.id, left.event)
        assert again.token != left.token
        assert (left.tries, again.tries) == (1, 2)
        assert (left.had_expired_lease, again.had_expired_lease) == (False, True)

    async def test_what_is_done_is_never_due_again(self, rig: StoreRig) -> None:
        await add_event(rig, provider_event())
        (claimed,) = await claim_events(rig, seconds=-1)
        await finish_event(rig, claimed)
        assert await claim_events(rig) == []

    async def test_what_is_postponed_is_due_later(self, rig: StoreRig) -> None:
        await add_event(rig, provider_event())
        await add_event(rig, provider_event())
        soon, late = await claim_events(rig)
        await _postpone(rig, soon, -1)
        await _postpone(rig, late, 3600)
        (again,) = await claim_events(rig)
        assert (again.id, again.event, again.tries) == (soon.id, soon.event, 2)
        assert not again.had_expired_lease

    @pytest.mark.parametrize("action", [finish_event, lambda rig, one: _postpone(rig, one, 3600)])
    async def test_a_lost_claim_changes_nothing(self, rig: StoreRig, action: Any) -> None:
        await add_event(rig, provider_event())
        (left,) = await claim_events(rig, seconds=-1)
        await claim_events(rig, seconds=-1)
        await action(rig, left)
        (third,) = await claim_events(rig)
        assert third.tries == 3

    async def test_an_event_that_was_released_is_no_longer_claimed(self, rig: StoreRig) -> None:
        await add_event(rig, provider_event())
        (claimed,) = await claim_events(rig)
        await _postpone(rig, claimed, -1)
        await finish_event(rig, claimed)
        assert len(await claim_events(rig)) == 1
