"""Registering and changing webhooks (spec 4.3, 4.4, 2.3)."""

from __future__ import annotations

import asyncio
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
    "id",
    "url",
    "description",
    "event_types",
    "is_active",
    "consecutive_failures",
    "disabled_at",
    "created_by",
    "created_at",
}
"""Spec 2.3, the secret aside."""
KINDS = [kind.value for kind in EventKind]


@pytest.mark.spec("2.3/fields", "2.3/secret", "4.3/3", "4.3/4", "1/webhooks")
async def test_the_webhook_record(harness: ApiHarness, customer: Customer) -> None:
    body = harness.webhook_body(description="Catatan 🎉", event_types=["note.completed", "meeting.ended"])
    answer = await customer.post("/webhooks", body)
    assert answer.status_code == 201
    record = answer.json()
    assert set(record) == FIELDS | {"secret"}
    assert UUID(record["id"]).version == 7
    assert answer.headers["Location"] == f"{BASE_URL}/api/v1/webhooks/{record['id']}"
    assert record["url"] == body["url"]
    assert record["description"] == "Catatan 🎉"
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
async def test_which_keys_get_the_secret(harness: ApiHarness, customer: Customer) -> None:
    made = await customer.make_webhook()
    path = f"/webhooks/{made['id']}"
    assert (await customer.get(path)).json() == made
    reader = await harness.another_key(customer, [Scope.WEBHOOKS_READ])
    without = {name: value for name, value in made.items() if name != "secret"}
    assert (await reader.get(path)).json() == without
    patched = await customer.patch(path, {"description": "x"})
    assert patched.json() == without | {"description": "x"}


@pytest.mark.spec("2.3/secret")
async def test_secrets_differ_and_are_not_kept_in_the_clear(harness: ApiHarness, customer: Customer) -> None:
    secrets = [(await customer.make_webhook())["secret"] for _ in range(3)]
    assert len(set(secrets)) == 3
    rows = await harness.query(
        "SELECT secret FROM webhook_endpoints WHERE account_id = %s", customer.account_id
    )
    for row in rows:
        assert b"whsec_" not in bytes(row["secret"])


@pytest.mark.spec("4.3/event_types", "6/kinds")
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_can_be_subscribed_to(customer: Customer, kind: str) -> None:
    assert (await customer.make_webhook(event_types=[kind]))["event_types"] == [kind]


@pytest.mark.spec("6/kinds")
async def test_there_are_eight_kinds(customer: Customer) -> None:
    assert sorted(KINDS) == [
        "credit.low",
        "credit.topup.succeeded",
        "meeting.created",
        "meeting.ended",
        "note.completed",
        "note.failed",
        "recording.ready",
        "webhook.test",
    ]
    assert (await customer.make_webhook(event_types=KINDS))["event_types"] == KINDS


URLS_TAKEN = [
    "https://hooks.test",
    "https://hooks.test/",
    "https://hooks.test:443/x",
    "HTTPS://Hooks.TEST/Path",
    "https://bücher.test/x",
    "https://93.184.216.34/x",
    "https://[2606:2800:220:1::1]/x",
    "https://hooks.test/a?b=c&d=%20",
    "https://hooks.test/" + "a" * (1000 - len("https://hooks.test/")),
]


@pytest.mark.spec("4.3/url")
@pytest.mark.parametrize("url", URLS_TAKEN)
async def test_urls_that_are_taken(harness: ApiHarness, customer: Customer, url: str) -> None:
    answer = await customer.post("/webhooks", harness.webhook_body(url=url))
    assert answer.status_code == 201, answer.text
    assert answer.json()["url"] == url, "as it was given"


URLS_REFUSED = [
    "",
    "http://hooks.test/x",
    "ftp://hooks.test/x",
    "hooks.test/x",
    "//hooks.test/x",
    "https://",
    "https:///x",
    "https://hooks.test:8443/x",
    "https://hooks.test:80/x",
    "https://hooks.test:0443/x",
    "https://user:secret@hooks.test/x",
    "https://user@hooks.test/x",
    "https://hooks.test/x#part",
    "https://hooks.test/x y",
    "https://hooks.test\\@evil.test/",
    "https://hooks.test/\n",
    "https://hooks.test/\x00",
    "https://hooks..test/",
    "https://-hooks.test/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://[fe80::1%25eth0]/",
    "https://hooks.test/" + "a" * 1001,
    "javascript:alert(1)",
    5,
    None,
    ["https://hooks.test/x"],
    ...,
]


