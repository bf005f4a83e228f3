"""After a restore nothing goes on before the release, and lost meetings are adopted or removed once."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from attrs import evolve, fields

from meetcore.adapters.memory.state import Tables
from meetcore.adapters.memory.store import MemoryStore
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.composition.application import Application
from meetcore.domain.errors import IdempotencyKeyReused, NotFound, Unprocessable
from meetcore.domain.ids import uuid7
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.restores import FenceRefused
from meetcore.ports.store import StoreFenced
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.reconcile_restore import (
    ADOPTED_MEANWHILE,
    ManyCancelled,
    NoHostKnown,
    ReconcileRestore,
)
from meetcore.usecases.restore_findings import Action, Finding, Survey
from tests.support.zoom_adapter import Zoom, zoom_at_hand
from tests.unit.usecases.application import START, ApplicationHarness, CrashPoint, SimulatedCrash, request

LOST = 3


class Restored(ApplicationHarness):
    """An application with Zoom's stand-in, whose store can be set back to an earlier moment."""

    zoom: Zoom

    def remember(self) -> None:
        """Make a backup."""
        self.backup = self.state.committed.copy()
        self.backup_at = self.now()

    async def set_back(self) -> None:
        """Restore the backup, and fence."""
        backup = self.backup.copy()
        async with self.state.change() as tables:
            for table in fields(Tables):
                setattr(tables, table.name, getattr(backup, table.name))
        self.clock.advance(60)
        await self.operator().restore_use_cases.fence.put_up(self.backup_at)

    def operator(self, crash_point: CrashPoint | None = None) -> "Operator":
        """An operator's process, which may crash."""
        own, self.store = self.store, MemoryStore(self.clock, SeededEntropy(9), self.state, passes_fence=True)
        try:
            return Operator(self.process(crash_point))
        finally:
            self.store = own

    async def sell(self, number: int, key: str | None) -> Outcome:
        """Sell a meeting of an hour of its own."""
        wanted = request(start_time=f"{8 + number:02}:00", title=f"Rapat {number}")
        return await self.create()(self.caller, wanted, self.request_key(key, number), self.now())

    async def lists(self) -> list[Finding]:
        """What a survey finds."""
        return list((await self.operator().reconcile.survey(self.backup_at)).findings)


class Operator:
    """The use cases of an operator's command."""

    def __init__(self, application: Application) -> None:
        assert application.restore is not None
        self.restore_use_cases = application.restore

    @property
    def reconcile(self) -> ReconcileRestore:
        return self.restore_use_cases.reconcile

    async def apply(self, restored: Restored, *, adopts: bool = True) -> list[Finding]:
        """Survey and apply."""
        survey = await self.reconcile.survey(restored.backup_at, adopts=adopts)
        return list(await self.reconcile.apply_all(survey))

    async def release(self) -> None:
        await self.restore_use_cases.fence.release()


@pytest.fixture
async def restored() -> AsyncIterator[Restored]:
    async with opened() as harness:
        yield harness


@asynccontextmanager
async def opened() -> AsyncIterator[Restored]:
    async with zoom_at_hand() as zoom:
        harness = Restored(credits=100, hosts=2)
        # The stand-in dates what it makes; the two clocks are one.
        zoom.stand_in.account._now = harness.clock.now
        harness.provider, harness.zoom = zoom.provider, zoom
        await harness.start()
        yield harness


async def lose(restored: Restored, number: int = LOST) -> list[Outcome]:
    """Sell one meeting that is kept and some that are lost."""
    await restored.sell(9, "kept")
    restored.clock.advance(3600)
    restored.remember()
    restored.clock.advance(1)
    sold = [await restored.sell(each, f"key-{each}") for each in range(number)]
    await restored.set_back()
    return sold


async def test_nothing_is_sold_before_the_release(restored: Restored) -> None:
    await lose(restored)
    calls = restored.zoom.calls("create")
    with pytest.raises(StoreFenced):
        await restored.sell(0, "key-0")
    with pytest.raises(StoreFenced):
        await restored.process().meetings.reconcile.sweep()
    assert restored.zoom.calls("create") == calls
    await restored.operator().release()
    assert (await restored.sell(7, None)).record is not None


