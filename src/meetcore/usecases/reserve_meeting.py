"""The first step of making a meeting: one transaction claims the idempotency key, credits and a host."""

from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from meetcore.domain.errors import (
    CreationsUsedUp,
    DomainError,
    IdempotencyKeyReused,
    InvalidApiKey,
    NoHostFree,
)
from meetcore.domain.meetings import passwords
from meetcore.domain.meetings.hosts import (
    DEFAULT_SHARE_PERCENT,
    DayCreations,
    choose_host,
    may_create,
    next_creation_day,
)
from meetcore.domain.meetings.meetings import Meeting, MeetingPlan, MeetingStatus, ProviderAbilities
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds
from meetcore.domain.money.ledger import Reference, TransferKind
from meetcore.ports.account_state import AccountState
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning
from meetcore.ports.queries import Caller
from meetcore.ports.store import Transaction
from meetcore.usecases.idempotency import IdempotentRequest, KeyLookup, Outcome, decide_once
from meetcore.usecases.runtime import Runtime

NO_HOST_RETRY_AFTER_S: Final = 60


@frozen
class ReservationTerms:
    """The terms of every reservation.

    `lease_s` must exceed the provider's time limit. `share_percent` is how much of the day's creations that
    others left one account may use. `orphan_window_s` is how long after a creation the provider's list must
    be clean; `None` where the provider leaves no orphans.
    """

    lease_s: float = 20.0
    share_percent: int = DEFAULT_SHARE_PERCENT
    orphan_window_s: float | None = None


def draft_meeting(
    caller: Caller, plan: MeetingPlan, abilities: ProviderAbilities, runtime: Runtime, now: datetime
) -> Meeting:
    """The meeting of a plan, before it has a host; its capacity is the tier's (rule 2.1/capacity)."""
    request, password = plan.request, plan.request.password
    if password is None and abilities.password is not None:
        random = runtime.entropy.token_bytes(passwords.PASSWORD_RANDOM_BYTES)
        password = passwords.generate_password(abilities.password, random)
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
        options=plan.options,
        host_id=None,
        provider=abilities.name,
        created_at=now,
        password=password,
    )


def creation_query(
    draft: Meeting, seats: int, abilities: ProviderAbilities, key: str | None, *, can_wait: bool
) -> CreationQuery:
    """What the decision on a draft needs of the store."""
    # The charge's permanent name comes from the caller's key where there is one, so that even a
    # key that was purged after its 24 hours cannot charge again.
    operation = f"meeting:{draft.id}" if key is None else f"meeting:key:{key}"
    return CreationQuery(
        draft.account_id, draft.api_key_id, cap_day(draft.created_at), operation, key, seats, draft.start_at,
        draft.end_at, draft.created_at, abilities.creations_per_host_day, abilities.has_hosts, can_wait,
    )  # fmt: skip


async def reserve(
    tx: Transaction,
    runtime: Runtime,
    draft: Meeting,
    query: CreationQuery,
    request: IdempotentRequest,
    terms: ReservationTerms,
) -> LeaseView | Outcome | KeyLookup | DomainError | None:
    """Claim the key, hold the credits, reserve a host and insert the draft under a lease.

    Returns:
        The meeting under this process's lease; or what `decide_once` returns for a key that is not free and
        for a refusal; `None` when a host was taken meanwhile, and the step is to be repeated.

    Raises:
        InvalidApiKey: the account was erased since the key was checked.
    """
    view = await tx.meetings.load_creation(query)
    if view.is_erased:
        raise InvalidApiKey("The account of this API key was erased.")

    async def decide(tx: Transaction) -> LeaseView | None:
        if view.is_contended:
            return None
        return await tx.meetings.save_provisioning(provisioning(runtime, draft, query, view, request, terms))

    return await decide_once(tx, query.account_id, request, decide, view.idempotency)


def provisioning(
    runtime: Runtime,
    draft: Meeting,
    query: CreationQuery,
    view: CreationView,
    request: IdempotentRequest,
    terms: ReservationTerms,
) -> Provisioning:
    """Decide what a draft reserves.

    Raises:
        IdempotencyKeyReused: its key was charged under before.
        InsufficientCredits, CreditCapExceeded: see `holds.take`.
        CreationsUsedUp: the account's share of the day's creations is used up.
        NoHostFree: no host is free for the whole of it.
    """
    now = query.now
    if view.charged is not None:
        raise IdempotencyKeyReused(
            "This Idempotency-Key paid for a meeting long ago. Use a new key for a new meeting.",
            {"id": view.charged.reference.id},
        )
    hold = _hold(runtime, draft, query)
    reserved = holds.take(view.funds, view.usage, view.daily_cap, hold)
    if view.creations is not None and not _is_within_share(view.creations, terms.share_percent):
        raise CreationsUsedUp(now, next_creation_day(now), is_share=True)
    host = choose_host(view.free_hosts, query.seats)
    if host is None and query.needs_host:
        raise NoHostFree(NO_HOST_RETRY_AFTER_S)
    return Provisioning(
        draft if host is None else evolve(draft, host_id=host.id),
        hold, reserved.funds, reserved.usage, Lease(runtime.new_id(now), terms.lease_s),
        request.claim(draft.id), "" if host is None else host.provider_user_id,
        view.creations is not None, terms.orphan_window_s,
    )  # fmt: skip


def unlocked_provisioning(
    runtime: Runtime,
    draft: Meeting,
    query: CreationQuery,
    state: AccountState,
    request: IdempotentRequest,
    terms: ReservationTerms,
    lease: Lease,
) -> Provisioning:
    """Decide what a draft reserves of an account that is not locked; its host is chosen as it is reserved.

    Raises:
        InsufficientCredits, CreditCapExceeded: see `holds.take`.
    """
    hold = _hold(runtime, draft, query)
    reserved = holds.take(state.funds, state.usage, state.daily_cap, hold)
    return Provisioning(
        draft, hold, reserved.funds, reserved.usage, lease, request.claim(draft.id), "",
        orphan_window_s=terms.orphan_window_s,
    )  # fmt: skip


def _hold(runtime: Runtime, draft: Meeting, query: CreationQuery) -> holds.Hold:
    return holds.Hold(
        runtime.new_id(query.now), query.operation, TransferKind.MEETING_CHARGE, draft.credits,
        Reference("meeting", str(draft.id)), query.api_key_id, query.cap_day,
    )  # fmt: skip


def _is_within_share(today: DayCreations, share_percent: int) -> bool:
    # Where nothing is left for any account, the hosts decide.
    return today.left == 0 or may_create(today, share_percent)
