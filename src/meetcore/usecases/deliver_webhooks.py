"""Sending what is due (rule 1/webhooks): claim under a lease, post without a transaction, record.

A worker that dies between claim and record leaves a delivery that is due again when the lease runs
out: the receiver may see the same event id twice, and never not at all. Claims and records go in
batches; a post that could not even be tried, because this machine has run out of something, is
recorded nowhere and left to its lease.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import lru_cache

from attrs import evolve, field, frozen

from meetcore.domain.webhooks.deliveries import RELEASE_PACE, Attempt, ReleasePace, judge
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import signing_headers
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.deliveries import Claimed, ClaimedView, ClaimLimits, GivenUp, Recorded
from meetcore.ports.lease import Lease
from meetcore.ports.store import Store
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender
from meetcore.usecases.judge_attempts import JudgedAttempts
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.runtime import Runtime

USER_AGENT = "meetcore-webhooks/1"

# Endpoints are posted to again and again, and reading a URL costs more than signing a body.
_url_of = lru_cache(maxsize=4096)(parse_webhook_url)


def _ignore(_: object) -> None:
    return None


@frozen
class Made:
    """A post that was made, and its result; `span` is that of its trace, where it was recorded."""

    claimed: Claimed
    attempt: Attempt
    span: str | None = None


@frozen
class DeliverWebhooks:
    """Posts due deliveries. `mails` takes a mail to the account of an endpoint that failures disabled.
    What is older than `events_kept` is not posted.

    `lease_s` must exceed the sender's time limit. `limits` bound the posts in flight over all workers. Once
    an attempt is kept, `on_failed` is called where it failed and `on_delivered` where it did not, and
    `on_disabled` with an endpoint that it disabled. `on_expired_lease` is called with a delivery that is
    claimed because its lease expired, and `on_given_up` with one that ends without a last attempt.
    """

    store: Store
    sender: WebhookSender
    schedule: RetrySchedule
    runtime: Runtime
    lease_s: float = 30.0
    limits: ClaimLimits = field(factory=ClaimLimits)
    pace: ReleasePace = RELEASE_PACE
    mails: MailQueue | None = None
    events_kept: timedelta = EVENTS_KEPT
    on_failed: Callable[[Recorded], object] = _ignore
    on_delivered: Callable[[Recorded], object] = _ignore
    on_disabled: Callable[[Endpoint], object] = _ignore
    on_expired_lease: Callable[[Claimed], object] = _ignore
    on_given_up: Callable[[GivenUp], object] = _ignore

    async def claim(self, limit: int) -> Sequence[Claimed]:
        """Take up to `limit` deliveries that are due and have room."""
        now = self.runtime.now()
        lease = Lease(self.runtime.new_id(now), self.lease_s)
        limits = evolve(self.limits, total=limit, events_since=now - self.events_kept)
        async with self.store.begin() as tx:
            batch = await tx.deliveries.claim_due(limits, lease)
        for given_up in batch.given_up:
            self.on_given_up(given_up)
        for one in batch.claimed:
            if one.had_expired_lease:
                self.on_expired_lease(one)
        return batch.claimed

    async def post(self, claimed: Claimed) -> Made:
        """Sign with this moment and post.

        Raises:
            SenderExhausted, PostDeferred: this side could not carry it out; nothing is to be recorded.
        """
        signed_at = int(self.runtime.now().timestamp())
        headers = signing_headers(
            claimed.secret, str(claimed.event_id), claimed.body, signed_at, claimed.previous_secret
        )
        headers |= {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "X-Service-Event": claimed.event_kind,
            "X-Service-Delivery": str(claimed.delivery_id),
        }
        tracing = self.runtime.tracing
        with tracing.caused(
            "webhook attempt", claimed.cause, account_id=claimed.account_id, event_id=claimed.event_id,
            delivery_id=claimed.delivery_id, event=claimed.event_kind,
        ):  # fmt: skip
            headers |= tracing.headers()
            attempt = await self.sender.post(
                OutgoingPost(claimed.account_id, _url_of(claimed.url), headers, claimed.body)
            )
            tracing.describe(status=attempt.status_code, error=attempt.error)
            return Made(claimed, attempt, tracing.cause())

    def is_worth_recording(self, made: Made) -> bool:
        """Whether the claim may still be ours: its lease was taken a little before the post began."""
        return (self.runtime.now() - made.attempt.at).total_seconds() < self.lease_s

    async def record(self, made: Sequence[Made]) -> int:
        """Record the results of posts, in the order in which they ended; a lost claim is skipped.

        Returns:
            How many deliveries may be claimed now that could not be before.
        """
        async with self.store.begin() as tx:
            views = await tx.deliveries.load_claimed([one.claimed for one in made])
            if not views:
                return 0
            judged = JudgedAttempts(views, self.schedule)
            for one in made:
                # Only a failure is scheduled, and each jitter is drawn from the system's entropy.
                jitter = 0.0 if judge(one.attempt) else self.runtime.jitter()
                judged.add(one.claimed, one.attempt, jitter)
            saved = await tx.deliveries.save_attempts(
                judged.recorded, judged.endpoints, judged.hosts, judged.recovered
            )
            disabled = [*_newly_disabled(views, judged.endpoints), *saved.disabled]
            if self.mails is not None:
                await self.mails.add_disabled(tx, disabled)
        spans = {one.claimed.delivery_id: one.span for one in made}
        for recorded in judged.recorded:
            self.runtime.metrics.attempted(result_of(recorded.attempt), recorded.attempt.duration_ms / 1000)
            report = self.on_delivered if judge(recorded.attempt) else self.on_failed
            with self.runtime.tracing.resumed(spans.get(recorded.delivery.id)):
                report(recorded)
        for endpoint in disabled:
            self.on_disabled(endpoint)
        return saved.due

    async def sweep(self) -> int:
        """Release and expire what is due; returns how many deliveries may be claimed by it."""
        async with self.store.begin() as tx:
            swept = await tx.deliveries.sweep(self.pace)
        for given_up in swept.given_up:
            self.on_given_up(given_up)
        return swept.due


def result_of(attempt: Attempt) -> str:
    """Return the result of an attempt as metrics count it: a class of status, or the code of the error."""
    if attempt.status_code is not None:
        return f"{attempt.status_code // 100}xx"
    return attempt.error or "2xx"


def _newly_disabled(views: Sequence[ClaimedView], endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    were_active = {view.endpoint.id for view in views if view.endpoint.is_active}
    return [one for one in endpoints if one.id in were_active and not one.is_active]
