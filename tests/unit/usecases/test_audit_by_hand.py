"""What members do by hand is in the audit log, once for each form; what keys ask for is not."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve, frozen

from meetcore.domain.errors import ActionNotAllowed, Unprocessable
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.roles import Role
from meetcore.domain.webhooks.endpoints import EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.dashboard import DashboardUseCases
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.work_by_hand import SentForm
from tests.unit.usecases.access_harness import AccessHarness
from tests.unit.usecases.application import CrashPoint, SimulatedCrash, request

FROM = "192.0.2.7"


@frozen
class Desk:
    """A member at work: forms are sent from one address."""

    access: AccessHarness
    who: SignedIn

    @property
    def use(self) -> DashboardUseCases:
        return self.access.harness.process().dashboard

    def form(self, key: str) -> SentForm:
        return SentForm(key, self.access.harness.now(), FROM)

    def by_hand(self) -> list[AuditEntry]:
        return [entry for entry in self.access.log() if entry.client_address == FROM]

    async def register(self, key: str = "register") -> Outcome:
        url, kinds = "https://192.0.1.1/hooks?token=hidden", [EventKind.MEETING_CREATED]
        return await self.use.webhooks.register(self.who, url, kinds, None, self.form(key))

    async def create_meeting(self, key: str = "create") -> UUID:
        return id_of(await self.use.by_hand.create_meeting(self.who, request(), self.form(key)))


def id_of(outcome: Outcome) -> UUID:
    assert outcome.record is not None, outcome.refusal
    return UUID(str(outcome.record["id"]))


@pytest.fixture
async def desk() -> Desk:
    access = await AccessHarness().start()
    return Desk(access, await access.guest(Role.OWNER))


Step = Callable[[Desk, UUID, SentForm], Awaitable[object]]

STEPS: dict[str, Step] = {
    "webhook.changed": lambda desk, id_, form: desk.use.webhooks.change(
        desk.who, id_, EndpointChanges(is_active=False), form
    ),
    "webhook.secret_rotated": lambda desk, id_, form: desk.use.webhooks.rotate_secret(desk.who, id_, form),
    "webhook.test_sent": lambda desk, id_, form: desk.use.webhooks.send_test(desk.who, id_, form),
    "webhook.deliveries_recovered": lambda desk, id_, form: desk.use.webhooks.recover(
        desk.who, id_, desk.access.harness.now() - timedelta(hours=1), form
    ),
    "webhook.removed": lambda desk, id_, form: desk.use.webhooks.remove(desk.who, id_, form),
}


@pytest.mark.parametrize("action", STEPS)
async def test_a_form_that_is_sent_twice_has_one_entry(action: str, desk: Desk) -> None:
    endpoint_id = id_of(await desk.register())
    form = desk.form("step")
    for _ in range(2):
        await STEPS[action](desk, endpoint_id, form)
    registered, entry = desk.by_hand()
    assert (registered.action, registered.details) == ("webhook.registered", {"host": "192.0.1.1"})
    assert (entry.action, entry.target_id) == (action, str(endpoint_id))
    assert (entry.actor.id, entry.account_id) == (desk.who.session.id, desk.who.account.id)


async def test_a_delivery_that_is_sent_again_is_named(desk: Desk) -> None:
    endpoint_id = id_of(await desk.register())
    delivery_id = id_of(await desk.use.webhooks.send_test(desk.who, endpoint_id, desk.form("test")))
    for _ in range(2):
        await desk.use.webhooks.resend(desk.who, endpoint_id, delivery_id, desk.form("again"))
    entry = desk.by_hand()[-1]
    assert [each.action for each in desk.by_hand()[1:]] == ["webhook.test_sent", "webhook.delivery_resent"]
    assert (entry.target_id, entry.details["webhook_id"]) == (str(delivery_id), str(endpoint_id))


async def test_every_time_a_secret_is_shown_is_in_the_log_and_the_secret_is_not(desk: Desk) -> None:
    endpoint_id, now = id_of(await desk.register()), desk.access.harness.now()
    shown = [await desk.use.webhooks.show_secret(desk.who, endpoint_id, FROM, now) for _ in range(2)]
    assert [entry.action for entry in desk.by_hand()[1:]] == ["webhook.secret_shown"] * 2
    assert shown[0] is not None
    assert shown[0] not in repr(desk.access.log())
    dying = desk.access.harness.process(CrashPoint(2)).dashboard
    with pytest.raises(SimulatedCrash):
        await dying.webhooks.show_secret(desk.who, endpoint_id, FROM, now)
    assert len(desk.by_hand()) == 3, "nothing was shown without its entry"


async def test_a_meeting_made_and_cancelled_by_hand_has_an_entry_of_each(desk: Desk) -> None:
    meeting_id = await desk.create_meeting()
    assert await desk.create_meeting() == meeting_id
    for key in ("cancel", "cancel", "another form"):
        await desk.use.by_hand.cancel_meeting(desk.who, meeting_id, desk.form(key))
    assert [(each.action, each.target_id) for each in desk.by_hand()] == [
        ("meeting.created", str(meeting_id)), ("meeting.cancelled", str(meeting_id)),
    ]  # fmt: skip


async def test_a_meeting_that_runs_is_ended_with_one_entry_however_often_the_form_is_sent(desk: Desk) -> None:
    meeting_id, harness = await desk.create_meeting(), desk.access.harness
    (meeting,) = harness.meetings()
    harness.clock.advance((meeting.start_at - harness.now()).total_seconds() + 60)
    form = desk.form("end")
    dying = harness.process(CrashPoint(4)).dashboard
    with pytest.raises(SimulatedCrash):
        await dying.by_hand.cancel_meeting(desk.who, meeting_id, form)
    for _ in range(2):
        await desk.use.by_hand.cancel_meeting(desk.who, meeting_id, form)
    assert [each.action for each in desk.by_hand()] == ["meeting.created", "meeting.ended"]


async def test_no_meeting_is_without_its_entry_after_a_crash(desk: Desk) -> None:
    harness = desk.access.harness
    for at in range(1, 9):
        with pytest.raises(SimulatedCrash):
            await harness.process(CrashPoint(at)).dashboard.by_hand.create_meeting(
                desk.who, request(), desk.form(f"crash {at}")
            )
        assert len(desk.by_hand()) == len(harness.meetings())
        harness.expire_leases()
        await harness.reconcile().sweep()


async def test_what_is_refused_has_no_entry(desk: Desk) -> None:
    endpoint_id = id_of(await desk.register())
    assert (await desk.register("the same URL again")).refusal is not None
    viewer = await desk.access.guest(Role.VIEWER)
    for who, refusal in ((viewer, ActionNotAllowed), (suspended(desk.who), Unprocessable)):
        for step in STEPS.values():
            with pytest.raises(refusal):
                await step(evolve(desk, who=who), endpoint_id, desk.form("refused"))
    with pytest.raises(ActionNotAllowed):
        await desk.use.webhooks.show_secret(viewer, endpoint_id, FROM, desk.access.harness.now())
    await desk.access.harness.administration.adjust(desk.who.account.id, -95, "goodwill", "T-1")
    poor = await desk.use.by_hand.create_meeting(desk.who, request(), desk.form("too much"))
    assert poor.refusal is not None
    assert [entry.action for entry in desk.by_hand()] == ["webhook.registered"]


def suspended(who: SignedIn) -> SignedIn:
    return evolve(who, account=evolve(who.account, suspended_at=who.session.created_at))


async def test_what_a_key_asks_for_has_no_entry(desk: Desk) -> None:
    harness = desk.access.harness
    before = desk.access.log()
    made = await harness.create()(harness.caller, request(), harness.request_key("a"), harness.now())
    await harness.cancel()(harness.caller, id_of(made), harness.request_key("b"), harness.now())
    assert desk.access.log() == before
