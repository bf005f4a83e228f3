"""What everything that runs meetings is held against: made once, found again, removed once.

What a provider says of a meeting that runs is in `interactive_provider`; how it fails is tested with each
provider.
"""

import asyncio
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from attrs import evolve

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingOptions
from meetcore.domain.meetings.passwords import generate_password
from meetcore.ports.video_provider import (
    FoundMeeting,
    ProviderOrder,
    ProviderRefused,
    VideoProvider,
)

_TITLES = ("R", "Rapat tim", "<b>&amp;\"'", "会議 🎉 اجتماع", "a\u0301\u200d", "%s {0} \\n", "x" * 200)


def order_for(provider: VideoProvider, title: str = "Rapat tim") -> ProviderOrder:
    """An order for a new meeting that keeps the provider's rules."""
    rule = provider.abilities.password
    return ProviderOrder(
        meeting_id=uuid4(),
        provider_user_id="host-1" if provider.abilities.has_hosts else "",
        title=title,
        description="Agenda: <semua>",
        start_at=datetime(2026, 12, 1, 2, 0, tzinfo=UTC),
        duration=60,
        password=None if rule is None else generate_password(rule, uuid4().bytes),
        options=MeetingOptions(mic_off=True),
    )


@pytest.mark.asyncio
class VideoProviderContract:
    """The suite for one `VideoProvider`. Give it the fixture `provider`::

        class TestMyProvider(VideoProviderContract):
            @pytest.fixture
            def provider(self) -> VideoProvider:
                return MyProvider("https://meet.example", key=b"...")

    Every test makes meetings of its own, with new ids.

    Attributes:
        knows_the_unmade: whether it can know that a meeting was never made. One that makes its meetings out
            of nothing cannot, and must then find exactly what making one would give.
        makes_one_for_one_order: whether asking twice makes one. A provider without idempotency keys cannot
            promise it; the service asks once for each order, and `find` when it does not know. Then `find`
            must list all that were made.
        knows_the_removed: whether it can know that a meeting was removed. One that keeps nothing cannot: it
            says each time that the meeting is removed, and finds it still.
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
        # A provider that leaves orphans must be able to list them.
        assert abilities.remembers_meetings or not abilities.leaves_orphans
        assert abilities.remembers_meetings == self.knows_the_removed
        if not abilities.has_hosts:
            assert abilities.creations_per_host_day is abilities.host_key_digits is None

    async def test_a_meeting_that_was_made_has_a_name_a_link_and_its_password(
        self, provider: VideoProvider
    ) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        assert made.provider_meeting_id
        assert urlsplit(made.join_url).scheme in ("http", "https")
        assert urlsplit(made.join_url).hostname
        assert made.password == order.password

    @pytest.mark.parametrize("title", _TITLES)
    async def test_whatever_its_title_a_meeting_is_made_and_found(
        self, provider: VideoProvider, title: str
    ) -> None:
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
        else:  # all that were made are found
            ids = {one.provider_meeting_id for one in (first, *others, again)}
            assert {one.provider_meeting_id for one in await provider.find(order)} == ids

    async def test_two_orders_are_two_meetings(self, provider: VideoProvider) -> None:
        one, other = await provider.create(order_for(provider)), await provider.create(order_for(provider))
        assert one.provider_meeting_id != other.provider_meeting_id
        assert one.join_url != other.join_url

    async def test_what_was_made_is_found(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        assert list(await provider.find(order)) == [made]

    async def test_what_was_never_made_is_not_found(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        found = list(await provider.find(order))
        if self.knows_the_unmade:
            assert found == []
        else:  # finding one is as good as making it
            assert found == [await provider.create(order)]

    async def test_a_removed_meeting_is_gone(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        assert await provider.remove(made.provider_meeting_id) is ProviderMeetingState.REMOVED
        again = await provider.remove(made.provider_meeting_id)
        if self.knows_the_removed:
            assert list(await provider.find(order)) == []
            assert again is ProviderMeetingState.GONE
        else:
            assert list(await provider.find(order)) == [made]
            assert again is ProviderMeetingState.REMOVED

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

    async def test_a_host_key_is_set_and_set_again_or_there_is_none(self, provider: VideoProvider) -> None:
        digits = provider.abilities.host_key_digits
        user = order_for(provider).provider_user_id
        if digits is None:
            with pytest.raises(ProviderRefused):
                await provider.set_host_key(user, "123456")
        else:
            for key in ("7" * digits, "7" * digits, "0" * digits):
                await provider.set_host_key(user, key)

    async def test_a_host_lists_its_meetings_and_each_has_what_was_written_into_it(
        self, provider: VideoProvider
    ) -> None:
        order = evolve(order_for(provider, "Rapat"), memo="AbC-_09")
        bare = evolve(order_for(provider), description=None)
        made, plain = await provider.create(order), await provider.create(bare)
        if not provider.abilities.keeps_memos:
            assert list(await provider.list_host(order.provider_user_id)) == []
            assert await provider.read(made.provider_meeting_id) is None
            return
        listed = {one.provider_meeting_id: one for one in await provider.list_host(order.provider_user_id)}
        assert listed[made.provider_meeting_id].created_at.tzinfo is not None
        assert await provider.read(made.provider_meeting_id) == FoundMeeting(
            made, order.meeting_id, "Rapat", order.description, order.memo
        )
        assert await provider.read(plain.provider_meeting_id) == FoundMeeting(
            plain, bare.meeting_id, bare.title, None, ""
        )
        assert list(await provider.find(order)) == [made], "a memo changes nothing of what is found"
        await provider.remove(made.provider_meeting_id)
        listed = {one.provider_meeting_id: one for one in await provider.list_host(order.provider_user_id)}
        assert made.provider_meeting_id not in listed
        assert plain.provider_meeting_id in listed
        assert await provider.read(made.provider_meeting_id) is None

    async def test_the_password_is_not_in_the_representation(self, provider: VideoProvider) -> None:
        order = order_for(provider)
        made = await provider.create(order)
        if order.password is not None:
            assert order.password not in repr(order) + repr(made)
