"""One store, and the process that works on it: what a service does, without providers and answers.

Each method loads, asks the domain and saves, in transactions like those of the use cases. Its clock
stands still and its ids repeat with the seed, so that the same calls on two drivers leave the same
records in two stores, whatever those stores are made of. A method returns what can be compared.

Owns the actions of `account_machine` and the reading of everything that an account left. The machine
compares.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Address
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.worker_notifier import MemoryWorkerNotifier
from meetcore.domain.errors import DomainError
from meetcore.domain.meetings import schedule
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
)
from meetcore.domain.money import holds
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.domain.webhooks import deliveries
from meetcore.domain.webhooks.addresses import Address
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.deliveries import Claimed, ClaimLimits
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import CreationQuery, LeaseView
from meetcore.ports.queries import AccountSummary, Caller
from meetcore.ports.registry import NewAccount
from meetcore.ports.store import Transaction
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import email_of
from meetcore.usecases.administration import Administration
from meetcore.usecases.cancel_meeting import Marked, Running, end_running, start_cancelling
from meetcore.usecases.cancellation import end_cancellation, restore
from meetcore.usecases.idempotency import IdempotentRequest, Outcome
from meetcore.usecases.judge_attempts import JudgedAttempts
from meetcore.usecases.provision import abandon, settle
from meetcore.usecases.reserve_meeting import ReservationTerms, creation_query, reserve
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks import RegisterWebhook, Registration, RotateSecret, UpdateWebhook

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
CLAIM_MANY = ClaimLimits(500, 500, 500, 1_000, 500, per_failing=1_000)


ABILITIES = ProviderAbilities("sandbox", None)
NO_KEY = IdempotentRequest(None, b"")
TERMS = ReservationTerms(LEASE_S)


class _AnyName:
    """A resolver that finds a public address for every name."""

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        return (IPv4Address("93.184.216.34"),)


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
        self.key_ids = [self.new_id(), self.new_id()]
        self.made: list[LeaseView] = []
        self.endpoint_ids: list[UUID] = []
        self.notifier = notifier = MemoryWorkerNotifier()
        self._money = Administration(rig.store, rig.registry, notifier, self.runtime, "mk")
        self._register = RegisterWebhook(rig.store, _AnyName(), (), self.runtime)
        self._update = UpdateWebhook(rig.store, notifier, self.runtime, UNPACED)
        self._rotate = RotateSecret(rig.store, self.runtime)

    def new_id(self) -> UUID:
        """The next id, the same on every driver."""
        return self.runtime.new_id(self.runtime.now())

    @property
    def _caller(self) -> Caller:
        key = ApiKey(self.key_ids[0], self.account_id, tuple(Scope), DAILY_CAP, START)
        return Caller(key, AccountSummary(self.account_id, self.account_id, "", "A Customer", 0))

    async def open(self) -> None:
        """Open an account with a capped key and a free one, and put two hosts in place."""
        now = self.runtime.now()
        await self.rig.reset()
        account = NewAccount(
            self.account_id, self.new_id(), email_of(self.account_id), "A Customer", LOW_THRESHOLD, now
        )
        async with self.rig.store.begin() as tx:
            await tx.registry.add_account(account)
            for key_id, cap in zip(self.key_ids, (DAILY_CAP, None), strict=True):
                key = ApiKey(key_id, self.account_id, tuple(Scope), cap, now)
                await tx.registry.add_key(key, self.runtime.entropy.token_bytes(32))
        hosts = [Host(self.new_id(), f"user-{self.new_id()}", capacity) for capacity in (50, 100)]
        await self.rig.put_hosts(*hosts)

    async def advance(self, seconds: int) -> None:
        """Let the process's clock go on, or back."""
        self.clock.advance(seconds)

    # Money

    async def top_up(self, amount: int, reference: str) -> tuple[object, bool]:
        """Add credits once for each reference, with its event; the second value says whether one is due."""
        before = self.notifier.notifications
        return await self._money.top_up(
            self.account_id, amount, reference
        ), self.notifier.notifications > before

    async def adjust(self, amount: int) -> object:
        """Give or take credits by hand."""
        return await self._money.adjust(self.account_id, amount, "by hand")

    async def roll(self, key: int, overlap_h: int) -> object:
        """Put a key in the place of another, under whose cap it spends."""
        minted, old = await self._money.roll_key(self.key_ids[key % len(self.key_ids)], overlap_h)
        self.key_ids.append(minted.key.id)
        return minted, old

    # Meetings

    async def hold(self, key: int, credits: int, slot: int) -> object:
        """Reserve credits and a host for one of the hours: the first step of making a meeting."""
        draft = self._draft(
            self.key_ids[key % len(self.key_ids)], credits, START + timedelta(days=2, hours=slot)
        )
        query = creation_query(draft, 10, ABILITIES, None, can_wait=False)
        async with self.rig.store.begin() as tx:
            step = await reserve(tx, self.runtime, draft, query, NO_KEY, TERMS)
        if isinstance(step, DomainError):
            raise step
        if isinstance(step, LeaseView):
            self.made.append(step)
        return evolve(step, version=0) if isinstance(step, LeaseView) else step

    def _draft(self, key_id: UUID, credits: int, start_at: datetime) -> Meeting:
        return Meeting(
            id=self.new_id(), account_id=self.account_id, api_key_id=key_id,
            status=MeetingStatus.PROVISIONING, title="Rapat", description=None, start_at=start_at,
            end_at=start_at + timedelta(hours=1), duration=60, capacity=10, pricing_tier_id="small",
            credits=credits, options=MeetingOptions(), host_id=None, provider=ABILITIES.name,
            created_at=self.runtime.now(), password="pw",
        )  # fmt: skip

    async def settle(self, which: int) -> object:
        """Charge what was held: the meeting is there."""
        made = self.made[which % len(self.made)]
        room = Provisioned(f"room-{made.meeting.id}", f"https://meet.example/{made.meeting.id}", "pw")
        async with self.rig.store.begin() as tx:
            view = await tx.meetings.load_leased(self.account_id, made.meeting.id, made.token)
            if view is None:
                return None
            return await settle(tx, self.runtime, view, room, self.runtime.now())

    async def release(self, which: int) -> object:
        """Give hold and host back: the provider refused."""
        made = self.made[which % len(self.made)]
        async with self.rig.store.begin() as tx:
            return await abandon(tx, self.account_id, made.meeting.id, made.token)

    async def cancel(self, which: int, *, is_unavailable: bool) -> object:
        """Cancel a meeting and refund it, end one that runs, or restore one where the provider refuses."""
        meeting_id, now = self.made[which % len(self.made)].meeting.id, self.runtime.now()
        lease = Lease(self.new_id(), LEASE_S)
        async with self.rig.store.begin() as tx:
            step = await start_cancelling(tx, self.account_id, meeting_id, NO_KEY, lease, now)
        if isinstance(step, Running):
            async with self.rig.store.begin() as tx:
                return await end_running(tx, self.runtime, step.meeting, NO_KEY, now)
        if not isinstance(step, Marked):
            return step
        async with self.rig.store.begin() as tx:
            view = await tx.meetings.load_leased(self.account_id, meeting_id, lease.token)
            assert view is not None
            if is_unavailable:
                await restore(tx, view)
                return "restored"
            return await end_cancellation(tx, self.runtime, view, ProviderMeetingState.REMOVED, now)

    # Webhooks

    async def register(self, url: str, kinds: Sequence[EventKind]) -> object:
        """Register a URL, once for each account."""
        wanted = Registration(parse_webhook_url(url), tuple(kinds))
        outcome = await self._register(self._caller, wanted, NO_KEY, self.runtime.now())
        if outcome.record is not None:
            self.endpoint_ids.append(UUID(str(outcome.record["id"])))
        return outcome

    async def set_active(self, which: int, *, is_active: bool) -> object:
        """Pause or resume an endpoint; how many deliveries became due."""
        changes = EndpointChanges(is_active=is_active)
        return _timeless(await self._update(self._caller, self._endpoint_id(which), changes, NO_KEY))

    async def rotate(self, which: int) -> object:
        """Give an endpoint another secret."""
        return _timeless(
            await self._rotate(self._caller, self._endpoint_id(which), NO_KEY, self.runtime.now())
        )

    def _endpoint_id(self, which: int) -> UUID:
        return self.endpoint_ids[which % len(self.endpoint_ids)]

    async def deliver(self, status_code: int) -> object:
        """Post all that is due, to receivers that answer with this status; what was posted, in order."""
        lease = Lease(self.new_id(), LEASE_S)
        async with self.rig.store.begin() as tx:
            batch = await tx.deliveries.claim_due(CLAIM_MANY, lease)
        posts = sorted(batch.claimed, key=lambda one: (one.event_id, one.url))
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
            await tx.deliveries.save_attempts(
                judged.recorded, judged.endpoints, judged.hosts, judged.recovered
            )
            (delivery,), (endpoint,) = [one.delivery for one in judged.recorded], judged.endpoints
            return delivery.status, endpoint.state, endpoint.consecutive_failures

    async def sweep(self) -> object:
        """Release what is held at active endpoints; how many deliveries became due."""
        async with self.rig.store.begin() as tx:
            return (await tx.deliveries.sweep(UNPACED)).due

    # What an account left

    async def snapshot(self) -> Snapshot:
        """Everything that the store keeps of the account, less ids and times of the store's own making."""
        async with self.rig.store.begin() as tx:
            funds = (await tx.postings.load_locked(self.account_id, [])).funds
            meetings = [await self._meeting(tx, made.meeting.id) for made in self.made]
            found = [await tx.endpoints.load_locked(self.account_id, id_) for id_ in self.endpoint_ids]
            usage = [await self._usage(tx, key_id) for key_id in self.key_ids]
        stored = (await self.rig.deliveries(self.account_id)).values()
        totals = await self.rig.queries.list_day_totals(self.account_id, date.min, date.max)
        return {
            "funds": funds,
            "entries": await self.rig.entries(self.account_id),
            "totals": list(totals),
            "legs": sorted(await self.rig.legs(self.account_id)),
            "holds": sorted(await self.rig.holds(self.account_id)),
            "usage": usage,
            "meetings": meetings,
            "endpoints": [None if one is None else _without_time(one) for one in found],
            "deliveries": sorted(
                (
                    one.event_id, self.endpoint_ids.index(one.endpoint_id),
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


def _timeless(outcome: Outcome) -> Outcome:
    """An endpoint's outcome without the store's time of its disabling, but that it has one."""
    assert outcome.record is not None
    return evolve(outcome, record={**outcome.record, "disabled_at": bool(outcome.record["disabled_at"])})


def _without_time(endpoint: Endpoint) -> tuple[Endpoint, bool]:
    """An endpoint without the store's time of its disabling, but that it has one."""
    return evolve(endpoint, disabled_at=None), endpoint.disabled_at is None
