"""The console's payments over HTTP: the list, doubts, refunds, and the income by month."""

from __future__ import annotations

import csv
import html
import io
import re
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from meetcore.adapters.sandbox.gateway import SandboxGateway
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.payments.payments import Doubt, GatewayStatus
from tests.support.api_harness import Customer
from tests.support.console_pages import logged_of, who_is
from tests.support.pages import Browser
from tests.support.paid_payments import ask_gateway, under_way
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

PAYMENTS = "/console/payments"


async def started(customer: Customer) -> str:
    answer = await customer.post("/credits/topups", {"package_id": "credits-500"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def sandbox(customer: Customer) -> SandboxGateway:
    gateway = customer.application.ports.gateway
    assert isinstance(gateway, SandboxGateway)
    return gateway


async def paid(customer: Customer, amount: int = 555_000, currency: str = "IDR") -> str:
    payment_id = await started(customer)
    await sandbox(customer).state.pay(UUID(payment_id), amount, currency)
    await ask_gateway(customer, payment_id)
    return payment_id


async def shown(browser: Browser, payment_id: str) -> str:
    return html.unescape((await browser.get(f"{PAYMENTS}/{payment_id}")).text)


async def test_payments_in_doubt_come_first_and_all_are_listed(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator(OperatorRole.SUPPORT)
    good, doubtful = await paid(customer), await paid(customer, 1)
    in_doubt, listed = (await browser.get(PAYMENTS)).text, (await browser.get(f"{PAYMENTS}?show=all")).text
    assert_contains(in_doubt, f'href="{PAYMENTS}/{doubtful}"', "Another amount was paid", absent=(good,))
    assert_contains(listed, good, doubtful, "IDR\N{NO-BREAK SPACE}555,000")
    assert f'href="{PAYMENTS}"' in (await browser.get("/console/accounts")).text


async def test_a_payment_is_found_from_its_account_and_by_its_names(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator(OperatorRole.SUPPORT)
    payment_id = await paid(customer)
    account = f"/console/accounts/{customer.account_id}"
    assert f'href="{PAYMENTS}/{payment_id}">payment:{payment_id}</a>' in (await browser.get(account)).text
    await customer.query(
        "UPDATE payments SET reference = 'cs_1', transaction_id = 'pi_1' WHERE id = %s RETURNING id",
        payment_id,
    )
    [row] = await customer.query("SELECT year, number FROM receipts WHERE payment_id = %s", payment_id)
    for text in (payment_id, f"{row['year']}-{row['number']:06d}", "cs_1", "pi_1"):
        page = (await browser.get(f"/console/accounts?q={text}")).text
        assert_contains(page, f'href="{account}"')
    assert_contains(await shown(browser, payment_id), "<code>cs_1</code>", "<code>pi_1</code>")
    assert account not in (await browser.get("/console/accounts?q=2026-999999")).text


async def test_the_menu_counts_payments_in_doubt(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator(OperatorRole.SUPPORT)
    counted = re.compile(r">Payments \((\d+) in doubt\)</a>")
    before = counted.search((await browser.get("/console/health")).text)
    await paid(customer, 1)
    after = counted.search((await browser.get("/console/health")).text)
    assert after is not None
    assert int(after[1]) == (int(before[1]) if before else 0) + 1
    assert ">Meetings in doubt</a>" in (await browser.get("/console/health")).text


async def test_a_list_of_payments_has_pages(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator()
    first = await started(customer)
    await customer.query(
        "INSERT INTO payments (id, status, account_id, gateway, credits, price, tax, currency, created_at, "
        "expires_at, ended_at, method, looks) SELECT gen_random_uuid(), 'failed', account_id, gateway, "
        "credits, price, tax, currency, created_at, expires_at, now(), '', 0 FROM payments, "
        "generate_series(1, 26) WHERE id = %s",
        first,
    )
    page = html.unescape((await browser.get(f"{PAYMENTS}?show=all")).text)
    before = page.split(f'href="{PAYMENTS}?show=all&before=')[1].split('"')[0]
    older = (await browser.get(f"{PAYMENTS}?show=all&before={before}")).text
    newer, older_ids = (
        set(re.findall(f'href="{PAYMENTS}/([0-9a-f-]{{36}})"', text)) for text in (page, older)
    )
    assert older_ids
    assert newer & older_ids == set()


async def test_one_payment_is_shown_with_everything(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator(OperatorRole.SUPPORT)
    payment_id = await paid(customer)
    [receipt] = await customer.query("SELECT year, number FROM receipts WHERE payment_id = %s", payment_id)
    await customer.query(
        "INSERT INTO payment_messages VALUES (%s, 99, now(), 'look', %s)",
        payment_id,
        "<i>" + "x" * 3_000,
    )
    raw = (await browser.get(f"{PAYMENTS}/{payment_id}")).text
    assert_contains(
        raw, f'href="/console/accounts/{customer.account_id}"', f"{receipt['year']}-{receipt['number']:06d}",
        "of it tax: IDR\N{NO-BREAK SPACE}55,000", "Answer when asked", "&lt;i&gt;x",
        absent=("<i>", "x" * 2_000, f"{payment_id}/refund", f"{payment_id}/dismiss"),
    )  # fmt: skip


async def test_a_payment_names_the_member_who_began_it(customer: Customer, visitors: Visitors) -> None:
    browser, payment_id = await visitors.operator(OperatorRole.SUPPORT), await started(customer)
    await customer.query("UPDATE payments SET api_key_id = NULL WHERE id = %s RETURNING id", payment_id)
    assert_contains(await shown(browser, payment_id), "<dd>a member, in the dashboard</dd>")
    email = f"{uuid4().hex}@example.com"
    [member] = await customer.query(
        "INSERT INTO users (id, email, full_name, created_at) VALUES (gen_random_uuid(), %s, '', now())"
        " RETURNING id",
        email,
    )
    await customer.query(
        "INSERT INTO audit_log VALUES (gen_random_uuid(), %s, now(), 'member', %s, 'member',"
        " 'payment.started', %s, '{}', NULL, false) RETURNING id",
        customer.account_id,
        member["id"],
        payment_id,
    )
    assert_contains(await shown(browser, payment_id), f"<dd>{email}</dd>")


async def test_late_money_is_accepted_after_a_question(customer: Customer, visitors: Visitors) -> None:
    browser, before = await visitors.operator(OperatorRole.FINANCE), await customer.balance()
    payment_id = await started(customer)
    await sandbox(customer).state.end(UUID(payment_id), GatewayStatus.EXPIRED)
    await ask_gateway(customer, payment_id)
    await sandbox(customer).state.pay(UUID(payment_id), 555_000, "IDR")
    await ask_gateway(customer, payment_id)
    path = f"{PAYMENTS}/{payment_id}"
    assert_contains(
        await shown(browser, payment_id), "It was paid after it had ended", f"{path}/accept",
        '"amount": 555000',
    )  # fmt: skip
    asked = html.unescape((await browser.post(f"{path}/accept", page=path)).text)
    assert_contains(
        asked,
        f"Accept the payment {payment_id} of ",
        "500 credits and a receipt of IDR\N{NO-BREAK SPACE}555,000",
    )
    [consent] = re.findall(r'name="confirmed" value="([^"]+)"', asked)
    change = "UPDATE payments SET doubt = %s WHERE id = %s RETURNING id"
    await customer.query(change, Doubt.WRONG_AMOUNT.value, payment_id)
    again = await browser.post(f"{path}/accept", page=path, confirmed=consent)
    assert_contains(again.text, 'name="confirmed"', "Another amount was paid.")
    await customer.query(change, Doubt.PAID_AFTER_END.value, payment_id)
    assert await customer.balance() == before
    done = await browser.post(f"{path}/accept", page=path, confirmed=consent)
    assert done.headers["location"] == f"{path}?done=payment_accepted"
    again = await browser.post(f"{path}/accept", page=path, confirmed="yes")
    assert again.status_code == 422
    assert "Only a payment whose money arrived" in again.text
    assert await customer.balance() == before + 500
    assert len(await logged_of(customer, "payment.accepted")) == 1


async def test_the_question_about_another_currency_says_so(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator(OperatorRole.FINANCE)
    path = f"{PAYMENTS}/{await paid(customer, 5, 'USD')}"
    asked = html.unescape((await browser.post(f"{path}/accept", page=path)).text)
    assert_contains(asked, "Another currency was paid. The account gets 500 credits and a receipt of IDR")


async def test_a_doubt_is_closed_with_a_reason(customer: Customer, visitors: Visitors) -> None:
    browser, before = await visitors.operator(OperatorRole.FINANCE), await customer.balance()
    payment_id = await paid(customer, 5, "USD")
    path = f"{PAYMENTS}/{payment_id}"
    assert "Another currency was paid" in await shown(browser, payment_id)
    refused = await browser.post(f"{path}/dismiss", page=path, reason=" ", confirmed="yes")
    assert refused.status_code == 422
    assert_contains(refused.text, "Write 1 to 200 characters.", 'href="#f-reason"', 'id="f-reason"')
    asked = (await browser.post(f"{path}/dismiss", page=path, reason="sent back")).text
    assert_contains(
        html.unescape(asked),
        f"Close the doubt about the payment {payment_id} of ",
        "The payment fails.",
        'value="sent back"',
    )
    [consent] = re.findall(r'name="confirmed" value="([^"]+)"', asked)
    change = "UPDATE payments SET doubt = %s WHERE id = %s RETURNING id"
    await customer.query(change, Doubt.WRONG_AMOUNT.value, payment_id)
    again = await browser.post(f"{path}/dismiss", page=path, reason="sent back", confirmed=consent)
    assert 'name="confirmed"' in again.text, "another doubt than the one that was looked at"
    await customer.query(change, Doubt.WRONG_CURRENCY.value, payment_id)
    done = await browser.post(f"{path}/dismiss", page=path, reason="sent back", confirmed=consent)
    assert done.headers["location"] == f"{path}?done=doubt_closed"
    closed = await shown(browser, payment_id)
    assert_contains(closed, "Another currency was paid:", "sent back", absent=(f"{path}/dismiss",))
    assert "@example.com: sent back" in closed, "who closed it, and why"
    assert (await browser.post(f"{path}/dismiss", page=path, reason="x", confirmed="yes")).status_code == 422
    assert await customer.balance() == before
    [entry] = await logged_of(customer, "payment.dismissed")
    assert entry["details"] == {"doubt": Doubt.WRONG_CURRENCY.value, "reason": "sent back"}


async def test_a_payment_is_refunded_in_part(
    customer: Customer, visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await visitors.operator(OperatorRole.FINANCE)
    payment_id = await paid(customer)
    before, path = await customer.balance(), f"{PAYMENTS}/{payment_id}"
    now = customer.application.runtime.now()
    for doubt, closed_at in ((Doubt.REVERSED, now), (Doubt.DISPUTED, None), (Doubt.DISPUTED, now)):
        doubted = "UPDATE payments SET doubt = %s, doubt_closed_at = %s WHERE id = %s RETURNING id"
        await customer.query(doubted, doubt.value, closed_at, payment_id)
        is_won = doubt is Doubt.DISPUTED and closed_at is not None
        assert (f"{path}/refund" in await shown(browser, payment_id)) is is_won
    for amount, reason, problems in (
        ("501", "", ("Write a whole number of credits", "Write 1 to 200 characters.")),
        ("0", "asked for", ("Write a whole number of credits",)),
    ):
        refused = await browser.post(f"{path}/refund", page=path, amount=amount, reason=reason)
        assert refused.status_code == 422
        assert_contains(refused.text, *problems, f'value="{amount}"')
    one = await browser.post(f"{path}/refund", page=path, amount="1", reason="asked for")
    [account] = await customer.query("SELECT full_name FROM accounts WHERE id = %s", customer.account_id)
    question = f"Refund the payment {payment_id} of {account['full_name']}?"
    assert_contains(html.unescape(one.text), question, "1 credit leaves the account at once")
    fields = {"amount": "100", "reason": "asked for"}
    asked = html.unescape((await browser.post(f"{path}/refund", page=path, **fields)).text)
    assert_contains(asked, "100 credits leave the account at once", "sends IDR\N{NO-BREAK SPACE}111,000 back")
    with monkeypatch.context() as gateway:
        gateway.setattr(SandboxGateway, "refund", under_way)
        done = await browser.post(f"{path}/refund", page=path, confirmed="yes", **fields)
        assert done.headers["location"] == f"{path}?done=payment_refunded"
        assert await customer.balance() == before - 100
        assert_contains(await shown(browser, payment_id), "Sent back by the gateway", "not yet", "asked for")
        [record] = (await customer.get("/credits/topups")).json()["data"]
        assert (record["status"], record["credits"]) == ("refunded", 500)
        assert record["refund"] == {"credits": 100, "amount": 111_000, "at": None}
    await ask_gateway(customer, payment_id)
    record = (await customer.get(f"/credits/topups/{payment_id}")).json()
    assert (record["refund"]["amount"], record["refund"]["at"] is None) == (111_000, False)
    after = UUID(int=UUID(payment_id).int + 1)
    listed = (await browser.get(f"{PAYMENTS}?show=all&before={after}")).text
    assert_contains(listed, "partly refunded: 100 of 500 credits")
    assert_contains(
        await shown(browser, payment_id),
        "sent back",
        "partly refunded: 100 of 500 credits",
        absent=("not yet",),
    )
    again = await browser.post(f"{path}/refund", page=path, confirmed="yes", **fields)
    assert again.status_code == 422
    assert "Only a paid payment can be refunded" in again.text
    assert await customer.balance() == before - 100
    browser.http.headers["Accept-Language"] = "id"
    page = await shown(browser, payment_id)
    assert_contains(page, "<h2>Pengembalian dana</h2>", absent=("Kembalikan<",))


async def test_a_refund_above_the_limit_waits_for_another_operator(
    customer: Customer, visitors: Visitors
) -> None:
    maker, other = [await visitors.operator(OperatorRole.FINANCE) for _ in range(2)]
    payment_id = await paid(customer)
    before, console = await customer.balance(), customer.application.console
    limited = evolve(console.accounts, proposals=evolve(console.proposals, above=100))
    await limited.move_credits(
        await who_is(customer.application, maker), None, customer.account_id, ProposalKind.REFUND, -101,
        "asked for", f"payment:{payment_id}",
    )  # fmt: skip
    assert_contains(
        await shown(maker, payment_id), "A refund of 101 credits waits", absent=(f"{payment_id}/refund",)
    )
    page = html.unescape((await other.get("/console/proposals")).text)
    assert_contains(
        page, "Refund of a payment: \N{MINUS SIGN}101", f'href="{PAYMENTS}/{payment_id}"',
        "IDR\N{NO-BREAK SPACE}112,110", absent=(f"payment:{payment_id}",),
    )  # fmt: skip
    [proposal] = await customer.query(
        "SELECT id FROM credit_proposals WHERE account_id = %s", customer.account_id
    )
    approved = await other.post(f"/console/proposals/{proposal['id']}/approve")
    assert approved.status_code == 303
    assert await customer.balance() == before - 101


async def test_the_income_of_a_month_is_shown_and_downloaded(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator(OperatorRole.FINANCE)
    await paid(customer)
    answer = await browser.get("/console/income.csv")
    assert answer.headers["content-disposition"].startswith('attachment; filename="income-')
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    [sums] = await customer.query(
        "SELECT sum(price + tax)::bigint AS received, sum(tax)::bigint AS tax, count(*) AS payments "
        "FROM payments WHERE status IN ('paid', 'refunded')"
    )
    found = {name: sum(int(row[name]) for row in rows) for name in ("received", "tax", "payments")}
    assert found == sums
    assert {row["currency"] for row in rows} == {"IDR"}
    page = (await browser.get("/console/liability")).text
    assert_contains(page, f"IDR\N{NO-BREAK SPACE}{int(rows[0]['received']):,}", 'href="/console/income.csv"')
    assert_contains(page, "Received includes the tax.", ">Paid back</th>", ">Refunded</th>")
    browser.http.headers["Accept-Language"] = "id"
    page = (await browser.get("/console/liability")).text
    assert_contains(page, ">Dana dikembalikan</th>", ">Kredit dikembalikan</th>", absent=(">Dikembalikan<",))
