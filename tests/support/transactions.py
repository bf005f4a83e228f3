"""Transactions of customers, meetings and endpoints, as the use cases write them.

Those of a ledger alone are in `meetcore.testing.ledger`.
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import DomainError, IdempotencyKeyReused, NoHostFree
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
    mark_scheduled,
)
from meetcore.domain.meetings.views import CreationQuery, CreationView, LeaseView, MeetingView
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.requests.idempotency import Verdict
from meetcore.domain.requests.keys import ApiKey, Scope, roll
from meetcore.domain.requests.views import Claim
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointState
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.ports.meetings import Provisioning
from meetcore.ports.runtime import Lease
from meetcore.testing import ledger as ledger_transactions
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.ledger import AT, Customer, adjust, append_one, email_of, funds_of, new_id, open_account
from meetcore.usecases.meetings import cancel_meeting, cancellation
from meetcore.usecases.meetings import creation as creation_steps
from meetcore.usecases.meetings.creation import CreationTerms, creation_query
from meetcore.usecases.requests.idempotency import IdempotentRequest, KeyLookup, Outcome
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks import endpoints as webhooks
from tests.support.postgres_rig import PostgresRig

__all__ = [
    "AT", "KIND", "MANY", "RUNTIME", "TOMORROW", "Customer", "MeetingSpec", "abandon", "adjust",
    "append_one", "cancel_view", "creation", "draft", "email_of", "finish_cancelling", "funds_of",
    "is_free", "load_leased", "money", "new_endpoint", "new_event", "new_host", "new_id",
    "open_account", "open_customer", "open_with_host", "provisioning", "query_of", "register",
    "remove_endpoint", "reserve", "reserved", "rolled", "save_endpoint", "schedule", "scheduled",
    "start_cancelling", "start_erasure", "top_up",
]  # fmt: skip

TOMORROW = datetime(2027, 3, 2, 9, tzinfo=UTC)  # when the meetings that are wished for start
MANY = 1_000_000  # endpoints of an account
KIND = EventKind.CREDIT_TOPUP_SUCCEEDED  # what an endpoint subscribes to unless it says otherwise


@frozen
class MeetingSpec:
    """A meeting to create: seats, a range, credits, an optional idempotency key."""

    start_at: datetime = TOMORROW
    minutes: int = 60
    seats: int = 10
    credits: int = 10
    key: str | None = None
    fingerprint: bytes = b"f" * 32
    lease_s: float = 60.0
    password: str = "s3cret-pw"
    per_day: int | None = None
    needs_host: bool = True
    with_recording: bool = True
    orphan_window_s: float | None = None
    title: str = "Rapat"

    @property
    def request(self) -> IdempotentRequest:
        return IdempotentRequest(self.key, self.fingerprint)

    @property
    def end_at(self) -> datetime:
        return self.start_at + timedelta(minutes=self.minutes)


class _KitRuntime(Runtime):
    """Dependencies of the use cases, with ascending ids."""

    def new_id(self, at: datetime) -> UUID:
        return new_id()


RUNTIME = _KitRuntime(ManualClock(AT), SeededEntropy(0))


def new_host(capacity: int = 100, **fields: Any) -> Host:
    """Return an unstored host; `fields` are its attributes."""
    id_ = new_id()
    return evolve(Host(id_, f"user-{id_}", capacity), **fields)


async def open_customer(
    rig: PostgresRig, credits: int = 0, *hosts: Host, cap: int | None = None, low_threshold: int = 0
) -> Customer:
    """Open an account with an unrestricted key, credits and a daily cap; add hosts."""
    if hosts:
        await rig.put_hosts(*hosts)
    customer = await open_account(rig, credits, low_threshold=low_threshold)
    key = ApiKey(customer.key_id, customer.account_id, tuple(Scope), cap, AT)
    await rig.alone.registry.add_key(key, customer.digest)
    return customer


async def open_with_host(rig: PostgresRig) -> Customer:
    """Open an account with 100 credits; add `host-9`, which takes nine meetings at a time."""
    return await open_customer(rig, 100, new_host(max_concurrent=9, provider_user_id="host-9"))


async def start_erasure(rig: PostgresRig, account_id: UUID) -> None:
    """Ask for the erasure of an account."""
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.erasures.start(account_id, AT)


async def rolled(rig: PostgresRig, customer: Customer) -> Customer:
    """Add a key rolled from the customer's; the old one stays valid."""
    keys = {key.id: key for key in await rig.registry.list_keys(customer.account_id)}
    new, digest = roll(keys[customer.key_id], 1, new_id(), "", AT).new, os.urandom(32)
    await rig.alone.registry.add_key(new, digest)
    return Customer(customer.account_id, new.id, digest)


