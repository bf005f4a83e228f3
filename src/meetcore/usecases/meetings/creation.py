"""The steps of making a meeting, each a function on a transaction: claim, settle, abandon.

`claim` takes the idempotency key, the credits and a host, and inserts the meeting under a lease.
`claim_unlocked` does the same by one statement on the account as it was read. After the provider's call,
`settle` turns the hold into the charge, or `abandon` gives everything back. Both are fenced by the lease:
without it they change nothing. No step calls the provider.
"""

from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from attrs import Factory, evolve, field, frozen

from meetcore.domain import errors
from meetcore.domain.machine import step
from meetcore.domain.meetings import hosts
from meetcore.domain.meetings.hosts import (
    DEFAULT_SHARE_PERCENT,
    DayCreations,
    choose_host,
    may_create,
    next_creation_day,
)
from meetcore.domain.meetings.meetings import (
    TRANSITIONS,
    Meeting,
    MeetingEvent,
    MeetingPlan,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
    mark_scheduled,
)
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.meetings.views import CreationQuery, CreationView, LeaseView, ProviderOrder
from meetcore.domain.money import holds
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds, Reference, TransferKind
from meetcore.domain.money.views import AccountState
from meetcore.domain.records import meetings as records
from meetcore.domain.records.meetings import meeting_record
from meetcore.domain.requests.idempotency import Verdict
from meetcore.ports import meetings, observability, queries
from meetcore.ports.runtime import Lease
from meetcore.ports.store import CommitLost, Store, Transaction
from meetcore.usecases.money.turns import AccountTurns, Spender
from meetcore.usecases.requests.idempotency import (
    IdempotentRequest,
    KeyLookup,
    Outcome,
    decide_once,
)
from meetcore.usecases.runtime import Runtime, repeated_when_lost
from meetcore.usecases.webhooks.events import events_of

T = TypeVar("T")

NO_HOST_RETRY_AFTER_S: Final = 60


@frozen
class CreationTerms:
    """The terms of every creation.

    `lease_s` must exceed the provider's time limit. `share_percent` is how much of the day's creations that
    others left one account may use. `orphan_window_s` is how long after a creation the provider's list must
    be clean; `None` where the provider leaves no orphans.
    """

    lease_s: float = 20.0
    share_percent: int = DEFAULT_SHARE_PERCENT
    orphan_window_s: float | None = None


@frozen
class Creation:
    """A draft with everything that decides on its reservation."""

    runtime: Runtime
    draft: Meeting
    query: CreationQuery
    request: IdempotentRequest
    terms: CreationTerms


def draft_meeting(
    caller: queries.Caller, plan: MeetingPlan, abilities: ProviderAbilities, runtime: Runtime, now: datetime
) -> Meeting:
    """Draft the meeting of a plan, without a host; its capacity is the tier's (rule 2.1/capacity)."""
    request, password = plan.request, plan.request.password
    if password is None and abilities.password is not None:
        random = runtime.entropy.token_bytes(hosts.PASSWORD_RANDOM_BYTES)
        password = hosts.generate_password(abilities.password, random)
    return Meeting(
        id=runtime.new_id(now),
        account_id=caller.account.id,
        api_key_id=caller.key.id,
        status=MeetingStatus.PROVISIONING,
        title=request.title,
        description=request.description,
        start_at=plan.start_at,
        end_at=plan.end_at,
        duration=plan.tier.max_duration,
        capacity=plan.tier.capacity if abilities.has_capacity else None,
        pricing_tier_id=plan.tier.id,
        credits=plan.quote.credits,
        recording_credits=plan.quote.recording_credits,
        options=plan.options,
        host_id=None,
        provider=abilities.name,
        created_at=now,
        password=password,
    )


def creation_query(
    draft: Meeting, seats: int, abilities: ProviderAbilities, key: str | None, *, can_wait: bool
) -> CreationQuery:
    """Return the query for everything that the decision on a draft reads."""
    # The charge's permanent name comes from the caller's key where there is one, so that even a
    # key that was purged after its 24 hours cannot charge again.
    operation = f"meeting:{draft.id}" if key is None else f"meeting:key:{key}"
    return CreationQuery(
        draft.account_id, draft.api_key_id, cap_day(draft.created_at), operation, key, seats, draft.start_at,
        draft.end_at, draft.created_at, abilities.creations_per_host_day, abilities.has_hosts, can_wait,
    )  # fmt: skip


