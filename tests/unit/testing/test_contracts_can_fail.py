"""The store suites notice what goes wrong in stores: each defect here is found by a test of the kit."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.memory.deliveries import MemoryDeliveryRepository
from meetcore.adapters.memory.endpoints import MemoryEndpointRepository
from meetcore.adapters.memory.host_keys import MemoryHostKeyRepository
from meetcore.adapters.memory.ledger import MemoryPostingRepository
from meetcore.adapters.memory.mails import MemoryMailRepository
from meetcore.adapters.memory.meetings import MemoryMeetingRepository
from meetcore.adapters.memory.notes import MemoryNoteRepository
from meetcore.adapters.memory.orphan_checks import MemoryOrphanCheckRepository
from meetcore.adapters.memory.provider_events import MemoryProviderEventInbox
from meetcore.adapters.memory.recordings import MemoryRecordingRepository
from meetcore.adapters.memory.state import StoredDelivery
from meetcore.domain.mails.mails import Mail, MailLimits
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.provider_events import ProviderEvent
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Funds
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.notes.transcripts import Transcript
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.domain.webhooks.events import Event
from meetcore.ports.deliveries import ClaimedBatch, ClaimLimits
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.lease import Lease
from meetcore.ports.mails import ClaimedMail, MailView
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning
from meetcore.ports.notes import NoteTask
from meetcore.ports.orphan_checks import OrphanCheck
from meetcore.ports.postings import AccountPostings
from meetcore.ports.provider_events import ClaimedEvent
from meetcore.ports.store import PostingView
from meetcore.testing.contracts import StoreContract, StoreRig
from meetcore.testing.contracts.provider_event_inbox import new_file, provider_event
from meetcore.testing.memory_rig import MemoryRig
from tests.unit.testing.broken_store import BrokenStore

Suite = Callable[[StoreContract, StoreRig], Awaitable[None]]


class RefundsTwice(MemoryPostingRepository):
    """Drops the record of which charges were reversed."""

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        self._tables.entry_of_reversal.clear()
        return await super().append_if_unchanged(postings)


class KeepsTheOldBalance(MemoryPostingRepository):
    """Appends the entries and leaves the funds as they were."""

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        return await super().append_if_unchanged([evolve(each, after=each.before) for each in postings])


class ComparesNoFunds(MemoryPostingRepository):
    """Appends on whatever the funds are."""

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        found = {each.account_id: self._tables.accounts[each.account_id].funds for each in _befores(postings)}
        return await super().append_if_unchanged(
            [evolve(each, before=found[each.before.account_id]) for each in postings]
        )


def _befores(postings: Sequence[AccountPostings]) -> list[Funds]:
    return [each.before for each in postings]


class IgnoresTheToken(MemoryMeetingRepository):
    """Takes any token for the lease's own."""

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        stored = self._tables.meetings.get((account_id, meeting_id))
        lease = None if stored is None else stored.lease
        return await super().load_leased(account_id, meeting_id, token if lease is None else lease.token)


class ReservesTwice(MemoryMeetingRepository):
    """Drops the reservations of hosts."""

    async def load_creation(self, query: CreationQuery) -> CreationView:
        self._tables.reservations.clear()
        return await super().load_creation(query)

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        self._tables.reservations.clear()
        return await super().save_provisioning(provisioning)


class LeavesClaimsDue(MemoryDeliveryRepository):
    """Hands a delivery out and leaves it for the next who asks."""

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> ClaimedBatch:
        before = dict(self._tables.deliveries)
        found = await super().claim_due(limits, lease)
        for name, stored in before.items():
            claimed = self._tables.deliveries[name]
            self._tables.deliveries[name] = evolve(stored, token=claimed.token)
        return found


class LeavesWhatWaits(MemoryEndpointRepository):
    """Removes an endpoint and nothing of what waits for it."""

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        before = dict(self._tables.deliveries)
        removed = await super().remove(account_id, endpoint_id)
        self._tables.deliveries.update(before)
        return removed


class TakesWhatIsFinal(MemoryEndpointRepository):
    """Removes every trace of an endpoint."""

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        for name, stored in list(self._tables.deliveries.items()):
            if stored.delivery.endpoint_id == endpoint_id:
                del self._tables.deliveries[name]
        return await super().remove(account_id, endpoint_id)


