"""The application as `build` makes it: which parts of the work it can do, by the ports that it has."""

import asyncio
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from attrs import evolve

from meetcore.adapters.worker.scheduler import Scheduler
from meetcore.composition import worker
from meetcore.composition.application import MailPorts, Part, build
from meetcore.composition.policy import Periods, Policy, Reports
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.requests.retention import Retention
from meetcore.ports.maintenance import Maintained
from meetcore.testing.clock import ManualClock
from meetcore.usecases.requests.erasure import Purge
from tests.support.fakes import FakeMailer, FakeMailTexts
from tests.unit.usecases.application import ApplicationHarness, request
from tests.unit.usecases.fakes import recorded
from tests.unit.usecases.note_scenario import NoteScenario, note_asked


async def test_an_application_without_a_workers_ports_repeats_nothing(harness: ApplicationHarness) -> None:
    application = build(evolve(harness.process().ports, notes=None), Policy())
    assert application.deliver is None
    assert application.notes is None
    tasks = application.periodic_tasks
    assert (tasks[Part.WEBHOOKS], tasks[Part.NOTES]) == ((), ())
    assert [(task.name, task.every_s) for task in tasks[Part.API]] == [("key uses", 60.0), ("requests", 1.0)]


async def test_each_part_has_its_tasks_with_the_periods_of_the_policy(harness: ApplicationHarness) -> None:
    ports = evolve(harness.process().ports, sender=cast(Any, object()))
    periods = Periods(deliveries_s=2.0, notes_s=3.0, sweep_s=5.0, expiry_s=7.0)
    application = build(ports, Policy(periods=periods))
    workers = worker._workers(application)
    assert [workers[part]._round_s for part in (Part.WEBHOOKS, Part.NOTES)] == [2.0, 3.0]
    webhooks, notes = (application.periodic_tasks[part] for part in (Part.WEBHOOKS, Part.NOTES))
    assert {task.name: task.every_s for task in webhooks} == {
        "sweep": 5.0, "reconcile": 5.0, "orphans": 5.0, "keep time": 5.0, "host keys": 5.0,
        "provider events": 1.0, "purge": 60.0, "sign-ins": 60.0, "maintenance": 60.0,
        "erasures": 60.0, "grants": 60.0,
    }  # fmt: skip
    assert {task.name: task.every_s for task in notes} == {"recordings": 1.0, "expiry": 7.0}
    assert {task.name for task in (*webhooks, *notes) if task.runs_on_notify} == {
        "provider events", "recordings",
    }  # fmt: skip


async def test_a_file_that_comes_slowly_delays_no_other_recording() -> None:
    harness = await ApplicationHarness(hosts=2).start()
    for _ in range(2):
        await harness.make(with_recording=True)
    slow, other = [NoteScenario(harness, meeting) for meeting in harness.meetings()]
    opened, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        opened.set()
        await may_go_on.wait()

    harness.fault_plan.at_next("open audio", wait)
    tasks = [task for task in harness.process().periodic_tasks[Part.NOTES] if task.name == "recordings"]
    scheduler = Scheduler(tasks, lambda: None)
    await slow.record(recorded("slow"))
    running = asyncio.create_task(scheduler.run())
    async with asyncio.timeout(20):
        await opened.wait()
        await other.record(recorded("other"))
        scheduler.notify()
        while RecordingStatus.AVAILABLE not in {  # noqa: ASYNC110  # its event has no waiter
            one.status for one in harness.recordings()
        }:
            await asyncio.sleep(0.01)
        may_go_on.set()
        scheduler.stop()
        await running


async def test_a_process_that_lacks_the_packages_for_notes_reports_those_that_stay_due() -> None:
    one = await note_asked()
    ports = evolve(one.harness.process().ports, notes=None, lacks_notes=True)
    reports: list[str] = []
    application = build(ports, Policy(), Reports(overdue_notes=lambda: reports.append("overdue")))
    (task,) = application.periodic_tasks[Part.WEBHOOKS]
    assert (task.name, task.every_s, application.notes) == ("overdue notes", 60.0, None)
    for seconds, expected in ((59, []), (1, ["overdue"])):
        one.harness.clock.advance(seconds)
        await task.work()
        assert reports == expected


async def test_mails_are_sent_by_the_workers_of_webhooks_where_there_is_a_mail_server() -> None:
    harness = await ApplicationHarness().start()
    mails = MailPorts(FakeMailer(), FakeMailTexts())
    application = build(evolve(harness.process().ports, mails=mails), Policy(sends_mails=True))
    task, statements = application.periodic_tasks[Part.WEBHOOKS]
    assert (task.name, task.runs_on_notify, await task.work()) == ("mails", True, False)
    assert (statements.name, statements.every_s, await statements.work()) == ("statement mails", 60.0, None)
    assert application.mail_queue.is_on


async def test_every_task_runs_on_an_empty_store(harness: ApplicationHarness) -> None:
    ports = evolve(harness.process().ports, sender=cast(Any, object()))
    for tasks in build(ports, Policy()).periodic_tasks.values():
        for task in tasks:
            await task.work()
            assert not await task.work(), f"{task.name} leaves nothing to do"


async def test_a_process_whose_clock_is_ahead_removes_nothing_before_its_time() -> None:
    meeting = await (harness := ApplicationHarness()).with_meeting(auto_notulen=True)
    harness.clock.set(meeting.end_at)
    scenario = NoteScenario(harness, meeting)
    await scenario.record(recorded("rapat", 60.0))
    await scenario.measure()
    await scenario.ask()
    await scenario.finish()
    await harness.rig.rows("UPDATE meetings SET due_at = NULL")
    assert len(harness.notes()) == 1
    harness.rig.write(
        "INSERT INTO account_creations SELECT a.id, %(day)s, h.id, 1 FROM accounts a, hosts h LIMIT 1",
        day=harness.now().date(),
    )
    rounds: list[datetime | None] = []

    async def maintain(now: datetime | None, kept: timedelta) -> Maintained:
        rounds.append(now)
        return Maintained()

    ports = evolve(
        harness.process().ports, clock=ManualClock(harness.now() + timedelta(days=400)),
        sender=cast(Any, object()), partitions=cast(Any, SimpleNamespace(maintain=maintain)),
    )  # fmt: skip
    application = build(ports, Policy(retention=Retention(note_days=365)))
    tasks = {task.name: task for task in application.periodic_tasks[Part.WEBHOOKS]}
    for name in ("retention", "partitions", "purge"):
        await tasks[name].work()
    assert (len(harness.notes()), rounds) == (1, [None]), "the store's own time counts"
    assert harness.count("account_creations") == 1


async def test_what_is_past_its_time_is_purged(harness: ApplicationHarness) -> None:
    create = harness.create()
    await create(harness.caller, request(), harness.request_key("k"), harness.now())
    ports = harness.process().ports
    purge = Purge(ports.housekeeping)
    await purge()
    assert harness.count("idempotency_keys") == 1
    harness.clock.advance(25 * 3600)
    await purge()
    assert harness.count("idempotency_keys") == 0
