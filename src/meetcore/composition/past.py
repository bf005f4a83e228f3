"""An application in the past, for a demo, on a clock that stands; the outside is the sandbox or played here.

The use cases write what a service would have written then, in the order of time: ledger, chain, receipts and
notes. Nothing goes over the network but the database's connections.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Final, cast
from uuid import UUID

from attrs import define, evolve, field, frozen

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.public_holidays import HolidaysCalendar
from meetcore.adapters.sandbox import SandboxMeetingState, SandboxProvider
from meetcore.adapters.sandbox.gateway import SandboxGateway
from meetcore.adapters.sandbox.provider import provider_meeting_id
from meetcore.adapters.sandbox.recording_files import LENGTHS_S, MEETING
from meetcore.composition.application import Application, NotePorts, build
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.notes import BY_RULES
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.views import ClaimLimits
from meetcore.ports.ai import EditingFailed, Sound
from meetcore.ports.webhook_sender import OutgoingPost

_AT_ONCE: Final = 100
_ANSWERS: Final[Mapping[str | None, Mapping[str, Any]]] = {
    None: {"duration_ms": 47, "status_code": 204},
    "timeout": {"duration_ms": 20_000, "error": "timeout"},
    "status_503": {
        "duration_ms": 84, "status_code": 503, "error": "status_503",
        "response_excerpt": "<h1>503 Service Unavailable</h1>The shop is being updated.",
    },
}  # fmt: skip
"""The attempts at the played receiver, by their error."""


@define
class PastClock:
    """A clock that stands still, `at` the instant of the present step."""

    at: datetime

    def now(self) -> datetime:
        """Return the instant of the present step."""
        return self.at

    def uptime(self) -> float:
        """Return the seconds of a clock that does not stand."""
        return time.monotonic()


@frozen
class PlayedReceiver:
    """A customer's receiver: takes each event when it happens; `errors` has those of the ends of meetings."""

    errors: dict[UUID, str] = field(factory=dict)
    tries: Counter[str] = field(factory=Counter)

    async def post(self, post: OutgoingPost) -> Attempt:
        """Answer a second after the event, and later where it is tried again."""
        event = json.loads(post.body)
        is_end = event["type"] == EventKind.MEETING_ENDED
        error = self.errors.get(UUID(event["data"]["id"])) if is_end else None
        at = datetime.fromisoformat(event["created_at"]) + timedelta(seconds=6 ** self.tries[event["id"]])
        self.tries[event["id"]] += 1
        return Attempt(at, **_ANSWERS[error])


class PlayedEditor:
    """Knows the length of the sandbox's recording, and cuts nothing: a transcript comes with it."""

    def scratch(self) -> BinaryIO:
        """Open an empty file on disk, without a name."""
        return cast(BinaryIO, tempfile.TemporaryFile())

    async def measure(self, media: BinaryIO) -> float:
        """Return the length in seconds."""
        return LENGTHS_S[MEETING]

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        """Raise `EditingFailed`."""
        raise EditingFailed("the editor of the past cuts nothing")


@frozen
class Past:
    """An application whose clock stands, and what happens outside of it at that instant."""

    application: Application
    clock: PastClock
    receiver: PlayedReceiver
    provider: SandboxProvider
    gateway: SandboxGateway | None

    async def start_meeting(self, meeting_id: UUID) -> None:
        """Let the host start a meeting."""
        await self._step(meeting_id, SandboxMeetingState.STARTED, ProviderEventKind.MEETING_STARTED)

    async def end_meeting(self, account_id: UUID, meeting_id: UUID) -> None:
        """Let the host end a meeting that was started; its notes, if it was made with any, follow at once."""
        await self._step(meeting_id, SandboxMeetingState.ENDED, ProviderEventKind.MEETING_CLOSED)
        app = self.application
        meeting = await app.ports.queries.find_meeting(account_id, meeting_id)
        if meeting is None or not meeting.options.auto_notulen or app.notes is None:
            return
        await app.recordings.sync_files.of_meeting(meeting)
        await app.notes.work_on_recordings()
        for task in await app.notes.write.claim(1):
            await app.notes.write.work(task)

    async def _step(self, meeting_id: UUID, state: SandboxMeetingState, kind: ProviderEventKind) -> None:
        name, now = provider_meeting_id(meeting_id), self.clock.at
        await self.provider.state.put(name, state, now)
        held = (await self.provider.state.sessions(name))[-1]
        session = Session(held.id, held.started_at, held.ended_at)
        event = ProviderEvent(self.provider.abilities.name, kind, name, now, session=session)
        await self.application.meetings.track(event, now)

    async def end_payment(self, payment_id: UUID, *, is_paid: bool) -> None:
        """Pay a payment at the sandbox's gateway, or let it expire."""
        payments, gateway = self.application.payments, self.gateway
        payment = None if gateway is None else await gateway.state.get(payment_id)
        if gateway is None or payment is None or payments.follow is None:
            return
        if is_paid:
            await gateway.state.pay(payment_id, payment.amount, payment.currency)
        else:
            await gateway.state.end(payment_id, GatewayStatus.EXPIRED)
        await payments.receive_notification(gateway.notification(payment))
        await payments.follow()

    async def deliver(self) -> None:
        """Post what is due to the played receiver; what fails three times has failed."""
        deliver = self.application.deliver
        while deliver is not None and (claimed := await deliver.claim(_AT_ONCE)):
            await deliver.record([await deliver.post(each) for each in claimed])


def open_past(application: Application, at: datetime) -> Past | None:
    """Return an application in the past on the ports of another one; `None` where its provider is no sandbox.

    It writes no mails, and notes by rules.
    """
    ports = application.ports
    if not isinstance(ports.provider, SandboxProvider):
        return None
    clock, receiver = PastClock(at), PlayedReceiver()
    policy = evolve(
        application.policy, sends_mails=False, note_writer=BY_RULES, retry_schedule=RetrySchedule((0, 0)),
        claim_limits=ClaimLimits(per_endpoint=_AT_ONCE, per_host=_AT_ONCE, per_host_per_s=10 * _AT_ONCE),
    )  # fmt: skip
    notes = NotePorts(PlayedEditor(), None, LocalNoteWriter(), HolidaysCalendar())
    past = build(evolve(ports, clock=clock, sender=receiver, notes=notes), policy)
    gateway = ports.gateway if isinstance(ports.gateway, SandboxGateway) else None
    return Past(past, clock, receiver, ports.provider, gateway)