async def test_lost_meetings_are_listed_and_nothing_is_changed(restored: Restored) -> None:
    sold = await lose(restored)
    before, made = restored.state.committed, restored.zoom.made
    found = await restored.lists()
    assert [str(each.subject.meeting_id) for each in found] == [each.record["id"] for each in sold]  # type: ignore[union-attr, index]
    assert {each.action for each in found} == {Action.ADOPT}
    # A survey's transactions count as changes in memory.
    assert evolve(restored.state.committed, changes=before.changes) == before
    assert restored.zoom.made == made


async def test_a_lost_meeting_is_adopted_as_it_was_sold(restored: Restored) -> None:
    sold = await lose(restored)
    lost_balance = restored.funds().balance
    done = await restored.operator().apply(restored)
    assert [each.action for each in done] == [Action.ADOPT] * LOST
    assert await restored.lists() == []
    restored.prove()
    assert restored.funds().balance == lost_balance - 10 * LOST
    assert len(restored.events_of(EventKind.MEETING_CREATED)) == 1 + LOST
    made = restored.zoom.made
    await restored.operator().release()
    for number, first in enumerate(sold):
        again = await restored.sell(number, f"key-{number}")
        assert (again.record, again.is_replay) == (first.record, True)
    assert restored.zoom.made == made, "nothing is sold twice"


@pytest.mark.parametrize("adopts", [True, False])
@pytest.mark.parametrize("key", ["key-0", None])
async def test_what_one_run_adopted_another_that_surveyed_before_leaves(
    restored: Restored, key: str | None, adopts: bool
) -> None:
    restored.remember()
    restored.clock.advance(1)
    await restored.sell(0, key)
    await restored.set_back()
    first, second = restored.operator(), restored.operator()
    stale = await second.reconcile.survey(restored.backup_at, adopts=adopts)
    assert [each.action for each in await first.apply(restored)] == [Action.ADOPT]
    balance, made = restored.funds().balance, restored.zoom.made
    (done,) = [await second.reconcile.apply(each) for each in stale.findings]
    assert (done.action, done.reason) == (Action.LEAVE, ADOPTED_MEANWHILE)
    assert restored.zoom.made == made, "its customer paid for it"
    assert restored.funds().balance == balance
    restored.prove()


async def test_an_adopted_meeting_has_its_host(restored: Restored) -> None:
    await lose(restored, 1)
    await restored.operator().apply(restored)
    (adopted,) = [each for each in restored.meetings() if each.title == "Rapat 0"]
    assert adopted.host_id is not None
    assert (adopted.account_id, adopted.id) in restored.state.committed.reservations


async def test_a_lost_meeting_is_removed_where_none_is_to_be_adopted(restored: Restored) -> None:
    sold = await lose(restored)
    balance = restored.funds().balance
    done = await restored.operator().apply(restored, adopts=False)
    assert [each.action for each in done] == [Action.REMOVE] * LOST
    assert len(restored.zoom.made) == 1
    assert restored.funds().balance == balance
    await restored.operator().release()
    for number, first in enumerate(sold):
        again = await restored.sell(number, f"key-{number}")
        assert again.refusal is not None
        assert again.refusal.code == IdempotencyKeyReused.code
        assert again.refusal.details == {"id": first.record["id"]}  # type: ignore[index]
    assert len(restored.zoom.made) == 1, "a retry is refused, and not sold again"


async def test_a_meeting_of_an_account_that_is_lost_is_removed(restored: Restored) -> None:
    await restored.sell(9, None)
    restored.remember()
    restored.clock.advance(1)
    restored.caller = await restored.another_caller()
    await restored.sell(0, "key-0")
    await restored.set_back()
    (done,) = await restored.operator().apply(restored)
    assert (done.action, done.reason) == (Action.REMOVE, "its account is lost, too")
    assert len(restored.zoom.made) == 1