async def claim(
    tx: Transaction, creation: Creation
) -> LeaseView | Outcome | KeyLookup | errors.DomainError | None:
    """Claim the key, hold the credits, reserve a host and insert the draft under a lease.

    Returns the meeting under this process's lease; or the result of `decide_once` for a key that is not free
    and for a refusal; or `None` when another transaction took the host: repeat the step. Raises
    `InvalidApiKey`: the account was erased since the key was checked.
    """
    query = creation.query
    view = await tx.meetings.load_creation(query)
    if view.is_erased:
        raise errors.InvalidApiKey("The account of this API key was erased.")

    async def decide(tx: Transaction) -> LeaseView | None:
        if view.is_contended:
            return None
        return await tx.meetings.save_provisioning(provisioning(creation, view))

    step = await decide_once(tx, query.account_id, creation.request, decide, view.idempotency)
    return await replayed(tx, query.account_id, step)


async def replayed(tx: Transaction, account_id: UUID, step: T) -> T | Outcome:
    """Return the outcome of a creation that is done, made of its meeting; any other step as it is."""
    if not isinstance(step, KeyLookup) or step.verdict is not Verdict.REPLAY:
        return step
    assert step.subject_id is not None
    view = await tx.meetings.load_locked(account_id, step.subject_id, None)
    if view is None:
        raise errors.Gone("This meeting was removed: it is past its retention.")
    return Outcome(created_record(view.meeting), is_replay=True)


async def claim_unlocked(
    tx: Transaction, creation: Creation, state: AccountState, lease: Lease
) -> tuple[LeaseView, AccountState] | None:
    """Claim as `claim` does, by one statement on the account as it was read; return the account then, too.

    `None` where the account has changed, the key is known, no host is free at once, or the request is
    refused: decide under the lock. With the lock alone `POST /meetings` costs 29 % more processor time, 76 %
    with 16 clients on one account.
    """
    try:
        made = _held(creation, state, lease)
    except errors.DomainError:
        return None
    view = await tx.meetings.save_if_unchanged(creation.query, made, state)
    return None if view is None else (view, evolve(state, funds=made.funds, usage=made.usage))


def provisioning(creation: Creation, view: CreationView) -> meetings.Provisioning:
    """Decide under the account's lock on the hold and the host of a draft.

    Raises:
        IdempotencyKeyReused: its key was charged under before.
        InsufficientCredits, CreditCapExceeded: see `holds.take`.
        CreationsUsedUp: the account's share of the day's creations is used up.
        NoHostFree: no host is free for the whole of it (rule 4.1/3).
    """
    draft, query, terms, now = creation.draft, creation.query, creation.terms, creation.query.now
    if view.charged is not None:
        raise errors.IdempotencyKeyReused(
            "This Idempotency-Key paid for a meeting long ago. Use a new key for a new meeting.",
            {"id": view.charged.reference.id},
        )
    state = AccountState(None, view.funds, view.usage, view.daily_cap)
    held = _held(creation, state, Lease(creation.runtime.new_id(now), terms.lease_s))
    if view.creations is not None and not _is_within_share(view.creations, terms.share_percent):
        raise errors.CreationsUsedUp(now, next_creation_day(now), is_share=True)
    host = choose_host(view.free_hosts, query.seats)
    if host is None and query.needs_host:
        raise errors.NoHostFree(NO_HOST_RETRY_AFTER_S)
    return evolve(
        held,
        meeting=draft if host is None else evolve(draft, host_id=host.id),
        provider_user_id="" if host is None else host.provider_user_id,
        counts_creation=view.creations is not None,
    )


def _held(creation: Creation, state: AccountState, lease: Lease) -> meetings.Provisioning:
    """Hold the price of a draft without a host, or raise the refusal of `holds.take`."""
    draft, query = creation.draft, creation.query
    hold = holds.Hold(
        creation.runtime.new_id(query.now), query.operation, TransferKind.MEETING_CHARGE, draft.credits,
        Reference("meeting", str(draft.id)), query.api_key_id, query.cap_day,
    )  # fmt: skip
    reserved = holds.take(state.funds, state.usage, state.daily_cap, hold)
    return meetings.Provisioning(
        draft, hold, reserved.funds, reserved.usage, lease, creation.request.claim(draft.id), "",
        orphan_window_s=creation.terms.orphan_window_s,
    )  # fmt: skip


def _is_within_share(today: DayCreations, share_percent: int) -> bool:
    # Where nothing is left for any account, the hosts decide.
    return today.left == 0 or may_create(today, share_percent)


