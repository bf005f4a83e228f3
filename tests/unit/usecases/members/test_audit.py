"""The audit log: one entry for each change, in its transaction, and none for what keys ask for."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve, frozen

from meetcore.adapters.sandbox import SandboxMeetingState
from meetcore.domain.errors import ActionNotAllowed, NotFound, Unprocessable
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind, AuditEntry
from meetcore.domain.members.roles import Role
from meetcore.domain.members.views import SignedIn
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.retention import ERASED
from meetcore.domain.webhooks.endpoints import EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.members.dashboard import DashboardUseCases, SentForm
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.requests.idempotency import Outcome
from tests.unit.usecases.access_harness import AccessHarness
from tests.unit.usecases.application import (
    ApplicationHarness,
    CrashPoint,
    SimulatedCrash,
    crash_points,
    request,
)

OPERATOR = ActionOrigin(Actor(ActorKind.OPERATOR, UUID(int=7), "ops@example.com"), "192.0.2.1", True)

Change = Callable[[Administration, ApplicationHarness], Awaitable[object]]


def log_of(harness: ApplicationHarness) -> list[AuditEntry]:
    return harness.audit_log()


def host_of(harness: ApplicationHarness) -> UUID:
    host_id: UUID = harness.read("SELECT id FROM hosts")[0]["id"]
    return host_id


CHANGES: dict[str, Change] = {
    "account.threshold_changed": lambda act, on: act.set_low_threshold(on.caller.account.id, 7),
    "account.suspended": lambda act, on: act.suspend_account(on.caller.account.id),
    "account.resumed": lambda act, on: act.resume_account(on.caller.account.id),
    "credits.topped_up": lambda act, on: act.top_up(on.caller.account.id, 5, "INV-1"),
    "credits.adjusted": lambda act, on: act.adjust(on.caller.account.id, -5, "goodwill", "T-1"),
    "key.cap_changed": lambda act, on: act.keys.set_daily_cap(on.caller.key.id, 70),
    "key.revoked": lambda act, on: act.keys.revoke(on.caller.key.id),
    "host.disabled": lambda act, on: act.hosts.disable(host_of(on)),
    "host.enabled": lambda act, on: act.hosts.enable(host_of(on)),
}
BEFORE = {"account.resumed": "account.suspended", "host.enabled": "host.disabled"}


@pytest.mark.parametrize("action", CHANGES)
async def test_a_change_has_one_entry_and_the_same_change_again_none(action: str) -> None:
    harness = await ApplicationHarness().start()
    administration = harness.administration.acting_as(OPERATOR)
    if first := BEFORE.get(action):
        await CHANGES[first](administration, harness)
    before = len(log_of(harness))
    for _ in range(2):
        await CHANGES[action](administration, harness)
    (entry,) = log_of(harness)[before:]
    assert (entry.action, entry.at, entry.actor) == (action, harness.now(), OPERATOR.actor)
    assert (entry.client_address, entry.is_impersonated) == ("192.0.2.1", True)
    is_host = action.startswith("host.")
    assert entry.account_id == (None if is_host else harness.caller.account.id)


async def test_the_entries_of_new_records_name_them_and_hold_no_secret(harness: ApplicationHarness) -> None:
    minted = await harness.administration.keys.create(harness.caller.account.id, [Scope.CREDITS_READ], 9)
    opened, topped_up, first_key, host, key = log_of(harness)
    assert [each.action for each in (opened, topped_up, first_key, host)] == [
        "account.created", "credits.topped_up", "key.created", "host.added",
    ]  # fmt: skip
    assert topped_up.details["amount"] == 100
    assert (key.target_id, key.details) == (
        str(minted.key.id),
        {"name": "API key", "scopes": "credits:read", "daily_cap": 9, "expires_at": None},
    )
    assert minted.text not in repr(log_of(harness))
    assert (key.actor.kind, key.actor.name) == (ActorKind.SYSTEM, "meetcore")


async def test_a_roll_names_the_old_key_and_the_new_one(harness: ApplicationHarness) -> None:
    key = harness.caller.key
    minted, _ = await harness.administration.acting_as(OPERATOR).keys.roll(key.id, 5)
    entry = log_of(harness)[-1]
    assert (entry.action, entry.account_id, entry.target_id) == ("key.rolled", key.account_id, str(key.id))
    assert entry.details == {"overlap_h": 5, "new_key_id": str(minted.key.id)}
    assert minted.text not in repr(entry)


async def test_a_crash_leaves_both_the_change_and_its_entry_or_none() -> None:
    for point in crash_points():
        harness = await ApplicationHarness(credits=100).start()
        before = len(log_of(harness))
        with suppress(SimulatedCrash):
            await harness.process(point).administration.top_up(harness.caller.account.id, 5, "INV-1")
        assert len(log_of(harness)) - before == len(harness.entries()) - 1


async def test_an_account_is_opened_with_its_credits_or_not_at_all(harness: ApplicationHarness) -> None:
    with pytest.raises(SimulatedCrash):
        await harness.process(CrashPoint(2)).administration.create_account("c@example.com", "C", 5)
    assert harness.count("accounts") == 1


async def test_what_was_refused_has_no_entry(harness: ApplicationHarness) -> None:
    before = log_of(harness)
    unknown = UUID(int=7)
    for change in (
        harness.administration.suspend_account, harness.administration.resume_account,
        harness.administration.keys.revoke, harness.administration.hosts.disable,
        harness.administration.hosts.enable,
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await change(unknown)
    with pytest.raises(NotFound):
        await harness.administration.keys.create(unknown, list(Scope))
    assert log_of(harness) == before


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


async def test_titles_of_meetings_are_shown_until_they_are_erased_and_not_written(desk: Desk) -> None:
    await desk.use.by_hand.cancel_meeting(desk.who, await desk.create_meeting(), desk.form("cancel"))
    harness, account_id = desk.access.harness, desk.who.account.id

    async def titles() -> list[object]:
        found = await harness.process().dashboard.settings.list_audit_entries(desk.who, 9, None)
        return [each.details["title"] for each in found if each.action.startswith("meeting.")]

    assert await titles() == [request().title] * 2
    assert not harness.read("SELECT id FROM audit_log WHERE details ? 'title'")
    erasing = harness.process().account_data.erase
    await erasing(account_id)
    await erasing.work_on(account_id)
    assert await titles() == [ERASED] * 2


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


async def test_a_session_before_the_start_is_ended_and_the_entry_says_so(desk: Desk) -> None:
    meeting_id, harness = await desk.create_meeting(), desk.access.harness
    (meeting,) = harness.meetings()
    name, now = str(meeting.provider_meeting_id), harness.now()
    await harness.sandbox.state.put(name, SandboxMeetingState.STARTED)
    started = ProviderEvent(
        "sandbox", ProviderEventKind.MEETING_STARTED, name, now, session=Session(f"{name}-1", now)
    )
    await harness.process().meetings.track(started, now)
    outcome = await desk.use.by_hand.cancel_meeting(desk.who, meeting_id, desk.form("end"))
    assert outcome.record == {"id": str(meeting_id), "status": "ended", "credits_refunded": 0}
    assert [each.action for each in desk.by_hand()] == ["meeting.created", "meeting.ended"]


async def test_no_meeting_is_without_its_entry_after_a_crash(desk: Desk) -> None:
    harness = desk.access.harness
    for at in range(1, 9):
        await harness.administration.hosts.add(f"host of {at}", 100)
        with pytest.raises(SimulatedCrash):
            await harness.process(CrashPoint(at)).dashboard.by_hand.create_meeting(
                desk.who, request(), desk.form(f"crash {at}")
            )
        assert len(desk.by_hand()) == len(harness.meetings())
        await harness.recover()


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
    made = await harness.make("a")
    await harness.cancel()(harness.caller, id_of(made), harness.request_key("b"), harness.now())
    assert desk.access.log() == before
