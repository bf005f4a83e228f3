"""One store, and the process that works on it: what a service does, without providers and answers.

Each method loads, asks the domain and saves, in transactions like those of the use cases. Its clock
stands still and its ids repeat with the seed, so that the same calls on two drivers leave the same
records in two stores, whatever those stores are made of. A method returns what can be compared.

Owns the actions of `account_machine` and the reading of everything that an account left. Refuses to
judge: the machine compares.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.domain.errors import Conflict, DomainError
from meetcore.domain.meetings import schedule
from meetcore.domain.meetings.hosts import Host, choose_host
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingEvent,
    MeetingOptions,
    MeetingStatus,
    Provisioned,
    transition,
)
from meetcore.domain.money import holds, ledger
from meetcore.domain.money.ledger import Posting, Reference, TransferKind
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.domain.webhooks import deliveries, endpoints
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointChanges
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import SECRET_BYTES, new_secret
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.deliveries import Claimed, ClaimLimits
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning
from meetcore.ports.registry import NewAccount
from meetcore.ports.store import Transaction
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import email_of
from meetcore.usecases.judge_attempts import JudgedAttempts
from meetcore.usecases.runtime import Runtime

__all__ = ["Snapshot", "StoreDriver", "refused"]

Snapshot = dict[str, object]

START = datetime(
    2026, 12, 1, 16, 58, 0, 123_456, tzinfo=UTC
)  # two minutes before midnight WIB, where the cap's day turns
DAILY_CAP = 60
LOW_THRESHOLD = 40
AT_ONCE = RetrySchedule((0, 0))
LEASE_S = 600.0
# All at once: a pace runs by the store's own clock, and what is of one millisecond has no order.
UNPACED = deliveries.ReleasePace(10_000, timedelta(0))
CLAIM_MANY = ClaimLimits(500, 500, 500, 1_000, 500)


class StoreDriver:
    """An account on one store.

    Args:
        rig: the store, and a look behind its ports.
        seed: what ids and secrets are drawn from; equal on every driver of a run, and never used before on
            a store that keeps accounts.
    """

    def __init__(self, rig: StoreRig, seed: int) -> None:
        self.rig = rig
        self.clock = ManualClock(START)
        self.runtime = Runtime(self.clock, SeededEntropy(seed))
        self.account_id = self.new_id()
        self.key_ids = (self.new_id(), self.new_id())
        self.made: list[Provisioning] = []
        self.endpoint_ids: list[UUID] = []
        self.event_ids: list[UUID] = []

    def new_id(self) -> UUID:
        """The next id, the same on every stage."""
        return self.runtime.new_id(self.runtime.now())

    async def open(self) -> None:
        """Open an account with a capped key and a free one, and put two hosts in place."""
        now = self.runtime.now()
        await self.rig.reset()
        await self.rig.registry.add_account(
            NewAccount(
                self.account_id, self.new_id(), email_of(self.account_id), "A Customer", LOW_THRESHOLD, now
            )
        )
        for key_id, cap in zip(self.key_ids, (DAILY_CAP, None), strict=True):
            key = ApiKey(key_id, self.account_id, tuple(Scope), cap, now)
            await self.rig.registry.add_key(key, self.runtime.entropy.token_bytes(32))
        hosts = [Host(self.new_id(), f"user-{self.new_id()}", capacity) for capacity in (50, 100)]
        await self.rig.put_hosts(*hosts)

    async def advance(self, seconds: int) -> None:
        """Let the process's clock go on, or back."""
        self.clock.advance(seconds)

    # Money

    async def top_up(self, amount: int, reference: str) -> object:
        """Add credits once for each reference, and emit its event."""
        transfer_id = self.new_id()
        async with self.rig.store.begin() as tx:
            view = await tx.ledger.load(self.account_id, ledger.top_up_operation(reference))
            known = None if view.entry is None else view.entry.transfer
            posting = ledger.top_up(view.funds, transfer_id, reference, amount, self.runtime.now(), known)
            return await self._append(tx, posting, EventKind.CREDIT_TOPUP_SUCCEEDED)

    async def adjust(self, amount: int) -> object:
        """Give or take credits by hand."""
        transfer_id = self.new_id()
        operation = f"ticket:{transfer_id}"
        async with self.rig.store.begin() as tx:
            view = await tx.ledger.load(self.account_id, operation)
            posting = ledger.adjust(
                view.funds, transfer_id, operation, amount, Reference("ticket", "7"), self.runtime.now()
            )
            return await self._append(tx, posting)

    async def _append(self, tx: Transaction, posting: Posting, *kinds: EventKind) -> object:
        if posting.entry is None:
            return "known"
        return await tx.ledger.append(posting.funds, posting.entry, self._events(posting, *kinds))

    def _events(self, posting: Posting, *kinds: EventKind) -> list[Event]:
        emitted = [*kinds, *(EventKind.CREDIT_LOW for _ in posting.facts)]
        now = self.runtime.now()
        events = [
            Event(self.new_id(), self.account_id, kind, now, {"balance": posting.funds.balance})
            for kind in emitted
        ]
        self.event_ids += [event.id for event in events]
        return events

    # Meetings

    async def hold(self, key: int, credits: int, slot: int) -> object:
        """Reserve credits and a host for one of the hours: the first step of making a meeting."""
        meeting_id, now = self.new_id(), self.runtime.now()
        start_at = START + timedelta(days=2, hours=slot)
        query = CreationQuery(
            self.account_id, self.key_ids[key], schedule.cap_day(now), f"meeting:{meeting_id}", None, 10,
            start_at, start_at + timedelta(hours=1), now,
        )  # fmt: skip
        async with self.rig.store.begin() as tx:
            view = await tx.meetings.load_creation(query)
            made = self._provisioning(query, view, meeting_id, credits)
            if made is None:
                return "no host is free"
            leased = await tx.meetings.save_provisioning(made)
        self.made.append(made)
        return leased is not None, made.provider_user_id

    def _provisioning(
        self, query: CreationQuery, view: CreationView, meeting_id: UUID, credits: int
    ) -> Provisioning | None:
        reference = Reference("meeting", str(meeting_id))
        hold = holds.Hold(
            self.new_id(), query.operation, TransferKind.MEETING_CHARGE, credits, reference,
            query.api_key_id, query.cap_day,
        )  # fmt: skip
        reserved = holds.take(view.funds, view.usage, view.daily_cap, hold)
        host = choose_host(view.free_hosts, query.seats)
        if host is None:
            return None
        meeting = _draft(meeting_id, query, host, credits, self.runtime.now())
        lease = Lease(self.new_id(), LEASE_S)
        return Provisioning(meeting, hold, reserved.funds, reserved.usage, lease, None, host.provider_user_id)

    async def settle(self, which: int, extra: int) -> object:
        """Charge what was held, and more if it turned out to cost more: the meeting is there."""
        made = self.made[which % len(self.made)]
        async with self.rig.store.begin() as tx:
            view = await self._leased(tx, made)
            if view is None or view.hold is None:
                return "no hold"
            now = self.runtime.now()
            amount = view.hold.amount + extra
            settled = holds.settle(view.funds, view.usage, view.hold, amount, self.new_id(), now)
            entry = settled.posting.entry
            assert entry is not None
            room = Provisioned(f"room-{made.meeting.id}", f"https://meet.example/{made.meeting.id}", "pw")
            meeting = view.meeting.as_provisioned(room, entry.transfer.id)
            events = self._events(settled.posting, EventKind.MEETING_CREATED)
            return await tx.meetings.save_scheduled(
                view, meeting, settled.posting.funds, settled.usage, entry, events, None
            )

    async def release(self, which: int) -> object:
        """Give hold and host back: the provider refused."""
        made = self.made[which % len(self.made)]
        async with self.rig.store.begin() as tx:
            view = await self._leased(tx, made)
            if view is None or view.hold is None:
                return "no hold"
            back = holds.release(view.funds, view.usage, view.hold)
            meeting = evolve(view.meeting, status=transition(view.meeting.status, MeetingEvent.ABANDON))
            await tx.meetings.save_abandoned(view, meeting, back.funds, back.usage)
            return "released"

    async def _leased(self, tx: Transaction, made: Provisioning) -> LeaseView | None:
        return await tx.meetings.load_leased(self.account_id, made.meeting.id, made.lease.token)

    async def cancel(self, which: int, *, is_unavailable: bool) -> object:
        """Cancel a meeting and refund it once, or put it back when the provider is away."""
        meeting_id = self.made[which % len(self.made)].meeting.id
        lease = Lease(self.new_id(), LEASE_S)
        async with self.rig.store.begin() as tx:
            view = await tx.meetings.load_locked(self.account_id, meeting_id, None)
            if view is None or view.is_leased or view.meeting.status is not MeetingStatus.SCHEDULED:
                return "cannot be cancelled"
            status = transition(view.meeting.status, MeetingEvent.CANCEL)
            await tx.meetings.save_cancelling(evolve(view.meeting, status=status), lease, None)
        async with self.rig.store.begin() as tx:
            leased = await tx.meetings.load_leased(self.account_id, meeting_id, lease.token)
            assert leased is not None
            return await (self._put_back(tx, leased) if is_unavailable else self._refund(tx, leased))

    async def _put_back(self, tx: Transaction, view: LeaseView) -> object:
        status = transition(view.meeting.status, MeetingEvent.CANCEL_FAILED)
        await tx.meetings.save_cancel_failed(view, evolve(view.meeting, status=status))
        return "put back"

    async def _refund(self, tx: Transaction, view: LeaseView) -> object:
        charge = view.charge
        assert charge is not None
        posting = ledger.refund(view.funds, charge, self.new_id(), self.runtime.now())
        assert posting.entry is not None
        usage = holds.refund_usage(view.usage, charge.amount)
        status = transition(view.meeting.status, MeetingEvent.CANCELLED)
        cancelled = evolve(view.meeting, status=status, credits_refunded=charge.amount)
        refund = (posting.funds, usage, posting.entry)
        return await tx.meetings.save_cancelled(
            view, cancelled, refund, self._events(posting), None, invalidates_host_key=False
        )

    # Webhooks

    async def register(self, url: str, kinds: Sequence[EventKind]) -> object:
        """Register a URL, once for each account."""
        wanted = parse_webhook_url(url)
        endpoint = endpoints.register(
            id=self.new_id(), account_id=self.account_id, url=wanted, description=None,
            event_types=tuple(kinds), created_by=str(self.key_ids[0]), created_at=self.runtime.now(),
            secret=self._secret(),
        )  # fmt: skip
        async with self.rig.store.begin() as tx:
            await tx.lock_account(self.account_id)
            known = await tx.endpoints.find_by_url(self.account_id, wanted.normalized)
            if known is not None:
                raise Conflict("registered already", known.id)
            await tx.endpoints.add(endpoint)
        self.endpoint_ids.append(endpoint.id)
        return "registered"

    def _secret(self) -> str:
        return new_secret(self.runtime.entropy.token_bytes(SECRET_BYTES))

    async def set_active(self, which: int, *, is_active: bool) -> object:
        """Pause or resume an endpoint; how many deliveries became due."""
        return await self._change(
            which, lambda one: endpoints.update(one, EndpointChanges(is_active=is_active))
        )

    async def rotate(self, which: int) -> object:
        """Give an endpoint another secret."""
        secret = self._secret()
        return await self._change(which, lambda one: endpoints.rotate_secret(one, secret))

    async def _change(self, which: int, change: Callable[[Endpoint], Endpoint]) -> object:
        id_ = self.endpoint_ids[which % len(self.endpoint_ids)]
        async with self.rig.store.begin() as tx:
            await tx.lock_account(self.account_id)
            endpoint = await tx.endpoints.load(self.account_id, id_)
            assert endpoint is not None
            await tx.endpoints.save(change(endpoint))
            return await tx.deliveries.release_held(self.account_id, id_, UNPACED)

    async def deliver(self, status_code: int) -> object:
        """Post all that is due, to receivers that answer with this status; what was posted, in order."""
        lease = Lease(self.new_id(), LEASE_S)
        async with self.rig.store.begin() as tx:
            claimed = await tx.deliveries.claim_due(CLAIM_MANY, lease)
        posts = sorted(claimed, key=lambda one: (self.event_ids.index(one.event_id), one.url))
        posted: list[object] = []
        for post in posts:
            posted.append((post.event_id, post.event_kind, post.url, post.secret, post.body))
            posted.append(await self._record(post, status_code))
        return posted

    async def _record(self, post: Claimed, status_code: int) -> object:
        error = None if status_code == 200 else f"status_{status_code}"
        attempt = deliveries.Attempt(self.runtime.now(), 7, status_code, error)
        async with self.rig.store.begin() as tx:
            judged = JudgedAttempts(await tx.deliveries.load_claimed([post]), AT_ONCE)
            judged.add(post, attempt, 0.0)
            if not judged.recorded:
                return "claim lost"
            await tx.deliveries.save_attempts(judged.recorded, judged.endpoints, judged.hosts)
            (delivery,), (endpoint,) = [one.delivery for one in judged.recorded], judged.endpoints
            return delivery.status, endpoint.state, endpoint.consecutive_failures

    async def sweep(self) -> object:
        """Release what is held at active endpoints; how many deliveries became due."""
        async with self.rig.store.begin() as tx:
            return await tx.deliveries.sweep(UNPACED)

    # What an account left

    async def snapshot(self) -> Snapshot:
        """Everything that the store keeps of the account, less ids and times of the store's own making."""
        async with self.rig.store.begin() as tx:
            funds = (await tx.ledger.load(self.account_id, "none")).funds
            meetings = [await self._meeting(tx, made.meeting.id) for made in self.made]
            found = [await tx.endpoints.load(self.account_id, id_) for id_ in self.endpoint_ids]
            usage = [await self._usage(tx, key_id) for key_id in self.key_ids]
        stored = (await self.rig.deliveries(self.account_id)).values()
        return {
            "funds": funds,
            "entries": await self.rig.entries(self.account_id),
            "legs": sorted(await self.rig.legs(self.account_id)),
            "holds": sorted(await self.rig.holds(self.account_id)),
            "usage": usage,
            "meetings": meetings,
            "endpoints": [None if one is None else _timeless(one) for one in found],
            "deliveries": sorted(
                (
                    self.event_ids.index(one.event_id), self.endpoint_ids.index(one.endpoint_id),
                    one.status.value, one.attempts_made, one.next_attempt_at is None, one.held_at is None,
                )
                for one in stored
            ),
            "attempts": sorted(await self.rig.attempts(self.account_id)),
        }  # fmt: skip

    async def _meeting(self, tx: Transaction, meeting_id: UUID) -> tuple[Meeting, bool]:
        view = await tx.meetings.load_locked(self.account_id, meeting_id, None)
        assert view is not None
        return view.meeting, view.is_leased

    async def _usage(self, tx: Transaction, key_id: UUID) -> holds.CapUsage:
        far = START + timedelta(days=300)
        query = CreationQuery(
            self.account_id, key_id, schedule.cap_day(self.runtime.now()), "none", None, 1, far,
            far + timedelta(hours=1), self.runtime.now(),
        )  # fmt: skip
        return (await tx.meetings.load_creation(query)).usage


def refused(error: DomainError) -> object:
    """What can be compared of a refusal."""
    return error.code, dict(error.details)


def _timeless(endpoint: Endpoint) -> tuple[Endpoint, bool]:
    """An endpoint without the store's time of its disabling, but that it has one."""
    return evolve(endpoint, disabled_at=None), endpoint.disabled_at is None


def _draft(id_: UUID, query: CreationQuery, host: Host, credits: int, now: datetime) -> Meeting:
    return Meeting(
        id=id_, account_id=query.account_id, api_key_id=query.api_key_id, status=MeetingStatus.PROVISIONING,
        title="Rapat", description=None, start_at=query.start_at, end_at=query.end_at, duration=60,
        capacity=query.seats, pricing_tier_id="small", credits=credits, options=MeetingOptions(),
        host_id=host.id,
        provider="sandbox", created_at=now, password="pw",
    )  # fmt: skip
