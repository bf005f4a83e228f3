"""Credits that members buy on the pages of the dashboard, at the sandbox's gateway."""

from __future__ import annotations

import html
import io
import re
from collections.abc import AsyncIterator, Callable
from datetime import date
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pypdf
import pytest
from starlette.applications import Starlette

from meetcore.adapters.sandbox.gateway import SandboxGateway
from meetcore.adapters.web.formats import format_day
from meetcore.composition.application import Application
from meetcore.domain.members.audit import SERVICE
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from meetcore.domain.payments.packages import CreditPackage, FreeAmount, PackageCatalogue
from meetcore.usecases.payments.refunds import refund_within
from tests.support.api_harness import Customer, rebuilt
from tests.support.pages import Browser, form_fields
from tests.support.paid_payments import ask_gateway, under_way
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors, web_routes

CREDITS = "/dashboard/credits"
OWNERS_CAN = "Owners of the account and members with the role Finance can buy credits."
NBSP = "\N{NO-BREAK SPACE}"


@pytest.fixture
async def elsewhere(application: Application) -> AsyncIterator[Callable[[Application], Visitors]]:
    """Makes visitors of the pages of another application."""
    made: list[Visitors] = []

    def visitors_of(changed: Application) -> Visitors:
        made.append(Visitors(Starlette(routes=list(web_routes(changed))), changed))  # type: ignore[arg-type]
        return made[-1]

    yield visitors_of
    for visitors in made:
        for each in visitors.opened:
            await each.aclose()


async def bought(browser: Browser, package: str = "credits-500") -> str:
    """Start a payment; return its page at the gateway, to which a link leads."""
    answer = await browser.post(CREDITS, package_id=package, form_key=await browser.form_key(CREDITS))
    assert answer.status_code == 303, answer.text
    return pay_link((await browser.get(answer.headers["location"])).text)


def pay_link(page: str) -> str:
    """Return the address of the link to the gateway."""
    found = re.search(r'<a class="button" href="([^"]+)">Pay now</a>', page)
    assert found is not None, page
    return html.unescape(found[1])


async def act(browser: Browser, payment_url: str, action: str) -> str:
    """Press a button of the gateway; return the path that leads back."""
    address = urlsplit(payment_url)
    answer = await browser.http.post(f"{address.path}/{action}?{address.query}")
    assert answer.status_code == 303
    return f"{CREDITS}/{address.path.rpartition('/')[2]}"


async def settled(customer: Customer, browser: Browser, path: str) -> str:
    """Follow payments until this one is settled; return its page."""
    follow = customer.application.payments.follow
    assert follow is not None
    while "data-refresh-s" in (page := (await browser.get(path)).text):
        await follow()
    return page


def text_of(answer: httpx.Response) -> str:
    """The text of a PDF on one line."""
    assert answer.status_code == 200, answer.text
    pages = pypdf.PdfReader(io.BytesIO(answer.content)).pages
    return " ".join(" ".join(page.extract_text() for page in pages).split())


