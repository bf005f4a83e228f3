"""Authentication (spec 5) and its refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from attrs import evolve

from meetcore.app import Service
from meetcore.domain.requests.keys import Scope
from tests.support.api_contract import Contract
from tests.support.api_harness import TIER_CREDITS, ApiHarness, Customer, client_of, code_of, started

UNKNOWN_ID = "01890000-0000-7000-8000-000000000000"
DELIVERIES = f"/webhooks/{UNKNOWN_ID}/deliveries"


WRITES, READS = {Scope.WEBHOOKS_WRITE}, {Scope.WEBHOOKS_READ, Scope.WEBHOOKS_WRITE}
SCOPED = [
    ("POST", "/meetings", {Scope.MEETINGS_WRITE}, "4.1/scope"),
    ("GET", "/meetings", {Scope.MEETINGS_READ, Scope.MEETINGS_WRITE}, "1/meetings"),
    ("DELETE", f"/meetings/{UNKNOWN_ID}", {Scope.MEETINGS_WRITE}, "1/op/meeting-delete"),
    ("POST", "/webhooks", WRITES, "4.3/scope"),
    ("GET", f"/webhooks/{UNKNOWN_ID}", READS, "1/op/webhook-detail"),
    ("PATCH", f"/webhooks/{UNKNOWN_ID}", WRITES, "4.4/scope"),
    ("GET", "/webhooks", READS, "1/webhooks"),
    ("DELETE", f"/webhooks/{UNKNOWN_ID}", WRITES, "1/webhooks"),
    ("POST", f"/webhooks/{UNKNOWN_ID}/rotate-secret", WRITES, "1/op/rotate-secret"),
    ("POST", f"/webhooks/{UNKNOWN_ID}/test", WRITES, "1/webhooks"),
    ("GET", DELIVERIES, READS, "1/op/deliveries"),
    ("GET", f"{DELIVERIES}/{UNKNOWN_ID}", READS, "1/op/deliveries"),
    ("POST", f"{DELIVERIES}/{UNKNOWN_ID}/resend", WRITES, "1/op/deliveries"),
]
REFUSED = (401, "invalid_api_key")


@pytest.mark.spec("5/1", "7/401")
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/no-such-path"), ("PUT", "/me"), ("DELETE", "/"), ("GET", "/me/"), ("GET", "")],
)
async def test_an_unauthenticated_request_learns_no_paths(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    assert code_of(await http.request(method, path)) == REFUSED


@pytest.mark.spec("4/bearer", "5/1", "5/3")
@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Basic {key}", "{key}", "Token {key}", "Bearer{key}"]
)
async def test_another_form_of_authorization(customer: Customer, value: str) -> None:
    header = {"Authorization": value.replace("{key}", customer.key.text)}
    query = {"api_key": customer.key.text}
    assert code_of(await customer.http.get("/me", headers=header, params=query)) == REFUSED


@pytest.mark.spec("4/bearer", "5/1", "7/401")
async def test_two_authorization_headers_are_none(customer: Customer) -> None:
    right, wrong = f"Bearer {customer.key.text}", "Bearer x"
    for values in ((right, wrong), (wrong, right), (right, right), (right, "")):
        answer = await customer.http.get("/me", headers=[("Authorization", value) for value in values])
        assert code_of(answer) == REFUSED
        assert "one Authorization header" in answer.json()["error"]["message"]


@pytest.mark.spec("5/3", "4.2/1", "7/401")
async def test_a_revoked_key_stops_at_its_next_request(customer: Customer) -> None:
    assert (await customer.get("/me")).status_code == 200
    await customer.harness.administration.keys.revoke(customer.key.key.id)
    assert code_of(await customer.get("/me")) == REFUSED
    assert code_of(await customer.post("/meetings", customer.body())) == REFUSED
    another_key = await customer.another_key()
    assert (await another_key.get("/me")).status_code == 200, "the other keys of the account go on"


@pytest.mark.spec("5/3", "7/401")
async def test_the_keys_of_a_suspended_account_stop_at_their_next_request(
    harness: ApiHarness, customer: Customer
) -> None:
    another_key, other = await customer.another_key(), await harness.customer()
    await harness.administration.suspend_account(customer.account_id)
    for one in (customer, another_key):
        answer = await one.get("/me")
        assert code_of(answer) == REFUSED
        assert "suspended" in answer.json()["error"]["message"]
        assert code_of(await one.post("/meetings", customer.body())) == REFUSED
    assert (await other.get("/me")).status_code == 200
    await harness.administration.resume_account(customer.account_id)
    assert (await customer.get("/me")).status_code == 200


class SteppingClock:
    def __init__(self, now: datetime) -> None:
        self.at = now

    def now(self) -> datetime:
        return self.at


@pytest.mark.spec("5/3", "4.2/1", "7/401")
async def test_an_expired_key_stops_at_its_instant(harness: ApiHarness, contract: Contract) -> None:
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    clock = SteppingClock(expires_at - timedelta(milliseconds=1))
    customer = await harness.customer(expires_at=expires_at)
    async with customer.on(clock=clock) as there:
        assert (await there.get("/me")).status_code == 200
        clock.at = expires_at
        assert code_of(await there.get("/me")) == REFUSED


@pytest.mark.spec("5/3", "5/7")
async def test_a_key_and_the_one_it_was_rolled_to_work_under_one_cap(customer: Customer) -> None:
    old = await customer.another_key(daily_cap=2 * TIER_CREDITS)
    administration = customer.harness.administration
    meeting = await old.make_meeting()
    minted, _ = await administration.keys.roll(old.key.key.id, 24)
    new = evolve(old, key=minted)
    for key in (old, new):
        cap = (await key.get("/credits")).json()["daily_cap"]
        assert (cap["cap"], cap["spent"]) == (2 * TIER_CREDITS, TIER_CREDITS)
    await new.make_meeting()
    for key in (old, new):
        assert code_of(await key.post("/meetings", customer.body())) == (422, "credit_cap_exceeded")
    await new.delete(f"/meetings/{meeting['id']}")
    assert (await new.get("/credits")).json()["daily_cap"]["spent"] == TIER_CREDITS
    listed = (await customer.get("/credits/transactions?limit=3")).json()["data"]
    paid_by = [str(key.key.key.id) for key in (old, new, old)]
    assert [each["api_key_id"] for each in listed] == paid_by, "a refund names the key of its charge"
    await administration.keys.set_daily_cap(old.key.key.id, 7)
    assert (await new.get("/me")).json()["api_key"]["daily_credit_cap"] == 7
    await administration.keys.roll(minted.key.id, 0)
    assert code_of(await new.get("/me")) == REFUSED
    assert (await old.get("/me")).status_code == 200


async def test_last_use_of_key_is_written_when_process_ends(customer: Customer, contract: Contract) -> None:
    other = await customer.another_key()
    service = Service(customer.harness.settings, customer.harness.network)
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    async with started(service), client_of(service, contract) as http:
        assert (await customer.at(http).get("/me")).status_code == 200
    rows = await customer.query(
        "SELECT id, last_used_at FROM api_keys WHERE account_id = %s", customer.account_id
    )
    last_used = {row["id"]: row["last_used_at"] for row in rows}
    assert before <= last_used[customer.key.key.id] <= datetime.now(UTC)
    assert last_used[customer.key.key.id].second == 0
    assert last_used[other.key.key.id] is None


@pytest.mark.spec("5/5", "7/403", "4.2/2", "5/4", "4.1/scope", "4.3/scope", "4.4/scope", "1/keys")
@pytest.mark.parametrize(("method", "path", "wanted", "_"), SCOPED)
async def test_a_key_without_the_scope(
    harness: ApiHarness, method: str, path: str, wanted: set[Scope], _: str
) -> None:
    customer = await harness.customer(scopes=[scope for scope in Scope if scope not in wanted])
    # The scope comes before the body: what is sent makes no difference.
    answer = await customer.send(method, path, raw=b"{broken")
    assert code_of(answer) == (403, "insufficient_scope")
    assert set(answer.json()["error"]["details"]["required"]) == wanted
    assert (await customer.get("/me")).status_code == 200, "the key itself is fine"


@pytest.mark.spec("5/5", "4.1/scope", "4.3/scope", "4.4/scope")
async def test_the_one_scope_is_enough(harness: ApiHarness) -> None:
    organiser = await harness.customer(scopes=[Scope.MEETINGS_WRITE])
    assert (await organiser.delete(f"/meetings/{(await organiser.make_meeting())['id']}")).status_code == 200
    integrator = await harness.customer(scopes=[Scope.WEBHOOKS_WRITE])
    webhook = await integrator.make_webhook()
    assert (await integrator.patch(f"/webhooks/{webhook['id']}", {})).status_code == 200
    assert (await integrator.get(f"/webhooks/{webhook['id']}")).status_code == 200


@pytest.mark.spec("4.2/scope", "5/6", "4.2/2")
async def test_me_and_the_tiers_need_no_scope(harness: ApiHarness) -> None:
    customer = await harness.customer(scopes=[])
    answer = await customer.get("/me")
    assert (answer.status_code, answer.json()["api_key"]["scopes"]) == (200, [])
    assert (await customer.get("/pricing-tiers")).status_code == 200
    assert code_of(await customer.post("/meetings", {})) == (403, "insufficient_scope")


@pytest.mark.spec("5/8", "7/404", "4.4/3")
async def test_foreign_data_is_answered_as_if_it_were_not_there(customer: Customer) -> None:
    meeting, webhook = await customer.make_meeting(), await customer.make_webhook()
    other = await customer.harness.customer()
    requests = [
        ("GET", "meetings", meeting, None),
        ("DELETE", "meetings", meeting, None),
        ("GET", "webhooks", webhook, None),
        ("PATCH", "webhooks", webhook, {"is_active": False}),
    ]
    for method, kind, record, body in requests:
        errors = []
        for name in (record["id"], UNKNOWN_ID, "not-a-uuid"):
            answer = await other.send(method, f"/{kind}/{name}", body)
            assert code_of(answer) == (404, "not_found")
            errors.append(answer.json()["error"] | {"request_id": None})
        assert errors[0] == errors[1] == errors[2]
    assert (await customer.get(f"/webhooks/{webhook['id']}")).json()["is_active"] is True
    assert (await customer.get(f"/meetings/{meeting['id']}")).json()["status"] == "scheduled"


@pytest.mark.spec("5/6", "5/7")
async def test_me_has_scopes_and_cap(harness: ApiHarness) -> None:
    customer = await harness.customer(scopes=[Scope.WEBHOOKS_READ, Scope.MEETINGS_WRITE], daily_cap=70)
    key = (await customer.get("/me")).json()["api_key"]
    assert (key["id"], key["scopes"]) == (str(customer.key.key.id), ["webhooks:read", "meetings:write"])
    assert key["daily_credit_cap"] == 70
