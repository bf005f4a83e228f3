"""The console's pages of health and prices over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.composition.application import Application
from meetcore.composition.health import health_checks
from meetcore.domain.members.roles import OperatorRole
from meetcore.ports.health import HealthCheck, HealthStatus, QueueName
from meetcore.usecases.console_health import ConsoleHealth
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import SignIn, who_is

HEALTH = "/console/health"


async def test_the_page_of_a_service_that_is_well(sign_in: SignIn) -> None:
    page = (await (await sign_in(OperatorRole.SUPPORT)).get(HEALTH)).text
    for name in ("database", "schema", "clock", "broker", "rate_store", "provider", "mail", "secrets"):
        assert f"<code>{name}</code>" in page, name
    assert "of this release" in page
    assert "too far apart" not in page
    assert "postgresql://" not in page


async def test_a_queue_that_waits_too_long_is_late_and_says_what_to_do(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in()
    # This service sends no mails, so that nothing takes it meanwhile.
    [mail] = await harness.query(
        "INSERT INTO mails "
        "(id, account_id, recipient, kind, language, content, created_at, due_at, attempts_made) "
        "VALUES (gen_random_uuid(), %s, 'a@example.com', 'low_credits', 'id', 'x', now(), "
        "now() - interval '1 hour', 0) RETURNING id",
        customer.account_id,
    )
    try:
        page = (await browser.get(HEALTH)).text
    finally:
        await harness.query("DELETE FROM mails WHERE id = %s RETURNING id", mail["id"])
    assert "needs attention" in page
    assert "the mail server does not take them" in page
    assert "the mail server does not take them" not in (await browser.get(HEALTH)).text


async def test_checks_are_run_once_for_many_looks(application: Application, sign_in: SignIn) -> None:
    calls: list[datetime] = []

    async def check() -> Sequence[HealthCheck]:
        calls.append(datetime.now(UTC))
        return [HealthCheck("broker", HealthStatus.FAILED, "no answer")]

    who = await who_is(application, await sign_in())
    health = ConsoleHealth(application.ports.queries, check, application.runtime)
    first, second = [await health.look(who) for _ in range(2)]
    assert first.checked_at == second.checked_at
    assert len(calls) == 1
    assert not first.is_well
    assert {each.queue.name for each in first.queues} == set(QueueName)
    assert evolve(first, clock_difference=timedelta(seconds=-3)).has_clock_difference
    assert evolve(first, oldest_transaction=timedelta(minutes=6)).has_old_transaction


async def test_mails_that_go_to_an_inbox_are_well_and_mails_that_go_nowhere_are_not(
    service_settings: Settings,
) -> None:
    for has_inbox, status in ((True, HealthStatus.OK), (False, HealthStatus.WARNING)):
        found = {each.name: each for each in await health_checks(service_settings, has_inbox=has_inbox)()}
        assert ("inbox of this process" in found["mail"].message) == has_inbox
        assert found["mail"].status is status
        assert found["schema"].status is HealthStatus.OK


async def test_prices_are_those_in_force(application: Application, sign_in: SignIn) -> None:
    page = (await (await sign_in(OperatorRole.FINANCE)).get("/console/prices")).text
    for tier in application.policy.catalogue.on_sale():
        assert tier.id in page
        assert f"{tier.credits + tier.recording_credits:,}" in page
    assert "for each started minute" in page
