"""Registering and changing webhooks (spec 4.3, 4.4, 2.3)."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from urllib.parse import quote
from uuid import UUID

import pytest

from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.events import EventKind
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, code_of, fields_of, new_key
from tests.support.names import Names

FIELDS = {
    "id", "url", "description", "event_types", "is_active", "consecutive_failures", "disabled_at",
    "created_by", "created_at",
}  # fmt: skip
"""Spec 2.3, the secret aside."""
KINDS = [kind.value for kind in EventKind]


@pytest.mark.spec("2.3/fields", "2.3/secret", "4.3/3", "4.3/4", "1/webhooks")
async def test_the_webhook_record(customer: Customer) -> None:
    body = customer.harness.webhook_body(
        description="Catatan 🎉", event_types=["note.completed", "meeting.ended"]
    )
    answer = await customer.post("/webhooks", body)
    assert answer.status_code == 201
    record = answer.json()
    assert set(record) == FIELDS | {"secret"}
    assert UUID(record["id"]).version == 7
    assert answer.headers["Location"] == f"{BASE_URL}/api/v1/webhooks/{record['id']}"
    assert (record["url"], record["description"]) == (body["url"], "Catatan 🎉")
    assert record["event_types"] == ["note.completed", "meeting.ended"]
    assert record["is_active"] is True
    assert record["consecutive_failures"] == 0
    assert record["disabled_at"] is None
    assert record["created_by"] == str(customer.key.key.id)
    assert datetime.fromisoformat(record["created_at"]).utcoffset() is not None
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", record["secret"])
    assert len(base64.b64decode(record["secret"].removeprefix("whsec_"))) == 32
    assert await customer.balance() == 1000


@pytest.mark.spec("2.3/secret", "4.3/3", "1/op/webhook-detail", "4.4/4")
async def test_which_keys_get_the_secret(customer: Customer) -> None:
    made = await customer.make_webhook()
    path = f"/webhooks/{made['id']}"
    assert (await customer.get(path)).json() == made
    reader = await customer.another_key([Scope.WEBHOOKS_READ])
    without = {name: value for name, value in made.items() if name != "secret"}
    assert (await reader.get(path)).json() == without
    assert (await customer.patch(path, {"description": "x"})).json() == without | {"description": "x"}


@pytest.mark.spec("4.3/event_types", "6/kinds")
async def test_every_kind_can_be_subscribed_to(customer: Customer) -> None:
    assert (await customer.make_webhook(event_types=KINDS))["event_types"] == KINDS


@pytest.mark.spec("4.3/url")
async def test_urls_that_are_taken(customer: Customer) -> None:
    for url in (
        "https://hooks.test", "HTTPS://Hooks.TEST/Path", "https://bücher.test/x", "https://93.184.216.34/x",
    ):  # fmt: skip
        answer = await customer.post("/webhooks", customer.harness.webhook_body(url=url))
        assert answer.status_code == 201, answer.text
        assert answer.json()["url"] == url, "as it was given"


@pytest.mark.spec("4.3/url", "7/400", "4.3/errors")
async def test_urls_that_are_refused(customer: Customer) -> None:
    for url in (
        "", "http://hooks.test/x", "https://hooks.test:8443/x", 5, None, ["https://hooks.test/x"], ...,
    ):  # fmt: skip
        answer = await customer.post("/webhooks", customer.harness.webhook_body(url=url))
        assert set(fields_of(answer)) == {"url"}, url


@pytest.mark.spec("4.3/1", "4.3/errors", "7/422")
async def test_hosts_that_are_not_public(customer: Customer) -> None:
    for host in ("127.0.0.1", "[::ffff:10.0.0.1]", "intern.test", "INTERN.test.", "six.test", "mixed.test"):
        answer = await customer.post("/webhooks", customer.harness.webhook_body(url=f"https://{host}/x"))
        assert code_of(answer) == (422, "unprocessable_entity"), host
    rows = await customer.query("SELECT id FROM webhook_endpoints WHERE account_id = %s", customer.account_id)
    assert rows == []


@pytest.mark.spec("4.3/1", "7/422", "4/idem-replay")
async def test_a_refused_address_is_final_under_its_key(customer: Customer, names: Names) -> None:
    body, key = customer.harness.webhook_body(url="https://changing.test/x"), new_key()
    names.known["changing.test"] = names.known["intern.test"]
    first = await customer.post("/webhooks", body, idem=key)
    assert code_of(first) == (422, "unprocessable_entity")
    names.known["changing.test"] = names.known["hooks.test"]
    second = await customer.post("/webhooks", body, idem=key)
    assert (second.content, second.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert (await customer.post("/webhooks", body)).status_code == 201


@pytest.mark.spec("4.3/1", "7/422", "4/idem-reused")
async def test_a_name_that_does_not_resolve_is_temporary(customer: Customer, names: Names) -> None:
    body, key = customer.harness.webhook_body(url="https://soon.test/x"), new_key()
    assert code_of(await customer.post("/webhooks", body, idem=key)) == (422, "unprocessable_entity")
    assert [(row["is_done"], row["answer"]) for row in await customer.key_rows()] == [(False, None)]
    other = await customer.post("/webhooks", body | {"description": "x"}, idem=key)
    assert code_of(other) == (422, "idempotency_key_reused"), "the key is bound all the same"
    names.known["soon.test"] = names.known["hooks.test"]
    again = await customer.post("/webhooks", body, idem=key)
    assert again.status_code == 201
    assert "Idempotent-Replayed" not in again.headers


@pytest.mark.spec("4.3/2", "7/409", "4.3/errors")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://hooks.test/x", "https://hooks.test/x"),
        ("https://bücher.test/", "HTTPS://xn--bcher-kva.test:443"),
    ],
)
async def test_url_is_registered_once(harness: ApiHarness, customer: Customer, one: str, other: str) -> None:
    first = await customer.post("/webhooks", harness.webhook_body(url=one))
    assert first.status_code == 201
    again = await customer.post("/webhooks", harness.webhook_body(url=other, event_types=["credit.low"]))
    assert code_of(again) == (409, "conflict")
    assert again.json()["error"]["details"] == {"id": first.json()["id"]}
    another = await harness.customer()
    assert (await another.post("/webhooks", harness.webhook_body(url=one))).status_code == 201


@pytest.mark.spec("4.3/event_types", "4.4/fields", "7/400")
async def test_event_types_that_are_refused(customer: Customer) -> None:
    made = await customer.make_webhook()
    refused: tuple[object, ...] = (
        [], ["meeting.created"] * 2, ["meeting.deleted"], "meeting.created", [None], {}, None,
    )  # fmt: skip
    for kinds in refused:
        body = customer.harness.webhook_body(event_types=kinds)
        assert set(fields_of(await customer.post("/webhooks", body))) == {"event_types"}, kinds
        answer = await customer.patch(f"/webhooks/{made['id']}", {"event_types": kinds})
        assert set(fields_of(answer)) == {"event_types"}, kinds
        assert (await customer.get(f"/webhooks/{made['id']}")).json() == made, kinds


@pytest.mark.spec("4.3/event_types", "7/400")
async def test_all_problems_of_event_types_are_named(customer: Customer) -> None:
    kinds = ["nope", "credit.low", "it's", 5, "credit.low", "nope"]
    answer = await customer.post("/webhooks", customer.harness.webhook_body(event_types=kinds))
    unknown, *others = fields_of(answer)["event_types"]
    assert unknown.startswith("does not know 'nope', 'it's'; there are: ")
    assert others == ["must not name an event kind twice", "must be an array of strings"]


@pytest.mark.spec("4.3/event_types", "4.3/description", "7/400")
async def test_all_problems_of_a_registration(customer: Customer) -> None:
    body = {"url": "http://x", "description": "a" * 201, "secret": "mine", "is_active": False}
    fields = fields_of(await customer.post("/webhooks", body))
    assert set(fields) == {"url", "description", "secret", "is_active", "event_types"}


@pytest.mark.spec("4.3/description", "4.4/fields")
async def test_descriptions(customer: Customer) -> None:
    made = await customer.make_webhook()
    for text, is_taken in (
        ("", True), ("é" * 200, True), ("a\nb\tc", True), ("a" * 201, False), ("a\x00", False), (5, False),
    ):  # fmt: skip
        posted = await customer.post("/webhooks", customer.harness.webhook_body(description=text))
        patched = await customer.patch(f"/webhooks/{made['id']}", {"description": text})
        if is_taken:
            assert posted.json()["description"] == patched.json()["description"] == text, text
        else:
            assert set(fields_of(posted)) == set(fields_of(patched)) == {"description"}, text


@pytest.mark.spec("4.3/description", "4.4/fields", "7/400")
async def test_null_is_a_value_only_for_a_patched_description(customer: Customer) -> None:
    assert set(
        fields_of(await customer.post("/webhooks", customer.harness.webhook_body(description=None)))
    ) == {"description"}
    made = await customer.make_webhook(description="x")
    path = f"/webhooks/{made['id']}"
    fields = fields_of(await customer.patch(path, {"is_active": None, "event_types": None}))
    assert set(fields) == {"is_active", "event_types"}
    cleared = await customer.patch(path, {"description": None})
    assert cleared.status_code == 200
    assert cleared.json()["description"] is None


@pytest.mark.spec("4.4/fields", "4.4/4", "3/pause", "4.4/errors")
async def test_a_patch_changes_what_it_names(customer: Customer) -> None:
    made = await customer.make_webhook(description="x")
    shown = {name: value for name, value in made.items() if name != "secret"}
    path = f"/webhooks/{made['id']}"
    for change in (
        {},
        {"event_types": ["credit.low", "webhook.test"]},
        {"description": "y"},
        {"is_active": False},
        {"is_active": False},
        {"is_active": True, "description": None},
    ):
        shown |= change
        answer = await customer.patch(path, change)
        assert (answer.status_code, answer.json()) == (200, shown)
    assert (await customer.get(path)).json() == shown | {"secret": made["secret"]}


@pytest.mark.spec("4.4/1", "7/400")
async def test_what_a_patch_cannot_change(customer: Customer) -> None:
    made = await customer.make_webhook()
    path = f"/webhooks/{made['id']}"
    for field in ("url", "id", "secret", "created_by", "consecutive_failures", "disabled_at"):
        fields = fields_of(await customer.patch(path, {field: made[field], "description": "x"}))
        assert set(fields) == {field}, field
        assert (await customer.get(path)).json() == made, field
        if field == "url":
            assert "cannot be changed" in fields["url"][0], field


@pytest.mark.spec("4.4/3", "7/404")
async def test_only_the_one_spelling_of_an_id_is_that_id(customer: Customer) -> None:
    made = (await customer.make_webhook())["id"]
    bare = made.replace("-", "")
    for name in (bare, f"{bare}----", f"urn:{bare}", f"{{{bare}}}--", f"{made[:-1]}_", f" {made[:-1]}"):
        for method, body in (("GET", None), ("PATCH", {})):
            answer = await customer.send(method, f"/webhooks/{quote(name)}", body)
            assert code_of(answer) == (404, "not_found"), name