@pytest.mark.spec("4.3/url", "7/400", "4.3/errors")
@pytest.mark.parametrize("url", URLS_REFUSED)
async def test_urls_that_are_refused(harness: ApiHarness, customer: Customer, url: object) -> None:
    assert set(fields_of(await customer.post("/webhooks", harness.webhook_body(url=url)))) == {"url"}


@pytest.mark.spec("4.3/1", "4.3/errors", "7/422")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "198.51.100.1",
        "[::1]",
        "[::]",
        "[fd00::1]",
        "[fe80::1]",
        "[ff02::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[2002:a00:1::]",
        "intern.test",
        "INTERN.test.",
        "loop.test",
        "six.test",
        "cloud.test",
        "mixed.test",
    ],
)
async def test_hosts_that_are_not_public(harness: ApiHarness, customer: Customer, host: str) -> None:
    answer = await customer.post("/webhooks", harness.webhook_body(url=f"https://{host}/x"))
    assert code_of(answer) == (422, "unprocessable_entity")
    rows = await harness.query("SELECT id FROM webhook_endpoints WHERE account_id = %s", customer.account_id)
    assert rows == []


@pytest.mark.spec("4.3/1", "7/422", "4/idem-replay")
async def test_a_refused_address_is_final_under_its_key(
    harness: ApiHarness, customer: Customer, names: Names
) -> None:
    body, key = harness.webhook_body(url="https://changing.test/x"), new_key()
    names.known["changing.test"] = names.known["intern.test"]
    first = await customer.post("/webhooks", body, idem=key)
    assert code_of(first) == (422, "unprocessable_entity")
    names.known["changing.test"] = names.known["hooks.test"]
    second = await customer.post("/webhooks", body, idem=key)
    assert second.content == first.content
    assert second.headers["Idempotent-Replayed"] == "true"
    assert (await customer.post("/webhooks", body)).status_code == 201


@pytest.mark.spec("4.3/1", "7/422", "4/idem-reused")
async def test_a_name_that_does_not_resolve_is_temporary(
    harness: ApiHarness, customer: Customer, names: Names
) -> None:
    body, key = harness.webhook_body(url="https://soon.test/x"), new_key()
    answer = await customer.post("/webhooks", body, idem=key)
    assert code_of(answer) == (422, "unprocessable_entity")
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
        ("https://hooks.test/x", "HTTPS://HOOKS.TEST:443/x"),
        ("https://hooks.test", "https://hooks.test/"),
        ("https://hooks.test/", "https://hooks.test./"),
        ("https://bücher.test/x", "https://xn--bcher-kva.test/x"),
        ("https://[2606:2800:220:1::1]/", "https://[2606:2800:0220:0001:0::1]/"),
    ],
)
async def test_a_url_is_registered_once(
    harness: ApiHarness, customer: Customer, one: str, other: str
) -> None:
    first = await customer.post("/webhooks", harness.webhook_body(url=one))
    assert first.status_code == 201
    again = await customer.post("/webhooks", harness.webhook_body(url=other, event_types=["credit.low"]))
    assert code_of(again) == (409, "conflict")
    assert again.json()["error"]["details"] == {"id": first.json()["id"]}
    another = await harness.customer()
    assert (await another.post("/webhooks", harness.webhook_body(url=one))).status_code == 201


@pytest.mark.spec("4.3/2")
@pytest.mark.parametrize(
    "other", ["https://hooks.test/X", "https://hooks.test/x/", "https://hooks.test/x?a=1"]
)
async def test_another_resource_is_another_url(harness: ApiHarness, customer: Customer, other: str) -> None:
    for url in ("https://hooks.test/x", other):
        assert (await customer.post("/webhooks", harness.webhook_body(url=url))).status_code == 201


