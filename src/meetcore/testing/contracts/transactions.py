"""What the use cases do with the store ports, without their providers and answers.

Each function is one transaction, written as its use case writes it: load, decide, save. The suites are
made of these functions, and an adapter's own tests may use them too.

Owns customers, meeting specs and transactions. The suites say what is expected of a store.
"""

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import DomainError, IdempotencyKeyReused, NoHostFree
from meetcore.domain.ids import uuid7
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
from meetcore.domain.money import ledger
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.ledger import Entry, Reference
from meetcore.domain.requests.idempotency import Verdict
from meetcore.domain.requests.keys import ApiKey, Scope, roll
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointState
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.ports.idempotency import Claim
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning
from meetcore.ports.registry import NewAccount, RegistryRepository
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.contracts.appending import append_one
from meetcore.testing.contracts.store_rig import LedgerAccess, Rig
from meetcore.usecases import cancel_meeting, cancellation, provision, reserve_meeting, webhooks
from meetcore.usecases.idempotency import IdempotentRequest, KeyLookup, Outcome
from meetcore.usecases.reserve_meeting import ReservationTerms, creation_query
from meetcore.usecases.runtime import Runtime

AT = datetime(
    2026, 12, 1, 3, 0, 0, 123_456, tzinfo=UTC
)  # a store that loses microseconds is found out  # when everything happens that is dated by the caller
TOMORROW = datetime(2027, 3, 2, 9, tzinfo=UTC)  # when the meetings that are wished for start
MANY = 1_000_000  # endpoints of an account
KIND = EventKind.CREDIT_TOPUP_SUCCEEDED  # what an endpoint subscribes to unless it says otherwise
# Ids rise from one run to the next too: accounts of earlier runs may still be in the store.
_IDS_FROM = datetime.now(UTC)
_ids = count()


@frozen
class Customer:
    """An account with a key."""

    account_id: UUID
    key_id: UUID
    digest: bytes


@frozen
class MeetingSpec:
    """A meeting to create: seats, a range, credits, perhaps under an idempotency key."""

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
        """The request that it is created by."""
        return IdempotentRequest(self.key, self.fingerprint)

    @property
    def end_at(self) -> datetime:
        """When it is to end."""
        return self.start_at + timedelta(minutes=self.minutes)


def new_id() -> UUID:
    """An id greater than every one before it."""
    return uuid7(_IDS_FROM + timedelta(milliseconds=next(_ids)), os.urandom(10))


class _KitRuntime(Runtime):
    """The dependencies of the use cases, with ids that rise."""

    def new_id(self, at: datetime) -> UUID:
        return new_id()


RUNTIME = _KitRuntime(ManualClock(AT), SeededEntropy(0))


def new_host(capacity: int = 100, **fields: Any) -> Host:
    """A host of so many seats that no store knows yet; `fields` are attributes of `Host`."""
    id_ = new_id()
    return evolve(Host(id_, f"user-{id_}", capacity), **fields)


def email_of(account_id: UUID) -> str:
    """The e-mail address of a customer of the suites."""
    return f"{account_id.hex}@example.com"


async def open_account(rig: LedgerAccess, credits: int = 0, *, low_threshold: int = 0) -> Customer:
    """Open an account with these credits to begin with. Its key is not stored."""
    customer = Customer(new_id(), new_id(), os.urandom(32))
    account = NewAccount(
        customer.account_id, new_id(), email_of(customer.account_id), "A Customer", low_threshold, AT
    )
    async with rig.store.begin() as tx:
        await tx.registry.add_account(account)
    if credits:
        await top_up(rig, customer, credits, "opening")
    return customer


async def open_customer(
    rig: Rig, credits: int = 0, *, cap: int | None = None, low_threshold: int = 0
) -> Customer:
    """Open an account with a key for everything, and these credits to begin with; `cap` is credits a day."""
    customer = await open_account(rig, credits, low_threshold=low_threshold)
    key = ApiKey(customer.key_id, customer.account_id, tuple(Scope), cap, AT)
    await registry_of(rig).add_key(key, customer.digest)
    return customer


