"""Meetings that only one side knows are found, and adopted, removed or refunded once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from uuid import uuid4

import pytest

from meetcore.domain.errors import InsufficientCredits, NotFound
from meetcore.domain.meetings.meetings import Meeting, MeetingOptions, MeetingStatus
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.meetings.reconcile_provider import (
    CannotCompare,
    LostMeeting,
    NotReconciled,
    ReconcileProvider,
)
from tests.support.zoom_adapter import Zoom, zoom_at_hand
from tests.unit.usecases.application import (
    START,
    ApplicationHarness,
    CrashPoint,
    SimulatedCrash,
    crash_points,
    request,
)

TIER = "standard-100"
PLAIN, RECORDED = MeetingOptions(), MeetingOptions(with_recording=True, mic_off=True)


class Service(ApplicationHarness):
    """An application with Zoom's stand-in."""

    zoom: Zoom

    async def sell(self, number: int = 1) -> Meeting:
        """Sell a meeting of an hour of its own."""
        wanted = request(start_time=f"{8 + number:02}:00", title=f"Rapat {number}")
        await self.create()(self.caller, wanted, self.request_key(None, number), self.now())
        return self.meetings()[-1]

    async def lose(self, host: str = "host-0", options: MeetingOptions = PLAIN, duration: int = 60) -> str:
        """Make a meeting at the provider of which the store knows nothing, a day ahead; return its name."""
        start_at = START + timedelta(days=1)
        order = ProviderOrder(uuid4(), host, "Hilang", "Agenda", start_at, duration, "secret", options)
        return (await self.provider.create(order)).provider_meeting_id

    def use_case(self, crash_point: CrashPoint | None = None) -> ReconcileProvider:
        """The use case in a process that may crash."""
        return self.process(crash_point).reconcile

    async def lost(self) -> list[LostMeeting]:
        return list((await self.use_case().survey(START)).lost)

    async def gone(self) -> list[Meeting]:
        return list((await self.use_case().survey(START)).gone)

    async def adopt(self, lost: LostMeeting, tier: str = TIER) -> Meeting:
        return await self.use_case().adopt(lost, self.caller.account.id, tier)

    def actions(self) -> list[str]:
        """What the audit log says of meetings."""
        return [each.action for each in self.audit_log() if each.action.startswith("meeting.")]


@asynccontextmanager
async def opened(credits: int = 100) -> AsyncIterator[Service]:
    async with zoom_at_hand() as zoom:
        service = Service(credits=credits, hosts=2)
        # The stand-in dates what it makes; the two clocks are one.
        zoom.stand_in.account._now = service.clock.now
        service.provider, service.zoom = zoom.provider, zoom
        await service.start()
        yield service


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with opened() as service:
        yield service


async def test_sides_that_agree_show_nothing(service: Service) -> None:
    await service.sell()
    assert [*await service.lost(), *await service.gone()] == []


async def test_a_lost_meeting_is_adopted_as_the_provider_shows_it(service: Service) -> None:
    name = await service.lose(options=RECORDED)
    [lost] = await service.lost()
    assert service.meetings() == []
    await service.adopt(lost)
    [meeting] = service.meetings()
    assert (meeting.id, meeting.status, meeting.provider_meeting_id) == (
        lost.meeting_id, MeetingStatus.SCHEDULED, name,
    )  # fmt: skip
    assert (meeting.title, meeting.description, meeting.password, meeting.options) == (
        "Hilang", "Agenda", "secret", RECORDED,
    )  # fmt: skip
    assert (meeting.start_at, meeting.duration, meeting.host_id) == (
        START + timedelta(days=1), 60, lost.host.id,
    )  # fmt: skip
    assert meeting.join_url
    assert service.count("host_reservations") == 1
    [charge] = [each for each in service.entries() if each.transfer.kind is TransferKind.MEETING_CHARGE]
    assert (charge.amount, charge.transfer.operation) == (-15, f"meeting:{meeting.id}")
    assert len(service.events_of(EventKind.MEETING_CREATED)) == 1
    assert service.actions() == ["meeting.adopted"]
    assert await service.lost() == []
    service.prove()


