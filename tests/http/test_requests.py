"""The log of requests, and limits of a request's parts."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from time import thread_time
from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import frozen

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.http.api_app import ApiApp
from meetcore.domain.ids import uuid7
from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, Quotas
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.testing.clock import ManualClock
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, api_on, client_of, fields_of
from tests.support.sandbox_recordings import store_recording
from tests.support.texts import assert_contains
from tests.support.visitors import SignIn

PAGE = "/dashboard/requests"
ROW = re.compile(r"<tr>(.*?)</tr>", re.S)


def rows(text: str) -> list[str]:
    """The rows of the table, the newest request first, as plain text."""
    found = [re.sub(r"<[^>]*>", " ", row) for row in ROW.findall(text)[1:]]
    return [" ".join(row.split()) for row in found]


async def kept(customer: Customer, number: int) -> None:
    """Return once the service has written so many requests of an account, about a second later."""
    count = "SELECT count(*) AS found FROM api_requests WHERE account_id = %s"
    async with asyncio.timeout(20):
        while (await customer.harness.query(count, customer.account_id))[0]["found"] < number:  # noqa: ASYNC110  # in a database
            await asyncio.sleep(0.05)


async def test_each_call_of_key_is_shown_with_what_became_of_it(customer: Customer, sign_in: SignIn) -> None:
    meeting = await customer.make_meeting()
    await customer.get(f"/meetings/{meeting['id']}")
    missing = await customer.get(f"/meetings/{uuid4()}")
    wrong_method = await customer.send("PATCH", "/meetings")
    nowhere = await customer.get("/nowhere?secret=s3cret")
    await kept(customer, 5)
    browser = await sign_in(customer.account_id)
    page = (await browser.get(PAGE)).text
    shown = rows(page)
    assert shown[0].startswith("GET unknown path 404 not_found")
    assert shown[1].startswith("PATCH /meetings 405 invalid_request")
    assert shown[2].startswith("GET /meetings/{id} its meeting 404 not_found")
    assert shown[3].startswith("GET /meetings/{id} its meeting 200")
    assert shown[4].startswith("POST /meetings its meeting 201")
    for answer, row in ((nowhere, shown[0]), (wrong_method, shown[1]), (missing, shown[2])):
        assert answer.headers["X-Request-Id"] in row
    assert all(re.search(r" \d+ ms ", row) and "WIB " in row for row in shown)
    assert_contains(
        page, f'<a href="/dashboard/meetings/{meeting["id"]}">its meeting</a>', absent=("s3cret",)
    )


async def test_a_request_is_found_by_its_id_and_leads_to_its_meeting(
    customer: Customer, sign_in: SignIn
) -> None:
    await customer.get("/me")
    answer = await customer.post("/meetings", customer.body())
    assert answer.status_code == 201, answer.text
    await kept(customer, 2)
    request_id = answer.headers["X-Request-Id"]
    browser = await sign_in(customer.account_id)
    found_at = (await browser.get(f"{PAGE}?id=%20{request_id}")).headers["location"]
    assert found_at == f"{PAGE}/{request_id}"
    page = (await browser.get(found_at)).text
    assert f'href="/dashboard/meetings/{answer.json()["id"]}"' in page
    other = await sign_in((await customer.harness.customer()).account_id)
    for text in (request_id, "nothing", "%00"):
        nothing = await other.get(f"{PAGE}?id={text}")
        assert nothing.status_code == 200
        assert rows(nothing.text) == []
        assert "No request with this id is kept" in nothing.text
    found = await customer.application.ports.queries.find_request_of_any(UUID(request_id))
    assert found is not None
    assert str(found.subject_id) == answer.json()["id"]


async def test_the_page_of_a_refused_request_says_why_without_any_value(
    customer: Customer, sign_in: SignIn
) -> None:
    body = customer.body(title="", description="s3cret", nonsense="s3cret")
    answer = await customer.post("/meetings", body)
    hook = await customer.post("/webhooks", customer.harness.webhook_body(event_types=["s3cret"]))
    await kept(customer, 2)
    browser = await sign_in(customer.account_id, Role.VIEWER)
    page = (await browser.get(f"{PAGE}/{answer.headers['X-Request-Id']}")).text
    assert_contains(
        page,
        "POST /meetings", ">400<", answer.json()["error"]["message"],
        '<a href="/docs/errors/invalid_request"><code>invalid_request</code></a>',
        "<code>fields.title</code>", "must be a string of length &gt;= 1", "<code>fields.nonsense</code>",
        "<dt>Address</dt><dd><code>127.0.0.1</code></dd>",
        "is not a field of this operation", customer.key.key.name, " ms</dd>",
        f'value="{answer.headers["X-Request-Id"]}"',
        absent=("s3cret",),
    )  # fmt: skip
    other = (await browser.get(f"{PAGE}/{hook.headers['X-Request-Id']}")).text
    assert_contains(other, "<code>fields.event_types</code>", "does not know …", absent=("s3cret",))
    stored = await customer.query("SELECT * FROM api_requests WHERE account_id = %s", customer.account_id)
    assert "s3cret" not in str(stored)
    for id in (uuid4(), "x"):
        assert (await browser.get(f"{PAGE}/{id}")).status_code == 404


async def test_a_replayed_refusal_says_why_too(customer: Customer, sign_in: SignIn) -> None:
    webhook = await customer.make_webhook()
    body, key = customer.harness.webhook_body(url=webhook["url"]), uuid4().hex
    answers = [await customer.post("/webhooks", body, idem=key) for _ in range(2)]
    await kept(customer, 3)
    browser = await sign_in(customer.account_id)
    for answer in answers:
        assert answer.status_code == 409
        page = (await browser.get(f"{PAGE}/{answer.headers['X-Request-Id']}")).text
        assert_contains(page, answer.json()["error"]["message"], "<code>id</code>")


async def test_the_page_of_a_request_shows_what_its_webhooks_did(customer: Customer, sign_in: SignIn) -> None:
    webhook = await customer.make_webhook(event_types=["meeting.created"])
    answer = await customer.post("/meetings", customer.body())
    await customer.make_meeting()
    await kept(customer, 3)
    [first, _] = (await customer.get(f"/webhooks/{webhook['id']}/deliveries")).json()["data"][::-1]
    page = (await (await sign_in(customer.account_id)).get(f"{PAGE}/{answer.headers['X-Request-Id']}")).text
    [delivery] = rows(page)
    assert delivery.startswith(f"meeting.created {webhook['url']}")
    assert_contains(page, f'href="/dashboard/webhooks/{webhook["id"]}/deliveries/{first["id"]}"')


async def test_a_request_for_notes_leads_to_them(customer: Customer, sign_in: SignIn) -> None:
    recording = await store_recording(customer)
    answer = await customer.post("/notes", {"recording_id": recording["id"]})
    assert answer.status_code == 202
    browser, path = await sign_in(customer.account_id), f"{PAGE}/{answer.headers['X-Request-Id']}"
    async with asyncio.timeout(20):
        while (page := await browser.get(path)).status_code == 404:  # noqa: ASYNC110  # in a database
            await asyncio.sleep(0.05)
    assert f'<a href="/dashboard/notes/{answer.json()["id"]}">its notes</a>' in page.text


async def test_requests_are_filtered_by_day_path_and_code_on_every_page(
    customer: Customer, sign_in: SignIn
) -> None:
    def called(at: datetime, path: str, code: str | None = None) -> LoggedRequest:
        id_, status = uuid7(at, uuid4().bytes), 200 if code is None else 404
        return LoggedRequest(id_, customer.account_id, customer.key.key.id, at, "GET", path, status, 1, code)

    evening = datetime(2026, 11, 26, 17, 10, tzinfo=UTC)  # 00:10 of the 27th, WIB
    await customer.application.ports.request_log.save(
        [
            *(called(evening + timedelta(seconds=n), "/meetings", "not_found") for n in range(27)),
            called(evening, "/me"), called(evening, "", "not_found"),
            called(evening - timedelta(hours=1), "/meetings", "not_found"),
        ]
    )  # fmt: skip
    browser = await sign_in(customer.account_id)
    first = (await browser.get(f"{PAGE}?day=2026-11-27&path=/meetings&code=not_found")).text
    [older] = re.findall(r'<a href="([^"]+)" rel="next">', first)
    rest = (await browser.get(html.unescape(older))).text
    assert (len(rows(first)), len(rows(rest))) == (25, 2)
    assert_contains(rest, 'value="2026-11-27"', '<option value="/meetings" selected>', 'rel="first"')
    assert 'rel="first"' not in first
    for query, number in (
        ("day=2026-11-26", 1), ("path=/me", 1), ("path=unknown", 1), ("day=2026-11-25", 0),
        ("code=gone", 0), ("day=2026-11-27&code=not_found&path=unknown&status=4", 1),
    ):  # fmt: skip
        assert len(rows((await browser.get(f"{PAGE}?{query}")).text)) == number, query
    wrong = await browser.get(f"{PAGE}?day=tomorrow")
    assert wrong.status_code == 422
    assert "Write the day as YYYY-MM-DD." in wrong.text


async def test_requests_are_filtered_by_key_and_status(customer: Customer, sign_in: SignIn) -> None:
    second = await customer.application.administration.keys.create(
        customer.account_id, [Scope.MEETINGS_READ], name="Two"
    )
    await customer.get("/me")
    await customer.get("/nowhere")
    await customer.http.get("/me", headers={"Authorization": f"Bearer {second.text}"})
    await kept(customer, 3)
    browser = await sign_in(customer.account_id, Role.VIEWER)
    assert len(rows((await browser.get(PAGE)).text)) == 3
    [of_second] = rows((await browser.get(f"{PAGE}?key={second.key.id}")).text)
    assert "Two" in of_second
    [refused] = rows((await browser.get(f"{PAGE}?status=4")).text)
    assert "404" in refused
    assert rows((await browser.get(f"{PAGE}?status=5")).text) == []
    assert len(rows((await browser.get(f"{PAGE}?status=x&key=x&before=x")).text)) == 3


async def test_a_call_of_no_account_is_not_kept_and_one_over_its_quota_is(
    customer: Customer, contract: Contract, sign_in: SignIn
) -> None:
    clock = ManualClock(datetime.now(UTC).replace(second=30))  # all requests come in one minute
    async with (
        api_on(customer.application, quotas=Quotas(read=1), clock=clock) as api,
        client_of(api, contract) as http,
    ):
        refused = [
            await http.get("/me", headers=each) for each in ({"Authorization": "Bearer mk_nobody"}, {})
        ]
        strict = customer.at(http)
        assert (await strict.get("/me")).status_code == 200
        clock.advance(1)
        assert (await strict.get("/me")).status_code == 429
        await api._pipeline.admit.requests()
    for answer in refused:
        assert answer.status_code == 401
        request_id = UUID(answer.headers["X-Request-Id"])
        assert await customer.application.ports.queries.find_request_of_any(request_id) is None
    page = (await (await sign_in(customer.account_id)).get(PAGE)).text
    assert [row.split(" ", 4)[:4] for row in rows(page)] == [
        ["GET", "/me", "429", "rate_limited"],
        ["GET", "/me", "200", rows(page)[1].split(" ")[3]],
    ]


LONG = "&".join(f"a{number}" for number in range(9_000))  # 58 KB
NOW = (datetime.now(UTC) + timedelta(hours=2)).replace(second=5, microsecond=0)
"""Five seconds into a minute, and later than any run of the tests ends: a key may expire soon after it."""


@frozen
class RawResponse:
    status: int
    headers: Mapping[str, str]
    body: Any


async def sent_in_parts(
    api: ApiApp, customer: Customer, path: str, parts: AsyncIterator[bytes]
) -> RawResponse:
    """POST a body that comes in parts; it ends when they do."""
    headers = {"authorization": f"Bearer {customer.key.text}", "content-type": "application/json"}
    scope = {
        "type": "http", "method": "POST", "path": f"/api/v1{path}", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    answered: list[Any] = []

    async def receive() -> dict[str, Any]:
        part = await anext(parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Any) -> None:
        answered.append(message)

    await api(scope, receive, send)
    head, body = answered[0], b"".join(each["body"] for each in answered[1:])
    header_fields = {name.decode().lower(): value.decode() for name, value in head["headers"]}
    return RawResponse(head["status"], header_fields, json.loads(body))


@pytest.mark.parametrize("path", ["/me", "/credits", "/webhooks", "/pricing-tiers"])
async def test_a_long_query_costs_no_time(customer: Customer, path: str) -> None:
    start = thread_time()
    answer = await customer.get(f"{path}?{LONG}")
    assert thread_time() - start < 0.5
    assert set(fields_of(answer)) == {"query"}


async def test_many_names_of_which_one_is_given_twice_cost_no_time(customer: Customer) -> None:
    names = [f'"{number:x}":1' for number in (*range(7_300), 0)]  # 61 KB
    start = thread_time()
    answer = await customer.send("POST", "/webhooks", raw=f"{{{','.join(names)}}}".encode())
    assert thread_time() - start < 0.2
    assert fields_of(answer) == {"0": ["must be given once"]}


@pytest.mark.spec("7/400")
async def test_a_query_has_a_largest_size(customer: Customer) -> None:
    many = "&".join(["limit=1"] * 33)
    assert fields_of(await customer.get(f"/webhooks?{many}")) == {
        "query": ["must not have more than 32 parameters"]
    }
    assert fields_of(await customer.get(f"/webhooks?cursor={'x' * 4090}")) == {
        "query": ["must not be longer than 4096 bytes"]
    }
    some = "&".join(["limit=1"] * 32)
    assert fields_of(await customer.get(f"/webhooks?{some}")) == {"limit": ["must be given once"]}
    assert set(fields_of(await customer.get(f"/webhooks?cursor={'x' * 4089}"))) == {"cursor"}


@pytest.mark.spec("7/400")
async def test_the_query_of_an_operation_without_parameters_has_it_too(customer: Customer) -> None:
    meeting = await customer.make_meeting()
    many, some = "&".join(["a=1"] * 33), "&".join(["a=1"] * 32)
    body = {"type": "notulen", "duration": 90}
    for method, path, sent in (
        ("GET", "/me", None), ("GET", "/credits", None), ("GET", f"/meetings/{meeting['id']}", None),
        ("POST", "/credits/estimate", body),
    ):  # fmt: skip
        assert fields_of(await customer.send(method, f"{path}?{many}", sent)) == {
            "query": ["must not have more than 32 parameters"]
        }
        assert fields_of(await customer.send(method, f"{path}?a={'x' * 4095}", sent)) == {
            "query": ["must not be longer than 4096 bytes"]
        }
        assert (await customer.send(method, f"{path}?{some}", sent)).status_code == 200


@pytest.mark.spec("7/400")
async def test_a_query_of_options_has_it_too(customer: Customer) -> None:
    path = "/recordings/01890000-0000-7000-8000-000000000000"
    assert set(fields_of(await customer.delete(f"{path}?{LONG}"))) == {"query"}
    assert set(fields_of(await customer.delete(f"{path}?a&b"))) == {"a", "b"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/meetings"),
        ("POST", "/credits/estimate"),
        ("POST", "/notes"),
        ("POST", "/webhooks/{id}/test"),
    ],
)
async def test_an_unknown_field_is_reported_for_its_own_operation(
    customer: Customer, method: str, path: str
) -> None:
    place = path.replace("{id}", "01890000-0000-7000-8000-000000000000")
    body = {"url": "https://x.test", "type": "meeting", "options": {"with_recording": True}}
    problems = fields_of(await customer.send(method, place, body))
    assert problems["url"] == problems["options"] == ["is not a field of this operation"]


async def test_answers_forbid_content_sniffing(customer: Customer) -> None:
    for answer in (await customer.get("/me"), await customer.get("/nope")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.spec("7/400", "7/envelope")
@pytest.mark.parametrize("parts", [[], [b"x"] * 3], ids=["nothing", "drops"])
async def test_a_body_that_does_not_end_is_refused(customer: Customer, parts: list[bytes]) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for part in parts:
            yield part
        await asyncio.Event().wait()

    limits = RequestLimits(body_timeout_s=0.2, body_bytes_per_s=1000)
    async with api_on(customer.application, limits=limits) as api:
        answer = await sent_in_parts(api, customer, "/webhooks", endless())
    assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_request")
    assert answer.body["error"]["details"]["fields"] == {
        "body": ["must be sent within 0.2 s and at 1000 bytes/s or more"]
    }
    assert answer.headers["connection"] == "close"
    assert int(answer.headers["x-ratelimit-remaining"]) < int(answer.headers["x-ratelimit-limit"])


async def test_a_body_that_comes_too_slowly_is_refused_before_its_time_is_over(customer: Customer) -> None:
    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    limits = RequestLimits(body_timeout_s=20, body_bytes_per_s=10_000)
    async with api_on(customer.application, limits=limits) as api:
        start = asyncio.get_running_loop().time()
        answer = await sent_in_parts(api, customer, "/webhooks", drops())
    assert answer.status == 400
    assert asyncio.get_running_loop().time() - start < 15


async def test_a_body_in_parts_is_read_as_one(customer: Customer) -> None:
    body = json.dumps(customer.harness.webhook_body()).encode()

    async def halves() -> AsyncIterator[bytes]:
        yield body[:20]
        await asyncio.sleep(0)
        yield body[20:]

    async with api_on(customer.application) as api:
        assert (await sent_in_parts(api, customer, "/webhooks", halves())).status == 201


async def post_slowly(customer: Customer, clock: ManualClock, seconds: float, and_then: Any) -> RawResponse:
    """Send a meeting of which the last byte comes so many seconds later, after something has happened."""
    body = json.dumps(customer.body()).encode()

    async def parts() -> AsyncIterator[bytes]:
        yield body[:-1]
        clock.advance(seconds)
        await and_then()
        yield body[-1:]

    async with api_on(customer.application, clock=clock) as api:
        return await sent_in_parts(api, customer, "/meetings", parts())


async def nothing() -> None:
    """Nothing happens meanwhile."""


@pytest.mark.spec("5/3", "7/401")
async def test_a_key_revoked_while_the_body_was_received_buys_nothing(harness: ApiHarness) -> None:
    customer = await harness.customer()

    async def revoke() -> None:
        await harness.administration.keys.revoke(customer.key.key.id)

    answer = await post_slowly(customer, ManualClock(NOW), 5, revoke)
    assert (answer.status, answer.body["error"]["code"]) == (401, "invalid_api_key")
    assert (await customer.funds()).balance == 1000


@pytest.mark.spec("8/1", "8/2", "8/5")
async def test_a_request_is_counted_in_the_window_in_which_it_is_carried_out(harness: ApiHarness) -> None:
    customer, clock = await harness.customer(), ManualClock(NOW)
    answer = await post_slowly(customer, clock, 56, nothing)
    assert answer.status == 201
    window = int(NOW.timestamp()) // WINDOW_SECONDS * WINDOW_SECONDS
    assert int(answer.headers["x-ratelimit-reset"]) == window + 2 * WINDOW_SECONDS
    first = int(answer.headers["x-ratelimit-remaining"])
    # Within one window it counts once.
    answer = await post_slowly(customer, clock, 5, nothing)
    assert int(answer.headers["x-ratelimit-remaining"]) == first - 1


@pytest.mark.spec("5/7")
async def test_a_request_that_crosses_midnight_counts_for_the_day_on_which_it_is_carried_out(
    harness: ApiHarness,
) -> None:
    customer = await harness.customer()
    midnight = cap_day_ends_at(cap_day(NOW))
    answer = await post_slowly(customer, ManualClock(midnight - timedelta(seconds=2)), 5, nothing)
    assert answer.status == 201
    usage = await customer.query("SELECT day FROM cap_usage WHERE account_id = %s", customer.account_id)
    assert [row["day"] for row in usage] == [cap_day(midnight)]


@pytest.mark.parametrize("path", ["/docs", "/docs/errors", "/downloads/x", "/sandbox/meetings/x", "/nowhere"])
async def test_pages_outside_the_api_have_a_largest_query(customer: Customer, path: str) -> None:
    for query, is_refused in ((LONG, True), ("a=1&b=2", False)):
        answer = await customer.http.get(f"{BASE_URL}{path}?{query}")
        assert (answer.status_code == 400) == is_refused
        if is_refused:
            assert set(fields_of(answer)) == {"query"}


async def test_no_redirect_repeats_a_signed_query(customer: Customer) -> None:
    for path in ("/downloads/x/?signature=secret", "/docs/?signature=secret", "/readyz/"):
        answer = await customer.http.get(f"{BASE_URL}{path}", headers={"Host": "evil.test"})
        assert answer.status_code == 404
        assert "location" not in answer.headers
