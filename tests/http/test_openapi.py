"""The OpenAPI document (rule 9/3): valid, complete, and what the service really does.

That every answer of every test here is documented, its body and its headers included, is held by
`tests.support.api_contract`; these tests check the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from meetcore.adapters.api.decoding import decode_body
from meetcore.adapters.api.operation import Operation
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.mcp.tools import tools_of
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.signature import signing_headers
from meetcore.testing.clock import ManualClock
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, api_on, new_key

# Spec part 4; 201 where a record is made, as the contract of this service fixes it.
SPECIFIED = [
    ("post", "/meetings", {201, 400, 401, 403, 404, 422, 429, 500, 502, 503}),
    ("get", "/me", {200, 401, 429, 500}),
    ("post", "/webhooks", {201, 400, 401, 403, 409, 422, 429, 500}),
    ("patch", "/webhooks/{id}", {200, 400, 401, 403, 404, 429, 500}),
]
NAMED = {
    ("get", "/pricing-tiers"), ("get", "/credits"), ("get", "/credits/transactions"),
    ("post", "/credits/estimate"), ("get", "/meetings"), ("get", "/meetings/{id}"),
    ("delete", "/meetings/{id}"), ("get", "/webhooks/{id}"), ("get", "/webhooks"),
    ("delete", "/webhooks/{id}"), ("post", "/webhooks/{id}/rotate-secret"), ("post", "/webhooks/{id}/test"),
    ("get", "/webhooks/{id}/deliveries"), ("get", "/webhooks/{id}/deliveries/{delivery_id}"),
    ("post", "/webhooks/{id}/deliveries/{delivery_id}/resend"), ("post", "/webhooks/{id}/recover"),
    ("get", "/events"), ("get", "/events/{id}"),
}  # fmt: skip


@pytest.mark.spec("9/3")
async def test_the_document_is_valid(contract: Contract) -> None:
    OpenAPIV31SpecValidator(contract.document).validate()


@pytest.mark.spec("9/3", "9/1", "1/base")
async def test_the_servers_have_the_base_url(contract: Contract) -> None:
    assert [each["url"] for each in contract.document["servers"]] == [f"{BASE_URL}/api/v1"]


@pytest.mark.spec("9/3")
async def test_every_operation_is_listed(contract: Contract) -> None:
    listed = {(method, path) for path, item in contract.document["paths"].items() for method in item}
    assert listed >= {(method, path) for method, path, _ in SPECIFIED} | NAMED
    ids = [
        operation["operationId"]
        for item in contract.document["paths"].values()
        for operation in item.values()
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.spec("4.1/errors", "4.2/errors", "4.3/errors", "4.4/errors", "9/3")
async def test_the_statuses_of_the_spec_are_documented(contract: Contract) -> None:
    for method, path, statuses in SPECIFIED:
        documented = {int(status) for status in contract.document["paths"][path][method]["responses"]}
        assert documented >= statuses, path


@pytest.mark.spec("4/idem-accepted", "9/3")
async def test_every_mutation_documents_its_idempotency_key(contract: Contract) -> None:
    for item in contract.document["paths"].values():
        for method, operation in item.items():
            names = {parameter["name"] for parameter in operation["parameters"]}
            is_mutating = method != "get" and operation["operationId"] != "estimate_credits"
            assert ("Idempotency-Key" in names) == is_mutating


@pytest.mark.spec("9/3")
async def test_every_part_of_a_path_is_a_documented_parameter(contract: Contract) -> None:
    for path, item in contract.document["paths"].items():
        for operation in item.values():
            names = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert names == re.findall(r"\{(\w+)\}", path)


@pytest.mark.spec("9/3", "1/op/deliveries")
async def test_the_filter_of_deliveries_is_documented_with_its_values(contract: Contract) -> None:
    parameters = contract.document["paths"]["/webhooks/{id}/deliveries"]["get"]["parameters"]
    [status] = [each for each in parameters if each["name"] == "status"]
    assert status["schema"]["enum"] == ["pending", "held", "succeeded", "failed", "expired"]


@pytest.mark.spec("4/bearer", "9/3")
async def test_every_operation_asks_for_the_key(contract: Contract) -> None:
    [(name, scheme)] = contract.document["components"]["securitySchemes"].items()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert contract.document["security"] == [{name: []}]


@pytest.mark.spec("9/3", "4/idem-replay")
async def test_every_success_is_as_documented(customer: Customer, contract: Contract) -> None:
    contract.seen.clear()
    meeting, webhook = await customer.make_meeting(), await customer.make_webhook()
    replayed = [
        await customer.post("/webhooks", customer.harness.webhook_body(url="https://hooks.test/r"), idem="k")
        for _ in "ab"
    ]
    assert replayed[1].headers["Idempotent-Replayed"] == "true"
    hook = f"/webhooks/{webhook['id']}"
    reads = ("/me", "/pricing-tiers", "/meetings", f"/meetings/{meeting['id']}", "/webhooks", hook)
    for path in (*reads, "/credits", "/credits/transactions", "/events"):
        assert (await customer.get(path)).status_code == 200
    await customer.post("/credits/estimate", {"type": "notulen", "duration": 5})
    await customer.patch(hook, {})
    await customer.post(f"{hook}/rotate-secret", None)
    sent = (await customer.post(f"{hook}/test", None)).json()
    assert (await customer.get(f"{hook}/deliveries?status=pending")).status_code == 200
    assert (await customer.get(f"{hook}/deliveries/{sent['id']}")).json()["id"] == sent["id"]
    assert (await customer.get(f"/events/{sent['event_id']}")).json()["id"] == sent["event_id"]
    await customer.post(f"{hook}/deliveries/{sent['id']}/resend", None)
    await customer.post(f"{hook}/recover", {"since": sent["created_at"]})
    await customer.delete(hook)
    await customer.delete(f"/meetings/{meeting['id']}", idem=new_key())
    successes = {
        (operation["operationId"], status)
        for item in contract.document["paths"].values()
        for operation in item.values()
        for status in operation["responses"]
        if status.startswith("2")
    }
    assert contract.seen >= {
        (name, status) for name, status in successes if any(name == called for called, _ in contract.seen)
    }
    assert {name for name, _ in contract.seen} >= {
        contract.document["paths"][path][method]["operationId"]
        for method, path in {(method, path) for method, path, _ in SPECIFIED} | NAMED
    }


@pytest.mark.spec("9/3")
async def test_answers_have_the_documented_fields_and_may_grow(
    customer: Customer, contract: Contract
) -> None:
    webhook = await customer.make_webhook()
    schema = {"$ref": "#/components/schemas/Webhook"}
    assert contract.problems(schema, webhook), "the secret is no part of this one"
    shown = {name: value for name, value in webhook.items() if name != "secret"}
    assert not contract.problems(schema, shown)
    for name in shown:
        assert contract.problems(
            schema, {key: value for key, value in shown.items() if key != name}, is_open=True
        )
    later = shown | {"event_types": ["meeting.moved"], "region": "id"}
    assert not contract.problems(schema, later, is_open=True)
    assert contract.problems({"$ref": "#/components/schemas/EventKind"}, "meeting.moved", is_open=True)


@pytest.mark.spec("9/3")
async def test_only_bodies_of_requests_are_closed(contract: Contract) -> None:
    bodies = {
        pointer["$ref"].rpartition("/")[2]
        for item in contract.document["paths"].values()
        for operation in item.values()
        if "requestBody" in operation
        for schema in [operation["requestBody"]["content"]["application/json"]["schema"]]
        for pointer in schema.get("oneOf", [schema])
    }
    schemas = contract.document["components"]["schemas"]
    assert {name for name, each in schemas.items() if each.get("additionalProperties") is False} == bodies
    assert str(contract.document).count("'additionalProperties': False") == len(bodies)


@pytest.mark.spec("9/3")
async def test_parts_of_schemas_have_names_for_generators(contract: Contract) -> None:
    """A generator numbers what has none: `Code13`, `Details7`."""
    schemas = contract.document["components"]["schemas"]
    assert {"InvalidRequestCode", "InvalidRequestDetails", "InternalCode"} <= schemas.keys()
    for name, schema in schemas.items():
        assert schema["title"] == name
        for field, part in schema.get("properties", {}).items():
            assert "enum" not in part, (name, field)
            assert "properties" not in part, (name, field)


def patterns(schema: Any) -> Iterator[str]:
    """Every regular expression in a schema, at any depth."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        yield from (found for each in schema.values() for found in patterns(each))
    elif isinstance(schema, list):
        yield from (found for each in schema for found in patterns(each))