async def test_an_owner_buys_credits(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    shop = await browser.get(CREDITS)
    assert_contains(
        shop.text, "1,000 credits are available.", f"IDR{NBSP}500,000", f"IDR{NBSP}55,000",
        f"<strong>IDR{NBSP}555,000</strong>", "Buy 5,000 credits", "No payments yet.", absent=[OWNERS_CAN],
    )  # fmt: skip
    url = await bought(browser)
    listed = (await browser.get(CREDITS)).text
    assert_contains(listed, "to be paid", f'href="{url}"', "Pay now")
    path = f"{CREDITS}/{urlsplit(url).path.rpartition('/')[2]}"
    assert "On sale until" not in shop.text
    waiting = (await browser.get(path)).text
    assert_contains(waiting, 'data-refresh-s="5"', f'href="{url}"', "This page renews itself")
    assert await act(browser, url, "pay") == path
    page = await settled(customer, browser, path)
    assert_contains(
        page, "500 credits were added. The balance is 1,500 now.", "paid</span>",
        '<a class="button" href="/dashboard/meetings/new">Create a meeting</a>', absent=[url],
    )  # fmt: skip
    browser.http.headers["Accept-Language"] = "id"
    assert "Rp555.000" in (await browser.get(CREDITS)).text


async def test_a_customer_who_comes_back_is_not_asked_to_pay_again(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    url = await bought(browser)
    address = urlsplit(url)
    again = f"{CREDITS}/{address.path.rpartition('/')[2]}?returned"
    page = (await browser.get(f"{again}=1")).text
    assert_contains(
        page, "being confirmed</span>", "Its confirmation is awaited", f'Not paid yet? <a href="{url}">',
        f'<noscript><meta http-equiv="refresh" content="1; url={again}=2"></noscript>',
        f'data-refresh-s="1" data-refresh-to="{again}=2"', absent=["to be paid", 'class="button"'],
    )  # fmt: skip
    later = (await browser.get(f"{again}=9")).text
    assert_contains(later, 'data-refresh-s="5"', f'data-refresh-to="{again}=10"')
    for unconfirmed in ("61", "x"):
        page = (await browser.get(f"{again}={unconfirmed}")).text
        assert_contains(page, "to be paid</span>", 'class="button"', absent=["data-refresh-to", "<noscript>"])
    back = await browser.http.post(f"{address.path}/pay?{address.query}")
    assert back.headers["location"].endswith(f"{again}=1")
    assert "500 credits were added." in await settled(customer, browser, f"{again}=1")


async def test_a_role_without_meetings_goes_on_from_a_payment_to_the_overview(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id, Role.FINANCE)
    page = await settled(customer, browser, await act(browser, await bought(browser), "pay"))
    assert_contains(
        page, '<a class="button" href="/dashboard">Back to the overview</a>', absent=["/meetings/new"]
    )


@pytest.mark.parametrize(
    ("action", "text"),
    [("fail", "The payment failed, and no credits were added."), ("expire", "was not made in time")],
)
async def test_a_payment_that_is_not_made_says_what_to_do(
    customer: Customer, visitors: Visitors, action: str, text: str
) -> None:
    browser = await visitors.member(customer.account_id, Role.FINANCE)
    url = await bought(browser)
    page = await settled(customer, browser, await act(browser, url, action))
    assert_contains(page, text, f'<a class="button" href="{CREDITS}">Buy credits</a>', absent=[url])
    assert await customer.balance() == 1000


async def test_a_payment_in_doubt_names_the_support_contact(
    customer: Customer, elsewhere: Callable[[Application], Visitors]
) -> None:
    application = rebuilt(customer.application, support_contact="help@rapat.example")
    browser = await elsewhere(application).member(customer.account_id)
    payment_id = urlsplit(await bought(browser)).path.rpartition("/")[2]
    await customer.query("UPDATE payments SET doubt = 'wrong_amount' WHERE id = %s", payment_id)
    page = (await browser.get(f"{CREDITS}/{payment_id}")).text
    assert_contains(page, "being looked into", "Help: <a href=", absent=["Pay now", "data-refresh-s"])


async def test_a_form_sent_twice_is_one_payment(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    key = await browser.form_key(CREDITS)
    answers = [await browser.post(CREDITS, package_id="team", form_key=key) for _ in range(2)]
    assert len({each.headers["location"] for each in answers}) == 1
    assert (await browser.get(CREDITS)).text.count("Pay now") == 1
    other = await browser.post(CREDITS, package_id="credits-500", form_key=key)
    assert_contains(other.text, "The form was sent before with other values.")


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.VIEWER])
async def test_others_see_prices_and_who_can_buy(customer: Customer, visitors: Visitors, role: Role) -> None:
    owner = await visitors.member(customer.account_id)
    browser = await visitors.member(customer.account_id, role)
    url = await bought(owner)
    page = (await browser.get(CREDITS)).text
    assert_contains(
        page, f"IDR{NBSP}555,000", OWNERS_CAN, "to be paid", absent=["package_id", "Pay now", url]
    )
    path = f"{CREDITS}/{urlsplit(url).path.rpartition('/')[2]}"
    assert_contains((await browser.get(path)).text, "To be paid until", absent=[url])
    assert (await browser.post(CREDITS, package_id="credits-500", form_key="a")).status_code == 403
    stranger = await visitors.member((await customer.harness.customer()).account_id)
    assert (await stranger.get(path)).status_code == 404


async def test_what_is_not_sold_is_refused_on_the_page(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    for fields in ({"package_id": "gone"}, {"credits": "5"}, {}):
        refused = await browser.post(CREDITS, form_key="a", **fields)
        assert refused.status_code == 422
        assert "This is not on sale any more. Choose another package." in refused.text
    for _ in range(20):
        await customer.post("/credits/topups", {"package_id": "credits-500"})
    refused = await browser.post(CREDITS, package_id="credits-500", form_key="b")
    assert (refused.status_code, "20 payments wait to be paid." in refused.text) == (422, True)
    assert 'name="form_key" value="b"' in refused.text, "a retry is the same payment"


async def test_payments_are_paged(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    for _ in range(26):
        await customer.post("/credits/topups", {"package_id": "credits-500"})
        await customer.query(
            "UPDATE payments SET status = 'failed', ended_at = now() WHERE account_id = %s",
            customer.account_id,
        )
    page = (await browser.get(CREDITS)).text
    older = re.search(r'href="([^"]+)" rel="next"', page)
    assert older is not None
    for path, count in ((CREDITS, 25), (older[1], 1)):
        assert len(re.findall(rf'href="{CREDITS}/[0-9a-f]', (await browser.get(path)).text)) == count


async def test_any_number_of_credits_where_it_is_sold(
    customer: Customer, elsewhere: Callable[[Application], Visitors]
) -> None:
    dollars = CreditPackage("small", 10, 1_050, "USD", date(2099, 12, 31))
    packages = PackageCatalogue.of([dollars], FreeAmount(100, 10_000, 1000, "IDR"), 1100)
    browser = await elsewhere(rebuilt(customer.application, packages=packages)).member(customer.account_id)
    page = (await browser.get(CREDITS)).text
    assert_contains(
        page, f"From 100 to 10,000 credits, at IDR{NBSP}1,000 each and 11% tax.", "$11.66", "31 Dec 2099"
    )
    for text in ("99", "10001", "1.5", ""):
        refused = await browser.post(CREDITS, credits=text, form_key="a")
        assert refused.status_code == 422
        assert_contains(refused.text, 'id="f-credits-error"', f'value="{text}"')
    answer = await browser.post(CREDITS, credits="1,500", form_key=await browser.form_key(CREDITS))
    assert answer.status_code == 303
    assert f"IDR{NBSP}1,665,000" in (await browser.get(CREDITS)).text


async def test_a_closed_shop_says_what_a_top_up_needs(
    customer: Customer, elsewhere: Callable[[Application], Visitors]
) -> None:
    application = rebuilt(customer.application, gateway=None, support_contact="help@rapat.example")
    browser = await elsewhere(application).member(customer.account_id)
    page = (await browser.get(CREDITS)).text
    assert_contains(
        page, "Credits are not sold on this page.", str(customer.account_id), absent=["package_id"]
    )
    assert page.count("mailto:help@rapat.example") == 2
    refused = await browser.post(CREDITS, package_id="credits-500", form_key="a")
    assert_contains(refused.text, "Credits are not sold here. Ask the operator of this service for a top-up.")


async def test_no_form_leads_to_the_gateway(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    for path in (CREDITS, "/dashboard"):
        assert "form-action 'self';" in (await browser.get(path)).headers["Content-Security-Policy"]


async def test_a_payment_says_whom_its_receipt_is_made_out_to(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id, Role.FINANCE)
    await browser.post(f"{CREDITS}/billing", name="PT <Sinar>", address="Jl. Mawar 2\r\nJakarta")
    assert "Receipts are made out to PT &lt;Sinar&gt;." in (await browser.get(CREDITS)).text
    payment_url = await bought(browser)
    path = f"{CREDITS}/{urlsplit(payment_url).path.rpartition('/')[2]}"
    assert_contains(
        (await browser.get(path)).text, "made out to: PT &lt;Sinar&gt;, Jl. Mawar 2, Jakarta.",
        'href="/dashboard/credits#billing"',
    )  # fmt: skip
    reader = await visitors.member(customer.account_id, Role.VIEWER)
    assert "Mawar" not in (await reader.get(path)).text


async def test_a_receipt_names_seller_buyer_and_money(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id, Role.FINANCE)
    billing = {"name": "PT Sinar <b>", "address": "Jl. Mawar 2\r\n\r\n Jakarta ", "tax_number": "09.876"}
    assert (await browser.post(f"{CREDITS}/billing", **billing)).status_code == 303
    path = await act(browser, await bought(browser), "pay")
    page = await settled(customer, browser, path)
    assert f'href="{path}/receipt.pdf"' in page
    assert f'href="{path}/receipt.pdf"' in (await browser.get(CREDITS)).text
    [row] = await customer.query("SELECT year, number FROM receipts WHERE payment_id = %s", path[-36:])
    number = f"{row['year']}-{row['number']:06d}"
    answer = await browser.get(f"{path}/receipt.pdf")
    assert answer.headers["content-disposition"] == f'attachment; filename="receipt-{number}.pdf"'
    today = format_day(customer.application.runtime.now(), Language.ENGLISH)
    text = text_of(answer)
    assert_contains(
        text, f"Receipt {number}", today, "PT Rapat Daring", "Jl. Melati 1, Bandung", "01.234.567.8-901.000",
        "PT Sinar <b>", "Jl. Mawar 2", "Jakarta", "Tax number: 09.876", "500 credits (package credits-500)",
        "IDR 500,000",
        "IDR 55,000", "IDR 555,000", "paid", "sandbox", path[-36:],
    )  # fmt: skip
    await browser.post(f"{CREDITS}/billing", name="PT Lain")
    again = await browser.get(f"{path}/receipt.pdf")
    assert again.content == answer.content, "a receipt stays as it was issued"
    answer = await browser.get(f"{path}/receipt.pdf?lang=id")
    assert answer.headers["content-disposition"] == f'attachment; filename="kuitansi-{number}.pdf"'
    assert_contains(text_of(answer), "Kuitansi", "Rp555.000", "lunas")


async def test_a_refund_is_on_the_payments_page_and_on_its_receipt(
    customer: Customer, visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await visitors.member(customer.account_id, Role.FINANCE)
    path = await act(browser, await bought(browser), "pay")
    assert "Refund" not in await settled(customer, browser, path)
    application, runtime = customer.application, customer.application.runtime
    monkeypatch.setattr(SandboxGateway, "refund", under_way)
    async with application.ports.store.begin() as tx:
        await refund_within(tx, runtime, SERVICE, runtime.now(), UUID(path[-36:]), 100, "asked for")
    today = format_day(runtime.now(), Language.ENGLISH)
    page = html.unescape((await browser.get(path)).text).replace(NBSP, " ")
    part = "partly refunded: 100 of 500 credits"
    assert_contains(
        page, part, "A part of this payment was refunded. The money goes back the way it came.",
        "IDR 111,000, 100 credits", today,
    )  # fmt: skip
    assert part in (await browser.get(CREDITS)).text
    receipt = text_of(await browser.get(f"{path}/receipt.pdf"))
    assert_contains(receipt, "Refund", "IDR 111,000", "not yet", part)
    for refused_at in (runtime.now(), None):
        refused = "UPDATE payment_refunds SET refused_at = %s WHERE payment_id = %s RETURNING payment_id"
        await customer.query(refused, refused_at, path[-36:])
        page, receipt = (await browser.get(path)).text, text_of(await browser.get(f"{path}/receipt.pdf"))
        assert ("The money goes back the way it came" in page) is (refused_at is None)
        assert ("sends it in another way" in page) is ("another way" in receipt) is (refused_at is not None)
    monkeypatch.undo()
    await ask_gateway(customer, path[-36:])
    assert f"sent the way it came on {today}" in (await browser.get(path)).text.replace(NBSP, " ")
    receipt = text_of(await browser.get(f"{path}/receipt.pdf"))
    assert_contains(receipt, "Sent back", today, absent=("not yet",))
    browser.http.headers["Accept-Language"] = "id"
    noun, verb = "Pengembalian dana", "Kembalikan"
    assert_contains((await browser.get(path)).text, f"<dt>{noun}</dt>", absent=(verb,))
    assert_contains(text_of(await browser.get(f"{path}/receipt.pdf")), noun, absent=(verb,))


async def test_the_ledger_leads_to_the_payment(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    path = await act(browser, await bought(browser), "pay")
    await settled(customer, browser, path)
    assert f'<a href="{path}">Payment</a>' in (await browser.get("/dashboard/ledger")).text


async def test_an_unpaid_payment_has_no_receipt(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    path = f"{CREDITS}/{urlsplit(await bought(browser)).path.rpartition('/')[2]}"
    assert (await browser.get(f"{path}/receipt.pdf")).status_code == 404


async def test_billing_details_are_checked_beside_their_fields(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    assert form_fields((await browser.get(CREDITS)).text, f"{CREDITS}/billing")["name"] == "Sari Dewi"
    wrong = {"name": " ", "address": "A" * 501, "tax_number": "9" * 51}
    refused = await browser.post(f"{CREDITS}/billing", **wrong)
    assert refused.status_code == 422
    for field, text in (("name", " "), ("address", "A" * 501), ("tax_number", "9" * 51)):
        assert f'id="f-buyer_{field}-error"' in refused.text
        assert form_fields(refused.text, f"{CREDITS}/billing")[field] == text
    saved = {"name": "PT Sinar", "address": "Jl. Mawar 2\nJakarta", "tax_number": ""}
    done = (await browser.post(f"{CREDITS}/billing", **saved)).headers["location"]
    assert "The billing details are changed." in (await browser.get(done)).text
    kept = form_fields((await browser.get(CREDITS)).text, f"{CREDITS}/billing")
    assert {name: kept[name] for name in saved} == saved
    developer = await visitors.member(customer.account_id, Role.DEVELOPER)
    assert "PT Sinar" not in (await developer.get(CREDITS)).text