async def test_an_adopted_meeting_is_charged_once_whatever_account_is_named_next(service: Service) -> None:
    await service.lose()
    [lost] = await service.lost()
    await service.adopt(lost)
    another = await service.another_caller()
    for account_id in (service.caller.account.id, another.account.id):
        with pytest.raises(NotReconciled, match="has it"):
            await service.use_case().adopt(lost, account_id, TIER)
    with pytest.raises(NotReconciled, match="has it"):
        await service.use_case().remove(lost)
    assert len(service.zoom.made) == 1
    assert service.funds().balance == 90


async def test_what_cannot_be_charged_honestly_is_not_adopted(service: Service) -> None:
    await service.lose()
    [lost] = await service.lost()
    with pytest.raises(NotReconciled, match="60 minutes, and standard-100-long has 240"):
        await service.adopt(lost, "standard-100-long")
    with pytest.raises(NotFound):
        await service.adopt(lost, "gold")
    with pytest.raises(NotFound):
        await service.use_case().adopt(lost, uuid4(), TIER)
    assert service.meetings() == []
    assert service.funds().balance == 100


async def test_an_account_that_cannot_pay_is_not_charged() -> None:
    async with opened(credits=9) as service:
        await service.lose()
        [lost] = await service.lost()
        with pytest.raises(InsufficientCredits):
            await service.adopt(lost)
        assert (service.funds().balance, service.funds().held, service.meetings()) == (9, 0, [])


async def test_a_host_that_has_another_meeting_at_that_time_takes_none(service: Service) -> None:
    for _ in range(2):
        await service.lose()
    one, other = await service.lost()
    await service.adopt(one)
    with pytest.raises(NotReconciled, match="another meeting at that time"):
        await service.adopt(other)
    assert service.funds().balance == 90


async def test_an_erased_account_is_not_charged(service: Service) -> None:
    await service.lose()
    [lost] = await service.lost()
    account_id = service.caller.account.id
    await service.process().account_data.erase(account_id)
    with pytest.raises(NotReconciled, match="erased"):
        await service.adopt(lost)


async def test_a_lost_meeting_is_removed_and_nothing_is_charged(service: Service) -> None:
    await service.lose()
    [lost] = await service.lost()
    await service.use_case().remove(lost)
    assert service.zoom.made == []
    assert service.actions() == ["meeting.lost"]
    await service.use_case().remove(lost)
    assert service.funds().balance == 100


async def test_people_in_a_lost_meeting_are_not_thrown_out(service: Service) -> None:
    await service.lose()
    service.zoom.stand_in.meetings[-1].status = "started"
    [lost] = await service.lost()
    with pytest.raises(NotReconciled, match="people are in it"):
        await service.use_case().remove(lost)
    assert len(service.zoom.made) == 1


async def test_meetings_of_others_and_of_earlier_times_are_left(service: Service) -> None:
    await service.sell()
    fields = dict(service.zoom.stand_in.meetings[0].fields)
    service.zoom.stand_in.account.create("host-0", fields | {"agenda": "Another's"})
    service.clock.advance(-601)
    await service.lose()
    service.clock.advance(601)
    assert await service.lost() == []
    service.clock.advance(-599)  # the provider's clock is behind
    await service.lose()
    service.clock.advance(599)
    assert len(await service.lost()) == 1


async def test_a_meeting_in_the_making_is_the_reconcilers(service: Service) -> None:
    with pytest.raises(SimulatedCrash):  # after the provider's answer, before it is settled
        await service.make("key", CrashPoint(at=5))
    assert len(service.zoom.made) == 1
    assert [*await service.lost(), *await service.gone()] == []