async def test_a_meeting_without_a_memo_is_removed(restored: Restored) -> None:
    await lose(restored, 1)
    lost = restored.zoom.stand_in.meetings[-1]
    lost.fields["agenda"] = lost.fields["agenda"].rpartition("\n")[2]
    (done,) = await restored.operator().apply(restored)
    assert done.action is Action.REMOVE
    assert "memo" in done.reason


@pytest.mark.parametrize("adopts", [True, False])
async def test_one_whose_memo_is_under_a_key_that_is_not_given_is_left(
    restored: Restored, adopts: bool
) -> None:
    key, another = AesGcmCipher([b"k" * 32]), AesGcmCipher([b"a" * 32])
    restored.memo_cipher = key
    await lose(restored, 1)
    balance, made = restored.funds().balance, restored.zoom.made
    restored.memo_cipher = another
    (done,) = await restored.operator().apply(restored, adopts=adopts)
    assert (done.action, done.needs_operator) == (Action.LEAVE, True)
    assert done.reason == f"its memo is under key {key.key_ids[0].hex()}: add it to MEETCORE_SECRETS_KEY"
    assert restored.zoom.made == made
    restored.memo_cipher = AesGcmCipher([b"a" * 32, b"k" * 32])
    (done,) = await restored.operator().apply(restored)
    assert (done.action, done.needs_operator) == (Action.ADOPT, False)
    assert restored.funds().balance == balance - 10


async def test_one_whose_memo_was_changed_is_left_unless_all_are_to_be_removed(restored: Restored) -> None:
    await lose(restored, 1)
    lost = restored.zoom.stand_in.meetings[-1]
    head, memo, reference = lost.fields["agenda"].partition("Memo: ")
    lost.fields["agenda"] = f"{head}{memo}{reference.replace(reference[:40], reference[:39] + '-', 1)}"
    (done,) = await restored.operator().apply(restored)
    assert (done.action, done.needs_operator) == (Action.LEAVE, True)
    assert "changed" in done.reason
    assert len(restored.zoom.made) == 2
    (done,) = await restored.operator().apply(restored, adopts=False)
    assert done.action is Action.REMOVE
    assert len(restored.zoom.made) == 1


def _with_first_byte_changed(memo: str) -> str:
    return ("C" if memo[0] == "A" else "A") + memo[1:]


@pytest.mark.parametrize(
    "change",
    [_with_first_byte_changed, lambda memo: memo[:40], lambda _: "AA"],
    ids=["first byte", "short", "shorter than a key id"],
)
async def test_a_memo_that_was_changed_is_not_taken_for_one_under_another_key(
    restored: Restored, change: Callable[[str], str]
) -> None:
    restored.memo_cipher = AesGcmCipher([b"k" * 32])
    await lose(restored, 1)
    lost = restored.zoom.stand_in.meetings[-1]
    head, mark, rest = lost.fields["agenda"].partition("Memo: ")
    memo, line, reference = rest.partition("\n")
    lost.fields["agenda"] = f"{head}{mark}{change(memo)}{line}{reference}"
    restored.memo_cipher = AesGcmCipher([b"a" * 32])
    (done,) = await restored.operator().apply(restored)
    assert (done.action, done.needs_operator) == (Action.LEAVE, True)
    assert done.reason.startswith("its memo was changed and does not open")


async def test_a_memo_that_names_a_wrong_key_is_left(restored: Restored) -> None:
    """It looks like one under a key that is not given, and is not removed by mistake."""
    restored.memo_cipher = AesGcmCipher([b"k" * 32])
    await lose(restored, 1)
    lost = restored.zoom.stand_in.meetings[-1]
    head, mark, rest = lost.fields["agenda"].partition("Memo: ")
    lost.fields["agenda"] = f"{head}{mark}{rest[:2]}____{rest[6:]}"
    (done,) = await restored.operator().apply(restored, adopts=False)
    assert (done.action, done.needs_operator) == (Action.LEAVE, True)
    assert "its memo is under key" in done.reason


async def test_meetings_of_others_on_our_hosts_are_left(restored: Restored) -> None:
    await lose(restored, 0)
    fields_ = dict(restored.zoom.stand_in.meetings[0].fields) | {"agenda": "Somebody's own"}
    restored.zoom.stand_in.account.create("host-0", fields_)
    assert await restored.lists() == []


