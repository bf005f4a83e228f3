"""What providers told, in a store: taken in once, worked on by one at a time, kept until it is done."""

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.recordings import FileKind, RecordingFile
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ClaimedEvent
from meetcore.testing.contracts.store_rig import Rig, StoreRig
from meetcore.testing.contracts.transactions import AT, new_id

__all__ = ["ProviderEventInboxContract", "claim_told", "finish_told", "new_file", "tell", "told"]


def new_file(id: str = "a1", **fields: Any) -> RecordingFile:
    """A file of a recording; `fields` are attributes of it."""
    url = f"https://files.example/{id}?key=SEALED-file"
    return evolve(
        RecordingFile(id, FileKind.VIDEO, 210_000_000, AT, AT + timedelta(minutes=36), url), **fields
    )


def told(**fields: Any) -> ProviderEvent:
    """The news of a meeting that ended; `fields` are attributes of the event."""
    return evolve(ProviderEvent("zoom", ProviderEventKind.MEETING_ENDED, "85746065432", AT), **fields)


async def tell(rig: Rig, event: ProviderEvent, digest: bytes | None = None) -> UUID | None:
    """Take an event in; its id, or none when it is a double."""
    id_ = new_id()
    async with rig.store.begin() as tx:
        is_new = await tx.inbox.add(id_, event, os.urandom(32) if digest is None else digest)
    return id_ if is_new else None


async def claim_told(rig: Rig, limit: int = 100, seconds: float = 60.0) -> Sequence[ClaimedEvent]:
    """Claim what is due for so many seconds."""
    async with rig.store.begin() as tx:
        return list(await tx.inbox.claim(limit, Lease(new_id(), seconds)))


async def finish_told(rig: Rig, claimed: ClaimedEvent, token: UUID | None = None) -> None:
    """Be done with an event, under its own token or another."""
    async with rig.store.begin() as tx:
        await tx.inbox.done(claimed.id, token or claimed.token)


async def _postpone(rig: Rig, claimed: ClaimedEvent, seconds: float, token: UUID | None = None) -> None:
    async with rig.store.begin() as tx:
        await tx.inbox.postpone(claimed.id, token or claimed.token, seconds)


async def _tell_and_fail(rig: Rig, digest: bytes) -> None:
    async with rig.store.begin() as tx:
        await tx.inbox.add(new_id(), told(), digest)
        raise ZeroDivisionError


@pytest.mark.asyncio
class ProviderEventInboxContract:
    """What `ports.provider_events.ProviderEventInbox` promises.

    Give a fixture `rig` that is a `StoreRig`, where you like::

        class TestMySQLProviderEventInbox(ProviderEventInboxContract):
            @pytest_asyncio.fixture
            async def rig(self, mysql_pool):
                return await fresh_mysql_rig(mysql_pool)
    """

    @pytest.mark.parametrize(
        "event",
        [
            told(),
            told(kind=ProviderEventKind.MEETING_STARTED, provider="sandbox", provider_meeting_id="room/ü=="),
            told(
                kind=ProviderEventKind.RECORDING_READY,
                files=(new_file(), new_file("a2", kind=FileKind.TRANSCRIPT, size_bytes=0)),
            ),
        ],
        ids=["ended", "started", "recording"],
    )
    async def test_an_event_is_read_back_as_it_was_told(self, rig: StoreRig, event: ProviderEvent) -> None:
        id_ = await tell(rig, event)
        (claimed,) = await claim_told(rig)
        assert (claimed.id, claimed.event, claimed.tries) == (id_, event, 1)

    async def test_the_same_bytes_of_a_provider_are_taken_in_once(self, rig: StoreRig) -> None:
        first = await tell(rig, told(), b"d" * 32)
        assert await tell(rig, told(), b"d" * 32) is None
        assert await tell(rig, told(provider="sandbox"), b"d" * 32) is not None
        assert await tell(rig, told(), b"e" * 32) is not None
        claimed = await claim_told(rig)
        assert len(claimed) == 3
        assert claimed[0].id == first

    async def test_doubles_at_the_same_time_are_taken_in_once(self, rig: StoreRig) -> None:
        ids = await asyncio.gather(*(tell(rig, told(), b"d" * 32) for _ in range(8)))
        assert len([id_ for id_ in ids if id_ is not None]) == 1
        assert len(await claim_told(rig)) == 1

    async def test_a_double_of_what_is_done_is_known(self, rig: StoreRig) -> None:
        await tell(rig, told(), b"d" * 32)
        (claimed,) = await claim_told(rig)
        await finish_told(rig, claimed)
        assert await tell(rig, told(), b"d" * 32) is None

    async def test_nothing_is_kept_of_a_transaction_that_failed(self, rig: StoreRig) -> None:
        with pytest.raises(ZeroDivisionError):
            await _tell_and_fail(rig, b"d" * 32)
        assert await claim_told(rig) == []
        assert await tell(rig, told(), b"d" * 32) is not None

    async def test_what_is_claimed_is_due_to_nobody_else(self, rig: StoreRig) -> None:
        ids = [await tell(rig, told()) for _ in range(3)]
        first = await claim_told(rig, limit=2)
        second = await claim_told(rig, limit=2)
        assert [one.id for one in first] == ids[:2], "the longest due first"
        assert [one.id for one in second] == ids[2:]
        assert await claim_told(rig) == []

    async def test_claims_at_the_same_time_share_what_is_due(self, rig: StoreRig) -> None:
        ids = [await tell(rig, told()) for _ in range(12)]
        shares = await asyncio.gather(*(claim_told(rig, limit=4) for _ in range(6)))
        taken = [one.id for share in shares for one in share]
        assert len(taken) == len(set(taken))
        taken += [one.id for one in await claim_told(rig)]
        assert sorted(taken) == sorted(id_ for id_ in ids if id_ is not None)

    async def test_what_a_dead_worker_left_is_due_again(self, rig: StoreRig) -> None:
        await tell(rig, told())
        (left,) = await claim_told(rig, seconds=-1)
        (again,) = await claim_told(rig)
        assert (again.id, again.event) == (left.id, left.event)
        assert again.token != left.token
        assert (left.tries, again.tries) == (1, 2)

    async def test_what_is_done_is_never_due_again(self, rig: StoreRig) -> None:
        await tell(rig, told())
        (claimed,) = await claim_told(rig, seconds=-1)
        await finish_told(rig, claimed)
        assert await claim_told(rig) == []

    async def test_what_is_postponed_is_due_later(self, rig: StoreRig) -> None:
        await tell(rig, told())
        await tell(rig, told())
        soon, late = await claim_told(rig)
        await _postpone(rig, soon, -1)
        await _postpone(rig, late, 3600)
        (again,) = await claim_told(rig)
        assert (again.id, again.event, again.tries) == (soon.id, soon.event, 2)

    @pytest.mark.parametrize("act", [finish_told, lambda rig, one: _postpone(rig, one, 3600)])
    async def test_who_has_lost_the_claim_changes_nothing(self, rig: StoreRig, act: Any) -> None:
        await tell(rig, told())
        (left,) = await claim_told(rig, seconds=-1)
        await claim_told(rig, seconds=-1)
        await act(rig, left)
        (third,) = await claim_told(rig)
        assert third.tries == 3

    async def test_who_has_given_an_event_back_has_lost_it(self, rig: StoreRig) -> None:
        await tell(rig, told())
        (claimed,) = await claim_told(rig)
        await _postpone(rig, claimed, -1)
        await finish_told(rig, claimed)
        assert len(await claim_told(rig)) == 1
