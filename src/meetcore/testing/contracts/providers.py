"""The contracts of `ports.video_provider` and `ports.recording_files`.

Meetings are made once, found again and removed once; files are found, read whole or in parts, and removed for
good. The failures of a provider are tested with its adapter.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from attrs import evolve, frozen

from meetcore.domain.meetings import hosts, meetings, views
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, OpenFile, RangeUnsatisfiable, RecordingFiles
from meetcore.ports.video_provider import (
    LeaseOver,
    ProviderRefused,
    VideoProvider,
    lease_time,
    under_lease,
)
from meetcore.testing.clock import ManualClock

_TITLES = ("R", "Rapat tim", "<b>&amp;\"'", "会議 🎉 اجتماع", "a\u0301\u200d", "%s {0} \\n", "x" * 200)


def order_for(provider: VideoProvider, title: str = "Rapat tim") -> views.ProviderOrder:
    """Make an order for a new meeting by the provider's rules, a day ahead: one may refuse the past."""
    rule = provider.abilities.password
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return views.ProviderOrder(
        meeting_id=uuid4(),
        provider_user_id="host-1" if provider.abilities.has_hosts else "",
        title=title,
        description="Agenda: <semua>",
        start_at=tomorrow.replace(minute=0, second=0, microsecond=0),
        duration=60,
        password=None if rule is None else hosts.generate_password(rule, uuid4().bytes),
        options=meetings.MeetingOptions(mic_off=True),
    )