@pytest.mark.spec("9/3")
async def test_patterns_are_read_by_every_engine(contract: Contract) -> None:
    """RE2, of Go and of Google's validators, has no `\\u`, no look-around and no references back."""
    tools = [tool.input_schema for tool in tools_of(OPERATIONS)]
    found = {*patterns(contract.document), *patterns(tools)}
    assert len(found) > 4
    for pattern in found:
        assert not re.search(r"\\[uU1-9kpP]|\(\?[=!<]", pattern), pattern
        re.compile(pattern)


@pytest.mark.spec("9/3")
async def test_an_event_is_a_union_by_its_type(customer: Customer, contract: Contract) -> None:
    await customer.make_meeting()
    event = contract.document["components"]["schemas"]["Event"]
    kinds = {kind.value for kind in EventKind}
    assert event["discriminator"]["propertyName"] == "type"
    assert event["discriminator"]["mapping"].keys() == kinds
    assert {each["$ref"] for each in event["oneOf"]} == set(event["discriminator"]["mapping"].values())
    made = next(each for each in (await customer.get("/events")).json()["data"] if "title" in each["data"])
    assert not contract.problems(event, made, is_open=True)
    assert not contract.problems(event, made | {"data": None}, is_open=True)
    assert contract.problems(event, made | {"data": {}}, is_open=True)
    assert contract.problems(event, made | {"type": "credit.low"}, is_open=True)