async def test_a_double_of_a_recorded_meeting_is_removed_and_never_adopted(service: Service) -> None:
    meeting = await service.sell()
    fields = service.zoom.stand_in.meetings[0].fields
    service.zoom.stand_in.account.create("host-1", dict(fields))
    [lost] = await service.lost()
    assert (lost.meeting_id, lost.known) == (meeting.id, meeting)
    with pytest.raises(NotReconciled, match="has it"):
        await service.adopt(lost)
    await service.use_case().remove(lost)
    assert service.zoom.made == [meeting.provider_meeting_id]


async def test_a_gone_meeting_is_cancelled_and_refunded_once(service: Service) -> None:
    meeting = await service.sell()
    service.zoom.stand_in.account.delete(service.zoom.made[0])
    assert await service.gone() == [meeting]
    await service.use_case().remove(meeting)
    assert [each.status for each in service.meetings()] == [MeetingStatus.CANCELLED]
    assert service.funds().balance == 100
    assert service.actions() == ["meeting.gone"]
    with pytest.raises(NotReconciled, match="changed"):
        await service.use_case().remove(meeting)
    assert await service.gone() == []
    service.prove()


async def test_one_that_is_on_another_host_is_not_gone(service: Service) -> None:
    await service.sell()
    [kept] = service.zoom.stand_in.meetings
    kept.user.exists, kept.user = False, service.zoom.stand_in.account.known("host-under-a-new-name")
    assert await service.gone() == []


@pytest.mark.parametrize("begins_after", [True, False])
async def test_only_one_that_begins_after_the_moment_can_have_been_cancelled_in_the_lost_time(
    service: Service, begins_after: bool
) -> None:
    meeting = await service.sell()
    service.zoom.stand_in.account.delete(service.zoom.made[0])
    since = meeting.start_at - timedelta(seconds=1 if begins_after else 0)
    assert bool((await service.use_case().survey(since)).gone) is begins_after


async def test_gone_meetings_are_found_over_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meetcore.usecases.meetings.reconcile_provider._PAGE", 2)
    sold = [await service.sell(number) for number in range(5)]
    for name in service.zoom.made[1:]:
        service.zoom.stand_in.account.delete(name)
    assert {each.id for each in await service.gone()} == {each.id for each in sold[1:]}


async def test_nothing_is_concluded_where_the_provider_knows_no_host_or_keeps_no_list(
    service: Service,
) -> None:
    await service.sell()
    for name in ("host-0", "host-1"):
        service.zoom.stand_in.account.known(name).exists = False
    with pytest.raises(CannotCompare, match="credentials"):
        await service.gone()
    service.provider = service.sandbox
    with pytest.raises(CannotCompare, match="sandbox keeps no list"):
        await service.gone()


@pytest.mark.parametrize("adopts", [True, False])
async def test_whenever_it_is_killed_it_can_be_run_again(adopts: bool) -> None:
    for point in crash_points():
        async with opened() as service:
            gone = await service.sell()
            service.zoom.stand_in.account.delete(service.zoom.made[0])
            await service.lose("host-1")
            with suppress(SimulatedCrash):
                await _resolve(service, service.use_case(point), adopts=adopts)
            await _resolve(service, service.use_case(), adopts=adopts)
            service.expire_leases()
            service.clock.advance(60)
            await service.reconcile().sweep()
            assert [*await service.lost(), *await service.gone()] == []
            assert [each.status for each in service.meetings() if each.id == gone.id] == ["cancelled"]
            assert service.funds().balance == (90 if adopts else 100)
            assert len(service.zoom.made) == (1 if adopts else 0)
            service.prove()


async def _resolve(service: Service, use_case: ReconcileProvider, *, adopts: bool) -> None:
    survey = await use_case.survey(START)
    for lost in survey.lost:
        if adopts:
            await use_case.adopt(lost, service.caller.account.id, TIER)
        else:
            await use_case.remove(lost)
    for gone in survey.gone:
        await use_case.remove(gone)
