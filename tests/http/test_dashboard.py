"""The dashboard over HTTP: who gets in, what a role may do, what no other site or account can do."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from meetcore.adapters.web.routes import PAGES
from meetcore.adapters.web.texts import OPERATOR_ROLES, ROLE_MEANINGS, ROLE_TEXTS
from meetcore.adapters.web.visit import Page
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import OperatorRole, Role, is_allowed
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.events import EventKind
from tests.support.api_harness import BASE_URL, Customer, until
from tests.support.pages import form_fields
from tests.support.texts import assert_contains
from tests.support.visitors import SignIn, Visitors

SESSION = "__Host-meetcore"


def path_of(page: Page, id: object) -> str:
    return page.path.replace("{id}", str(id)).replace("{delivery_id}", str(uuid4()))


@pytest.mark.parametrize("role", Role)
async def test_page_is_open_to_roles_of_its_action(role: Role, customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id, role)
    for page in PAGES:
        path = path_of(page, uuid4())
        answer = await (browser.get(path) if page.method == "GET" else browser.post(path))
        is_open = is_allowed(role, page.action)
        assert (answer.status_code != 403) is is_open, f"{role} {page.method} {page.path}"
        if is_open and "{id}" in page.path and page.method == "GET":
            assert answer.status_code == 404, page.path


async def test_a_link_signs_in_once_and_never_into_the_session_that_was_there(
    customer: Customer, visitors: Visitors
) -> None:
    link = await customer.application.access.portal_links.for_guest(customer.account_id)
    path, browser = link.url.removeprefix(BASE_URL), visitors.stranger("/dashboard")
    browser.http.cookies.set(SESSION, "A" * 43, domain="meetcore.test")
    assert (await browser.get(path)).status_code == 200, "looking at the page uses nothing up"
    entered = await browser.post(path, page=path)
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"]
    assert "A" * 43 not in cookie
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))
    assert "domain" not in cookie.lower()
    assert (await visitors.stranger("/dashboard").post(path, page=path)).status_code == 410
    assert (await browser.post("/dashboard/sign-out")).status_code == 303
    browser.http.cookies.set(SESSION, entered.cookies[SESSION], domain="meetcore.test")
    assert (await browser.get("/dashboard")).status_code == 303, "the session is over, not only its cookie"


async def test_every_page_says_who_is_signed_in_and_what_the_role_may_do(
    customer: Customer, visitors: Visitors
) -> None:
    [owner] = await customer.application.ports.queries.list_members(customer.account_id)
    for role, name in ((Role.OWNER, owner.user.email), (Role.FINANCE, "Guest"), (Role.VIEWER, "Guest")):
        browser = await visitors.member(customer.account_id, role)
        for page in PAGES:
            if page.method == "GET" and is_allowed(role, page.action) and not re.search(r"\{|\.", page.path):
                text = (await browser.get(page.path)).text
                assert_contains(text, f"<strong>{name}</strong><br>{ROLE_TEXTS[role]}", ROLE_MEANINGS[role])
    operator = await visitors.operator(OperatorRole.SUPPORT)
    assert_contains((await operator.get("/console/accounts")).text, *OPERATOR_ROLES[OperatorRole.SUPPORT])
    owners = await visitors.member(customer.account_id)
    team = (await owners.get("/dashboard/team")).text
    assert_contains(team, "What each role may do", *ROLE_MEANINGS.values())


async def test_the_overview_has_the_parts_that_the_role_sees(customer: Customer, sign_in: SignIn) -> None:
    await customer.make_meeting(title="Of the overview")
    webhook = await customer.make_webhook()
    await customer.query("UPDATE webhook_endpoints SET consecutive_failures = 3 WHERE id = %s", webhook["id"])
    await customer.query(
        "UPDATE api_keys SET daily_cap = 1000, name = 'Capped' WHERE account_id = %s", customer.account_id
    )
    for role, sees_work in ((Role.OWNER, True), (Role.VIEWER, True), (Role.FINANCE, False)):
        text = (await (await sign_in(customer.account_id, role)).get("/dashboard")).text
        assert "Capped" in text
        assert f"meetings {1000 - await customer.balance()}, notes 0" in text
        assert ("Of the overview" in text) is sees_work
        assert (f"/dashboard/webhooks/{webhook['id']}" in text) is sees_work


async def test_a_key_is_shown_once_and_works(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id, Role.DEVELOPER)
    fields = {"name": "<b>CI</b>", "scope:meetings:read": "on", "daily_cap": "50"}
    made = await browser.post("/dashboard/keys", **fields)
    assert made.status_code == 200
    found = re.search(r'value="(mk_live_[^"]{43})"', made.text)
    assert found is not None
    assert "&lt;b&gt;CI&lt;/b&gt;" in made.text
    authorization = {"Authorization": f"Bearer {found[1]}"}
    me = (await customer.http.get("/me", headers=authorization)).json()
    assert (me["api_key"]["scopes"], me["api_key"]["daily_credit_cap"]) == (["meetings:read"], 50)
    assert found[1] not in (await browser.get("/dashboard/keys")).text
    assert (await browser.post("/dashboard/keys", name="", daily_cap="x")).status_code == 422


async def test_scopes_are_chosen_together_or_one_by_one(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    cases: tuple[tuple[dict[str, str], list[Scope]], ...] = (
        ({"preset": "read", "scope:meetings:write": "on"}, [each for each in Scope if ":read" in each]),
        ({"preset": "all"}, list(Scope)),
        ({"preset": "", "scope:credits:read": "on"}, [Scope.CREDITS_READ]),
    )
    for number, (fields, expected) in enumerate(cases):
        name = f"preset {number}"
        assert (await browser.post("/dashboard/keys", name=name, **fields)).status_code == 200
        [row] = await customer.query(
            "SELECT scopes FROM api_keys WHERE account_id = %s AND name = %s", customer.account_id, name
        )
        assert sorted(row["scopes"]) == sorted(expected)
    refused = await browser.post("/dashboard/keys", name="none", preset="")
    assert (refused.status_code, "Choose at least one scope." in refused.text) == (422, True)


async def test_amounts_are_read_in_the_language_of_the_page(customer: Customer, sign_in: SignIn) -> None:
    """`1.5` was read as 15, and `1.500` as 1500 in English, too."""
    browser = await sign_in(customer.account_id)
    for language, thousand, others in (
        ("en", "1,500", ("1.500", "1.5", "15.00")),
        ("id", "1.500", ("1,500", "1,5")),
    ):
        await browser.post("/dashboard/language", language=language, next="/dashboard")
        fields = {"name": language, "scope:meetings:read": "on"}
        for text in others:
            refused = await browser.post("/dashboard/keys", **fields, daily_cap=text)
            assert (refused.status_code, f'value="{text}"' in refused.text) == (422, True)
            assert (
                await browser.post("/dashboard/settings/threshold", low_threshold=text)
            ).status_code == 422
        assert (await browser.post("/dashboard/keys", **fields, daily_cap=thousand)).status_code == 200
        assert (
            await browser.post("/dashboard/settings/threshold", low_threshold=thousand)
        ).status_code == 303
    caps = await customer.query(
        "SELECT daily_cap FROM api_keys WHERE account_id = %s AND name IN ('en', 'id')", customer.account_id
    )
    assert [row["daily_cap"] for row in caps] == [1500, 1500]


async def test_a_form_that_is_sent_again_makes_no_second_key(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    form = await browser.form_key("/dashboard/keys/new")
    fields = {"form_key": form, "name": "CI", "scope:meetings:read": "on", "daily_cap": "50"}
    answers = [await browser.post("/dashboard/keys", **fields) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 422]
    assert "sent before" in answers[1].text
    keys = await customer.query("SELECT id FROM api_keys WHERE account_id = %s", customer.account_id)
    assert len(keys) == 2
    form = await browser.form_key("/dashboard/keys")
    page = (await browser.get("/dashboard/keys")).text
    assert_contains(page, ">1 hour</option>", ">24 hours</option>", absent=["one cap together"])
    roll = f"/dashboard/keys/{form_id(answers[0].text)}/roll"
    rolled = [await browser.post(roll, form_key=form, overlap_h="24") for _ in range(2)]
    assert [each.status_code for each in rolled] == [200, 422]
    keys = await customer.query("SELECT id FROM api_keys WHERE account_id = %s", customer.account_id)
    assert len(keys) == 3
    assert (await browser.get("/dashboard/keys")).text.count("one cap together") == 2


def form_id(page: str) -> str:
    """The id of the first key of the list."""
    found = re.search(r"/dashboard/keys/([0-9a-f-]{36})/roll", page)
    assert found is not None
    return found[1]


async def test_meeting_is_made_when_its_price_was_seen_and_once(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    form = await browser.form_key("/dashboard/meetings/new")
    body = customer.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    fields |= {"form_key": form}
    priced = await browser.post("/dashboard/meetings", **fields)
    seen = re.search(r'name="seen_credits" value="(\d+)"', priced.text)
    assert seen is not None
    assert await customer.balance() == 1000
    fields |= {"seen_credits": seen[1]}
    made = [await browser.post("/dashboard/meetings", **fields) for _ in range(2)]
    assert {each.headers["location"] for each in made} == {made[0].headers["location"]}
    assert await customer.balance() == 1000 - int(seen[1])
    page = made[0].headers["location"].partition("?")[0]
    assert "By hand" in (await browser.get(page)).text
    transactions = (await customer.get("/credits/transactions")).json()["data"]
    assert transactions[0]["api_key_id"] is None
    form = await browser.form_key(page)
    cancelled = await browser.post(f"{page}/cancel", page=page, form_key=form, confirmed="yes")
    assert cancelled.status_code == 303
    assert await customer.balance() == 1000


async def test_what_is_done_by_hand_is_in_audit_log_with_address(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    webhook, meeting = await customer.make_webhook(), await customer.make_meeting(title="\u202eBy a key")
    page = f"/dashboard/webhooks/{webhook['id']}"
    form = await browser.form_key(page)
    for path in ("secret", "rotate", "test", "test"):
        answer = await browser.post(f"{page}/{path}", page=page, form_key=form + path, confirmed="yes")
        assert answer.status_code in (200, 303), answer.text
    await browser.post(f"/dashboard/meetings/{meeting['id']}/cancel", form_key="a", confirmed="yes")
    log = (await browser.get("/dashboard/audit")).text
    actions = re.findall(r"<code>((?:webhook|meeting)\.[a-z_]+)</code>", log)
    assert actions[::-1] == [
        "webhook.secret_shown", "webhook.secret_rotated", "webhook.test_sent", "meeting.cancelled",
    ]  # fmt: skip
    assert_contains(log, "By a key", "127.0.0.1", "secret of a webhook rotated", absent=("whsec_",))
    browser.http.headers["Accept-Language"] = "id"
    translated = (await browser.get("/dashboard/audit")).text
    assert "rahasia webhook diganti" in translated
    assert re.search(r"\((anggota|tamu)\)", translated)
    assert "judul: <bdi>\u202eBy a key</bdi>" in translated
    assert re.search(r"<td><bdi>[^<]+</bdi> <small>\(", translated)
    assert re.findall(r"<code>((?:webhook|meeting)\.[a-z_]+)</code>", translated) == actions


async def test_the_audit_log_gives_times_in_wib_and_roles_by_their_names(
    customer: Customer, visitors: Visitors
) -> None:
    owner, ends_at = await visitors.member(customer.account_id), datetime(2027, 1, 1, 18, tzinfo=UTC)
    keys = customer.application.administration.keys
    await keys.create(customer.account_id, [Scope.MEETINGS_READ], expires_at=ends_at)
    await keys.create(customer.account_id, [Scope.MEETINGS_READ], expires_at=datetime.max.replace(tzinfo=UTC))
    assert "31\xa0Dec\xa09999" in (await owner.get("/dashboard/keys")).text
    await owner.post("/dashboard/team/invitations", email=f"{uuid4().hex}@example.com", role="developer")
    for language, at, role in (
        ("en", "expires: <bdi>2 Jan 2027, 01:00 WIB</bdi>", "role: <bdi>Developer</bdi>"),
        ("id", "berakhir: <bdi>2 Jan 2027, 01.00 WIB</bdi>", "peran: <bdi>Pengembang</bdi>"),
    ):
        owner.http.headers["Accept-Language"] = language
        assert_contains((await owner.get("/dashboard/audit")).text, at, role)


async def test_what_failed_at_a_webhook_is_sent_again_from_its_page(
    customer: Customer, sign_in: SignIn
) -> None:
    webhook = await customer.make_webhook()
    browser, page = await sign_in(customer.account_id), f"/dashboard/webhooks/{webhook['id']}"
    await browser.post(f"{page}/test", form_key="test")

    async def fail() -> list[dict[str, object]]:
        """Fail the delivery after its attempt: a recovery passes over what a worker is writing."""
        return await customer.query(
            "UPDATE deliveries SET status = 'failed', due_at = NULL, failed_at = now()"
            " WHERE endpoint_id = %s AND attempts_made > 0 AND lease_token IS NULL RETURNING id",
            webhook["id"],
        )

    assert len(await until(fail)) == 1
    since = (datetime.now(WIB) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    for _ in range(2):
        sent = await browser.post(f"{page}/recover", since=since, form_key="recover")
        assert sent.status_code == 200, sent.text
        assert "Deliveries that are sent again: 1." in sent.text
    again = await browser.post(f"{page}/recover", since=since, form_key="another")
    assert "Deliveries that are sent again: 0." in again.text
    for text in ("", "yesterday", "0001-01-01T00:00", "9999-12-31T23:59"):
        assert (await browser.post(f"{page}/recover", since=text)).status_code == 422, text


async def test_the_page_of_a_delivery_shows_the_payload_escaped(customer: Customer, sign_in: SignIn) -> None:
    webhook = await customer.make_webhook()
    await customer.make_meeting(title="<b>Rapat</b> \u00e9")
    (delivery,) = await customer.query("SELECT id FROM deliveries WHERE endpoint_id = %s", webhook["id"])
    browser = await sign_in(customer.account_id)
    page = (await browser.get(f"/dashboard/webhooks/{webhook['id']}/deliveries/{delivery['id']}")).text
    assert "&#34;title&#34;: &#34;&lt;b&gt;Rapat&lt;/b&gt; \u00e9&#34;" in page
    assert_contains(page, "X-Service-Signature", absent=("<b>Rapat",))


async def test_form_of_a_webhook_shows_an_example_of_each_kind(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    page = (await browser.get("/dashboard/webhooks/new")).text
    examples = re.findall(r"<pre tabindex=\"0\">(.*?)</pre>", page, re.DOTALL)
    kinds = {json.loads(html.unescape(each))["type"] for each in examples}
    assert kinds == {kind.value for kind in EventKind} - {"webhook.test"}


async def test_the_ledger_comes_as_a_file_of_every_entry(customer: Customer, sign_in: SignIn) -> None:
    await customer.make_meeting()
    browser = await sign_in(customer.account_id, Role.FINANCE)
    answer = await browser.get("/dashboard/ledger.csv?kind=meeting_charge")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.content.startswith(b"\xef\xbb\xbfnumber,"), "Excel on Windows reads UTF-8 by this mark"
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert [row["kind"] for row in rows] == ["meeting_charge"]
    whole = list(
        csv.DictReader(io.StringIO((await browser.get("/dashboard/ledger.csv")).content.decode("utf-8-sig")))
    )
    assert [int(row["number"]) for row in whole] == [2, 1]
    assert int(whole[0]["balance_after"]) == await customer.balance()


@pytest.mark.parametrize("wrong", ["from=9999-99-99", "to=x", "kind=nope", "from=2026-01-02&to=2026-01-01"])
async def test_a_wrong_filter_is_said_and_gives_no_file(
    customer: Customer, sign_in: SignIn, wrong: str
) -> None:
    browser = await sign_in(customer.account_id, Role.FINANCE)
    assert (await browser.get(f"/dashboard/ledger.csv?{wrong}")).status_code == 422
    page = await browser.get(f"/dashboard/ledger?{wrong}")
    assert (page.status_code, "There is a problem" in page.text) == (200, True)


async def test_an_unknown_choice_in_a_filter_is_said(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    webhook = (await customer.make_webhook())["id"]
    unknown, listed = (
        ("meetings?status=nope", "meetings?status=nope&view=week", "requests?status=6", "requests?path=/nope",
         "requests?code=nope", f"webhooks/{webhook}?status=nope", f"webhooks/{webhook}?kind=nope"),
        ("meetings?status=ended", "requests?status=4&path=/meetings&code=not_found", "requests?path=unknown",
         f"webhooks/{webhook}?status=pending&kind=meeting.created"),
    )  # fmt: skip
    for path in unknown:
        assert "Choose one from the list." in (await browser.get(f"/dashboard/{path}")).text, path
    for path in listed:
        assert "There is a problem" not in (await browser.get(f"/dashboard/{path}")).text, path


async def test_texts_of_users_are_isolated_from_others(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    [path] = set(re.findall(r'"(/dashboard/assets/[^"]+style.css)"', (await browser.get("/dashboard")).text))
    [rule] = re.findall(r"^(.*) \{ unicode-bidi: isolate; \}", (await browser.get(path)).text, re.MULTILINE)
    assert {"h1", "td", "dd", "a"} <= set(rule.split(", "))


async def test_the_language_is_the_browsers_and_can_be_switched(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    browser.http.headers["Accept-Language"] = "id-ID,id;q=0.9"
    assert '<html lang="id">' in (await browser.get("/dashboard")).text
    switched = await browser.post("/dashboard/language", language="en", next="/dashboard/keys")
    assert switched.headers["location"] == "/dashboard/keys"
    assert '<html lang="en">' in (await browser.get("/dashboard")).text


async def test_the_language_is_switched_on_the_page_of_a_form_that_was_sent(
    customer: Customer, sign_in: SignIn
) -> None:
    """It led to the address of the form, at which nothing is."""
    browser = await sign_in(customer.account_id)
    key = f"/dashboard/keys/{customer.key.key.id}"
    for sent, shown_at in (
        (await browser.post(f"{key}/revoke"), "/dashboard/keys"),
        (await browser.post(f"{key}/cap", daily_cap="x"), "/dashboard/keys"),
        (await browser.post("/dashboard/credits/billing", name=""), "/dashboard/credits"),
    ):
        fields = form_fields(sent.text, "/dashboard/language")
        switched = await browser.http.post(
            "/dashboard/language", data=fields | {"language": "id"}, headers={"Origin": BASE_URL}
        )
        assert switched.headers["location"] == shown_at
        assert (await browser.get(shown_at)).status_code == 200


async def test_the_language_is_switched_after_a_refused_sign_in(visitors: Visitors) -> None:
    """The page to go on to was forgotten, and the address of a passkey's answer was taken for a link."""
    stranger, sign_in = visitors.stranger(), "/dashboard/sign-in"
    for path, field in ((sign_in, "email"), (f"{sign_in}/passkey", "credential")):
        refused = await stranger.post(path, **{field: "x"}, next="/dashboard/keys?a=b")
        assert refused.status_code == 422
        shown_at = form_fields(refused.text, "/dashboard/language")["next"]
        page = (await stranger.get(shown_at)).text
        assert form_fields(page, f"{sign_in}/passkey")["next"] == "/dashboard/keys?a=b"