async def rolled(rig: Rig, customer: Customer) -> Customer:
    """Add a key that is rolled from the customer's; the old one goes on."""
    keys = {key.id: key for key in await rig.registry.list_keys(customer.account_id)}
    new, digest = roll(keys[customer.key_id], 1, new_id(), "", AT).new, os.urandom(32)
    await registry_of(rig).add_key(new, digest)
    return Customer(customer.account_id, new.id, digest)


class _EachAlone:
    """The registry's changes, each in a transaction of its own."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any) -> Any:
            async with self._rig.store.begin() as tx:
                return await getattr(tx.registry, name)(*arguments)

        return call


def registry_of(rig: Rig) -> RegistryRepository:
    """Give the registry of a store, each of its changes in a transaction of its own."""
    return cast("RegistryRepository", _EachAlone(rig))


async def top_up(
    rig: LedgerAccess,
    customer: Customer,
    amount: int,
    reference: str,
    *kinds: EventKind,
    key: ChainKey | None = None,
    cause: str | None = None,
) -> int:
    """Top up once for each reference, with events of these kinds; how many deliveries are due.

    The entry is chained under the key, where one is given; the events have this cause.
    """
    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [ledger.top_up_operation(reference)])
        known = next((each.transfer for each in view.entries.values()), None)
        posting = ledger.top_up(view.funds, new_id(), reference, amount, AT, known, key)
        if posting.entry is None:
            return 0
        events = [evolve(new_event(customer, kind), cause=cause) for kind in kinds]
        due = await append_one(tx, view.funds, posting, *events)
    assert due is not None
    return due


async def adjust(
    rig: LedgerAccess, customer: Customer, amount: int, operation: str, at: datetime = AT
) -> Entry | None:
    """Give or take credits once for each operation."""
    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [operation])
        if operation in view.entries:
            return None
        reference = Reference("ticket", operation)
        posting = ledger.adjust(view.funds, new_id(), operation, amount, reference, at)
        assert await append_one(tx, view.funds, posting) is not None
        return posting.entry


def new_event(customer: Customer, kind: EventKind = KIND, **data: object) -> Event:
    """Return an event of the customer that is not sent yet."""
    return Event(new_id(), customer.account_id, kind, AT, data)


def query_of(customer: Customer, spec: MeetingSpec, *, can_wait: bool = False) -> CreationQuery:
    """Return what the decision on a spec asks of the store."""
    return _query(draft(customer, spec, None), spec, can_wait=can_wait)


def _query(meeting: Meeting, spec: MeetingSpec, *, can_wait: bool) -> CreationQuery:
    abilities = ProviderAbilities(
        "sandbox", None, has_hosts=spec.needs_host, creations_per_host_day=spec.per_day
    )
    return creation_query(meeting, spec.seats, abilities, spec.key, can_wait=can_wait)


def draft(customer: Customer, spec: MeetingSpec, host_id: UUID | None) -> Meeting:
    """Return the meeting of a spec, before the provider is called."""
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
    """What the use case decides on a view: a hold, a meeting under a lease, a claim."""
    meeting = draft(customer, spec, None)
    return reserve_meeting.provisioning(RUNTIME, meeting, query, view, spec.request, _terms(spec))


def _terms(spec: MeetingSpec) -> ReservationTerms:
    # Share: the suites fill every host.
    return ReservationTerms(spec.lease_s, 100, spec.orphan_window_s)


async def reserve(rig: Rig, customer: Customer, spec: MeetingSpec) -> LeaseView | Verdict | str | None:
    """The first transaction of making a meeting.

    Returns:
        What was written; or the key's verdict, when the key is not ours to claim; or the code of a refusal;
        or none, when no host is free.
    """
    meeting = draft(customer, spec, None)
    for attempt in range(100):
        query = _query(meeting, spec, can_wait=attempt > 0)
        async with rig.store.begin() as tx:
            try:
                step = await reserve_meeting.reserve(tx, RUNTIME, meeting, query, spec.request, _terms(spec))
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


async def reserved(rig: Rig, customer: Customer, spec: MeetingSpec) -> LeaseView:
    """The same where nothing stands in the way."""
    made = await reserve(rig, customer, spec)
    assert isinstance(made, LeaseView)
    return made


async def load_leased(rig: Rig, made: LeaseView, token: UUID | None = None) -> LeaseView | None:
    """Load a meeting in progress under its own lease, or under another token."""
    async with rig.store.begin() as tx:
        return await tx.meetings.load_leased(made.meeting.account_id, made.meeting.id, token or made.token)


async def schedule(
    rig: Rig,
    made: LeaseView,
    *,
    password: str | None = "pw",
    room: str | None = None,
    link: str | None = None,
) -> Meeting | None:
    """Charge what is held; return `None` when the lease is lost. `room` is the provider's id of it."""
    meeting_id = made.meeting.id
    link = link or f"https://meet.example/{meeting_id}"
    provisioned = Provisioned(room or f"room-{meeting_id}", link, password)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(made.meeting.account_id, meeting_id, made.token)
        if view is None or await provision.settle(tx, RUNTIME, view, provisioned, AT) is None:
            return None
        stored = await tx.meetings.load_locked(made.meeting.account_id, meeting_id, None)
    assert stored is not None
    assert stored.meeting.charge_id is not None
    return mark_scheduled(view.meeting, provisioned, stored.meeting.charge_id)[0]