def order_of(meeting: Meeting, provider_user_id: str) -> ProviderOrder:
    """Return the order for the provider: of the first call, and of the reconciler's search."""
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
    """Return the record of a meeting as it was created, whatever happened to it since."""
    is_as_made = meeting.status is MeetingStatus.SCHEDULED and meeting.host_key is None
    as_made = meeting if is_as_made else evolve(meeting, status=MeetingStatus.SCHEDULED, host_key=None)
    return meeting_record(as_made, meeting.created_at)


async def settle(
    tx: Transaction, runtime: Runtime, view: LeaseView, made: Provisioned, at: datetime
) -> Outcome | None:
    """Turn the hold into the charge, show the meeting, mark its key as done.

    `None` when the lease is lost or the account has changed since the view.
    """
    done = await _settle(tx, runtime, view, made, at, runtime.new_id(at))
    return None if done is None else done[0]


async def _settle(
    tx: Transaction, runtime: Runtime, view: LeaseView, made: Provisioned, at: datetime, charge_id: UUID, *,
    can_mail: bool = True,
) -> tuple[Outcome, Funds, CapUsage] | None:  # fmt: skip
    """Settle as `settle` does, by a charge of this id; return the funds and the usage after it, too.

    Without `can_mail` a charge that mails follow from is not written: `None`.
    """
    if view.hold is None:
        return None
    settled = holds.settle(
        view.funds, view.usage, view.hold, view.hold.amount, charge_id, at, runtime.chain_key
    )
    posting = settled.posting
    assert posting.entry is not None  # a settlement always posts
    if not can_mail and runtime.has_mails(posting.facts):
        return None
    meeting, fact = mark_scheduled(view.meeting, made, posting.entry.transfer.id)
    outcome = Outcome(created_record(meeting))
    due = await tx.meetings.save_scheduled(
        view, meeting, posting.funds, settled.usage, posting.entry,
        events_of(runtime, at, fact, posting),
    )  # fmt: skip
    if due is None:
        return None
    due += await runtime.mail_low(tx, posting.facts)
    return evolve(outcome, due=due), posting.funds, settled.usage


async def abandon(
    tx: Transaction, account_id: UUID, meeting_id: UUID, token: UUID, *,
    host_unavailable_until: datetime | None = None, look_again_s: float | None = None, was_made: bool = False,
) -> bool:  # fmt: skip
    """Release hold and host: the meeting is given up. False when the lease is lost.

    The host gets no new meeting before `host_unavailable_until`. The provider, which made it or not
    (`was_made`), is checked for orphans after `look_again_s`; `None` when there can be none.
    """
    view = await tx.meetings.load_leased(account_id, meeting_id, token)
    if view is None or view.hold is None:
        return False
    reserved = holds.release(view.funds, view.usage, view.hold)
    meeting = evolve(view.meeting, status=step(TRANSITIONS, view.meeting.status, MeetingEvent.ABANDON))
    await tx.meetings.save_abandoned(
        view, meeting, reserved.funds, reserved.usage,
        host_unavailable_until=host_unavailable_until, look_again_s=look_again_s, was_made=was_made,
    )  # fmt: skip
    return True


@frozen
class Provisioner:
    """Settles or abandons a meeting in progress, each in a transaction of its own."""

    store: Store
    runtime: Runtime
    turns: AccountTurns = field(default=Factory(lambda self: AccountTurns(self.store), takes_self=True))

    async def finish(self, view: LeaseView, made: Provisioned, at: datetime) -> Outcome | None:
        """Settle the meeting that the provider has `made`; `None` when the lease is lost.

        The view is tried as it is, by one statement, or in turn with others of the account. Where the account
        has changed, or its credits fall low, it is read again under its lock. A settlement whose answer was
        lost is looked up. Raises `OutcomeUnknown`: the commit was lost, and its outcome was not found;
        `NumberTaken`.
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
            observability.count_credits(self.runtime.metrics, TransferKind.MEETING_CHARGE, credits)
        return finished

    async def _finish_in_turn(
        self, view: LeaseView, made: Provisioned, at: datetime, charge_id: UUID
    ) -> Outcome | None:
        if view.hold is None:
            return None

        async def attempt(tx: Transaction, state: AccountState) -> tuple[Outcome, AccountState] | None:
            present = evolve(view, version=state.version, funds=state.funds, usage=state.usage)
            done = await _settle(tx, self.runtime, present, made, at, charge_id, can_mail=False)
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