async def test_who_gives_the_own_role_away_goes_on_to_a_page_of_the_new_one(
    customer: Customer, visitors: Visitors
) -> None:
    owner, [own] = await visitors.member(customer.account_id), await owners_of(customer)
    await customer.query(
        "WITH other AS (INSERT INTO users (id, email, full_name, created_at)"
        " SELECT gen_random_uuid(), 'other' || email, full_name, now() FROM users WHERE id = %s RETURNING id)"
        " INSERT INTO memberships (account_id, user_id, role, created_at)"
        " SELECT %s, id, 'owner', now() FROM other RETURNING user_id",
        own, customer.account_id,
    )  # fmt: skip
    changed = await owner.post(f"/dashboard/team/{own}/role", role="viewer")
    page = await owner.get(changed.headers["location"])
    assert (page.status_code, "The role is changed." in page.text) == (200, True)
    assert [each for each in await owners_of(customer) if each == own] == []


async def test_a_member_is_not_invited_to_another_role(customer: Customer, visitors: Visitors) -> None:
    """The mail and its page named a role that the member did not get by accepting."""
    owner = await visitors.member(customer.account_id)
    refused = await owner.post(
        "/dashboard/team/invitations", email=f" {customer.email.upper()}", role="viewer"
    )
    assert (refused.status_code, "This is the address of a member." in refused.text) == (422, True)
    assert await customer.query("SELECT id FROM invitations WHERE account_id = %s", customer.account_id) == []


