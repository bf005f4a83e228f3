"""The logs of background work: one line for each event that an operator may have to investigate."""

from datetime import timedelta
from typing import Any, cast

import pytest
import structlog
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault
from meetcore.adapters.worker import scheduler
from meetcore.adapters.worker.workers import NoteWorker
from meetcore.composition import observability
from meetcore.composition.application import build
from meetcore.composition.observability import LOGGED
from meetcore.composition.policy import Policy
from meetcore.domain.errors import UpstreamError
from meetcore.domain.mails.contents import SignInLink
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.notes.recordings import RETENTION
from meetcore.domain.webhooks.deliveries import HELD_FOR
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, pause
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import new_secret
from meetcore.domain.webhooks.views import ClaimLimits
from meetcore.ports.mails import MailUnavailable
from meetcore.ports.maintenance import Maintained
from meetcore.ports.runtime import Lease
from meetcore.ports.webhook_sender import OutgoingPost
from meetcore.testing.clock import ManualClock, SeededEntropy
from meetcore.usecases.mails import SendMails
from meetcore.usecases.money.turns import FailedBatch
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.deliver import DeliverWebhooks
from tests.support.fakes import FakeMailer, FakeMailTexts
from tests.support.kept_log import capture_own_logs
from tests.support.outbox import BAD, GOOD, outbox
from tests.support.postgres_rig import PostgresRig
from tests.support.records import add_event, claim_events, provider_event
from tests.support.transactions import KIND, new_endpoint, register, save_endpoint, top_up
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, request
from tests.unit.usecases.fakes import RECORDED_AT
from tests.unit.usecases.note_scenario import note_scenario
from tests.unit.usecases.notes.test_work_on_recordings import filmed_only

PLENTY = ClaimLimits(per_endpoint=500, per_account=500, per_host=500, per_host_per_s=500)
SECRET = new_secret(bytes(32))