@pytest.mark.spec("9/3", "4/idem-accepted")
async def test_no_example_of_a_key_is_shared(contract: Contract) -> None:
    """Who tries two operations as they are shown would reuse it."""
    for item in contract.document["paths"].values():
        for operation in item.values():
            for parameter in operation["parameters"]:
                assert parameter["name"] != "Idempotency-Key" or "example" not in parameter


BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("post", "/meetings", {}), ("post", "/meetings", {"title": ""}),
    ("post", "/meetings", {"title": "a" * 201}), ("post", "/meetings", {"title": "🎉" * 200}),
    ("post", "/meetings", {"title": 5}), ("post", "/meetings", {"title": ...}),
    ("post", "/meetings", {"date": "2026-1-1"}), ("post", "/meetings", {"start_time": "9:00"}),
    ("post", "/meetings", {"pricing_tier_id": ""}), ("post", "/meetings", {"description": "a" * 1000}),
    ("post", "/meetings", {"description": "a" * 1001}), ("post", "/meetings", {"description": None}),
    ("post", "/meetings", {"password": "abc"}), ("post", "/meetings", {"password": "abcdefghij"}),
    ("post", "/meetings", {"mic_off": "yes"}), ("post", "/meetings", {"unknown": 1}),
    ("post", "/webhooks", {}), ("post", "/webhooks", {"url": ""}),
    ("post", "/webhooks", {"event_types": []}),
    ("post", "/webhooks", {"event_types": ["meeting.ended", "meeting.ended"]}),
    ("post", "/webhooks", {"event_types": ["nope"]}), ("post", "/webhooks", {"description": "a" * 201}),
    ("post", "/webhooks", {"description": None}), ("patch", "/webhooks/{id}", {}),
    ("patch", "/webhooks/{id}", {"description": None}), ("patch", "/webhooks/{id}", {"is_active": None}),
    ("patch", "/webhooks/{id}", {"url": "https://hooks.test/"}),
    ("patch", "/webhooks/{id}", {"event_types": ["credit.low"]}),
]  # fmt: skip


@pytest.mark.spec("9/3", "4.1/flags", "4.3/event_types", "4.4/fields")
async def test_the_schema_refuses_what_the_service_refuses(customer: Customer, contract: Contract) -> None:
    bodies = {"/meetings": customer.body, "/webhooks": customer.harness.webhook_body}
    webhook = await customer.make_webhook()
    for method, path, change in BODIES:
        body = bodies[path](**change) if path in bodies else change
        answer = await customer.send(method.upper(), path.replace("{id}", webhook["id"]), body)
        content = contract.document["paths"][path][method]["requestBody"]["content"]
        problems = contract.problems(content["application/json"]["schema"], body)
        assert (answer.status_code == 400) == bool(problems), (answer.text, problems)


def examples_of(media: dict[str, Any]) -> Iterator[Any]:
    """The examples beside a schema."""
    if "example" in media:
        yield media["example"]
    for each in media.get("examples", {}).values():
        yield each["value"]


