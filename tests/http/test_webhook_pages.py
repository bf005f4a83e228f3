"""The pages of webhooks: changes, filters, explained errors, and what renews itself."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

from meetcore.adapters.http.docs import page_source
from meetcore.adapters.web.formats import format_day
from meetcore.adapters.web.texts import ERROR_TEXTS
from meetcore.domain.meetings.schedule import WIB, utc_text
from meetcore.domain.notes.notes import Language
from tests.support.api_harness import Customer, until
from tests.support.pages import form_fields
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

LIVE = "data-refresh-s"


async def test_events_and_description_are_changed(customer: Customer, visitors: Visitors) -> None:
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    page = f"/dashboard/webhooks/{webhook['id']}"
    form = form_fields((await browser.get(f"{page}/edit")).text, f"{page}/edit")
    assert {f"kind:{kind}" for kind in webhook["event_types"]} <= form.keys()
    wrong = await browser.post(f"{page}/edit", description="d" * 201, form_key="a")
    assert wrong.status_code == 422
    assert_contains(wrong.text, 'href="#f-event_types"', 'href="#f-description"', "<title>Error:")
    sent = {"kind:note.failed": "on", "description": "Payroll <b>", "form_key": form["form_key"]}
    assert (await browser.post(f"{page}/edit", **sent)).headers["location"] == f"{page}?done=webhook_changed"
    read = (await customer.get(f"/webhooks/{webhook['id']}")).json()
    assert (read["event_types"], read["description"]) == (["note.failed"], "Payroll <b>")
    assert "Payroll &lt;b&gt;" in (await browser.get(page)).text
    await browser.post(f"{page}/edit", **sent | {"description": " ", "form_key": "c"})
    assert (await customer.get(f"/webhooks/{webhook['id']}")).json()["description"] is None


async def test_deliveries_are_filtered_and_the_filters_last_over_pages(
    customer: Customer, visitors: Visitors
) -> None:
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    for _ in range(26):
        await customer.post(f"/webhooks/{webhook['id']}/test", {})
    await customer.make_meeting(title="One")
    page = f"/dashboard/webhooks/{webhook['id']}"

    async def found(query: str) -> tuple[int, int, str]:
        text = (await browser.get(f"{page}?{query}")).text
        rows = text.partition("<tbody>")[2]
        return rows.count("<code>webhook.test</code>"), rows.count("<code>meeting.created</code>"), text

    assert (await found(""))[1] == 1
    assert (await found("kind=meeting.created"))[:2] == (0, 1)
    today = datetime.now(UTC).astimezone(WIB).date()
    tests, meetings, text = await found(f"kind=webhook.test&day={today}&status=pending")
    assert (tests, meetings) == (25, 0)
    older = re.search(r'href="([^"]+)" rel="next"', text)
    assert older is not None
    query = html.unescape(older[1]).partition("?")[2]
    assert_contains(query, "kind=webhook.test", f"day={today}", "status=pending", "before=")
    assert (await found(query))[:2] == (1, 0)
    assert (await found(f"day={today - timedelta(days=1)}"))[:2] == (0, 0)
    for nonsense in ("day=x", "kind=x&status=y&before=z"):
        assert "There is a problem" in (await browser.get(f"{page}?{nonsense}")).text


async def test_deliveries_are_found_by_the_id_of_an_event_or_of_a_meeting(
    customer: Customer, visitors: Visitors
) -> None:
    webhook = await customer.make_webhook(event_types=["meeting.created"])
    meeting, _other = await customer.make_meeting(), await customer.make_meeting()
    browser = await visitors.member(customer.account_id)
    page = f"/dashboard/webhooks/{webhook['id']}"

    async def found(about: object, more: str = "") -> list[str]:
        return re.findall(r"/deliveries/([^\"]+)", (await browser.get(f"{page}?about={about}{more}")).text)

    [created] = await found(meeting["id"])
    [row] = await customer.query("SELECT event_id FROM deliveries WHERE id = %s", created)
    assert await found(row["event_id"], "&kind=meeting.created") == await found(f"%20{created}") == [created]
    assert await found(row["event_id"], "&kind=meeting.ended") == []
    for nothing in (webhook["id"], "nonsense", "%00"):
        assert await found(nothing) == []


async def test_a_disabled_webhook_is_made_active_and_recovered_in_one_place(
    customer: Customer, visitors: Visitors
) -> None:
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    page = f"/dashboard/webhooks/{webhook['id']}"
    await customer.query(
        "UPDATE webhook_endpoints SET state = 'disabled', consecutive_failures = 20, disabled_at = %s"
        " WHERE id = %s RETURNING id",
        datetime(2026, 11, 26, 17, 9, tzinfo=UTC), webhook["id"],
    )  # fmt: skip
    await customer.make_meeting()
    [delivery] = await customer.query(
        "SELECT id FROM deliveries WHERE status = 'held' AND endpoint_id = %s", webhook["id"]
    )
    await customer.query(
        "UPDATE deliveries SET status = 'expired', held_at = NULL, failed_at = now() WHERE id = %s"
        " RETURNING id",
        delivery["id"],
    )  # fmt: skip
    await customer.make_meeting()
    text = (await browser.get(page)).text
    assert_contains(
        text, "20 attempts in a row had failed", "held for 72 hours", 'href="?status=held"',
        'value="2026-11-27T00:09"', absent=("Send everything again that failed since",),
    )  # fmt: skip
    [held] = await customer.query(
        "SELECT id FROM deliveries WHERE status = 'held' AND endpoint_id = %s", webhook["id"]
    )
    assert "72 hours at most" in (await browser.get(f"{page}/deliveries/{held['id']}")).text
    form = form_fields(text, f"{page}/change")
    for _ in range(2):
        wrong = await browser.post(f"{page}/change", **form | {"since": "x"})
        assert (wrong.status_code, "Write a day and a time." in wrong.text) == (422, True)
    done = await browser.post(f"{page}/change", **form)
    assert "Deliveries that are sent again: 1." in done.text
    assert (await customer.get(f"/webhooks/{webhook['id']}")).json()["is_active"] is True
    waiting = await customer.query(
        "SELECT id FROM deliveries WHERE status = 'expired' AND endpoint_id = %s",
        webhook["id"],
    )
    assert waiting == []
    repeated = await browser.post(f"{page}/change", **form)
    assert "Deliveries that are sent again: 1." in repeated.text


async def test_an_error_of_an_attempt_is_explained(customer: Customer, visitors: Visitors) -> None:
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    [delivery] = await customer.query(
        "SELECT id FROM deliveries WHERE account_id = %s AND endpoint_id = %s",
        customer.account_id, webhook["id"],
    )  # fmt: skip
    page = f"/dashboard/webhooks/{webhook['id']}/deliveries/{delivery['id']}"
    for number, error in enumerate((*ERROR_TEXTS, "status_503"), 20):
        await customer.query(
            "INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, error)"
            " VALUES (%s, %s, %s, now(), 5, %s) RETURNING number",
            customer.account_id, delivery["id"], number, error,
        )  # fmt: skip
    text = html.unescape((await browser.get(page)).text)
    for meaning in (*ERROR_TEXTS.values(), "The receiver answered, and not with a 2xx."):
        assert meaning in text
    assert 'href="/docs/webhooks#errors-of-attempts"' in text
    assert text.index("<h2>Attempts</h2>") < text.index("<h2>Payload</h2>")
    documented = set(re.findall(r"`(\w+)`", page_source("webhooks").partition("### Errors of attempts")[2]))
    assert {*ERROR_TEXTS} <= documented


async def test_the_headers_of_a_failed_attempt_are_shown(customer: Customer, visitors: Visitors) -> None:
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    [delivery] = await customer.query("SELECT id FROM deliveries WHERE endpoint_id = %s", webhook["id"])
    await customer.query(
        "INSERT INTO delivery_attempts VALUES (%s, %s, 99, now(), 5, 500, 'status_500', 'oops', NULL, %s, %s)"
        " RETURNING number",
        customer.account_id, delivery["id"], "webhook-id: 0190", "Server: nginx",
    )  # fmt: skip
    page = (await browser.get(f"/dashboard/webhooks/{webhook['id']}/deliveries/{delivery['id']}")).text
    assert_contains(page, "Request headers", "webhook-id: 0190", "Response headers", "Server: nginx", "oops")
    # The API's record is unchanged: its fields are a contract.
    record = await customer.get(f"/webhooks/{webhook['id']}/deliveries/{delivery['id']}")
    assert "nginx" not in record.text


async def test_a_delivery_renews_its_pages_while_an_attempt_is_near(
    customer: Customer, visitors: Visitors
) -> None:
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    page = f"/dashboard/webhooks/{webhook['id']}"
    assert LIVE not in (await browser.get(page)).text
    sent = await browser.post(f"{page}/test", form_key="a")
    shown = (await browser.get(sent.headers["location"])).text
    delivery = re.search(rf'href="({page}/deliveries/[^"]+)"', shown)
    assert delivery is not None
    for wait, is_live in (("5 seconds", True), ("30 seconds", True), ("2 minutes", False)):
        # Without its lease the attempt that a worker may have begun is not recorded.
        await customer.query(
            "UPDATE deliveries SET status = 'pending', lease_token = NULL, is_throttled = false,"
            " due_at = now() + %s::interval WHERE account_id = %s RETURNING id",
            wait, customer.account_id,
        )  # fmt: skip
        for each in (page, delivery[1]):
            assert (LIVE in (await browser.get(each)).text) is is_live, (wait, each)


async def test_a_delivery_behind_a_webhook_that_waits_is_shown_with_the_day_and_time_of_its_post(
    customer: Customer, visitors: Visitors
) -> None:
    """It is due, and posted when the wait of its webhook is over."""
    browser, webhook = await visitors.member(customer.account_id), await customer.make_webhook()
    made = await customer.post("/meetings", customer.harness.body())
    page = f"/dashboard/webhooks/{webhook['id']}"
    [waits] = await customer.query(
        "UPDATE webhook_endpoints SET consecutive_failures = 12, next_post_at = now() + interval '25 hours'"
        " WHERE id = %s RETURNING next_post_at", webhook["id"],
    )  # fmt: skip
    [delivery] = await customer.query(
        "UPDATE deliveries SET status = 'pending', lease_token = NULL, due_at = now() - interval '1 minute'"
        " WHERE endpoint_id = %s RETURNING id", webhook["id"],
    )  # fmt: skip
    at = waits["next_post_at"]
    record = (await customer.get(f"/webhooks/{webhook['id']}/deliveries/{delivery['id']}")).json()
    assert record["next_attempt_at"] == utc_text(at)
    day, minute = format_day(at, Language.ENGLISH), f"{at.astimezone(WIB):%H:%M}"
    logged = f"/dashboard/requests/{made.headers['x-request-id']}"

    async def is_logged() -> bool:
        return (await browser.get(logged)).status_code == 200

    await until(is_logged)
    for each in (page, f"{page}/deliveries/{delivery['id']}", logged):
        text = html.unescape((await browser.get(each)).text).replace("\N{NO-BREAK SPACE}", " ")
        assert_contains(text, f"{day}, {minute}", absent=(LIVE,))
    console = (await (await visitors.operator()).get(f"/console/accounts/{customer.account_id}")).text
    assert f"{day}, {minute}" in html.unescape(console).replace("\N{NO-BREAK SPACE}", " ")


async def test_a_refused_url_is_corrected(customer: Customer, visitors: Visitors) -> None:
    browser, path = await visitors.member(customer.account_id), "/dashboard/webhooks"
    fields = {"kind:meeting.created": "on"}
    for wrong in ("https://10.0.0.1/hook", "https://unknown.invalid/hook"):
        refused = await browser.post(path, url=wrong, form_key=wrong, **fields)
        assert refused.status_code == 422
        form, url = form_fields(refused.text, path)["form_key"], customer.harness.webhook_body()["url"]
        assert (await browser.post(path, url=url, form_key=form, **fields)).status_code == 303
