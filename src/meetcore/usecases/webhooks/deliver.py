"""Send due deliveries (rule 1/webhooks): claim under a lease, post without a transaction, record.

A worker that dies between claim and record leaves a delivery that is due again when the lease expires: the
receiver may see the same event id twice, and never misses it. Claims and records go in batches. A delivery
that could not be posted by a fault of the sender is put off: no attempt is recorded, and nothing is counted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID

from attrs import define, evolve, field, frozen

from meetcore.domain.webhooks import events, retry_schedule, signature, urls
from meetcore.domain.webhooks.deliveries import RELEASE_PACE, Attempt, judge, record_attempt
from meetcore.domain.webhooks.endpoints import (
    Endpoint,
    EndpointState,
    HostFailures,
    count_failure,
    count_success,
    disable_with_host,
    wait,
)
from meetcore.domain.webhooks.kept_headers import kept_headers
from meetcore.domain.webhooks.sender_faults import (
    MAX_CLOCK_OFFSET,
    PUT_OFF,
    FaultPeriod,
    SenderFault,
)
from meetcore.domain.webhooks.views import Claimed, ClaimedView, ClaimLimits, GivenUp, Recorded, RecordedHost
from meetcore.ports import observability, webhook_sender
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Store
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.runtime import Runtime, ignore
from meetcore.usecases.webhooks.sender_results import PresentFaults, RecentResults

_EndpointName = tuple[UUID, UUID]
_HostName = tuple[UUID, str]


@define
class JudgedAttempts:
    """A batch: the deliveries that were loaded, with the changes so far."""

    _views: Sequence[ClaimedView]
    _schedule: retry_schedule.RetrySchedule
    recorded: list[Recorded] = field(factory=list, init=False)
    _view_of: dict[tuple[UUID, UUID], ClaimedView] = field(init=False)
    _endpoints: dict[_EndpointName, Endpoint] = field(init=False)
    _hosts: dict[_HostName, HostFailures] = field(init=False)
    _failing: set[_HostName] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._view_of = {(view.delivery.id, view.token): view for view in self._views}
        self._endpoints = {
            (view.endpoint.account_id, view.endpoint.id): view.endpoint for view in self._views
        }
        self._hosts = {_host_of(view.endpoint): view.host for view in self._views}

    @property
    def endpoints(self) -> list[Endpoint]:
        """Every endpoint of the batch, in its last state."""
        return list(self._endpoints.values())

    @property
    def recovered(self) -> set[UUID]:
        """The endpoints whose latest attempt before the batch failed, and whose last one in it did not."""
        failing = {view.endpoint.id for view in self._views if view.endpoint.consecutive_failures}
        return failing & {one.id for one in self._endpoints.values() if not one.consecutive_failures}

    @property
    def hosts(self) -> list[RecordedHost]:
        """Every host of the batch, with its last count."""
        return [RecordedHost(failures, name in self._failing) for name, failures in self._hosts.items()]

    def add(self, claimed: Claimed, attempt: Attempt, jitter: float) -> None:
        """Judge one attempt, with a jitter from [0, 1); one whose claim was lost is skipped."""
        view = self._view_of.get((claimed.delivery_id, claimed.token))
        if view is None:
            return
        name = view.endpoint.account_id, view.endpoint.id
        before = self._endpoints[name]
        delivery, after = record_attempt(view.delivery, before, attempt, self._schedule, jitter, view.now)
        self._endpoints[name] = after
        self.recorded.append(Recorded(delivery, attempt))
        if judge(attempt):
            self._hosts[_host_of(after)] = count_success(self._hosts[_host_of(after)])
        else:
            self._count_failure(view, before, after, jitter)

    def _count_failure(self, view: ClaimedView, before: Endpoint, after: Endpoint, jitter: float) -> None:
        host = _host_of(after)
        self._hosts[host], is_failing = count_failure(
            self._hosts[host], before, after, self._schedule, view.now
        )
        name = after.account_id, after.id
        self._endpoints[name] = wait(after, self._hosts[host], self._schedule, jitter, view.now)
        if is_failing:
            self._failing.add(host)
            for name, endpoint in self._endpoints.items():
                if _host_of(endpoint) == host:
                    self._endpoints[name] = disable_with_host(endpoint, view.now)


def _host_of(endpoint: Endpoint) -> _HostName:
    return endpoint.account_id, endpoint.host


USER_AGENT = "meetcore-webhooks/1"

# Endpoints are posted to again and again, and reading a URL costs more than signing a body.
_url_of = lru_cache(maxsize=4096)(urls.parse_webhook_url)


@frozen
class PostResult:
    """A post that began `at`, and its attempt; the `fault` of the sender instead where there was one.

    One that was deferred has neither. `span` is that of its trace, where it was recorded.
    """

    claimed: Claimed
    at: datetime
    attempt: Attempt | None = None
    span: str | None = None
    fault: SenderFault | None = None


_SIGNATURE_REFUSED = frozenset({"status_400", "status_401", "status_403"})
"""The errors of receivers that are given a signature of another time."""


def _refused_by_clock(offset: timedelta) -> frozenset[str]:
    """Return the errors that two clocks may be the cause of that differ so much, whichever is wrong."""
    by_signature = _SIGNATURE_REFUSED if offset.total_seconds() > signature.MAX_AGE_S else frozenset()
    return by_signature | {"tls_failed"} if offset > MAX_CLOCK_OFFSET else frozenset()


@define
class SenderState:
    """How the posts of this process went.

    `is_failing` where it should claim few deliveries until it can post; `put_off_at` are the endpoints where
    it has put deliveries off.
    """

    results: RecentResults = field(factory=RecentResults)
    faults: PresentFaults = field(factory=PresentFaults)
    is_failing: bool = False
    put_off_at: set[UUID] = field(factory=set)

    def sort(
        self, made: Sequence[PostResult], views: Sequence[ClaimedView], now: datetime
    ) -> Mapping[UUID, SenderFault]:
        """Take results of valid claims; return the deliveries to put off, each with the sender's fault."""
        view_of = {view.delivery.id: view for view in views}
        for one in made:
            if one.attempt is not None:
                endpoint, error = view_of[one.claimed.delivery_id].endpoint, one.attempt.error
                was_failing = endpoint.consecutive_failures > 0
                self.results.add(endpoint.host, endpoint.account_id, error, now, was_failing=was_failing)
        shared = self.results.shared_error(now)
        by_clock = _refused_by_clock(abs(views[0].now - now))

        def fault_of(one: PostResult) -> SenderFault | None:
            error = None if one.attempt is None else one.attempt.error
            if error in by_clock:
                return SenderFault.WRONG_CLOCK
            return SenderFault.HOSTS_FAIL_ALIKE if error and error == shared else one.fault

        faults = {one.claimed.delivery_id: fault for one in made if (fault := fault_of(one)) is not None}
        is_everywhere = shared is not None and self.results.is_at_all_hosts(shared)
        refused = by_clock & _SIGNATURE_REFUSED
        is_refused = any(one.attempt is not None and one.attempt.error in refused for one in made)
        self.is_failing = is_everywhere or is_refused or any(one.fault is not None for one in made)
        return faults