class PostsToAnyAccount(MemoryEndpointRepository):
    """Finds a delivery by its id alone, whichever endpoint it went to."""

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> PostingView | None:
        view = await super().load_for_posting(account_id, endpoint_id)
        stored = None if delivery_id is None else self._tables.deliveries.get((account_id, delivery_id))
        return view if view is None or stored is None else evolve(view, earlier=stored.delivery)


class PostsWithoutEvent(MemoryEndpointRepository):
    """Writes deliveries that nothing can be sent of."""

    async def post_again(self, delivery: Delivery) -> bool:
        self._tables.deliveries[delivery.account_id, delivery.id] = StoredDelivery(delivery)
        return True


class TakesDoublesIn(MemoryProviderEventInbox):
    """Drops the digest of what is done."""

    async def done(self, id: UUID, token: UUID) -> None:
        await super().done(id, token)
        self._tables.provider_events.pop(id, None)


class SharesNothing(MemoryProviderEventInbox):
    """Hands an event out and leaves it for the next who asks."""

    async def claim(self, limit: int, lease: Lease) -> Sequence[ClaimedEvent]:
        return await super().claim(limit, evolve(lease, seconds=-1))


class AcceptsAnySecret(MemoryProviderEventInbox):
    """Marks an event as done under any token."""

    async def done(self, id: UUID, token: UUID) -> None:
        stored = self._tables.provider_events[id]
        self._tables.provider_events[id] = evolve(stored, token=None, due_at=None, event=None)


class LosesTheFiles(MemoryProviderEventInbox):
    """Keeps what happened and drops to which meeting."""

    async def add(self, id: UUID, event: ProviderEvent, digest: bytes) -> bool:
        return await super().add(id, evolve(event, files=()), digest)


class KeepsTheFirst(MemoryRecordingRepository):
    """Writes a recording once, and never what is added."""

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        if await self.load(recording.account_id, recording.meeting_id) is None:
            return await super().save(recording, events)
        return 0


class MeasuresWhatHasExpired(MemoryRecordingRepository):
    """Leaves an expired recording to the worker that measures it."""

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        before = self._tables.recordings.get((recording.account_id, recording.meeting_id))
        due = await super().save(recording, events)
        if before is not None and before.due_at is not None:
            self._put(evolve(before, recording=recording))
        return due


class FencesNoNote(MemoryNoteRepository):
    """Lets everybody write steps."""

    async def save_step(self, task: NoteTask, note: Note) -> bool:
        stored = self._tables.notes[note.account_id, note.id]
        self._put(evolve(stored, note=note))
        return True


class TakesTwoOfOne(MemoryNoteRepository):
    """Gives both notes on a recording out at once."""

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        first = await super().claim(limit, in_flight, lease)
        leased = dict(self._tables.notes)
        for task in first:
            del self._tables.notes[task.note.account_id, task.note.id]
        second = await super().claim(limit, in_flight, lease)
        self._tables.notes.update(leased | self._tables.notes)
        return [*first, *second]


class CountsNoDeath(MemoryNoteRepository):
    """Takes over without counting the expired lease."""

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        return [evolve(task, lease_expirations=0) for task in await super().claim(limit, in_flight, lease)]


class GivesEverybodyEverything(MemoryNoteRepository):
    """Knows no bound."""

    async def claim(self, limit: int, in_flight: int, lease: Lease) -> Sequence[NoteTask]:
        return await super().claim(limit, 1_000, lease)


class KeepsTheHoldOfANote(MemoryNoteRepository):
    """Ends a note and leaves its hold."""

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        due = await super().save_failed(note, hold, funds, usage, events)
        self._tables.holds[note.account_id, hold.id] = hold
        return due


class KeepsTheEvents(MemoryNoteRepository):
    """Erases a note and not its events."""

    async def save_erased(self, note: Note) -> None:
        before = dict(self._tables.deliveries)
        await super().save_erased(note)
        self._tables.deliveries.update(before)


class MixesSources(MemoryNoteRepository):
    """Takes the transcript of one source for that of another."""

    async def load_transcript_chunks(self, task: NoteTask, source: str) -> Mapping[int, Transcript]:
        found = self._tables.transcript_chunks.items()
        return {name[3]: transcript for name, transcript in found if name[1] == task.note.recording_id}


class KeepsTheLast(MemoryRecordingRepository):
    """Lets a second recording of a meeting take the place of the first."""

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        self._tables.recordings.pop((recording.account_id, recording.meeting_id), None)
        return await super().save(recording, events)