@pytest.fixture(autouse=True)
def _fresh_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers that were used under an earlier configuration keep it, and would not be captured."""
    for module in (observability, scheduler):
        monkeypatch.setattr(module, "log", structlog.get_logger("meetcore.worker"))


class Sender:
    """Answers as configured."""

    attempt = BAD

    async def post(self, _: OutgoingPost) -> Any:
        return self.attempt


def deliver(rig: PostgresRig, sender: Sender, schedule: RetrySchedule) -> DeliverWebhooks:
    runtime = Runtime(rig.clock, SeededEntropy(5))
    return DeliverWebhooks(
        rig.store, cast(Any, sender), schedule, runtime, limits=PLENTY,
        on_failed=LOGGED.failed_delivery, on_disabled=LOGGED.disabled_endpoint,
        on_expired_lease=LOGGED.expired_delivery, on_given_up=LOGGED.given_up_delivery,
    )  # fmt: skip


async def posted(worker: DeliverWebhooks) -> list[dict[str, Any]]:
    """Post one batch of due deliveries, and return the logged lines."""
    made = [await worker.post(one) for one in await worker.claim(100)]
    with capture_own_logs() as lines:
        await worker.record(made)
    return [dict(line) for line in lines]


async def test_a_failed_delivery_is_one_line_and_its_last_failure_a_warning(rig: PostgresRig) -> None:
    sender = Sender()
    customer, endpoint = await outbox(rig, 1, secret=SECRET)
    worker = deliver(rig, sender, RetrySchedule((5,)))
    [again] = await posted(worker)
    assert (again["event"], again["log_level"], again["status"]) == ("delivery failed", "info", "pending")
    assert (again["attempts"], again["status_code"], again["error"]) == (1, 500, "status_500")
    assert (again["account_id"], again["webhook_id"]) == (str(customer.account_id), str(endpoint.id))
    assert again["next_attempt_at"] is not None
    rig.clock.advance(60)
    [last] = await posted(worker)
    assert (last["log_level"], last["status"], last["next_attempt_at"]) == ("warning", "failed", None)
    for line in (again, last):
        assert SECRET not in str(line)
        assert endpoint.url not in str(line)


async def test_a_delivery_that_succeeds_is_no_line(rig: PostgresRig) -> None:
    sender = Sender()
    await outbox(rig, 3, secret=SECRET)
    sender.attempt = GOOD
    assert await posted(deliver(rig, sender, RetrySchedule())) == []


async def test_an_endpoint_that_failures_disable_is_one_line(rig: PostgresRig) -> None:
    sender = Sender()
    _, endpoint = await outbox(rig, DISABLE_AFTER_FAILURES + 3, secret=SECRET)
    lines = await posted(deliver(rig, sender, RetrySchedule()))
    disabled = [line for line in lines if line["event"] == "webhook disabled"]
    assert len(lines) == DISABLE_AFTER_FAILURES + 3 + 1
    [line] = disabled
    assert (line["webhook_id"], line["log_level"]) == (str(endpoint.id), "warning")
    assert line["consecutive_failures"] == DISABLE_AFTER_FAILURES


async def test_each_endpoint_disabled_with_its_host_is_one_line(rig: PostgresRig) -> None:
    sender = Sender()
    customer, endpoint = await outbox(rig, 0, secret=SECRET)
    other = await register(rig, new_endpoint(customer, secret=SECRET))
    for number in range(DISABLE_AFTER_FAILURES // 2):
        await top_up(rig, customer, 5, f"more-{number}", KIND)
    worker = deliver(rig, sender, RetrySchedule((0,)))
    made = [await worker.post(one) for one in await worker.claim(100)]
    while made and made[-1].claimed.url != endpoint.url:
        made.insert(0, made.pop())
    with capture_own_logs() as lines:
        await worker.record(made[:-1])
        await worker.record(made[-1:])
    disabled = [line["webhook_id"] for line in lines if line["event"] == "webhook disabled"]
    assert sorted(disabled) == sorted([str(endpoint.id), str(other.id)])


async def test_a_failed_note_is_one_line_without_transcript_text() -> None:
    one = await note_scenario()
    one.harness.listener.is_deaf = True
    await one.ask()
    writing = one.harness.write_notes()
    with capture_own_logs() as lines:
        await one.work(evolve(writing, end=evolve(writing.end, on_failed=LOGGED.failed_note)))
    [line] = [each for each in lines if each["event"] == "note failed"]
    assert (line["fault"], line["note_id"]) == ("no_speech", str(one.note().id))
    assert (line["account_id"], line["log_level"]) == (str(one.note().account_id), "warning")


async def test_an_automatic_note_that_cannot_be_paid_is_one_line() -> None:
    one = await filmed_only(auto_notulen=True, credits=15)
    work = one.harness.work_on_recordings()
    with capture_own_logs() as lines:
        await evolve(work, queue=evolve(work.queue, on_failed=LOGGED.failed_note))()
    [line] = [each for each in lines if each["event"] == "note failed"]
    assert (line["fault"], line["note_id"]) == ("short_of_credits", str(one.note().id))


@pytest.mark.parametrize("with_notes", [None, True, False], ids=["expires", "notes", "recording"])
async def test_a_note_whose_recording_expires_or_is_deleted_is_one_line(with_notes: bool | None) -> None:
    one = await note_scenario()
    await one.ask()
    if with_notes is None:
        one.harness.clock.set(RECORDED_AT + RETENTION)
    expire = evolve(one.harness.process().recordings.expire, on_failed=LOGGED.failed_note)
    delete = evolve(one.harness.process().api.delete_recording, on_failed=LOGGED.failed_note)
    with capture_own_logs() as lines:
        for _ in range(2):
            await expire() if with_notes is None else await delete(
                one.harness.caller, one.recording.id, one.harness.request_key("d"), one.harness.now(),
                with_notes=with_notes,
            )  # fmt: skip
    [line] = [each for each in lines if each["event"] == "note failed"]
    assert (line["fault"], line["note_id"]) == ("recording_gone", str(one.note().id))


@pytest.mark.parametrize("is_swept", [True, False])
async def test_an_expired_lease_that_is_taken_over_is_one_line(is_swept: bool) -> None:
    harness = await ApplicationHarness().start()
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(4))(
            harness.caller, request(), harness.request_key("k"), harness.now()
        )
    harness.expire_leases()
    reconcile = evolve(harness.reconcile(), on_takeover=LOGGED.expired_lease)
    [meeting] = harness.meetings()
    with capture_own_logs() as lines:
        if is_swept:
            await reconcile.sweep()
        else:
            await reconcile.one(meeting.account_id, meeting.id)
    [line] = lines
    assert (line["event"], line["meeting_id"]) == ("expired lease taken over", str(meeting.id))
    with capture_own_logs() as lines:
        await reconcile.sweep()
    assert lines == []


@pytest.mark.parametrize("fault", [SandboxFault.REFUSE, SandboxFault.LOST])
@pytest.mark.parametrize("call", [SandboxCall.FIND, SandboxCall.REMOVE])
async def test_why_a_meeting_stays_in_progress_is_one_line_for_each_attempt(
    call: SandboxCall, fault: SandboxFault, harness: ApplicationHarness
) -> None:
    if call is SandboxCall.FIND:
        harness.faults.plan(SandboxCall.CREATE, SandboxFault.LOST)
        with pytest.raises(UpstreamError):
            await harness.make("k")
        [meeting] = harness.meetings()
    else:
        meeting = await harness.with_meeting()
        harness.faults.plan(call, SandboxFault.LOST)
        with pytest.raises(UpstreamError):
            await harness.call_off(meeting.id)
    reconcile = evolve(harness.reconcile(), on_left=LOGGED.left_meeting)
    for _ in range(2):
        harness.faults.plan(call, fault)
        harness.expire_leases()
        with capture_own_logs() as lines:
            assert await reconcile.sweep() == 0
        [line] = lines
        assert (line["event"], line["meeting_id"]) == ("meeting left in progress", str(meeting.id))
        assert line["account_id"] == str(meeting.account_id)
        assert line["fault"] == ("ProviderRefused" if fault is SandboxFault.REFUSE else "ProviderUnknown")
        assert line["cause"].startswith("sandbox: ")


async def test_a_note_of_a_worker_that_died_is_one_line() -> None:
    one = await note_scenario()
    await one.ask()
    writing = one.harness.write_notes(on_expired_lease=LOGGED.expired_note)
    for expired in range(2):
        worker = NoteWorker(writing, [])
        with capture_own_logs() as lines:
            await worker._claim()
            for work in worker._in_flight:
                work.cancel()  # as if the process ended: nothing is given back before it has begun
        taken_over = [line for line in lines if line["event"] == "expired lease taken over"]
        assert [line["expired"] for line in taken_over] == [expired] * bool(expired)
        one.harness.expire_leases()
    [task] = await writing.claim(1)
    await writing._give_back(task)
    with capture_own_logs() as lines:
        assert len(await writing.claim(1)) == 1
    assert lines == [], "a note that was given back has no expired lease"


async def test_a_delivery_of_a_worker_that_died_is_one_line(rig: PostgresRig) -> None:
    await outbox(rig, 1, secret=SECRET)
    worker = deliver(rig, Sender(), RetrySchedule())
    with capture_own_logs() as lines:
        [lost] = await worker.claim(100)
        rig.clock.advance(worker.lease_s + 1)
        [again] = await worker.claim(100)
    [line] = lines
    assert again.delivery_id == lost.delivery_id
    assert (line["event"], line["delivery_id"]) == ("expired lease taken over", str(lost.delivery_id))
    await worker.record([await worker.post(again)])
    rig.clock.advance(60)
    with capture_own_logs() as lines:
        assert len(await worker.claim(100)) == 1
    assert lines == [], "a delivery that is tried again has no expired lease"


async def test_a_recording_of_a_worker_that_died_is_one_line() -> None:
    one = await filmed_only()
    work = evolve(one.harness.work_on_recordings(), on_expired_lease=LOGGED.expired_recording)
    async with one.harness.store.at_once() as tx:
        [task] = await tx.recordings.claim(1, Lease(one.harness.caller.account.id, work.lease_s))
    one.harness.clock.advance(work.lease_s + 1)
    with capture_own_logs() as lines:
        await work()
    [line] = [each for each in lines if each["event"] == "expired lease taken over"]
    assert (line["recording_id"], line["tries"]) == (str(task.recording.id), 2)


async def test_a_mail_that_is_not_sent_is_one_line_and_a_warning_at_its_end() -> None:
    harness = await ApplicationHarness().start()
    link = SignInLink("https://meet.example/?token=SEALED", harness.now() + timedelta(days=1))
    async with harness.store.begin() as tx:
        queue = harness.process(sends_mails=True).mail_queue
        await queue.add(tx, [Recipient("dewi@example.com")], link, harness.caller.account.id)

    class Away:
        async def send(self, mail: OutgoingMail) -> None:
            raise MailUnavailable("451 4.7.1")

    schedule = RetrySchedule((60,))
    send = SendMails(harness.store, Away(), FakeMailTexts(), harness.runtime, schedule, LOGGED.failed_mail)
    with capture_own_logs() as lines:
        await send()
        harness.clock.advance(72)
        await send()
    again, last = lines
    assert (again["event"], again["log_level"], again["status"]) == ("mail not sent", "info", "pending")
    assert (last["log_level"], last["status"], last["attempts"]) == ("warning", "failed", 2)
    for line in lines:
        assert (line["error"], line["kind"]) == ("451 4.7.1", "sign_in_link")
        assert line["account_id"] == str(harness.caller.account.id)
        assert "dewi" not in str(line)
        assert "SEALED" not in str(line)


@pytest.mark.parametrize(("done", "level"), [
    (Maintained(made=("a",), ahead=4), "info"),
    (Maintained(ahead=4, is_busy=True), "info"),
    (Maintained(ahead=1, is_busy=True), "warning"),
])  # fmt: skip
def test_a_round_of_partitions_is_one_line_and_a_warning_where_somebody_has_to_look(
    done: Maintained, level: str
) -> None:
    with capture_own_logs() as lines:
        LOGGED.maintained_partitions(done)
    [line] = lines
    assert (line["event"], line["log_level"], line["ahead"]) == ("partitions", level, done.ahead)
    assert line["is_busy"] == done.is_busy
    assert line["made"] == list(done.made)


@pytest.mark.parametrize(("ahead", "expected"), [(0, ["partitions not looked after"]), (4, [])])
def test_a_role_that_can_do_nothing_is_logged_once_few_partitions_are_ahead(
    ahead: int, expected: list[str]
) -> None:
    with capture_own_logs() as lines:
        LOGGED.maintained_partitions(Maintained(ahead=ahead, refusal="not the owner"))
        LOGGED.maintained_partitions(Maintained(ahead=4))
    assert [line["event"] for line in lines] == expected


async def test_a_mail_of_a_worker_that_died_is_one_line() -> None:
    harness, report = await ApplicationHarness().start(), LOGGED.expired_mail
    link = SignInLink("https://meet.example/?token=SEALED", harness.now() + timedelta(days=1))
    async with harness.store.begin() as tx:
        queue = harness.process(sends_mails=True).mail_queue
        await queue.add(tx, [Recipient("dewi@example.com")], link, harness.caller.account.id)
        [lost] = await tx.mails.claim_due(1, Lease(harness.caller.account.id, 30.0))
    harness.clock.advance(31)
    send = SendMails(
        harness.store, FakeMailer(), FakeMailTexts(), harness.runtime, on_expired_lease=report
    )  # fmt: skip
    with capture_own_logs() as lines:
        await send()
    [line] = lines
    assert (line["event"], line["mail_id"]) == ("expired lease taken over", str(lost.mail.id))
    assert "dewi" not in str(line)


async def test_an_event_of_a_provider_whose_worker_died_is_one_line(rig: PostgresRig) -> None:
    id_ = await add_event(rig, provider_event())
    await claim_events(rig, seconds=-1)
    ports = evolve(ApplicationHarness().process().ports, clock=rig.clock, store=rig.store)
    handle = build(ports, Policy(), LOGGED).meetings.handle_events
    with capture_own_logs() as lines:
        await handle()
    [line] = [each for each in lines if each["event"] == "expired lease taken over"]
    assert (line["provider_event_id"], line["tries"]) == (str(id_), 2)


async def test_a_worker_whose_clock_is_ahead_gives_no_delivery_up(rig: PostgresRig) -> None:
    await outbox(rig, 1, secret=SECRET)
    ahead = Runtime(ManualClock(rig.clock.now() + timedelta(days=400)), SeededEntropy(5))
    worker = evolve(deliver(rig, Sender(), RetrySchedule()), runtime=ahead)
    with capture_own_logs() as lines:
        assert len(await worker.claim(1)) == 1
    assert lines == []


async def test_deliveries_that_end_without_an_attempt_are_one_line_each(rig: PostgresRig) -> None:
    _, endpoint = await outbox(rig, 2, secret=SECRET)
    worker = evolve(deliver(rig, Sender(), RetrySchedule()), events_kept=timedelta(days=30))
    await worker.claim(1)
    await save_endpoint(rig, pause(endpoint))
    rig.clock.advance(HELD_FOR.total_seconds() + 1)
    with capture_own_logs() as lines:
        await worker.sweep()
    [held] = lines
    await save_endpoint(rig, endpoint)
    await worker.sweep()
    rig.clock.advance(timedelta(days=31).total_seconds())
    with capture_own_logs() as lines:
        assert await worker.claim(100) == []
    [old] = lines
    assert (held["event"], held["log_level"], held["reason"]) == (
        "delivery given up", "warning", "held_too_long",
    )  # fmt: skip
    assert (old["event"], old["reason"]) == ("delivery given up", "past_retention")
    assert {held["webhook_id"], old["webhook_id"]} == {str(endpoint.id)}
    assert held["delivery_id"] != old["delivery_id"]


def test_writes_that_failed_together_are_one_line_with_their_fault() -> None:
    with capture_own_logs() as lines:
        LOGGED.failed_batch(FailedBatch("postings", 3, fault := RuntimeError("a constraint")))
    [line] = lines
    assert (line["event"], line["log_level"], line["what"], line["size"]) == (
        "batch failed", "error", "postings", 3,
    )  # fmt: skip
    assert line["exc_info"] is fault