async def top_up(
    rig: PostgresRig,
    customer: Customer,
    amount: int,
    reference: str,
    *kinds: EventKind,
    key: ChainKey | None = None,
    cause: str | None = None,
) -> int:
    """Top up once per reference, with events; return the number of due deliveries."""
    events = [evolve(new_event(customer, kind), cause=cause) for kind in kinds]
    return await ledger_transactions.top_up(rig, customer, amount, reference, *events, key=key)


def new_event(customer: Customer, kind: EventKind = KIND, **data: object) -> Event:
    """Return an unsent event of the customer."""
    return Event(new_id(), customer.account_id, kind, AT, data)


def query_of(customer: Customer, spec: MeetingSpec, *, can_wait: bool = False) -> CreationQuery:
    """Return the query of the decision on a spec."""
    return _query(draft(customer, spec, None), spec, can_wait=can_wait)


def _query(meeting: Meeting, spec: MeetingSpec, *, can_wait: bool) -> CreationQuery:
    abilities = ProviderAbilities(
        "sandbox", None, has_hosts=spec.needs_host, creations_per_host_day=spec.per_day
    )
    return creation_query(meeting, spec.seats, abilities, spec.key, can_wait=can_wait)


def draft(customer: Customer, spec: MeetingSpec, host_id: UUID | None) -> Meeting:
    """Return the meeting of a spec before the provider's call."""
    return Meeting(
        id=new_id(), account_id=customer.account_id, api_key_id=customer.key_id,
        status=MeetingStatus.PROVISIONING, title=spec.title, description="Agenda", start_at=spec.start_at,
        end_at=spec.end_at, duration=spec.minutes, capacity=spec.seats, pricing_tier_id="small",
        credits=spec.credits, options=MeetingOptions(spec.with_recording, False, True, False, True),
        host_id=host_id, provider="sandbox", created_at=AT, password=spec.password,
    )  # fmt: skip


def provisioning(
    customer: Customer, spec: MeetingSpec, view: CreationView, query: CreationQuery
) -> Provisioning:
    """Decide on a view: a hold, a meeting under a lease, a claim."""
    meeting = draft(customer, spec, None)
    return creation_steps.provisioning(_creation(meeting, query, spec), view)


def _creation(meeting: Meeting, query: CreationQuery, spec: MeetingSpec) -> creation_steps.Creation:
    return creation_steps.Creation(RUNTIME, meeting, query, spec.request, _terms(spec))


def _terms(spec: MeetingSpec) -> CreationTerms:
    # Share: the suites fill every host.
    return CreationTerms(spec.lease_s, 100, spec.orphan_window_s)


async def reserve(
    rig: PostgresRig, customer: Customer, spec: MeetingSpec
) -> LeaseView | Verdict | str | None:
    """Run the first transaction of a creation.

    Returns:
        The written view, the verdict on a foreign key, the code of a refusal, or `None` without a free host.
    """
    meeting = draft(customer, spec, None)
    for attempt in range(100):
        query = _query(meeting, spec, can_wait=attempt > 0)
        async with rig.store.begin() as tx:
            try:
                step = await creation_steps.claim(tx, _creation(meeting, query, spec))
            except IdempotencyKeyReused:
                return Verdict.REJECT
        match step:
            case LeaseView():
                return step
            case KeyLookup():
                return step.verdict
            case Outcome():
                return Verdict.REPLAY if step.refusal is None or step.is_replay else step.refusal.code
            case NoHostFree():
                return None
            case DomainError():
                raise step
    raise AssertionError("no host was to be had, and none was refused")


async def reserved(rig: PostgresRig, customer: Customer, spec: MeetingSpec) -> LeaseView:
    """Reserve; must succeed."""
    made = await reserve(rig, customer, spec)
    assert isinstance(made, LeaseView)
    return made


async def load_leased(rig: PostgresRig, made: LeaseView, token: UUID | None = None) -> LeaseView | None:
    """Load a meeting in progress, by default under its own lease."""
    return await rig.alone.meetings.load_leased(made.meeting.account_id, made.meeting.id, token or made.token)


async def schedule(
    rig: PostgresRig,
    made: LeaseView,
    *,
    password: str | None = "pw",
    room: str | None = None,
    link: str | None = None,
) -> Meeting | None:
    """Charge the hold; return `None` if the lease is lost. `room` is the provider's id."""
    meeting_id = made.meeting.id
    link = link or f"https://meet.example/{meeting_id}"
    provisioned = Provisioned(room or f"room-{meeting_id}", link, password)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(made.meeting.account_id, meeting_id, made.token)
        if view is None or await creation_steps.settle(tx, RUNTIME, view, provisioned, AT) is None:
            return None
        stored = await tx.meetings.load_locked(made.meeting.account_id, meeting_id, None)
    assert stored is not None
    assert stored.meeting.charge_id is not None
    return mark_scheduled(view.meeting, provisioned, stored.meeting.charge_id)[0]