async def test_people_in_a_lost_meeting_are_not_thrown_out(restored: Restored) -> None:
    await lose(restored, 1)
    restored.zoom.stand_in.meetings[-1].status = "started"
    (done,) = await restored.operator().apply(restored, adopts=False)
    assert done.action is Action.LEAVE
    assert len(restored.zoom.made) == 2


async def test_one_that_was_cancelled_in_the_lost_time_is_cancelled_and_refunded_again(
    restored: Restored,
) -> None:
    await lose(restored, 0)
    balance = restored.funds().balance
    (kept,) = restored.zoom.made
    restored.zoom.stand_in.account.delete(kept)
    (done,) = await restored.operator().apply(restored)
    assert done.action is Action.CANCEL
    assert restored.funds().balance == balance + 10
    assert [each.status for each in restored.meetings()] == [MeetingStatus.CANCELLED]
    assert await restored.lists() == []
    restored.prove()


async def test_one_that_is_under_another_host_is_neither_removed_nor_refunded(restored: Restored) -> None:
    await lose(restored, 0)
    balance, account = restored.funds().balance, restored.zoom.stand_in.account
    (kept,) = restored.zoom.stand_in.meetings
    kept.user.exists, kept.user = False, account.known("host-under-a-new-name")
    (found,) = await restored.lists()
    assert (found.action, found.reason) == (Action.LEAVE, "it is at the provider, on another host")
    (done,) = await restored.operator().apply(restored)
    assert done.action is Action.LEAVE
    assert restored.zoom.made == [str(kept.number)]
    assert restored.funds().balance == balance
    assert [each.status for each in restored.meetings()] == [MeetingStatus.SCHEDULED]


@pytest.mark.parametrize("begins_after", [True, False])
async def test_one_that_has_begun_is_cancelled_where_it_could_be_cancelled_in_the_lost_time(
    restored: Restored, begins_after: bool
) -> None:
    await restored.sell(1, "kept")
    (meeting,) = restored.meetings()
    second = timedelta(seconds=1 if begins_after else -1)
    restored.clock.advance((meeting.start_at - second - restored.now()).total_seconds())
    restored.remember()
    balance = restored.funds().balance
    restored.zoom.stand_in.account.delete(restored.zoom.made[0])
    await restored.set_back()
    (done,) = await restored.operator().apply(restored)
    assert done.action is (Action.CANCEL if begins_after else Action.LEAVE)
    assert done.reason.startswith("gone at the provider")
    assert restored.funds().balance == balance + (10 if begins_after else 0)


async def test_nothing_is_concluded_where_the_provider_knows_no_host(restored: Restored) -> None:
    await lose(restored, 1)
    account = restored.zoom.stand_in.account
    for name in ("host-0", "host-1"):
        account.known(name).exists = False
    with pytest.raises(NoHostKnown, match="credentials"):
        await restored.lists()
    account.known("host-0").exists = True
    kept = "it is at the provider, on another host"
    assert [each.reason for each in await restored.lists()] == ["sold in the lost time", kept]


async def test_many_cancellations_are_counted_against_the_open_meetings(restored: Restored) -> None:
    for number in range(8):
        await restored.sell(number, None)
    restored.remember()
    await restored.set_back()
    reconcile = restored.operator().reconcile

    async def survey(gone: int) -> Survey:
        while len(restored.zoom.made) > 8 - gone:
            restored.zoom.stand_in.account.delete(restored.zoom.made[0])
        found = await reconcile.survey(restored.backup_at)
        assert (found.cancelled, found.open_meetings) == (gone, 8)
        return found

    assert not (await survey(0)).cancels_many
    assert not (await survey(5)).cancels_many
    many = await survey(6)
    with pytest.raises(ManyCancelled, match="6 of 8"):
        await reconcile.apply_all(many)
    assert {each.status for each in restored.meetings()} == {MeetingStatus.SCHEDULED}
    done = await reconcile.apply_all(many, cancels_many=True)
    assert [each.action for each in done] == [Action.CANCEL] * 6