@pytest.mark.spec("4.3/2", "7/409")
async def test_registering_at_the_same_time(harness: ApiHarness, customer: Customer) -> None:
    body = harness.webhook_body()
    answers = await asyncio.gather(*(customer.post("/webhooks", body) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 9
    [made] = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    assert {answer.json()["error"]["details"]["id"] for answer in answers if answer.is_error} == {made}


EVENT_TYPES_REFUSED = [
    [],
    ["meeting.created", "meeting.created"],
    ["meeting.deleted"],
    ["meeting.created", "nope"],
    ["*"],
    "meeting.created",
    [None],
    [5],
    {"meeting.created": True},
]


@pytest.mark.spec("4.3/event_types", "4.4/fields", "7/400")
@pytest.mark.parametrize("kinds", [*EVENT_TYPES_REFUSED, None])
async def test_event_types_that_are_refused(harness: ApiHarness, customer: Customer, kinds: object) -> None:
    body = harness.webhook_body(event_types=kinds)
    assert set(fields_of(await customer.post("/webhooks", body))) == {"event_types"}
    made = await customer.make_webhook()
    answer = await customer.patch(f"/webhooks/{made['id']}", {"event_types": kinds})
    assert set(fields_of(answer)) == {"event_types"}
    assert (await customer.get(f"/webhooks/{made['id']}")).json() == made


@pytest.mark.spec("4.3/event_types", "4.3/description", "7/400")
async def test_all_problems_of_a_registration(customer: Customer) -> None:
    body = {"url": "http://x", "description": "a" * 201, "secret": "mine", "is_active": False}
    fields = fields_of(await customer.post("/webhooks", body))
    assert set(fields) == {"url", "description", "secret", "is_active", "event_types"}


@pytest.mark.spec("4.3/description", "4.4/fields")
@pytest.mark.parametrize(
    ("text", "is_taken"),
    [("", True), ("é" * 200, True), ("a\nb\tc", True), ("a" * 201, False), ("a\x00", False), (5, False)],
)
async def test_descriptions(harness: ApiHarness, customer: Customer, text: object, is_taken: bool) -> None:
    made = await customer.make_webhook()
    posted = await customer.post("/webhooks", harness.webhook_body(description=text))
    patched = await customer.patch(f"/webhooks/{made['id']}", {"description": text})
    if is_taken:
        assert posted.json()["description"] == patched.json()["description"] == text
    else:
        assert set(fields_of(posted)) == set(fields_of(patched)) == {"description"}


@pytest.mark.spec("4.3/description", "4.4/fields", "7/400")
async def test_null_is_a_value_only_for_a_patched_description(
    harness: ApiHarness, customer: Customer
) -> None:
    assert set(fields_of(await customer.post("/webhooks", harness.webhook_body(description=None)))) == {
        "description"
    }
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
        assert answer.status_code == 200
        assert answer.json() == shown
    assert (await customer.get(path)).json() == shown | {"secret": made["secret"]}


@pytest.mark.spec("3/pause", "4.4/4")
async def test_a_pause_is_no_disabling(customer: Customer) -> None:
    made = await customer.make_webhook()
    paused = (await customer.patch(f"/webhooks/{made['id']}", {"is_active": False})).json()
    assert (paused["is_active"], paused["disabled_at"], paused["consecutive_failures"]) == (False, None, 0)


@pytest.mark.spec("4.4/1", "7/400")
@pytest.mark.parametrize(
    "field", ["url", "id", "secret", "created_by", "consecutive_failures", "disabled_at"]
)
async def test_what_a_patch_cannot_change(customer: Customer, field: str) -> None:
    made = await customer.make_webhook()
    path = f"/webhooks/{made['id']}"
    fields = fields_of(await customer.patch(path, {field: made[field], "description": "x"}))
    assert set(fields) == {field}
    assert (await customer.get(path)).json() == made
    if field == "url":
        assert "cannot be changed" in fields["url"][0]


@pytest.mark.spec("4.4/3", "7/404", "5/8")
@pytest.mark.parametrize(
    "name", ["x", "1", "01890000-0000-7000-8000-000000000000", "null", "%00", "a" * 500, "%F0%9F"]
)
async def test_an_id_without_a_record(customer: Customer, name: str) -> None:
    for method, body in (("GET", None), ("PATCH", {"is_active": True})):
        answer = await customer.send(method, f"/webhooks/{name}", body)
        assert code_of(answer) == (404, "not_found")


@pytest.mark.spec("4.4/3", "7/404")
async def test_only_the_one_spelling_of_an_id_is_that_id(customer: Customer) -> None:
    made = (await customer.make_webhook())["id"]
    bare = made.replace("-", "")
    for name in (bare, f"{bare}----", f"urn:{bare}", f"{{{bare}}}--", f"{made[:-1]}_", f" {made[:-1]}"):
        for method, body in (("GET", None), ("PATCH", {})):
            answer = await customer.send(method, f"/webhooks/{quote(name)}", body)
            assert code_of(answer) == (404, "not_found"), name


@pytest.mark.spec("4.3/4", "4.4/errors")
async def test_webhooks_cost_nothing(harness: ApiHarness) -> None:
    customer = await harness.customer(credits=0, daily_cap=0)
    made = await customer.make_webhook()
    assert (await customer.patch(f"/webhooks/{made['id']}", {"is_active": False})).status_code == 200
    assert await customer.balance() == 0