async def scheduled(rig: PostgresRig, customer: Customer, spec: MeetingSpec | None = None) -> Meeting:
    """Return a created and charged meeting."""
    meeting = await schedule(rig, await reserved(rig, customer, spec or MeetingSpec()))
    assert meeting is not None
    return meeting


async def abandon(
    rig: PostgresRig, made: LeaseView, *, unavailable_until: datetime | None = None,
    look_again_s: float | None = None, was_made: bool = False,
) -> bool:  # fmt: skip
    """Release hold and host; return `False` if the lease is lost."""
    async with rig.store.begin() as tx:
        return await creation_steps.abandon(
            tx, made.meeting.account_id, made.meeting.id, made.token,
            host_unavailable_until=unavailable_until, look_again_s=look_again_s, was_made=was_made,
        )  # fmt: skip


async def start_cancelling(rig: PostgresRig, meeting: Meeting, claim: Claim | None = None) -> Lease:
    """Run the first transaction of a cancellation; return its lease of 60 s."""
    lease = Lease(new_id(), 60.0)
    request = (
        IdempotentRequest(None, b"") if claim is None else IdempotentRequest(claim.key, claim.fingerprint)
    )
    async with rig.store.begin() as tx:
        before = min(AT, meeting.start_at - timedelta(seconds=1))
        step = await cancel_meeting.start_cancelling(
            tx, meeting.account_id, meeting.id, request, lease, before
        )
    assert isinstance(step, cancel_meeting.Marked)
    return lease


async def finish_cancelling(
    rig: PostgresRig,
    meeting: Meeting,
    lease: Lease,
    *,
    state: ProviderMeetingState = ProviderMeetingState.REMOVED,
    invalidates_host_key: bool = False,
) -> Outcome:
    """Finish a cancellation after the provider's answer."""
    now = meeting.start_at if invalidates_host_key else meeting.start_at - timedelta(hours=1)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        runtime = _KitRuntime(ManualClock(now), SeededEntropy(0))
        return await cancellation.end_cancellation(tx, runtime, view, cancellation.Cleared(state), AT)


def new_endpoint(customer: Customer, *kinds: EventKind, **fields: Any) -> Endpoint:
    """Return an unregistered endpoint; `fields` are its attributes."""
    id_ = new_id()
    endpoint = Endpoint(
        id=id_, account_id=customer.account_id, url=f"https://hooks.example/{id_}",
        url_key=f"https://hooks.example/{id_}", description="Hooks", event_types=kinds or (KIND,),
        state=EndpointState.ACTIVE, consecutive_failures=0, disabled_at=None,
        created_by=str(customer.key_id), created_at=AT, secret=f"whsec_{id_}",
    )  # fmt: skip
    return evolve(endpoint, **fields)


async def register(rig: PostgresRig, endpoint: Endpoint) -> Endpoint:
    """Register an endpoint; return the one with its URL."""
    async with rig.store.begin() as tx:
        return await webhooks.add_endpoint(tx, endpoint, MANY)


async def save_endpoint(rig: PostgresRig, endpoint: Endpoint) -> None:
    async with rig.store.begin() as tx:
        await tx.lock_account(endpoint.account_id)
        assert await tx.endpoints.load_locked(endpoint.account_id, endpoint.id) is not None
        await tx.endpoints.save(endpoint)


async def remove_endpoint(rig: PostgresRig, endpoint: Endpoint) -> bool:
    """Remove an endpoint; return `False` without one."""
    async with rig.store.begin() as tx:
        await tx.lock_account(endpoint.account_id)
        return await tx.endpoints.remove(endpoint.account_id, endpoint.id)


async def creation(rig: PostgresRig, customer: Customer, spec: MeetingSpec | None = None) -> CreationView:
    """Load the view of the decision on a new meeting."""
    return await rig.alone.meetings.load_creation(query_of(customer, spec or MeetingSpec()))


async def cancel_view(rig: PostgresRig, meeting: Meeting, key: str | None = None) -> MeetingView | None:
    return await rig.alone.meetings.load_locked(meeting.account_id, meeting.id, key)


async def money(rig: PostgresRig, customer: Customer) -> tuple[int, int, int, int]:
    """Return balance, held, and the key's spending and holds of the day, in credits."""
    view = await creation(rig, customer)
    return view.funds.balance, view.funds.held, view.usage.spent, view.usage.held


async def is_free(rig: PostgresRig, customer: Customer, spec: MeetingSpec | None = None) -> bool:
    """Return whether a host is free for a meeting."""
    return bool((await creation(rig, customer, spec)).free_hosts)
