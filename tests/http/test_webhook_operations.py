"""Listing and removing webhooks, and giving them new secrets."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meetcore.domain.requests.keys import Scope
from tests.support.api_harness import ApiHarness, Customer, code_of, fields_of, new_key

NO_ID = "01890000-0000-7000-8000-000000000000"


def without_secret(webhook: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in webhook.items() if name != "secret"}


def cursor_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


async def pages(customer: Customer, path: str) -> list[list[dict[str, Any]]]:
    """Every page of a list, as its cursors lead."""
    found: list[list[dict[str, Any]]] = []
    following = ""
    while True:
        page = await customer.get(f"{path}{following}")
        assert page.status_code == 200, page.text
        assert set(page.json()) == {"data", "next_cursor"}
        found.append(page.json()["data"])
        if page.json()["next_cursor"] is None:
            return found
        following = f"&cursor={page.json()['next_cursor']}"


@pytest.mark.spec("1/webhooks", "2.3/secret", "5/8", "4.3/3")
async def test_webhooks_are_listed_newest_first_without_secrets(customer: Customer) -> None:
    assert (await customer.get("/webhooks")).json() == {"data": [], "next_cursor": None}
    made = [await customer.make_webhook(description=f"{number}") for number in range(3)]
    await (await customer.harness.customer()).make_webhook()
    expected = [without_secret(webhook) for webhook in made[::-1]]
    assert (await customer.get("/webhooks")).json() == {"data": expected, "next_cursor": None}
    reader = await customer.another_key([Scope.WEBHOOKS_READ])
    assert (await reader.get("/webhooks")).json()["data"] == expected


@pytest.mark.spec("7/400")
async def test_all_problems_of_a_query(customer: Customer) -> None:
    for query, named in (
        *((f"limit={limit}", {"limit"}) for limit in ("0", "101", "1e1", "", "2&limit=3")),
        *(
            (f"cursor={text}", {"cursor"})
            for text in ("", "!", cursor_of("standard-100"), cursor_of(NO_ID[:-1]))
        ),
        ("status=pending", {"status"}),
        ("limit=x&cursor=y&offset=3&status=held", {"limit", "cursor", "offset", "status"}),
    ):
        assert set(fields_of(await customer.get(f"/webhooks?{query}"))) == named, query


@pytest.mark.spec("7/400", "1/op/deliveries")
async def test_all_problems_of_a_filtered_list(customer: Customer) -> None:
    path = f"/webhooks/{(await customer.make_webhook())['id']}/deliveries"
    for query, named in (
        ("status=", {"status"}), ("status=PENDING", {"status"}), ("status=pending,held", {"status"}),
        ("status=held&status=held", {"status"}), ("state=held", {"state"}),
        ("limit=0&cursor=x&status=gone&page=2", {"limit", "cursor", "status", "page"}),
    ):  # fmt: skip
        problems = fields_of(await customer.get(f"{path}?{query}"))
        assert set(problems) == named, query
        if problems.get("status") and "&status" not in query:
            assert problems["status"] == ["must be one of pending, held, succeeded, failed, expired"], query


@pytest.mark.spec("1/webhooks", "4.4/1", "4.3/2")
async def test_a_removed_webhook_is_gone_and_its_url_free(customer: Customer) -> None:
    body = customer.harness.webhook_body()
    made = (await customer.post("/webhooks", body)).json()
    other = await customer.make_webhook()
    path = f"/webhooks/{made['id']}"
    removed = await customer.delete(path)
    assert (removed.status_code, removed.content) == (204, b"")
    for method, below in (
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/deliveries"), ("POST", "/test"),
    ):  # fmt: skip
        answer = await customer.send(method, path + below, {} if method == "PATCH" else None)
        assert code_of(answer) == (404, "not_found")
    assert (await customer.get("/webhooks")).json()["data"] == [without_secret(other)]
    again = await customer.post("/webhooks", body)
    assert again.status_code == 201
    assert again.json()["id"] != made["id"]
    assert again.json()["secret"] != made["secret"]


@pytest.mark.spec("4/idem-replay", "4/idem-accepted")
async def test_a_removal_is_replayed_after_the_url_is_registered_again(customer: Customer) -> None:
    body, key = customer.harness.webhook_body(), new_key()
    path = f"/webhooks/{(await customer.post('/webhooks', body)).json()['id']}"
    first = await customer.delete(path, idem=key)
    again = (await customer.post("/webhooks", body)).json()
    second = await customer.delete(path, idem=key)
    assert (first.status_code, second.status_code, second.content) == (204, 204, b"")
    assert second.headers["Idempotent-Replayed"] == "true"
    assert (await customer.get(f"/webhooks/{again['id']}")).json() == again


@pytest.mark.spec("1/op/rotate-secret", "4.3/3", "2.3/secret")
async def test_a_rotation_gives_another_secret_and_changes_nothing_else(customer: Customer) -> None:
    made = await customer.make_webhook(description="Catatan")
    path = f"/webhooks/{made['id']}"
    await customer.patch(path, {"is_active": False})
    rotated = await customer.post(f"{path}/rotate-secret", None)
    assert rotated.status_code == 200
    record = rotated.json()
    assert record["secret"] != made["secret"]
    assert len(base64.b64decode(record["secret"].removeprefix("whsec_"))) == 32
    assert without_secret(record) == without_secret(made) | {"is_active": False}
    assert (await customer.get(path)).json() == record
    [row] = await customer.query(
        "SELECT secret, previous_secret FROM webhook_endpoints WHERE id = %s", made["id"]
    )
    assert record["secret"].encode() not in bytes(row["secret"])
    assert made["secret"].encode() not in bytes(row["previous_secret"])


@pytest.mark.spec("1/op/rotate-secret", "4/idem-replay", "4/idem-reused")
async def test_a_repeated_rotation_gives_the_same_secret(customer: Customer) -> None:
    path, key = f"/webhooks/{(await customer.make_webhook())['id']}", new_key()
    first, again = [await customer.post(f"{path}/rotate-secret", None, idem=key) for _ in range(2)]
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert (await customer.get(path)).json() == first.json()
    for other in ("test", "rotate-secret?overlap=0"):
        refused = await customer.post(f"{path}/{other}", None, idem=key)
        assert code_of(refused) == (422, "idempotency_key_reused")


@pytest.mark.spec("7/400", "1/op/rotate-secret")
async def test_an_overlap_is_whole_hours_up_to_a_day(customer: Customer) -> None:
    made = await customer.make_webhook()
    for overlap in ("", "-1", "25", "1.5", "024", "٣", "24&overlap=0"):
        refused = await customer.post(f"/webhooks/{made['id']}/rotate-secret?overlap={overlap}", None)
        assert set(fields_of(refused)) == {"overlap"}, overlap
        assert (await customer.get(f"/webhooks/{made['id']}")).json() == made, overlap


@pytest.mark.spec("7/409", "4/idem-replay")
@pytest.mark.parametrize(
    ("state", "change"),
    [("paused", ""), ("disabled", ", consecutive_failures = 20, disabled_at = now()")],
)
async def test_what_would_only_be_held_is_refused(customer: Customer, state: str, change: str) -> None:
    made = await customer.make_webhook()
    path = f"/webhooks/{made['id']}"
    sent = (await customer.post(f"{path}/test", None)).json()
    await customer.query(f"UPDATE webhook_endpoints SET state = %s{change} WHERE id = %s", state, made["id"])
    kept = "SELECT id FROM deliveries WHERE account_id = %s"
    rows = await customer.query(kept, customer.account_id)
    for below in ("/test", f"/deliveries/{sent['id']}/resend"):
        key = new_key()
        answers = [await customer.post(path + below, None, idem=key) for _ in "ab"]
        for answer in answers:
            assert code_of(answer) == (409, "conflict")
            assert answer.json()["error"]["details"] == {"id": made["id"]}
            assert state in answer.json()["error"]["message"]
        assert answers[1].headers["Idempotent-Replayed"] == "true"
    assert rows == await customer.query(kept, customer.account_id)


@pytest.mark.spec("5/8", "7/404", "4.4/3")
async def test_another_accounts_webhook_is_answered_as_an_unknown_one(customer: Customer) -> None:
    owner = await customer.harness.customer()
    foreign_id = (await owner.make_webhook())["id"]
    sent = (await owner.post(f"/webhooks/{foreign_id}/test", None)).json()["id"]
    own_id = (await customer.make_webhook())["id"]

    async def error_of(target: str, *ids: str) -> dict[str, Any]:
        answer = await customer.send(*target.format(*ids).split(" "))
        assert code_of(answer) == (404, "not_found")
        return {name: text for name, text in answer.json()["error"].items() if name != "request_id"}

    for target in (
        "DELETE /webhooks/{0}", "POST /webhooks/{0}/rotate-secret", "POST /webhooks/{0}/test",
        "GET /webhooks/{0}/deliveries", "GET /webhooks/{0}/deliveries/{1}",
        "POST /webhooks/{0}/deliveries/{1}/resend",
    ):  # fmt: skip
        foreign, unknown, not_an_id = [
            await error_of(target, *ids) for ids in ((foreign_id, sent), (NO_ID, NO_ID), ("x", "x"))
        ]
        assert foreign == unknown == not_an_id
    await error_of("GET /webhooks/{0}/deliveries/{1}", own_id, sent)
    await error_of("POST /webhooks/{0}/deliveries/{1}/resend", own_id, sent)
    assert (await owner.get(f"/webhooks/{foreign_id}")).status_code == 200


@pytest.mark.spec("4.3/4", "4.4/errors", "5/7")
async def test_it_costs_nothing(harness: ApiHarness) -> None:
    customer = await harness.customer(credits=0, daily_cap=0)
    path = f"/webhooks/{(await customer.make_webhook())['id']}"
    sent = await customer.post(f"{path}/test", None)
    assert sent.status_code == 202
    assert (await customer.post(f"{path}/deliveries/{sent.json()['id']}/resend", None)).status_code == 202
    assert (await customer.patch(path, {"is_active": False})).status_code == 200
    assert (await customer.delete(path)).status_code == 204
    assert await customer.balance() == 0


def ago(**length: float) -> str:
    return (datetime.now(UTC) - timedelta(**length)).isoformat()


@pytest.mark.spec("7/400")
async def test_a_recovery_needs_an_instant(customer: Customer) -> None:
    path = f"/webhooks/{(await customer.make_webhook())['id']}/recover"
    for fields in ({}, *({"since": one} for one in (None, 5, "lately", "2026-11-21T11:00"))):
        assert set(fields_of(await customer.post(path, fields))) == {"since"}, fields


@pytest.mark.spec("7/422", "7/404", "7/409")
async def test_a_recovery_that_cannot_be_is_refused(customer: Customer) -> None:
    webhook = await customer.make_webhook()
    path = f"/webhooks/{webhook['id']}"
    for since, word in ((ago(hours=-1), "future"), (ago(days=91), "90 days")):
        refused = await customer.post(f"{path}/recover", {"since": since})
        assert code_of(refused) == (422, "unprocessable_entity")
        assert word in refused.json()["error"]["message"]
    for id_ in (NO_ID, "x"):
        unknown = await customer.post(f"/webhooks/{id_}/recover", {"since": ago(hours=1)})
        assert code_of(unknown) == (404, "not_found")
    await customer.patch(path, {"is_active": False})
    paused = await customer.post(f"{path}/recover", {"since": ago(hours=1)})
    assert code_of(paused) == (409, "conflict")
    assert paused.json()["error"]["details"] == {"id": webhook["id"]}