@pytest.mark.asyncio
class VideoProviderContract:
    """The suite of a `VideoProvider`, with the fixture `provider`. Every test makes new meetings.

    Attributes:
        knows_the_unmade: a meeting that was never made is not found. A provider that derives its meetings
            from the order cannot know, and must find exactly what `create` would return.
        makes_one_for_one_order: creating twice makes one. Without idempotency keys at the provider it makes
            two, and `find` must list all of them.
        knows_the_removed: a removed meeting is gone. A provider that stores nothing reports it as removed
            each time, and still finds it.
    """

    knows_the_unmade: ClassVar[bool] = True
    makes_one_for_one_order: ClassVar[bool] = True
    knows_the_removed: ClassVar[bool] = True

    async def test_a_provider_declares_its_abilities(self, provider: VideoProvider) -> None:
        abilities = provider.abilities
        assert abilities.name
        assert provider.abilities == abilities
        if abilities.password is not None:
            assert 4 <= abilities.password.min_length <= abilities.password.max_length <= 10
            assert len(set(abilities.password.alphabet)) == len(abilities.password.alphabet) > 1
        assert abilities.creations_per_host_day is None or abilities.creations_per_host_day >= 1
        assert abilities.host_key_digits is None or abilities.host_key_digits >= 4
        # orphans must be listed
        assert abilities.remembers_meetings or not abilities.leaves_orphans
        assert abilities.remembers_meetings == self.knows_the_removed
        if not abilities.has_hosts:
            assert abilities.creations_per_host_day is abilities.host_key_digits is None

    async def test_a_meeting_has_an_id_a_link_and_its_password(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        assert made.provider_meeting_id
        assert urlsplit(made.join_url).scheme in ("http", "https")
        assert urlsplit(made.join_url).hostname
        assert made.password == order.password
        assert order.password is None or order.password not in repr(order) + repr(made)

    @pytest.mark.parametrize("title", _TITLES)
    async def test_a_meeting_of_any_title_is_found(self, provider: VideoProvider, title: str) -> None:
        order = order_for(provider, title)
        made = await provider.create(order)
        assert made.password == order.password
        assert list(await provider.find(order)) == [made]

    async def test_asking_twice_makes_one(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        first, *others = await asyncio.gather(*(provider.create(order) for _ in range(5)))
        again = await provider.create(order)
        if self.makes_one_for_one_order:
            assert all(other == first for other in (*others, again))
        else:
            ids = {one.provider_meeting_id for one in (first, *others, again)}
            assert {one.provider_meeting_id for one in await provider.find(order)} == ids

    async def test_two_orders_are_two_meetings(self, provider: VideoProvider) -> None:
        one, other = await provider.create(order_for(provider)), await provider.create(order_for(provider))
        assert one.provider_meeting_id != other.provider_meeting_id
        assert one.join_url != other.join_url

    async def test_a_meeting_never_made_is_not_found(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        found = list(await provider.find(order))
        assert found == ([] if self.knows_the_unmade else [await provider.create(order)])

    async def test_a_removed_meeting_is_gone(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        assert await provider.remove(made.provider_meeting_id) is ProviderMeetingState.REMOVED
        again = await provider.remove(made.provider_meeting_id)
        assert list(await provider.find(order)) == ([] if self.knows_the_removed else [made])
        state = ProviderMeetingState.GONE if self.knows_the_removed else ProviderMeetingState.REMOVED
        assert again is state

    async def test_removing_one_meeting_leaves_the_others(self, provider: VideoProvider) -> None:
        kept, dropped = order_for(provider), order_for(provider)
        made = await provider.create(kept)
        await provider.remove((await provider.create(dropped)).provider_meeting_id)
        assert list(await provider.find(kept)) == [made]
        if self.knows_the_removed:
            assert list(await provider.find(dropped)) == []

    async def test_of_many_that_remove_one_did_it(self, provider: VideoProvider) -> None:
        made = await provider.create(order_for(provider))
        states = await asyncio.gather(*(provider.remove(made.provider_meeting_id) for _ in range(8)))
        did_it = 1 if self.knows_the_removed else 8
        assert states.count(ProviderMeetingState.REMOVED) == did_it
        assert states.count(ProviderMeetingState.GONE) == 8 - did_it

    async def test_ending_again_or_after_removal_is_fine(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        await provider.remove(made.provider_meeting_id)
        await provider.end(made.provider_meeting_id)
        await provider.end(made.provider_meeting_id)
        assert list(await provider.find(order)) == ([] if self.knows_the_removed else [made])

    async def test_no_request_is_sent_after_the_lease(self, provider: VideoProvider) -> None:
        if not self.knows_the_unmade:  # it may work without requests
            return
        order, kept = order_for(provider), order_for(provider)
        made = await provider.create(kept)
        name, host, digits = (
            made.provider_meeting_id,
            kept.provider_user_id,
            provider.abilities.host_key_digits,
        )
        calls: list[Callable[[], Awaitable[object]]] = [
            partial(provider.create, order), partial(provider.find, kept), partial(provider.remove, name),
            partial(provider.end, name),
        ]  # fmt: skip
        if provider.abilities.lists_meetings:
            calls += [partial(provider.list_host, host), partial(provider.read, name)]
        if digits is not None:
            calls.append(partial(provider.set_host_key, host, "7" * digits))
        with under_lease(lease_time(ManualClock(order.start_at), 0)):
            for call in calls:
                with pytest.raises(LeaseOver):
                    await call()
        assert list(await provider.find(order)) == []
        assert list(await provider.find(kept)) == [made]

    async def test_a_host_key_is_set_and_set_again_or_there_is_none(self, provider: VideoProvider) -> None:
        digits = provider.abilities.host_key_digits
        user = order_for(provider).provider_user_id
        if digits is None:
            with pytest.raises(ProviderRefused):
                await provider.set_host_key(user, "123456")
        else:
            for key in ("7" * digits, "7" * digits, "0" * digits):
                await provider.set_host_key(user, key)

    async def test_a_host_lists_its_meetings_as_they_were_ordered(self, provider: VideoProvider) -> None:
        order = order_for(provider, "Rapat")
        bare = evolve(order_for(provider), description=None)
        made, plain = await provider.create(order), await provider.create(bare)
        if not provider.abilities.lists_meetings:
            assert list(await provider.list_host(order.provider_user_id)) == []
            assert await provider.read(made.provider_meeting_id) is None
            return
        listed = {one.provider_meeting_id: one for one in await provider.list_host(order.provider_user_id)}
        assert listed[made.provider_meeting_id].created_at.tzinfo is not None
        for each, one in ((order, made), (bare, plain)):
            assert await provider.read(one.provider_meeting_id) == views.FoundMeeting(
                one, each.meeting_id, each.title, each.description, each.start_at, each.duration, each.options
            )
        await provider.remove(made.provider_meeting_id)
        listed = {one.provider_meeting_id: one for one in await provider.list_host(order.provider_user_id)}
        assert made.provider_meeting_id not in listed
        assert plain.provider_meeting_id in listed
        assert await provider.read(made.provider_meeting_id) is None


class Play(Protocol):
    """Participants of a meeting at the provider."""

    async def start(self, provider_meeting_id: str) -> None:
        """Join as the first."""

    async def finish(self, provider_meeting_id: str) -> None:
        """Leave as the last."""


@pytest.mark.asyncio
class InteractiveProviderContract:
    """The suite of a `VideoProvider` that knows its participants, with the fixtures `provider` and `play`."""

    async def test_one_that_runs_is_not_removed(self, provider: VideoProvider, play: Play) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        await play.start(made.provider_meeting_id)
        for _ in range(2):
            state = await provider.remove(made.provider_meeting_id)
            assert state is ProviderMeetingState.IN_PROGRESS
        assert list(await provider.find(order)) == [made]

    async def test_one_that_is_over_or_ended_is_not_removed(
        self, provider: VideoProvider, play: Play
    ) -> None:
        for end in (play.finish, provider.end):
            made = await provider.create(order_for(provider))
            await play.start(made.provider_meeting_id)
            await end(made.provider_meeting_id)
            for _ in range(2):
                assert await provider.remove(made.provider_meeting_id) is ProviderMeetingState.OVER
                await provider.end(made.provider_meeting_id)

    async def test_ending_one_leaves_the_others(self, provider: VideoProvider, play: Play) -> None:
        ended, runs = [await provider.create(order_for(provider)) for _ in range(2)]
        for made in (ended, runs):
            await play.start(made.provider_meeting_id)
        await provider.end(ended.provider_meeting_id)
        assert await provider.remove(runs.provider_meeting_id) is ProviderMeetingState.IN_PROGRESS


_MAX_CHUNK_BYTES = 1024 * 1024


@frozen
class RecordingPlace:
    """An adapter, and a recording in two files or more, whose contents are by `provider_file_id`.

    `unrecorded` are ids of meetings without a recording, and of no meeting.
    """

    files: RecordingFiles
    provider_meeting_id: str
    contents: Mapping[str, bytes]
    unrecorded: tuple[str, ...]

    async def found(self) -> dict[str, RecordingFile]:
        """Find the files of the recording, by their ids."""
        return {one.provider_file_id: one for one in await self.files.find(self.provider_meeting_id)}


@pytest.mark.asyncio
class RecordingFilesContract:
    """The suite of a `RecordingFiles`, with the fixture `place`: a recording of its own for every test.

    `has_ranges`: exactly the requested range is returned, and not more.
    """

    has_ranges: ClassVar[bool] = True

    async def test_every_file_is_found_with_its_size_and_times(self, place: RecordingPlace) -> None:
        assert place.files.provider
        found = await place.found()
        assert {name: file.size_bytes for name, file in found.items()} == {
            name: len(content) for name, content in place.contents.items()
        }
        assert len(found) >= 2
        for file in found.values():
            assert file.starts_at < file.ends_at
            assert (file.starts_at.utcoffset() is None, file.media_s) == (False, None)
        assert await place.found() == found

    async def test_nothing_is_found_where_nothing_was_recorded(self, place: RecordingPlace) -> None:
        for name in (*place.unrecorded, "", "../x", "x" * 300):
            assert await place.files.find(name) == ()

    async def test_a_file_is_read_whole(self, place: RecordingPlace) -> None:
        for name, file in (await place.found()).items():
            async with place.files.open(file) as opened:
                assert (opened.size_bytes, opened.first) == (file.size_bytes, 0)
                assert opened.last == file.size_bytes - 1
                assert await _read(opened) == place.contents[name]

    async def test_any_part_is_read(self, place: RecordingPlace) -> None:
        found = await place.found()
        for name, first, length in _parts(place.contents):
            content = place.contents[name]
            wanted = ByteRange(first, None if length is None else first + length - 1)
            async with place.files.open(found[name], wanted) as opened:
                last = len(content) - 1 if wanted.last is None else min(wanted.last, len(content) - 1)
                assert opened.size_bytes == len(content)
                assert opened.first <= first <= last <= opened.last < len(content)
                if self.has_ranges:
                    assert (opened.first, opened.last) == (first, last)
                assert await _read(opened) == content[opened.first : opened.last + 1]

    async def test_there_is_nothing_behind_the_end(self, place: RecordingPlace) -> None:
        for name, file in (await place.found()).items():
            size = len(place.contents[name])
            for first in (size, size + 1, size + 10**9):
                with pytest.raises(RangeUnsatisfiable) as caught:
                    async with place.files.open(file, ByteRange(first)):
                        pass
                assert caught.value.size_bytes == size

    async def test_a_reader_that_stopped_can_read_again(self, place: RecordingPlace) -> None:
        name, file = max((await place.found()).items(), key=lambda one: one[1].size_bytes)
        for _ in range(3):
            async with place.files.open(file) as opened:
                assert place.contents[name].startswith(await anext(opened.chunks))
            async with place.files.open(file):
                pass
        async with place.files.open(file) as opened:
            assert await _read(opened) == place.contents[name]

    async def test_a_file_that_was_removed_is_gone_and_no_other(self, place: RecordingPlace) -> None:
        found = await place.found()
        (removed, file), *others = found.items()
        await place.files.remove(place.provider_meeting_id, file)
        assert set(await place.found()) == {name for name, _ in others}
        for wanted in (None, ByteRange(1, 2)):
            with pytest.raises(FileGone):
                async with place.files.open(file, wanted):
                    pass
        for name, other in others:
            assert name != removed
            async with place.files.open(other) as opened:
                assert await _read(opened) == place.contents[name]

    async def test_a_file_is_of_a_session_by_which_it_is_found_and_removed(
        self, place: RecordingPlace
    ) -> None:
        found = await place.found()
        sessions = {file.session_id for file in found.values()}
        assert "" not in sessions
        known = await place.files.find(place.provider_meeting_id, (*sessions, *sessions, "never-was"))
        assert {one.provider_file_id: one for one in known} == found
        assert len(known) == len(found)
        file = next(iter(found.values()))
        await place.files.remove(place.provider_meeting_id, evolve(file, session_id="never-was"))
        await place.files.remove(place.provider_meeting_id, file)
        assert file.provider_file_id not in await place.found()

    async def test_removing_a_missing_file_is_fine(self, place: RecordingPlace) -> None:
        found = await place.found()
        for file in found.values():
            for _ in range(2):
                await place.files.remove(place.provider_meeting_id, file)
        assert await place.found() == {}
        unknown = evolve(next(iter(found.values())), provider_file_id="never-was")
        await place.files.remove(place.provider_meeting_id, unknown)
        for name in place.unrecorded:
            await place.files.remove(name, unknown)


async def _read(opened: OpenFile) -> bytes:
    content = bytearray()
    async for chunk in opened.chunks:
        assert 0 < len(chunk) <= _MAX_CHUNK_BYTES
        content += chunk
    return bytes(content)


def _parts(contents: Mapping[str, bytes]) -> list[tuple[str, int, int | None]]:
    """List files with a first byte and a length: the edges, and some others."""
    parts: list[tuple[str, int, int | None]] = []
    rng = random.Random(20261201)
    for name, content in contents.items():
        end = len(content)
        parts += [(name, 0, 1), (name, 0, None), (name, end - 1, None), (name, 1, end), (name, 0, end + 99)]
        parts += [(name, rng.randrange(end), rng.randrange(1, 5000)) for _ in range(5)]
    return parts
