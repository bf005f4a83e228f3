"""The console's pages of accounts, doubts, health and prices over HTTP."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from meetcore.adapters.postgres.meetings.lifecycle import PostgresMeetingRepository
from meetcore.adapters.settings import Settings
from meetcore.composition.application import Application
from meetcore.composition.doctor import health_checks
from meetcore.domain.meetings.views import ExpiredLease
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.records.pages import QueueName
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.figures import CheckResult, HealthStatus, failed
from meetcore.usecases.requests.console import ConsoleHealth
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import logged_of, who_is
from tests.support.pages import Browser
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

ACCOUNTS = "/console/accounts"


async def search(browser: Browser, text: str) -> tuple[str, str]:
    """Search as the form does; the address that it leads to, and the page there."""
    answer = await browser.post(ACCOUNTS, q=text)
    assert answer.status_code == 303, answer.text
    page = await browser.get(answer.headers["location"])
    assert page.status_code == 200
    return answer.headers["location"], page.text


async def test_accounts_are_found_by_everything_that_the_form_promises(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator(OperatorRole.SUPPORT)
    account = await customer.application.administration.registry.find_account(customer.account_id)
    name = f"Toko {uuid4().hex}"
    await customer.query("UPDATE accounts SET full_name = %s WHERE id = %s RETURNING id", name, account.id)
    meeting = await customer.make_meeting()
    webhook = await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    [delivery] = (await customer.get(f"/webhooks/{webhook['id']}/deliveries")).json()["data"]
    link = f'href="{ACCOUNTS}/{account.id}"'
    request_id = uuid4()
    await customer.application.ports.request_log.save(
        [LoggedRequest(request_id, account.id, customer.key.key.id, datetime.now(UTC), "GET", "/me", 200, 1)]
    )
    for text in (
        str(request_id),
        account.email.upper(),
        account.email[:9],
        name.lower()[:12],
        str(account.id),
        str(account.user_id),
        customer.key.text[-4:],
        f"mk_live_…{customer.key.text[-4:]}",
        str(customer.key.key.id),
        str(meeting["id"]),
        str(delivery["event_id"]),
    ):
        _, page = await search(browser, f" {text} ")
        assert link in page, text
    for text in (str(uuid4()), "nobody@example.com", "a\0b", "x" * 300, "%", "mk_live_…"):
        _, page = await search(browser, text)
        assert_contains(page, "Found for “", "Nothing was found.", absent=(link,))
    assert link in (await search(browser, ""))[1]
    assert link in (await browser.http.get(ACCOUNTS, params={"q": account.email})).text, (
        "a link of an operator"
    )


async def test_a_request_that_is_searched_for_is_shown_with_its_account(
    customer: Customer, visitors: Visitors
) -> None:
    browser, request_id = await visitors.operator(OperatorRole.SUPPORT), uuid4()
    request = LoggedRequest(
        request_id, customer.account_id, customer.key.key.id, datetime(2026, 11, 26, 17, 10, tzinfo=UTC),
        "POST", "/meetings", 400, 12, "invalid_request", None, "203.0.113.7", "Not valid.", ("fields.title",),
    )  # fmt: skip
    await customer.application.ports.request_log.save([request])
    _, page = await search(browser, str(request_id))
    assert_contains(
        page, f'href="{ACCOUNTS}/{customer.account_id}"', "<code>POST /meetings</code>", ">400<",
        "invalid_request", "Not valid.", "fields.title", "27 Nov 2026, 00:10:00 WIB", "203.0.113.7",
    )  # fmt: skip
    assert "fields.title" not in (await search(browser, str(customer.account_id)))[1]


async def test_a_whole_key_that_is_searched_for_stands_in_no_address(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator()
    address, page = await search(browser, customer.key.text)
    assert f"{ACCOUNTS}/{customer.account_id}" in page
    for text in (address, page):
        assert_contains(text, absent=(customer.key.text, digest(customer.key.text).hex()))


async def test_an_account_shows_what_belongs_to_it_and_no_secret(
    customer: Customer, visitors: Visitors
) -> None:
    meeting = await customer.make_meeting(title="<i>Weekly</i>")
    browser = await visitors.operator(OperatorRole.SUPPORT)
    page = (await browser.get(f"/console/accounts/{customer.account_id}")).text
    assert_contains(page, "&lt;i&gt;Weekly", absent=("<i>Weekly",))
    assert str(meeting["id"]) in page, "the charge names its meeting"
    assert meeting["join_url"] not in page
    assert "/top-up" not in page, "support moves no credits"
    assert "/suspend" not in page


async def test_an_account_shows_its_keys_entries_and_deliveries(
    customer: Customer, visitors: Visitors
) -> None:
    webhook = await customer.make_webhook()
    for _ in range(12):
        await customer.post(f"/webhooks/{webhook['id']}/test", {})
    deliveries = (await customer.get(f"/webhooks/{webhook['id']}/deliveries")).json()["data"]
    capped = await customer.application.administration.keys.create(
        customer.account_id,
        [Scope.MEETINGS_READ],
        77,
        name="<b>Capped",
    )
    await customer.application.administration.keys.revoke(capped.key.id)
    browser = await visitors.operator(OperatorRole.SUPPORT)
    page = (await browser.get(f"{ACCOUNTS}/{customer.account_id}")).text
    for text in ("&lt;b&gt;Capped", ">77<", "revoked", str(capped.key.id), webhook["url"]):
        assert text in page, text
    for each in deliveries[:10]:
        assert each["event_id"] in page
    for each in deliveries[10:]:
        assert each["event_id"] not in page
    assert_contains(page, absent=(webhook["secret"], capped.text))


async def test_an_account_shows_a_key_that_works_behind_many_that_do_not(
    customer: Customer, visitors: Visitors
) -> None:
    await customer.query(
        """INSERT INTO api_keys SELECT ended.* FROM api_keys k, generate_series(1, 210) AS n,
            jsonb_populate_record(k, jsonb_build_object(
                'id', 'ffffffff' || right(gen_random_uuid()::text, 28), 'name', n, 'revoked_at', now(),
                'digest', sha256(gen_random_uuid()::text::bytea))) AS ended
        WHERE k.id = %s RETURNING id""",
        customer.key.key.id,
    )
    browser = await visitors.operator(OperatorRole.SUPPORT)
    assert str(customer.key.key.id) in (await browser.get(f"{ACCOUNTS}/{customer.account_id}")).text


async def test_the_console_names_the_commands_for_what_it_has_no_form_for(
    customer: Customer, visitors: Visitors
) -> None:
    admin, support = (
        await visitors.operator(OperatorRole.ADMIN),
        await visitors.operator(OperatorRole.SUPPORT),
    )
    assert '<pre tabindex="0">meetcore account create --email' in (await admin.get(ACCOUNTS)).text
    email = f"o'neill+$(id)-{uuid4().hex}@example.com"
    await customer.query(
        "UPDATE accounts SET email = %s WHERE id = %s RETURNING id", email, customer.account_id
    )
    page = f"{ACCOUNTS}/{customer.account_id}"
    written = html.unescape((await admin.get(page)).text).partition("meetcore portal link")[2]
    words = shlex.split(written.partition("</pre>")[0])
    assert words == ["--account", str(customer.account_id), "--email", email]
    assert "meetcore portal link" not in (await support.get(page)).text


DOUBTS = "/console/doubts"


async def in_doubt(customer: Customer) -> UUID:
    """A meeting whose cancellation the provider did not answer; no process works on it."""
    meeting = await customer.make_meeting(title="<b>Doubtful</b>")
    await customer.query(
        "UPDATE meetings SET status = 'cancelling', lease_token = %s, "
        "lease_until = now() + interval '1 hour' WHERE id = %s RETURNING id",
        uuid4(),
        meeting["id"],
    )
    return UUID(str(meeting["id"]))


async def status_of(harness: ApiHarness, meeting_id: UUID) -> object:
    [row] = await harness.query("SELECT status FROM meetings WHERE id = %s", meeting_id)
    return row["status"]


async def test_a_cancellation_is_finished(
    customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    meeting_id, browser = await in_doubt(customer), await visitors.operator(OperatorRole.SUPPORT)
    path = f"{DOUBTS}/{customer.account_id}/{meeting_id}/finish"
    page = (await browser.get(DOUBTS)).text
    assert_contains(
        page, f'action="{path}"', "&lt;b&gt;Doubtful", "60 seconds after", absent=("<b>Doubtful",)
    )
    before = await customer.balance()
    asked = (await browser.post(path)).text
    assert_contains(asked, "Finish &lt;b&gt;Doubtful", "it is refunded", 'name="confirmed"')
    assert await customer.balance() == before
    done = await browser.post(path, confirmed="yes")
    assert done.headers["location"] == f"{DOUBTS}?done=doubt_finished"
    assert await status_of(harness, meeting_id) == "cancelled"
    assert await customer.balance() == before + 10
    assert str(meeting_id) not in (await browser.get(DOUBTS)).text
    again = await browser.post(path)
    assert again.status_code == 409
    assert "not in doubt any more" in again.text
    assert await customer.balance() == before + 10
    [entry] = await logged_of(customer, "meeting.finished_by_operator")
    assert entry["actor_kind"] == "operator"


async def test_a_cancellation_that_no_process_works_on_is_undone(
    customer: Customer, visitors: Visitors, harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> Sequence[ExpiredLease]:
        return ()

    monkeypatch.setattr(PostgresMeetingRepository, "claim_expired", nothing)  # by the service's reconciler
    meeting_id, browser = await in_doubt(customer), await visitors.operator()
    await customer.query(
        "UPDATE meetings SET lease_until = now() - interval '1 second' WHERE id = %s RETURNING id", meeting_id
    )
    answer = await browser.post(f"{DOUBTS}/{customer.account_id}/{meeting_id}/undo", confirmed="yes")
    assert answer.headers.get("location") == f"{DOUBTS}?done=doubt_undone", answer.text
    assert await status_of(harness, meeting_id) == "scheduled"


async def test_a_decision_is_asked_about_again_where_the_doubt_became_another(
    customer: Customer, visitors: Visitors
) -> None:
    meeting_id, browser = await in_doubt(customer), await visitors.operator()
    path = f"{DOUBTS}/{customer.account_id}/{meeting_id}/undo"
    change = (
        "UPDATE meetings SET status = %s, created_at = now() - interval '1 hour' WHERE id = %s RETURNING id"
    )
    await customer.query(change, "provisioning", meeting_id)
    asked = await browser.post(path)
    assert "Nothing is charged" in asked.text
    [consent] = re.findall(r'name="confirmed" value="([^"]+)"', asked.text)
    await customer.query(change, "cancelling", meeting_id)
    again = await browser.post(path, confirmed=consent)
    assert again.status_code == 200, again.headers
    assert_contains(again.text, "the charge with it", 'name="confirmed"')


async def test_a_deleted_recording_that_the_provider_keeps_is_listed(
    customer: Customer, visitors: Visitors
) -> None:
    browser, ids = await visitors.operator(OperatorRole.SUPPORT), [uuid4() for _ in range(3)]
    for id, status, tries in zip(ids, ("expired", "expired", "available"), (4, 3, 9), strict=True):
        await customer.query(
            "INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, "
            "provider, provider_meeting_id, expires_at, due_at, tries) VALUES (%s, %s, %s, %s, '', now(), "
            "now(), 'zoom', '85746065432', now(), now() + interval '1 hour', %s) RETURNING id",
            customer.account_id, id, uuid4(), status, tries,
        )  # fmt: skip
    page = (await browser.get(DOUBTS)).text
    assert_contains(page, str(ids[0]), "85746065432", absent=(str(ids[1]), str(ids[2])))
    await customer.query("DELETE FROM recordings WHERE id = ANY(%s) RETURNING id", ids)
    assert str(ids[0]) not in (await browser.get(DOUBTS)).text


@pytest.mark.parametrize("change", ["finish", "undo"])
async def test_what_is_not_in_doubt_cannot_be_decided(
    change: str, customer: Customer, visitors: Visitors
) -> None:
    meeting, browser = await customer.make_meeting(), await visitors.operator()
    for id in (meeting["id"], uuid4()):
        path = f"{DOUBTS}/{customer.account_id}/{id}/{change}"
        assert (await browser.post(path)).status_code == 409
    assert (await browser.post(f"{DOUBTS}/x/y/{change}")).status_code == 404


async def test_a_removal_that_failed_is_shown(customer: Customer, visitors: Visitors) -> None:
    meeting, browser = await customer.make_meeting(title="Left behind"), await visitors.operator()
    await customer.query(
        "INSERT INTO orphan_checks (account_id, meeting_id, since, due_at, failures) "
        "VALUES (%s, %s, now(), now() + interval '1 hour', 3) RETURNING meeting_id",
        customer.account_id,
        meeting["id"],
    )
    page = (await browser.get(DOUBTS)).text
    assert_contains(page, "Left behind", str(meeting["id"]))


HEALTH = "/console/health"


async def test_the_page_of_a_service_that_is_well(visitors: Visitors) -> None:
    page = (await (await visitors.operator(OperatorRole.SUPPORT)).get(HEALTH)).text
    for name in ("database", "schema", "clock", "broker", "rate_store", "provider", "mail", "secrets"):
        assert f"<code>{name}</code>" in page, name
    assert_contains(page, "of this release", absent=("too far apart", "postgresql://"))
    heading, _, found = page.partition("<h1>")[2].partition("</h1>")
    worst = next((kind for kind in ("bad", "warn") if f'class="state {kind}"' in found), "good")
    assert f'class="state {worst}"' in heading, "no better than the worst finding"


async def test_a_queue_that_waits_too_long_is_late_and_says_what_to_do(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator()
    # This service sends no mails, so that nothing takes it meanwhile.
    [mail] = await customer.query(
        "INSERT INTO mails "
        "(id, account_id, recipient, kind, language, content, created_at, due_at, attempts_made) "
        "VALUES (gen_random_uuid(), %s, 'a@example.com', 'low_credits', 'id', 'x', now(), "
        "now() - interval '1 hour', 0) RETURNING id",
        customer.account_id,
    )
    try:
        page = (await browser.get(HEALTH)).text
    finally:
        await customer.query("DELETE FROM mails WHERE id = %s RETURNING id", mail["id"])
    assert_contains(page, "needs attention", "the mail server does not take them")
    assert "the mail server does not take them" not in (await browser.get(HEALTH)).text


async def test_checks_are_run_once_for_many_looks(application: Application, visitors: Visitors) -> None:
    calls: list[datetime] = []

    async def check() -> Mapping[str, CheckResult]:
        calls.append(datetime.now(UTC))
        return {"broker": failed("no answer")}

    who = await who_is(application, await visitors.operator())
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
        found = await health_checks(service_settings, has_inbox=has_inbox)()
        assert ("inbox of this process" in found["mail"].message) == has_inbox
        assert found["mail"].status is status
        assert found["schema"].status is HealthStatus.OK


async def test_prices_are_those_in_force(application: Application, visitors: Visitors) -> None:
    page = (await (await visitors.operator(OperatorRole.FINANCE)).get("/console/prices")).text
    for tier in application.policy.catalogue.on_sale():
        assert_contains(page, tier.id, f"{tier.credits + tier.recording_credits:,}")
    assert "for each started minute" in page
