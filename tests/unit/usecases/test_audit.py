"""Changes and their audit entries: one each, in the same transaction, none for what changed nothing."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from meetcore.domain.errors import NotFound
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind, AuditEntry
from meetcore.domain.requests.keys import Scope
from meetcore.usecases.administration import Administration
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash

OPERATOR = ActionOrigin(Actor(ActorKind.OPERATOR, UUID(int=7), "ops@example.com"), "192.0.2.1", True)

Change = Callable[[Administration, ApplicationHarness], Awaitable[object]]


def log_of(harness: ApplicationHarness) -> list[AuditEntry]:
    return list(harness.state.committed.audit_log.values())


def host_of(harness: ApplicationHarness) -> UUID:
    return next(iter(harness.state.committed.hosts))


CHANGES: dict[str, Change] = {
    "account.threshold_changed": lambda act, on: act.set_low_threshold(on.caller.account.id, 7),
    "account.suspended": lambda act, on: act.suspend_account(on.caller.account.id),
    "account.resumed": lambda act, on: act.resume_account(on.caller.account.id),
    "credits.topped_up": lambda act, on: act.top_up(on.caller.account.id, 5, "INV-1"),
    "credits.adjusted": lambda act, on: act.adjust(on.caller.account.id, -5, "goodwill", "T-1"),
    "key.cap_changed": lambda act, on: act.set_daily_cap(on.caller.key.id, 70),
    "key.revoked": lambda act, on: act.revoke_key(on.caller.key.id),
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


async def test_the_entries_of_new_records_name_them_and_hold_no_secret() -> None:
    harness = await ApplicationHarness().start()
    minted = await harness.administration.create_key(harness.caller.account.id, [Scope.CREDITS_READ], 9)
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


async def test_a_roll_names_the_old_key_and_the_new_one() -> None:
    harness = await ApplicationHarness().start()
    key = harness.caller.key
    minted, _ = await harness.administration.acting_as(OPERATOR).roll_key(key.id, 5)
    entry = log_of(harness)[-1]
    assert (entry.action, entry.account_id, entry.target_id) == ("key.rolled", key.account_id, str(key.id))
    assert entry.details == {"overlap_h": 5, "new_key_id": str(minted.key.id)}
    assert minted.text not in repr(entry)


@pytest.mark.parametrize("at", range(1, 4))
async def test_a_crash_leaves_both_the_change_and_its_entry_or_none(at: int) -> None:
    harness = await ApplicationHarness(credits=100).start()
    before = len(log_of(harness))
    dying = harness.process(CrashPoint(at)).administration
    with pytest.raises(SimulatedCrash):
        await dying.top_up(harness.caller.account.id, 5, "INV-1")
    assert len(log_of(harness)) - before == len(harness.entries()) - 1


async def test_an_account_is_opened_with_its_credits_or_not_at_all() -> None:
    harness = await ApplicationHarness().start()
    with pytest.raises(SimulatedCrash):
        await harness.process(CrashPoint(2)).administration.create_account("c@example.com", "C", 5)
    assert len(harness.state.committed.accounts) == 1


async def test_what_was_refused_has_no_entry() -> None:
    harness = await ApplicationHarness().start()
    before = log_of(harness)
    unknown = UUID(int=7)
    for change in (
        harness.administration.suspend_account, harness.administration.resume_account,
        harness.administration.revoke_key, harness.administration.hosts.disable,
        harness.administration.hosts.enable,
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await change(unknown)
    with pytest.raises(NotFound):
        await harness.administration.create_key(unknown, list(Scope))
    assert log_of(harness) == before