async def scheduled(rig: Rig, customer: Customer, spec: MeetingSpec | None = None) -> Meeting:
    """A meeting that was made and paid, where nothing stands in the way."""
    meeting = await schedule(rig, await reserved(rig, customer, spec or MeetingSpec()))
    assert meeting is not None
    return meeting


async def abandon(
    rig: Rig, made: LeaseView, *, unavailable_until: datetime | None = None,
    look_again_s: float | None = None, was_made: bool = False,
) -> bool:  # fmt: skip
    """Give hold and host back; false when the lease is lost."""
    async with rig.store.begin() as tx:
        return await provision.abandon(
            tx, made.meeting.account_id, made.meeting.id, made.token,
            host_unavailable_until=unavailable_until, look_again_s=look_again_s, was_made=was_made,
        )  # fmt: skip


async def start_cancelling(rig: Rig, meeting: Meeting, claim: Claim | None = None) -> Lease:
    """The first transaction of cancelling; the lease it is done under, 60 s."""
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
    rig: Rig,
    meeting: Meeting,
    lease: Lease,
    *,
    state: ProviderMeetingState = ProviderMeetingState.REMOVED,
    invalidates_host_key: bool = False,
) -> Outcome:
    """The end of a cancellation, after the provider's answer."""
    now = meeting.start_at if invalidates_host_key else meeting.start_at - timedelta(hours=1)
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        runtime = _KitRuntime(ManualClock(now), SeededEntropy(0))
        return await cancellation.end_cancellation(tx, runtime, view, state, AT)


def new_endpoint(customer: Customer, *kinds: EventKind, **fields: Any) -> Endpoint:
    """An endpoint that is not registered yet; `fields` are attributes of `Endpoint`."""
    id_ = new_id()
    endpoint = Endpoint(
        id=id_, account_id=customer.account_id, url=f"https://hooks.example/{id_}",
        url_key=f"https://hooks.example/{id_}", description="Hooks", event_types=kinds or (KIND,),
        state=EndpointState.ACTIVE, consecutive_failures=0, disabled_at=None,
        created_by=str(customer.key_id), created_at=AT, secret=f"whsec_{id_}",
    )  # fmt: skip
    return evolve(endpoint, **fields)


async def register(rig: Rig, endpoint: Endpoint) -> Endpoint:
    """Register unless the URL is registered; the endpoint that is."""
    async with rig.store.begin() as tx:
        return await webhooks.add_endpoint(tx, endpoint, MANY)


async def save_endpoint(rig: Rig, endpoint: Endpoint) -> None:
    """Write an endpoint that is registered; how many deliveries became due."""
    async with rig.store.begin() as tx:
        await tx.lock_account(endpoint.account_id)
        assert await tx.endpoints.load_locked(endpoint.account_id, endpoint.id) is not None
        await tx.endpoints.save(endpoint)


async def remove_endpoint(rig: Rig, endpoint: Endpoint) -> bool:
    """Remove an endpoint; return `False` when there is none."""
    async with rig.store.begin() as tx:
        await tx.lock_account(endpoint.account_id)
        return await tx.endpoints.remove(endpoint.account_id, endpoint.id)