async def _recording_event(suite: StoreContract, rig: StoreRig) -> None:
    files = (new_file(), new_file("a2"))
    await suite.test_an_event_is_read_back_as_it_was_received(rig, provider_event(files=files))


class KeepsWhatAnyoneBrings(MemoryHostKeyRepository):
    """Takes any token for the lease's own."""

    def _is_claimed(self, host_id: UUID, token: UUID) -> bool:
        return True


class ShowsTheKeyMeanwhile(MemoryHostKeyRepository):
    """Leaves a key in place while it is being replaced."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[DueHostKey]:
        claimed = await super().claim_due(limit, lease)
        for due in claimed:
            stored = self._tables.host_keys[due.host_id]
            self._tables.host_keys[due.host_id] = evolve(stored, host_key="000000")
        return claimed


class LetsAnyTokenClose(MemoryOrphanCheckRepository):
    """Ends a check under any token."""

    async def close(self, check: OrphanCheck) -> None:
        self._tables.orphan_checks.pop((check.meeting.account_id, check.meeting.id), None)


class ForgetsTheAge(MemoryOrphanCheckRepository):
    """Takes every look for a sighting."""

    async def postpone(
        self, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        await super().postpone(check, after_s, failures=failures, is_sighting=True)


class CountsNoCreation(MemoryMeetingRepository):
    """Counts no creation of an account."""

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        return await super().save_provisioning(evolve(provisioning, counts_creation=False))


class GivesBackWhatWasMade(MemoryMeetingRepository):
    """Takes a meeting that was given up for one that was not made."""

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> None:  # fmt: skip
        await super().save_abandoned(view, meeting, funds, usage, look_again_s=look_again_s)


class FencesNoMail(MemoryMailRepository):
    """Lets any worker record what became of a mail."""

    async def load_claimed(self, claimed: ClaimedMail) -> MailView | None:
        stored = self._tables.mails[claimed.mail.id]
        return await super().load_claimed(evolve(claimed, token=stored.token or claimed.token))


class CountsNoMails(MemoryMailRepository):
    """Adds as many mails as there are."""

    async def add(self, *mails: Mail, limits: MailLimits) -> int:
        return await super().add(*mails, limits=MailLimits(1000, 1000))


DEFECTS: list[tuple[str, type, type, Suite]] = [
    (
        "postings", MemoryPostingRepository, RefundsTwice,
        StoreContract.test_a_charge_is_reversed_once_whatever_the_operation_is_called,
    ),
    (
        "postings", MemoryPostingRepository, KeepsTheOldBalance,
        StoreContract.test_an_entry_is_read_back_as_it_was_written,
    ),
    (
        "postings", MemoryPostingRepository, ComparesNoFunds,
        StoreContract.test_on_funds_that_are_no_more_nothing_is_written,
    ),
    (
        "meetings", MemoryMeetingRepository, IgnoresTheToken,
        StoreContract.test_one_meeting_with_an_expired_lease_is_taken_over,
    ),
    (
        "orphan_checks", MemoryOrphanCheckRepository, LetsAnyTokenClose,
        StoreContract.test_a_lost_lease_changes_nothing,
    ),
    (
        "orphan_checks", MemoryOrphanCheckRepository, ForgetsTheAge,
        StoreContract.test_the_age_continues_over_checks_unless_an_orphan_was_found,
    ),
    (
        "meetings", MemoryMeetingRepository, CountsNoCreation,
        StoreContract.test_what_an_account_has_made_in_a_day_is_counted_on_hosts_with_the_seats,
    ),
    (
        "meetings", MemoryMeetingRepository, GivesBackWhatWasMade,
        StoreContract.test_what_was_given_up_counts_for_the_account_only_if_it_was_made,
    ),
    ("meetings", MemoryMeetingRepository, ReservesTwice, StoreContract.test_twenty_race_for_one_host),
    (
        "deliveries", MemoryDeliveryRepository, LeavesClaimsDue,
        StoreContract.test_a_claimed_delivery_is_not_claimed_again_during_the_lease,
    ),
    (
        "endpoints", MemoryEndpointRepository, LeavesWhatWaits,
        StoreContract.test_what_is_held_goes_too,
    ),
    (
        "endpoints", MemoryEndpointRepository, TakesWhatIsFinal,
        StoreContract.test_what_waits_goes_and_what_is_final_stays,
    ),
    (
        "endpoints", MemoryEndpointRepository, PostsToAnyAccount,
        StoreContract.test_what_is_not_the_endpoints_is_not_there,
    ),
    (
        "endpoints", MemoryEndpointRepository, PostsWithoutEvent,
        StoreContract.test_an_event_that_is_gone_is_not_posted_again,
    ),
    (
        "inbox", MemoryProviderEventInbox, TakesDoublesIn,
        StoreContract.test_a_double_of_what_is_done_is_known,
    ),
    (
        "inbox", MemoryProviderEventInbox, SharesNothing,
        StoreContract.test_claims_at_the_same_time_share_what_is_due,
    ),
    (
        "inbox", MemoryProviderEventInbox, AcceptsAnySecret,
        StoreContract.test_an_event_that_was_released_is_no_longer_claimed,
    ),
    ("inbox", MemoryProviderEventInbox, LosesTheFiles, _recording_event),
    (
        "recordings", MemoryRecordingRepository, KeepsTheFirst,
        StoreContract.test_a_recording_is_written_again_with_what_was_added,
    ),
    (
        "recordings", MemoryRecordingRepository, KeepsTheLast,
        StoreContract.test_a_meeting_has_at_most_one_recording,
    ),
    (
        "recordings", MemoryRecordingRepository, MeasuresWhatHasExpired,
        StoreContract.test_an_expired_recording_is_due_at_once_even_when_claimed,
    ),
    ("notes", MemoryNoteRepository, FencesNoNote, StoreContract.test_a_lost_lease_writes_nothing),
    (
        "notes", MemoryNoteRepository, TakesTwoOfOne,
        StoreContract.test_of_one_recording_one_note_is_made_at_a_time,
    ),
    (
        "notes", MemoryNoteRepository, CountsNoDeath,
        StoreContract.test_a_dead_workers_note_is_taken_over_and_its_expiration_is_counted,
    ),
    (
        "notes", MemoryNoteRepository, GivesEverybodyEverything,
        StoreContract.test_no_more_are_in_progress_than_there_may_be,
    ),
    (
        "notes", MemoryNoteRepository, KeepsTheHoldOfANote,
        StoreContract.test_a_failed_note_costs_nothing_and_emits_an_event,
    ),
    (
        "notes", MemoryNoteRepository, KeepsTheEvents,
        StoreContract.test_with_a_note_its_events_are_erased_and_no_others,
    ),
    (
        "notes", MemoryNoteRepository, MixesSources,
        StoreContract.test_transcripts_of_another_source_are_not_returned,
    ),
    (
        "mails", MemoryMailRepository, FencesNoMail,
        StoreContract.test_a_dead_workers_mail_is_due_again_and_its_record_comes_too_late,
    ),
    (
        "mails", MemoryMailRepository, CountsNoMails,
        StoreContract.test_a_recipient_gets_no_more_mails_an_hour_than_the_limit,
    ),
    (
        "mails", MemoryMailRepository, CountsNoMails,
        StoreContract.test_an_account_gets_no_more_mails_an_hour_than_the_limit,
    ),
    (
        "host_keys", MemoryHostKeyRepository, KeepsWhatAnyoneBrings,
        StoreContract.test_a_host_is_due_again_when_its_lease_runs_out,
    ),
    (
        "host_keys", MemoryHostKeyRepository, KeepsWhatAnyoneBrings,
        StoreContract.test_only_the_claim_owner_postpones,
    ),
    (
        "host_keys", MemoryHostKeyRepository, ShowsTheKeyMeanwhile,
        StoreContract.test_a_key_that_is_claimed_is_in_place_no_more,
    ),
]  # fmt: skip


async def play(role: str, make: type, suite: Suite) -> None:
    """Run one test of the kit on a store whose repository is of this make."""
    rig = MemoryRig()
    rig.store = BrokenStore(rig, role, make)
    await suite(StoreContract(), rig)


@pytest.mark.parametrize(
    ("role", "intact", "broken", "suite"), DEFECTS, ids=[broken.__name__ for _, _, broken, _ in DEFECTS]
)
async def test_a_defect_is_noticed_and_only_a_defect(role: str, intact: type, broken: type, suite: Suite):
    await play(role, intact, suite)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await play(role, broken, suite)