async def test_one_that_was_being_made_is_left_to_the_workers(restored: Restored) -> None:
    wanted = request(start_time="08:00")
    with pytest.raises(SimulatedCrash):  # after the provider's answer, before it is settled
        await restored.create(CrashPoint(at=5))(
            restored.caller, wanted, restored.request_key("key-0"), restored.now()
        )
    restored.remember()
    await restored.set_back()
    (found,) = await restored.lists()
    assert found.action is Action.LEAVE
    await restored.operator().release()
    restored.expire_leases()
    assert await restored.reconcile().sweep() == 1
    assert [each.status for each in restored.meetings()] == [MeetingStatus.SCHEDULED]


@pytest.mark.parametrize("adopts", [True, False])
async def test_whenever_it_is_killed_it_can_be_run_again(adopts: bool) -> None:
    points, is_over = 0, False
    while not is_over:
        points += 1
        async with opened() as restored:
            await lose(restored, 2)
            balance = restored.funds().balance
            try:
                await restored.operator(CrashPoint(at=points)).apply(restored, adopts=adopts)
                is_over = True
            except SimulatedCrash:
                pass
            await restored.operator().apply(restored, adopts=adopts)
            assert await restored.lists() == []
            restored.prove()
            charges = [
                each for each in restored.entries() if each.transfer.kind is TransferKind.MEETING_CHARGE
            ]
            assert len(charges) == (3 if adopts else 1)
            assert len(restored.zoom.made) == (3 if adopts else 1)
            assert restored.funds().balance == (balance - 20 if adopts else balance)
    assert points > 6


async def test_a_key_that_states_its_time_is_refused_whatever_the_provider_has(restored: Restored) -> None:
    restored.provider = restored.sandbox
    restored.remember()
    restored.clock.advance(1)
    key = str(uuid7(restored.now(), bytes(10)))
    await restored.sell(0, key)
    await restored.set_back()
    assert not (await restored.operator().reconcile.survey(restored.backup_at)).lists
    await restored.operator().release()
    with pytest.raises(IdempotencyKeyReused, match="restored from a backup"):
        await restored.sell(0, key)
    restored.clock.advance(1)
    assert (await restored.sell(0, str(uuid7(restored.now(), bytes(10))))).record is not None


async def test_a_key_that_was_lost_after_a_backup_of_a_fenced_database_is_refused(restored: Restored) -> None:
    restored.provider = restored.sandbox
    await restored.operator().restore_use_cases.fence.put_up(restored.now())
    restored.clock.advance(60)
    restored.remember()
    await restored.operator().release()
    restored.clock.advance(600)
    key = str(uuid7(restored.now(), bytes(10)))
    await restored.sell(0, key)
    await restored.set_back()
    await restored.operator().release()
    with pytest.raises(IdempotencyKeyReused, match="restored from a backup"):
        await restored.sell(0, key)
    actions = [entry.action for entry in restored.state.committed.audit_log.values()]
    assert actions.count("restore.fenced") == 2


async def test_nothing_is_released_while_what_was_found_is_applied(restored: Restored) -> None:
    await lose(restored, 1)
    use_cases = restored.operator().restore_use_cases.fence
    async with use_cases.alone():
        with pytest.raises(FenceRefused):
            await use_cases.release()
        latest = await use_cases.latest()
        assert latest is not None
        assert latest.is_fenced
    assert not (await use_cases.release()).is_fenced


async def test_what_cannot_be_fenced_or_released_is_refused(restored: Restored) -> None:
    use_cases = restored.operator().restore_use_cases.fence
    with pytest.raises(Unprocessable):
        await use_cases.put_up(restored.now() + timedelta(seconds=1))
    with pytest.raises(NotFound):
        await use_cases.release()
    first = await use_cases.put_up(START)
    assert await use_cases.put_up(START - timedelta(days=1)) == first
    released = await use_cases.release()
    assert await use_cases.release() == released
    assert released == evolve(first, released_at=released.released_at)
    actions = [entry.action for entry in restored.state.committed.audit_log.values()]
    assert actions.count("restore.fenced") == actions.count("restore.released") == 1
