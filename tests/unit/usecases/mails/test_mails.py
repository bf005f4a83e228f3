"""Mails: queued with the change, sent once, never lost, given up by the schedule."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from attrs import define, evolve, field

from meetcore.domain.mails.contents import EndpointDisabled, MailKind, SignInLink
from meetcore.domain.mails.mails import EXPIRED, Mail, MailStatus, Recipient
from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.money.ledger import CreditsFellLow
from meetcore.domain.notes.notes import Language
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, Endpoint, EndpointState, pause
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import new_secret
from meetcore.ports.mails import MailRefused, MailUnavailable
from meetcore.ports.webhook_sender import OutgoingPost
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.mails import FAULT, UNREADABLE, CreditMails, MailQueue, SendMails
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.deliver import DeliverWebhooks
from tests.support.fakes import FakeMailer, FakeMailTexts
from tests.support.outbox import BAD
from tests.support.postgres_rig import PostgresRig, stored_mails
from tests.support.records import put_member
from tests.support.transactions import KIND, new_endpoint, open_customer, register, save_endpoint, top_up
from tests.unit.usecases.application import (
    ApplicationHarness,
    CrashPoint,
    DyingStore,
    SimulatedCrash,
    crash_points,
)

SECRET = new_secret(bytes(32))
DEWI = Recipient("dewi@example.com")


@define(slots=False)
class ScriptedMailer:
    """A mail server that fails as often as it is set to, and a process that dies at a point of sending."""

    errors: list[Exception] = field(factory=list)
    crash_point: CrashPoint = field(factory=CrashPoint)
    mailbox: FakeMailer = field(factory=FakeMailer)

    async def send(self, mail: OutgoingMail) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.crash_point.pass_point()
        await self.mailbox.send(mail)
        self.crash_point.pass_point()


@define(slots=False)
class Desk:
    """An application with a queue and a sender of mails."""

    harness: ApplicationHarness
    mailer: ScriptedMailer = field(factory=ScriptedMailer)
    reported: list[Mail] = field(factory=list)

    @property
    def queue(self) -> MailQueue:
        return self.harness.process(sends_mails=True).mail_queue

    def send(self, crash_point: CrashPoint | None = None, **changes: Any) -> SendMails:
        store = self.harness.store
        if crash_point is not None:
            self.mailer.crash_point = crash_point
            store = DyingStore(store, crash_point)
        made = SendMails(store, self.mailer, FakeMailTexts(), self.harness.runtime)
        return evolve(made, on_failed=self.reported.append, **changes)

    async def add(self, *recipients: Recipient, lasts: timedelta = timedelta(days=2)) -> int:
        link = SignInLink("https://meet.example/?token=secret", self.harness.now() + lasts)
        async with self.harness.store.begin() as tx:
            return await self.queue.add(tx, recipients or (DEWI,), link)

    def mails(self) -> list[Mail]:
        return self.harness.mails()

    def advance(self, seconds: float) -> None:
        self.harness.clock.advance(seconds)


@pytest.fixture
async def desk() -> Desk:
    return Desk(await ApplicationHarness().start())


async def test_a_mail_is_sent_once_and_its_link_is_erased(desk: Desk) -> None:
    assert await desk.add() == 1
    await desk.send()()
    await desk.send()()
    (sent,) = desk.mailer.mailbox.mails
    assert "https://meet.example/?token=secret" in sent.text
    (mail,) = desk.mails()
    assert (mail.id, mail.status, mail.content) == (sent.id, MailStatus.SENT, None)
    assert desk.reported == []


async def test_without_a_mail_server_nothing_is_queued(desk: Desk) -> None:
    queue = evolve(desk.queue, is_on=False)
    async with desk.harness.store.begin() as tx:
        link = SignInLink("https://meet.example/", desk.harness.now())
        assert await queue.add(tx, [DEWI], link) == 0
    assert desk.mails() == []
    assert not desk.harness.process().mail_queue.is_on


async def test_many_mails_go_in_batches(desk: Desk) -> None:
    await desk.add(*(Recipient(f"dewi{number}@example.com") for number in range(5)))
    rounds = 1
    while await desk.send(in_flight=2)():
        rounds += 1
    assert rounds == 3
    assert len(desk.mailer.mailbox.mails) == 5


@define
class SlowMailer:
    """A mail server that has a mail, and says so later."""

    mailbox: FakeMailer
    has_mail: asyncio.Event = field(factory=asyncio.Event)
    answers: asyncio.Event = field(factory=asyncio.Event)

    async def send(self, mail: OutgoingMail) -> None:
        await self.mailbox.send(mail)
        self.has_mail.set()
        await self.answers.wait()


async def test_a_mail_that_is_being_sent_while_the_worker_stops_is_not_sent_again(desk: Desk) -> None:
    await desk.add()
    slow = SlowMailer(desk.mailer.mailbox)
    sending = asyncio.create_task(evolve(desk.send(), mailer=slow)())
    await slow.has_mail.wait()
    sending.cancel()
    asyncio.get_running_loop().call_later(0.01, slow.answers.set)
    with suppress(asyncio.CancelledError):
        await sending
    desk.advance(60)
    await desk.send()()
    assert len(desk.mailer.mailbox.mails) == 1


async def test_a_mail_waits_while_the_server_is_away_and_has_one_id(desk: Desk) -> None:
    await desk.add()
    desk.mailer.errors = [MailUnavailable("connect"), MailUnavailable("451 4.7.1")]
    await desk.send()()
    (mail,) = desk.mails()
    assert mail.due_at is not None
    assert mail.due_at - desk.harness.now() >= timedelta(seconds=60)
    await desk.send()()
    assert len(desk.mailer.errors) == 1, "it is not due yet"
    for wait_s in (72, 360):
        desk.advance(wait_s)
        await desk.send()()
    assert [one.id for one in desk.mailer.mailbox.mails] == [mail.id]
    assert [one.last_error for one in desk.reported] == ["connect", "451 4.7.1"]


async def test_a_mail_is_given_up_after_the_schedule(desk: Desk) -> None:
    await desk.add()
    desk.mailer.errors = [MailUnavailable("timeout") for _ in range(6)]
    for _ in range(8):
        await desk.send()()
        desk.advance(8 * 3600 if desk.mails()[0].attempts_made == 5 else 7200 * 1.2)
    (mail,) = desk.mails()
    assert (mail.status, mail.attempts_made, mail.last_error) == (MailStatus.FAILED, 6, "timeout")
    assert desk.mailer.mailbox.mails == ()


async def test_what_the_server_refuses_for_ever_is_not_tried_again(desk: Desk) -> None:
    await desk.add()
    desk.mailer.errors = [MailRefused("550 5.1.1")]
    await desk.send()()
    (mail,) = desk.mails()
    assert (mail.status, mail.content, mail.last_error) == (MailStatus.FAILED, None, "550 5.1.1")


async def test_a_mail_that_does_not_open_is_given_up_after_the_schedule(desk: Desk) -> None:
    await desk.add(lasts=timedelta(days=2))
    desk.harness.rig.write("UPDATE mails SET content = %(broken)s", broken=b"\x01 nothing that opens")
    for wait_s in (0, 72, 360, 2160, 8640, 8 * 3600):
        desk.advance(wait_s)
        await desk.send()()
    assert [(one.status, one.last_error) for one in desk.reported] == [
        *[(MailStatus.PENDING, UNREADABLE)] * 5, (MailStatus.FAILED, UNREADABLE),
    ]  # fmt: skip
    (mail,) = desk.mails()
    assert (mail.due_at, mail.content) == (None, None)
    assert desk.mailer.mailbox.mails == ()


async def test_an_expired_link_is_not_sent(desk: Desk) -> None:
    await desk.add(lasts=timedelta(minutes=15))
    desk.advance(15 * 60)
    await desk.send()()
    (mail,) = desk.mails()
    assert (mail.status, mail.content, mail.last_error) == (MailStatus.FAILED, None, EXPIRED)
    assert desk.mailer.mailbox.mails == ()
    assert desk.reported == [mail]


async def test_a_defect_is_raised_and_the_mail_is_tried_again(desk: Desk) -> None:
    await desk.add()
    desk.mailer.errors = [ZeroDivisionError()]
    with pytest.raises(ExceptionGroup):
        await desk.send()()
    (mail,) = desk.mails()
    assert (mail.attempts_made, mail.last_error) == (1, FAULT)
    desk.advance(72)
    await desk.send()()
    assert len(desk.mailer.mailbox.mails) == 1


async def test_a_worker_that_dies_anywhere_loses_no_mail() -> None:
    for point in crash_points():
        desk = Desk(await ApplicationHarness().start())
        await desk.add()
        with suppress(SimulatedCrash):
            await desk.send(point)()
        desk.advance(30)
        await desk.send()()
        sent = {one.id for one in desk.mailer.mailbox.mails}
        assert len(sent) == 1, "one Message-ID, however often"
        assert len(desk.mailer.mailbox.mails) == (2 if point.at in (5, 6, 7) else 1)
        assert desk.mails()[0].status is MailStatus.SENT


async def test_a_worker_that_lost_its_claim_records_nothing(desk: Desk) -> None:
    await desk.add()
    slow = desk.send()

    async def overtaken(mail: OutgoingMail) -> None:
        desk.advance(31)
        await desk.send()()
        raise MailRefused("550")

    class Overtaken:
        send = staticmethod(overtaken)

    await evolve(slow, mailer=Overtaken())()
    (mail,) = desk.mails()
    assert (mail.status, mail.last_error) == (MailStatus.SENT, None)
    assert desk.reported == []


class Refuses:
    """A receiver that refuses every post."""

    async def post(self, _: OutgoingPost) -> Any:
        return BAD


async def disabled(rig: PostgresRig, *, is_on: bool) -> list[Mail]:
    """Fail at every endpoint until all are disabled; return the mails that are waiting."""
    runtime = Runtime(rig.clock, SeededEntropy(5))
    queue = MailQueue(runtime, "https://meet.example", is_on=is_on)
    deliver = DeliverWebhooks(rig.store, Refuses(), RetrySchedule((5,) * 30), runtime, mails=queue)
    for _ in range(DISABLE_AFTER_FAILURES + 1):
        await deliver.record([await deliver.post(one) for one in await deliver.claim(100)])
        rig.clock.advance(60)
    assert rig.read("SELECT 1 FROM webhook_endpoints WHERE state = 'active'") == []
    return stored_mails(rig)


async def test_disabled_endpoints_of_an_account_are_one_mail(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    owner = await put_member(rig, customer.account_id)
    rig.write("UPDATE users SET language = 'en' WHERE id = %(id)s", id=owner.id)
    rig.write("UPDATE accounts SET full_name = 'Koperasi Maju' WHERE id = %(id)s", id=customer.account_id)
    one = await register(rig, new_endpoint(customer, url="https://hooks.example/a?key=k", secret=SECRET))
    other = await register(rig, new_endpoint(customer, secret=SECRET))
    await top_up(rig, customer, 5, "t", KIND)
    (mail,) = await disabled(rig, is_on=True)
    assert (mail.account_id, mail.recipient) == (customer.account_id, owner.email)
    assert mail.language is Language.ENGLISH, "the owner's, not that of the service"
    assert isinstance(mail.content, EndpointDisabled)
    assert set(mail.content.urls) == {"https://hooks.example/a", other.url}
    assert one.url not in mail.content.urls, "a query can hold a secret"
    assert mail.content.failures == DISABLE_AFTER_FAILURES
    assert mail.content.account_name == "Koperasi Maju", "the recipient may belong to several accounts"
    assert mail.content.page_url == "https://meet.example/dashboard/webhooks"


async def test_a_member_of_many_accounts_gets_the_news_of_each(rig: PostgresRig) -> None:
    queue = MailQueue(Runtime(rig.clock, SeededEntropy(5)), "https://meet.example", is_on=True)
    user, accounts = None, 11
    for _ in range(accounts):
        customer = await open_customer(rig)
        user = await put_member(rig, customer.account_id, user=user)
        async with rig.store.begin() as tx:
            low = CreditsFellLow(customer.account_id, 5, 100)
            assert await CreditMails(queue).low(tx, low) == 1
    assert len([mail for mail in stored_mails(rig) if mail.kind is MailKind.LOW_CREDITS]) == accounts


async def test_an_endpoint_that_a_post_in_flight_disables_after_it_was_paused_is_one_mail(rig: PostgresRig):
    customer = await open_customer(rig)
    owner = await put_member(rig, customer.account_id)
    endpoint = await register(
        rig, new_endpoint(customer, secret=SECRET, consecutive_failures=DISABLE_AFTER_FAILURES - 1)
    )
    await top_up(rig, customer, 5, "t", KIND)
    runtime, reported = Runtime(rig.clock, SeededEntropy(5)), list[Endpoint]()
    mails = MailQueue(runtime, "https://meet.example", is_on=True)
    deliver = DeliverWebhooks(
        rig.store, Refuses(), RetrySchedule(), runtime, mails=mails, on_disabled=reported.append
    )
    made = [await deliver.post(one) for one in await deliver.claim(100)]
    await save_endpoint(rig, pause(endpoint))
    await deliver.record(made)
    assert [(one.id, one.state) for one in reported] == [(endpoint.id, EndpointState.DISABLED)]
    assert [one.recipient for one in stored_mails(rig)] == [owner.email]


async def test_a_disabled_endpoint_is_no_mail_where_no_mail_server_is_named(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    await register(rig, new_endpoint(customer, secret=SECRET))
    await top_up(rig, customer, 5, "t", KIND)
    assert await disabled(rig, is_on=False) == []
