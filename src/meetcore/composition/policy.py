"""The limits, periods and keys of an application, and its reports to operators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from meetcore.domain.meetings.hosts import DEFAULT_SHARE_PERCENT
from meetcore.domain.meetings.provider_events import DEFAULT_WINDOW_S
from meetcore.domain.meetings.sessions import DEFAULT_EMPTY_FOR
from meetcore.domain.members.sessions import PAGES_PER_MINUTE
from meetcore.domain.members.sign_in import SignUpMode
from meetcore.domain.money.pricing import DEFAULT_TIERS
from meetcore.domain.notes.notes import BY_RULES
from meetcore.domain.notes.recordings import RETENTION
from meetcore.domain.payments.packages import PackageCatalogue
from meetcore.domain.requests.rate_window import Quotas
from meetcore.domain.requests.retention import Retention
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.domain.webhooks.retry_schedule import NOTE_DELAYS_S, RetrySchedule
from meetcore.domain.webhooks.views import ClaimLimits
from meetcore.ports import observability
from meetcore.usecases.runtime import ignore

if TYPE_CHECKING:
    from meetcore.domain.mails.mails import Mail
    from meetcore.domain.mails.views import ClaimedMail
    from meetcore.domain.meetings.provider_events import EventOutcome
    from meetcore.domain.meetings.views import ClaimedEvent, DueHostKey, ExpiredLease
    from meetcore.domain.money.hash_chain import ChainKey
    from meetcore.domain.money.pricing import TierCatalogue
    from meetcore.domain.money.views import VerificationRun
    from meetcore.domain.notes.notes import Note, NoteFault
    from meetcore.domain.notes.views import NoteTask, RecordingTask
    from meetcore.domain.payments.payments import Payment
    from meetcore.domain.webhooks.addresses import Network
    from meetcore.domain.webhooks.endpoints import Endpoint
    from meetcore.domain.webhooks.sender_faults import FaultPeriod, SenderFault
    from meetcore.domain.webhooks.views import Claimed, GivenUp, Recorded
    from meetcore.ports.maintenance import Maintained
    from meetcore.ports.observability import Metrics
    from meetcore.ports.video_provider import ProviderRefused
    from meetcore.usecases.meetings.create_meeting import CapacityRefusal
    from meetcore.usecases.meetings.reconcile_meetings import OrphanReport
    from meetcore.usecases.money.turns import FailedBatch


@frozen
class Periods:
    """Seconds between two rounds of each periodic task; `verify_s` between two slices of the ledger.

    `deliveries_s` and `notes_s` are those of the claims, for which a notification comes sooner.
    """

    deliveries_s: float = 0.25
    notes_s: float = 1.0
    sweep_s: float = 2.0
    provider_events_s: float = 1.0
    payments_s: float = 1.0
    purge_s: float = 60.0
    retention_s: float = 1.0
    recordings_s: float = 1.0
    expiry_s: float = 30.0
    mails_s: float = 1.0
    key_uses_s: float = 60.0
    verify_s: float = 4.0
    overdue_notes_s: float = 60.0
    requests_s: float = 1.0
    partitions_s: float = 600.0


@frozen
class Policy:
    """The limits of an application, in the units that their names end in; percentages are whole numbers.

    `note_writer` is who writes notes, whose price is estimated and held: `BY_RULES` or a model's name.
    `unknown_keys_at_once` bounds look-ups of keys that are not known to be valid. The ledger is
    verified `verify_every_s` after the end of the last time, never where that is 0. Without `sends_mails` no
    mail is put into the outbox. `support_contact` is an e-mail or `https://` address, or empty.
    `is_sandbox` is whether meetings are those of the sandbox.
    `link_keys` sign download links and `chain_keys` the ledger's entries: the first signs, all verify.
    `events_kept` is for deliveries, too. A lease is longer than its work may take
    (10 s for a call, 20 s for a post), or unfinished work is taken over; shorter ones are for tests.
    """

    catalogue: TierCatalogue = DEFAULT_TIERS
    packages: PackageCatalogue = field(factory=PackageCatalogue)
    note_writer: str = BY_RULES
    base_url: str = ""
    support_contact: str = ""
    is_sandbox: bool = False
    key_prefix: str = "mk"
    quotas: Quotas = field(factory=Quotas)
    pages_per_minute: int = PAGES_PER_MINUTE
    unknown_keys_at_once: int = 2
    meeting_lease_s: float = 20.0
    orphan_window_s: float = DEFAULT_WINDOW_S
    empty_for: timedelta = DEFAULT_EMPTY_FOR
    account_creations_percent: int = DEFAULT_SHARE_PERCENT
    allowed_networks: tuple[Network, ...] = ()
    denied_networks: tuple[Network, ...] = ()
    retry_schedule: RetrySchedule = field(factory=RetrySchedule)
    webhook_lease_s: float = 30.0
    claim_limits: ClaimLimits = field(factory=ClaimLimits)
    recording_retention: timedelta = RETENTION
    retention: Retention = field(factory=Retention)
    events_kept: timedelta = EVENTS_KEPT
    note_schedule: RetrySchedule = field(factory=lambda: RetrySchedule(NOTE_DELAYS_S))
    note_lease_s: float = 30.0
    notes_in_flight: int = 4
    transcript_wait_s: float = 0.0
    verify_every_s: float = 0.0
    four_eyes_above: int | None = None
    sends_mails: bool = False
    sign_up: SignUpMode = SignUpMode.CLOSED
    periods: Periods = field(factory=Periods)
    link_keys: tuple[bytes, ...] = field(default=(), repr=False)
    chain_keys: tuple[ChainKey, ...] = field(default=(), repr=False)


@frozen
class Reports:
    """Callbacks for events that an operator may have to examine."""

    expired_lease: Callable[[ExpiredLease], object] = ignore
    left_meeting: Callable[[ExpiredLease, Exception], object] = ignore
    expired_delivery: Callable[[Claimed], object] = ignore
    expired_recording: Callable[[RecordingTask], object] = ignore
    expired_note: Callable[[NoteTask], object] = ignore
    expired_event: Callable[[ClaimedEvent], object] = ignore
    expired_mail: Callable[[ClaimedMail], object] = ignore
    orphan: Callable[[OrphanReport], None] = ignore
    kept_host_key: Callable[[DueHostKey, ProviderRefused], None] = ignore
    no_capacity: Callable[[CapacityRefusal], None] = ignore
    handled_event: Callable[[ClaimedEvent, EventOutcome], None] = ignore
    failed_recording: Callable[[RecordingTask, Exception], None] = ignore
    failed_note: Callable[[Note, NoteFault], object] = ignore
    failed_delivery: Callable[[Recorded], object] = ignore
    given_up_delivery: Callable[[GivenUp], object] = ignore
    delivered: Callable[[Recorded], object] = ignore
    disabled_endpoint: Callable[[Endpoint], object] = ignore
    sender_fault: Callable[[SenderFault], object] = ignore
    sender_fault_over: Callable[[FaultPeriod], object] = ignore
    failed_mail: Callable[[Mail], object] = ignore
    payment: Callable[[Payment, Exception | None], object] = ignore
    failed_sign_on: Callable[[str, bool], object] = ignore
    verified_ledger: Callable[[VerificationRun], object] = ignore
    overdue_notes: Callable[[], object] = ignore
    dropped_requests: Callable[[int], object] = ignore
    maintained_partitions: Callable[[Maintained], object] = ignore
    failed_batch: Callable[[FailedBatch], object] = ignore


def counted(reports: Reports, metrics: Metrics) -> Reports:
    """Return reports that count each event first."""

    def no_capacity(refusal: CapacityRefusal) -> None:
        metrics.count(observability.NO_HOST, refusal.seats)
        reports.no_capacity(refusal)

    def failed_note(note: Note, fault: NoteFault) -> None:
        metrics.count(observability.NOTES_FAILED, fault.value)
        reports.failed_note(note, fault)

    def failed_delivery(recorded: Recorded) -> None:
        if recorded.delivery.status is DeliveryStatus.FAILED:
            metrics.count(observability.DELIVERIES_FAILED, "attempts")
        reports.failed_delivery(recorded)

    def given_up_delivery(given_up: GivenUp) -> None:
        metrics.count(observability.DELIVERIES_FAILED, given_up.reason.value)
        reports.given_up_delivery(given_up)

    def disabled_endpoint(endpoint: Any) -> None:
        metrics.count(observability.ENDPOINTS_DISABLED)
        reports.disabled_endpoint(endpoint)

    def expired(subject: str, report: Callable[[Any], object]) -> Callable[[Any], object]:
        def take_over(work: Any) -> None:
            metrics.count(observability.LEASES_EXPIRED, subject)
            report(work)

        return take_over

    return evolve(
        reports,
        no_capacity=no_capacity,
        failed_note=failed_note,
        failed_delivery=failed_delivery,
        given_up_delivery=given_up_delivery,
        disabled_endpoint=disabled_endpoint,
        expired_lease=expired("meeting", reports.expired_lease),
        expired_delivery=expired("delivery", reports.expired_delivery),
        expired_recording=expired("recording", reports.expired_recording),
        expired_note=expired("note", reports.expired_note),
        expired_event=expired("provider_event", reports.expired_event),
        expired_mail=expired("mail", reports.expired_mail),
    )