@frozen
class DeliverWebhooks:
    """Sends due webhook deliveries: claims them under a lease, posts them, and records the results.

    An event older than `events_kept` is not posted. `lease_s` must exceed the sender's time limit. `limits`
    bound the posts in flight over all workers. `mails` takes a mail to the account of an endpoint that
    failures disabled. The hooks are called for the log, once the change is saved: `on_failed` and
    `on_delivered` after an attempt, `on_disabled` with an endpoint that it disabled, `on_expired_lease` with
    a delivery claimed because its lease expired, `on_given_up` with one that ends without a last attempt,
    `on_sender_fault` when a fault of the sender begins, `on_sender_fault_over` when it is over.
    """

    store: Store
    sender: webhook_sender.WebhookSender
    schedule: retry_schedule.RetrySchedule
    runtime: Runtime
    lease_s: float = 30.0
    limits: ClaimLimits = field(factory=ClaimLimits)
    mails: MailQueue | None = None
    events_kept: timedelta = events.EVENTS_KEPT
    on_failed: Callable[[Recorded], object] = ignore
    on_delivered: Callable[[Recorded], object] = ignore
    on_disabled: Callable[[Endpoint], object] = ignore
    on_expired_lease: Callable[[Claimed], object] = ignore
    on_given_up: Callable[[GivenUp], object] = ignore
    on_sender_fault: Callable[[SenderFault], object] = ignore
    on_sender_fault_over: Callable[[FaultPeriod], object] = ignore
    sender_state: SenderState = field(factory=SenderState)

    async def claim(self, limit: int) -> Sequence[Claimed]:
        """Take up to `limit` deliveries that are due and have room."""
        now = self.runtime.now()
        lease = Lease(self.runtime.new_id(now), self.lease_s)
        limits = evolve(self.limits, total=limit, events_kept=self.events_kept)
        async with self.store.begin() as tx:
            batch = await tx.deliveries.claim_due(limits, lease)
        if batch.unreadable:
            fault = SenderFault.NO_KEY.value
            self.runtime.metrics.count(observability.SENDER_FAULTS, fault, by=batch.unreadable)
        for given_up in batch.given_up:
            self.on_given_up(given_up)
        for one in batch.claimed:
            if one.had_expired_lease:
                self.on_expired_lease(one)
        return batch.claimed

    async def post(self, claimed: Claimed) -> PostResult:
        """Sign with this moment and post.

        Raises `PostDeferred` where it was not tried: record it without an attempt, which ends its claim.
        """
        now = self.runtime.now()
        signed_at = int(now.timestamp())
        headers = signature.signing_headers(
            claimed.secret, str(claimed.event_id), claimed.body, signed_at, claimed.previous_secret
        )
        headers |= {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "X-Service-Event": claimed.event_kind,
            "X-Service-Delivery": str(claimed.delivery_id),
        }
        tracing, span = self.runtime.tracing, observability.span_of(claimed.cause)
        with tracing.caused(
            "webhook attempt", span, account_id=claimed.account_id, event_id=claimed.event_id,
            delivery_id=claimed.delivery_id, event=claimed.event_kind,
        ):  # fmt: skip
            headers |= tracing.headers()
            try:
                attempt = await self.sender.post(
                    webhook_sender.OutgoingPost(
                        claimed.account_id, _url_of(claimed.url), headers, claimed.body
                    )
                )
            except webhook_sender.SenderFailed as failure:
                tracing.describe(error=failure.fault)
                return PostResult(claimed, now, fault=failure.fault)
            tracing.describe(status=attempt.status_code, error=attempt.error)
            if attempt.error is not None:
                attempt = evolve(attempt, request_headers=kept_headers(headers))
            return PostResult(claimed, now, attempt, tracing.cause())

    def is_worth_recording(self, made: PostResult) -> bool:
        """Return whether the claim may still be ours: its lease was taken a little before the post began."""
        return (self.runtime.now() - made.at).total_seconds() < self.lease_s

    async def record(self, made: Sequence[PostResult]) -> int:
        """Record results of posts, as they ended; return how many more deliveries may be claimed now.

        A lost claim is skipped, also where the one that follows it is in the same batch.
        """
        async with self.store.begin() as tx:
            views = await tx.deliveries.load_claimed([one.claimed for one in made])
            if not views:
                return 0
            valid = {(view.delivery.id, view.token) for view in views}
            made = [one for one in made if (one.claimed.delivery_id, one.claimed.token) in valid]
            faults = self.sender_state.sort(made, views, self.runtime.now())
            put_off = {_id_of(one) for one in made if one.attempt is None or _id_of(one) in faults}
            await tx.deliveries.put_off([one.claimed for one in made if _id_of(one) in put_off], PUT_OFF)
            judged = JudgedAttempts(
                [view for view in views if view.delivery.id not in put_off], self.schedule
            )
            for one in made:
                if one.attempt is None or _id_of(one) in put_off:
                    continue
                # Only a failure is scheduled, and each jitter is drawn from the system's entropy.
                jitter = 0.0 if judge(one.attempt) else self.runtime.jitter()
                judged.add(one.claimed, one.attempt, jitter)
            recovered = self._recovered(judged)
            saved = await tx.deliveries.save_attempts(
                judged.recorded, judged.endpoints, judged.hosts, recovered
            )
            disabled = [*_newly_disabled(views, judged.endpoints), *saved.disabled]
            if self.mails is not None:
                await self.mails.add_disabled(tx, disabled)
        spans = {_id_of(one): one.span for one in made}
        causes = {_id_of(one): one.claimed.cause for one in made}
        for recorded in judged.recorded:
            self.runtime.metrics.count(observability.ATTEMPTS, result_of(recorded.attempt))
            self.runtime.metrics.observe(observability.ATTEMPT_DURATION, recorded.attempt.duration_ms / 1000)
            report = self.on_delivered if judge(recorded.attempt) else self.on_failed
            id = recorded.delivery.id
            with observability.logged_as_caused(causes.get(id)), self.runtime.tracing.resumed(spans.get(id)):
                report(recorded)
        for endpoint in disabled:
            self.on_disabled(endpoint)
        self._report_faults(faults)
        self.sender_state.put_off_at -= recovered
        self.sender_state.put_off_at.update(one.claimed.endpoint_id for one in made if _id_of(one) in faults)
        return saved.due

    def _recovered(self, judged: JudgedAttempts) -> set[UUID]:
        """Return the endpoints that have succeeded after failures, of their own or of the sender."""
        succeeded = {one.delivery.endpoint_id for one in judged.recorded if judge(one.attempt)}
        return judged.recovered | self.sender_state.put_off_at & succeeded

    def _report_faults(self, faults: Mapping[UUID, SenderFault]) -> None:
        counts = Counter(faults.values())
        for fault, count in counts.items():
            self.runtime.metrics.count(observability.SENDER_FAULTS, fault.value, by=count)
        for fault in self.sender_state.faults.add(counts, self.runtime.now()):
            self.on_sender_fault(fault)

    async def sweep(self) -> int:
        """Release and expire due deliveries; return how many may be claimed now."""
        for period in self.sender_state.faults.end(self.runtime.now()):
            self.on_sender_fault_over(period)
        async with self.store.begin() as tx:
            swept = await tx.deliveries.sweep(RELEASE_PACE)
        for given_up in swept.given_up:
            self.on_given_up(given_up)
        return swept.due


def _id_of(made: PostResult) -> UUID:
    return made.claimed.delivery_id


def result_of(attempt: Attempt) -> str:
    """Return the result of an attempt as metrics count it: a class of status, or the code of the error."""
    status, error = attempt.status_code, attempt.error
    if status is None or (error and 200 <= status < 300):  # the answer broke off
        return error or "2xx"
    return f"{status // 100}xx"


def _newly_disabled(views: Sequence[ClaimedView], endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    # One that was paused counts too: a post in flight then may be the 20th that fails.
    were_disabled = {view.endpoint.id for view in views if view.endpoint.state is EndpointState.DISABLED}
    return [one for one in endpoints if one.state is EndpointState.DISABLED and one.id not in were_disabled]