async def owners_of(customer: Customer) -> list[UUID]:
    found = await customer.application.ports.queries.list_members(customer.account_id)
    return [each.user.id for each in found if each.membership.role is Role.OWNER]


async def test_assets_are_kept_by_their_content(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    page = (await browser.get("/dashboard")).text
    paths = re.findall(r'"(/dashboard/assets/[^"]+)"', page)
    assert len(set(paths)) == 3
    for path in set(paths):
        asset = await browser.get(path)
        assert asset.status_code == 200
        assert "immutable" in asset.headers["cache-control"]
        assert int(asset.headers["content-length"]) < 6_000, "as it is sent, with gzip"
    assert (await browser.get("/dashboard/assets/000000000000/style.css")).status_code == 404
    assert (await browser.get("/dashboard/assets/000000000000/..%2Fvisit.py")).status_code == 404


async def test_own_sessions_are_listed_before_many_of_guests(customer: Customer, visitors: Visitors) -> None:
    owner = await visitors.member(customer.account_id)
    await visitors.guest(customer.account_id, Role.VIEWER)
    await customer.query(
        """INSERT INTO sessions SELECT idle.* FROM sessions s, generate_series(1, 110) AS n,
            jsonb_populate_record(s, jsonb_build_object(
                'id', 'ffffffff' || right(gen_random_uuid()::text, 28),
                'digest', sha256(gen_random_uuid()::text::bytea),
                'user_agent', n, 'last_seen_at', now() - interval '1 day')) AS idle
        WHERE s.account_id = %s AND s.guest_role = 'viewer' RETURNING id""",
        customer.account_id,
    )
    page = (await owner.get("/dashboard/settings")).text
    assert_contains(page, "this browser", "guest, by a link of the provider")