def contents(contract: Contract) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every body that is described, and where: requests, answers, refusals, events."""
    for name, item in [*contract.document["paths"].items(), *contract.document["webhooks"].items()]:
        for method, operation in item.items():
            if "requestBody" in operation:
                yield f"{method} {name}", operation["requestBody"]["content"]["application/json"]
            for status, response in operation["responses"].items():
                if "content" in contract.resolved(response):
                    content = contract.resolved(response)["content"]["application/json"]
                    yield f"{method} {name} {status}", content


@pytest.mark.spec("9/3")
async def test_every_body_has_examples_and_they_fit(contract: Contract) -> None:
    for where, content in contents(contract):
        shown = list(examples_of(content))
        assert shown, where
        for each in shown:
            assert contract.problems(content["schema"], each) == [], where


@pytest.mark.spec("9/3")
async def test_examples_of_requests_are_taken_by_the_service(harness: ApiHarness, contract: Contract) -> None:
    covered = set()
    for operation in OPERATIONS:
        if operation.body is not None:
            described = contract.document["paths"][operation.path][operation.method.lower()]
            for each in examples_of(described["requestBody"]["content"]["application/json"]):
                assert decode_body(each, operation.body)
                covered.add(operation.name)
    assert covered >= {"create_meeting", "register_webhook", "update_webhook"}


@pytest.mark.spec("9/3")
async def test_a_pasted_example_of_a_meeting_is_made(harness: ApiHarness, contract: Contract) -> None:
    media = contract.document["paths"]["/meetings"]["post"]["requestBody"]["content"]["application/json"]
    for example in examples_of(media):
        customer = await harness.customer()
        made = await customer.post("/meetings", example)
        assert made.status_code == 201, made.text
        assert (await customer.delete(f"/meetings/{made.json()['id']}")).status_code == 200


@pytest.mark.spec("9/3")
@pytest.mark.parametrize("days", [0, 1, 400, 5000])
async def test_the_examples_are_of_the_day_on_which_they_are_read(
    harness: ApiHarness, contract: Contract, days: int
) -> None:
    """A process that runs for years has current dates in its examples."""
    clock = ManualClock(datetime.now(UTC))
    async with api_on(harness.application, clock=clock) as api:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=BASE_URL)
        at_start = (await http.get("/api/v1/openapi.json")).json()
        clock.advance(timedelta(days=days).total_seconds())
        document = (await http.get("/api/v1/openapi.json")).json()
    today = clock.now().astimezone(WIB).date()
    operation = document["paths"]["/meetings"]["post"]
    body = operation["requestBody"]["content"]["application/json"]
    for example in examples_of(body):
        assert timedelta(days=1) < date.fromisoformat(example["date"]) - today < timedelta(days=300)
    [made] = examples_of(operation["responses"]["201"]["content"]["application/json"])
    assert (made["start_at_wib"][:10], made["created_at"][:10]) == (example["date"], str(today))
    text = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}")
    assert text.sub("day", str(document)) == text.sub("day", str(at_start))
    assert (document == at_start) == (days == 0)


@pytest.mark.spec("9/3")
async def test_no_request_has_a_default_which_generators_would_demand(contract: Contract) -> None:
    schemas, checked = contract.document["components"]["schemas"], 0
    for item in contract.document["paths"].values():
        for operation in item.values():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            for variant in [schema, *schema.get("oneOf", [])]:
                if "$ref" in variant:
                    fields = schemas[variant["$ref"].rpartition("/")[2]]["properties"]
                    assert [name for name, each in fields.items() if "default" in each] == []
                    checked += len(fields)
    assert checked > 20


@pytest.mark.spec("9/3")
async def test_every_operation_has_its_texts(harness: ApiHarness, contract: Contract) -> None:
    assert all(operation.summary and operation.about for operation in OPERATIONS)
    assert all(tag["description"] for tag in contract.document["tags"])
    assert "spec" not in str(contract.document).lower().split()


def scopes_of(operation: Operation) -> list[list[str]]:
    return [[scope.value] for scope in operation.scopes] or [[]]


@pytest.mark.spec("9/3", "5/5")
async def test_documented_scopes_are_those_that_are_required(harness: ApiHarness, contract: Contract) -> None:
    for operation in OPERATIONS:
        described = contract.document["paths"][operation.path][operation.method.lower()]
        assert [each["apiKey"] for each in described["security"]] == scopes_of(operation)


@pytest.mark.spec("9/3", "6/kinds", "6/2")
async def test_every_event_is_described_with_its_headers(contract: Contract) -> None:
    assert set(contract.document["webhooks"]) == {kind.value for kind in EventKind}
    signed = signing_headers("whsec_AA==", "id", b"{}", 0).keys() | {"X-Service-Event", "X-Service-Delivery"}
    for item in contract.document["webhooks"].values():
        required = {each["name"].lower() for each in item["post"]["parameters"] if each["required"]}
        assert required == {name.lower() for name in signed}


@pytest.mark.spec("9/3")
async def test_links_lead_to_operations_and_name_their_parameters(contract: Contract) -> None:
    known = {
        operation["operationId"]: {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        for item in contract.document["paths"].values()
        for operation in item.values()
    }
    followed = 0
    for item in contract.document["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                for link in response.get("links", {}).values():
                    assert set(link["parameters"]) == known[link["operationId"]]
                    followed += 1
    assert followed


@pytest.mark.spec("9/3")
async def test_the_document_needs_no_key_and_is_one_string(customer: Customer, contract: Contract) -> None:
    first = await customer.http.get(f"{BASE_URL}/api/v1/openapi.json")
    day = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}")  # another one after midnight
    assert day.sub("", str(first.json())) == day.sub("", str(contract.document))
    assert (await customer.http.get(f"{BASE_URL}/api/v1/openapi.json")).content == first.content
    head = await customer.http.head(f"{BASE_URL}/api/v1/openapi.json")
    assert (head.status_code, head.headers["Content-Type"]) == (200, "application/json")
