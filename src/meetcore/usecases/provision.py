"""The last step of making a meeting, for the request itself and for the process that takes over from it.

`settle` and `abandon` are one transaction each, and fenced by the lease: without it nothing is changed. Owns
the event of a new meeting; does not call the provider.
"""

from datetime import datetime
from uuid import UUID

from attrs import Factory, evolve, field, frozen

from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingEvent,
    MeetingStatus,
    Provisioned,
    mark_scheduled,
    transition,
)
from meetcore.domain.money import holds
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.records import meetings as records
from meetcore.domain.records.meetings import meeting_record
from meetcore.ports.account_state import AccountState
from meetcore.ports.meetings import LeaseView
from meetcore.ports.store import CommitLost, Store, Transaction
from meetcore.ports.video_provider import ProviderOrder
from meetcore.usecases.account_turns import AccountTurns, Spender
from meetcore.usecases.idempotency import Outcome, encode_outcome
from meetcore.usecases.outbox import events_of
from meetcore.usecases.repeat import repeated_when_lost
from meetcore.usecases.runtime import Runtime


def order_of(meeting: Meeting, provider_user_id: str) -> ProviderOrder:
    """What to ask the provider for; the same for the first call and for the reconciler's question."""
    return ProviderOrder(
        meeting_id=meeting.id,
        provider_user_id=provider_user_id,
        title=meeting.title,
        description=meeting.description,
        start_at=meeting.start_at,
        duration=meeting.duration,
        password=meeting.password,
        options=meeting.options,
    )


def created_record(meeting: Meeting) -> records.Meeting:
    """The record that answers a creation, whatever happened to the meeting since."""
    is_as_made = meeting.status is MeetingStatus.SCHEDULED and meeting.host_key is None
    as_made = meeting if is_as_made else evolve(meeting, status=MeetingStatus.SCHEDULED, host_key=None)
    return meeting_record(as_made, meeting.created_at)


async def settle(
    tx: Transaction, runtime: Runtime, view: LeaseView, made: Provisioned, at: datetime
) -> Outcome | None:
    """Turn the hold into the charge, show the meeting, store the outcome under its key.

    Returns:
        The outcome; `None` when the lease is lost or the account is no longer as in the view.
    """
    done = await _settle(tx, runtime, view, made, at, runtime.new_id(at))
    return None if done is None else done[0]


async def _settle(
    tx: Transaction, runtime: Runtime, view: LeaseView, made: Provisioned, at: datetime, charge_id: UUID
) -> tuple[Outcome, Funds, CapUsage] | None:
    """Settle as `settle` does, by a charge of this id; return the funds and the usage after it, too."""
    if view.hold is None:
        return None
    settled = holds.settle(
        view.funds, view.usage, view.hold, view.hold.amount, charge_id, at, runtime.chain_key
    )
    posting = settled.posting
    assert posting.entry is not None  # a settlement always posts
    meeting, fact = mark_scheduled(view.meeting, made, posting.entry.transfer.id)
    outcome = Outcome(created_record(meeting))
    due = await tx.meetings.save_scheduled(
        view, meeting, posting.funds, settled.usage, posting.entry,
        events_of(runtime, at, fact, posting),
        None if view.claim is None else encode_outcome(outcome),
    )  # fmt: skip
    return None if due is None else (evolve(outcome, due=due), posting.funds, settled.usage)


async def abandon(
    tx: Transaction, account_id: UUID, meeting_id: UUID, token: UUID, *,
    host_unavailable_until: datetime | None = None, look_again_s: float | None = None, was_made: bool = False,
) -> bool:  # fmt: skip
    """Release hold and host: the meeting is given up. False when the lease is lost.

    Args:
        host_unavailable_until: the host gets no new meeting before, where given.
        look_again_s: after how long the provider is checked for orphans; `None` when there can be none.
        was_made: the provider made it.
    """
    view = await tx.meetings.load_leased(account_id, meeting_id, token)
    if view is None or view.hold is None:
        return False
    reserved = holds.release(view.funds, view.usage, view.hold)
    meeting = evolve(view.meeting, status=transition(view.meeting.status, MeetingEvent.ABANDON))
    await tx.meetings.save_abandoned(
        view, meeting, reserved.funds, reserved.usage,
        host_unavailable_until=host_unavailable_until, look_again_s=look_again_s, was_made=was_made,
    )  # fmt: skip
    return True


@frozen
class Provisioner:
    """Finishes or undoes a meeting in progress."""

    store: Store
    runtime: Runtime
    turns: AccountTurns = field(default=Factory(lambda self: AccountTurns(self.store), takes_self=True))

    async def finish(self, view: LeaseView, made: Provisioned, at: datetime) -> Outcome | None:
        """Settle the meeting; `None` when the lease is lost.

        The view is tried as it is, in one statement, or in turn with others of the account; where the account
        has changed since, it is read again under its lock. A settlement whose answer was lost is looked up.

        Args:
            view: the meeting in progress, as the holder of its lease last read it.
            made: what the provider answered.
            at: the instant for the entry and the event.

        Raises:
            OutcomeUnknown: whether it was settled is not known.
        """
        charge_id = self.runtime.new_id(at)
        try:
            finished = await self._finish_in_turn(view, made, at, charge_id)
            finished = finished or await self._finish_latest(view, made, at, charge_id)
        except CommitLost:  # the lease shows whether it was kept
            finished = await self._finish_latest(view, made, at, charge_id)
            finished = finished or await self._find_settled(view.meeting, charge_id)
        if finished is not None:
            credits = 0 if view.hold is None else view.hold.amount
            self.runtime.metrics.credits_moved(TransferKind.MEETING_CHARGE, credits)
        return finished

    async def _finish_in_turn(
        self, view: LeaseView, made: Provisioned, at: datetime, charge_id: UUID
    ) -> Outcome | None:
        if view.hold is None:
            return None

        async def attempt(tx: Transaction, state: AccountState) -> tuple[Outcome, AccountState] | None:
            present = evolve(view, version=state.version, funds=state.funds, usage=state.usage)
            done = await _settle(tx, self.runtime, present, made, at, charge_id)
            return None if done is None else (done[0], evolve(state, funds=done[1], usage=done[2]))

        spender = Spender(view.meeting.account_id, view.hold.api_key_id, view.hold.cap_day)
        state = AccountState(view.version, view.funds, view.usage, None)
        return await self.turns.run(spender, state, attempt)

    @repeated_when_lost
    async def _finish_latest(
        self, view: LeaseView, made: Provisioned, at: datetime, charge_id: UUID
    ) -> Outcome | None:
        async with self.store.begin() as tx:
            latest = await tx.meetings.load_leased(view.meeting.account_id, view.meeting.id, view.token)
            done = None if latest is None else await _settle(tx, self.runtime, latest, made, at, charge_id)
        return None if done is None else done[0]

    @repeated_when_lost
    async def _find_settled(self, meeting: Meeting, charge_id: UUID) -> Outcome | None:
        """Find the meeting where its charge is the one of this id, and no other process's."""
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, None)
        if view is None or view.meeting.charge_id != charge_id:
            return None
        return Outcome(created_record(view.meeting), due=1)  # how many are due is not known any more

    async def undo(
        self, meeting: Meeting, token: UUID, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> bool:  # fmt: skip
        """Release hold and host as `abandon` does."""
        async with self.store.begin() as tx:
            return await abandon(
                tx, meeting.account_id, meeting.id, token, host_unavailable_until=host_unavailable_until,
                look_again_s=look_again_s, was_made=was_made,
            )  # fmt: skip
