"""The client has every operation of the service, and both clients are one surface."""

from __future__ import annotations

import inspect
import json
import re
from datetime import UTC, date, datetime, time
from types import NoneType
from typing import Any, get_args, get_origin

import attrs
import httpx
import pytest

from meetcore.client import (
    AsyncClient,
    Client,
    Meeting,
    MeetingStatus,
    Page,
    TransferKind,
    UnexpectedResponse,
    Webhook,
)
from meetcore.client.calls import day_text, instant_text, path_of, time_text
from meetcore.client.descriptors import procedure
from meetcore.domain.meetings.schedule import WIB
from tests.client.clients import open_client
from tests.client.conftest import API_KEY
from tests.client.descriptions import arguments_of, calls, described
from tests.client.samples import (
    ID,
    balance,
    delivery,
    estimate,
    event,
    meeting,
    note,
    recording,
    transaction,
    webhook,
)
from tests.client.scripted_server import Drop, answer
from tests.client.test_retries import Against
from tests.support.api_contract import Contract

LATER: set[tuple[str, str]] = set()
"""What the client speaks and a service may not have yet."""


def operations_of(contract: Contract) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method, re.sub(r"\{\w+\}", "{}", path)): item
        for path, methods in contract.document["paths"].items()
        for method, item in methods.items()
        if method != "parameters"
    }


def client_methods() -> dict[tuple[str, str], Any]:
    return {(call.method.lower(), call.path.replace(ID, "{}")): call for call in calls().values()}


async def test_the_client_speaks_what_the_service_has(contract: Contract) -> None:
    there = set(operations_of(contract)) - {("get", "/openapi.json")}
    assert there - set(client_methods()) == set(), "operations that the client lacks"
    assert set(client_methods()) - there <= LATER, "operations that the service lacks"


async def test_every_record_has_the_fields_that_the_service_documents(contract: Contract) -> None:
    checked = 0
    for key, item in operations_of(contract).items():
        if (call := client_methods().get(key)) is None or call.into is NoneType:
            continue
        (success,) = (response for status, response in item["responses"].items() if status.startswith("2"))
        if call.into is str:
            assert "text/markdown" in success["content"]
            continue
        schema = success["content"]["application/json"]["schema"]
        checked += fields_agree(contract, schema, call.into)
    assert checked > 10


IN_PYTHON = {"from": "from_", "limit": "page_size"}
BY_METHOD = {"cursor": "Pages.pages", "format": "notes.markdown", "type": "credits.estimate_..."}
"""What a caller does not give as an argument of the operation, and by which method it is said instead."""


async def test_the_client_takes_every_parameter_of_the_service_and_no_other(contract: Contract) -> None:
    checked = 0
    for key, item in operations_of(contract).items():
        methods = [
            name
            for name, call in calls().items()
            if (call.method.lower(), call.path.replace(ID, "{}")) == key
        ]
        if methods:
            taken = {argument for name in methods for argument in arguments_of(name)}
            documented = {IN_PYTHON.get(name, name) for name in parameters_of(contract, item)}
            elsewhere = set(BY_METHOD) - ({"type"} if key == ("get", "/events") else set())
            assert taken == documented - elsewhere, key
            checked += len(documented)
    assert checked > 50


def parameters_of(contract: Contract, item: dict[str, Any]) -> set[str]:
    """The names of what an operation takes in its query, its body and its header."""
    names = {each["name"] for each in item["parameters"] if each["in"] != "path"}
    content = item.get("requestBody", {}).get("content", {}).get("application/json", {})
    for schema in (content.get("schema", {}), *content.get("schema", {}).get("oneOf", [])):
        names |= contract.resolved(schema).get("properties", {}).keys()
    return {"idempotency_key" if name == "Idempotency-Key" else name for name in names}


def test_both_clients_are_made_and_changed_with_the_same_options() -> None:
    for name in ("__init__", "with_options"):
        one, other = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient))
        assert list(one) == list(other)
        for argument in set(one) - {"sleep"}:
            assert one[argument].default == other[argument].default
    assert {name for name in vars(Client) if not name.startswith("_")} - {"close"} == {
        name for name in vars(AsyncClient) if not name.startswith("_")
    } - {"aclose"}


def fields_agree(contract: Contract, schema: dict[str, Any], into: Any) -> int:
    """Hold a class, and those within it, against a schema; how many were held."""
    while "$ref" in schema:
        schema = contract.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if get_origin(into) is Page:
        (item,) = get_args(into)
        return fields_agree(contract, schema["properties"]["data"]["items"], item)
    known = {field.name: field for field in attrs.fields(into)}
    documented = set(schema["properties"])
    assert documented - set(known) == set(), f"{into.__name__} lacks what the service tells"
    extra = {"secret"} if into is Webhook else set()
    assert set(known) - documented <= extra, f"{into.__name__} has what the service does not tell"
    nested = ((known[name].type, each) for name, each in schema["properties"].items())
    return 1 + sum(fields_agree(contract, each, kind) for kind, each in nested if attrs.has(kind))


def test_what_changes_something_has_a_key_and_what_reads_has_none() -> None:
    for name, call in calls().items():
        changes = call.method != "GET" and not name.startswith("credit.estimate")
        assert (call.idempotency_key is not None) == changes, name


def test_both_clients_have_every_operation_with_the_same_arguments() -> None:
    with Client("http://meet.test", "key") as blocking:
        awaited = AsyncClient("http://meet.test", "key")
        for name, found in described():
            room, _, method = name.rpartition(".")
            where = "" if room == "account" else f"{room}s"
            one = getattr(getattr(blocking, where) if where else blocking, method)
            other = getattr(getattr(awaited, where) if where else awaited, method)
            assert inspect.signature(one) == inspect.signature(other)
            assert "self" not in inspect.signature(one).parameters
            assert one.__doc__ == other.__doc__ == found.__doc__
            assert found.__doc__
            assert one.__name__ == method
            assert getattr(type(blocking), method, found) is found
            for client in (blocking, awaited):
                responses = client.with_response
                offers = getattr(responses, where) if where else responses
                if isinstance(found, procedure):
                    assert not hasattr(offers, method)
                else:
                    assert inspect.signature(getattr(offers, method)) == inspect.signature(one)


# Answers of operations that a service may not have yet, and of later versions


RECORDS = {
    "meetings.get": ((ID,), meeting()),
    "credits.get": ((), balance()),
    "webhooks.get": ((ID,), webhook(secret="whsec_x")),
    "webhooks.delivery": ((ID, ID), delivery()),
    "recordings.get": ((ID,), recording()),
    "events.get": ((ID,), event()),
    "notes.get": ((ID,), note()),
}


@pytest.mark.parametrize("name", RECORDS)
async def test_a_later_version_breaks_nothing(against: Against, name: str) -> None:
    arguments, record = RECORDS[name]
    later = record | {
        "status": "postponed",
        "event_type": "tea.ready",
        "event_types": ["tea.ready"],
        "x": [{}],
    }
    trial = await against(answer(200, later))
    found = await trial.invoke(name, *arguments)
    if hasattr(found, "status"):
        assert found.status == "postponed"
    if hasattr(found, "event_types"):
        assert found.event_types == ("tea.ready",)


async def test_the_balance(against: Against) -> None:
    trial = await against(answer(200, balance()), answer(200, balance(daily_cap=None)))
    found = await trial.invoke("credits.get")
    assert (found.balance, found.held, found.available) == (990, 10, 980)
    assert found.daily_cap.remaining == 90
    assert found.daily_cap.resets_at == datetime(2026, 11, 21, 17, tzinfo=UTC)
    assert (await trial.invoke("credits.get")).daily_cap is None


async def test_the_estimates(against: Against) -> None:
    trial = await against(answer(200, estimate()), answer(200, estimate()))
    found = await trial.invoke(
        "credits.estimate_meeting", pricing_tier_id="plus-300", auto_notulen=True, must_login=True,
        mic_off=False, email_notification=True,
    )  # fmt: skip
    assert (found.credits, found.sufficient, found.items[0].name) == (15, True, "standard-100")
    await trial.invoke("credits.estimate_notulen", duration=90)
    assert [request.json for request in trial.server.requests] == [
        {
            "type": "meeting",
            "pricing_tier_id": "plus-300",
            "auto_notulen": True,
            "must_login": True,
            "mic_off": False,
            "email_notification": True,
        },
        {"type": "notulen", "duration": 90},
    ]


async def test_transactions(against: Against) -> None:
    page = {"data": [transaction(), transaction(kind="gift", reverses=ID)], "next_cursor": None}
    trial = await against(answer(200, page))
    charge, granted = await trial.invoke.items(
        "credits.transactions",
        kind=TransferKind.MEETING_CHARGE,
        from_=date(2026, 11, 1),
        to=datetime(2026, 12, 1, tzinfo=WIB),
    )
    assert dict(httpx.URL(trial.server.requests[0].target).params) == {
        "kind": "meeting_charge", "from": "2026-11-01", "to": "2026-12-01T00:00:00+07:00",
    }  # fmt: skip
    assert (charge.kind, charge.amount, charge.reference.type, charge.reverses) == (
        "meeting_charge", -10, "meeting", None,
    )  # fmt: skip
    assert (granted.kind, granted.reverses) == ("gift", ID)


# Pages


def page_of(number: int, next_cursor: str | None) -> bytes:
    return answer(200, {"data": [meeting(title=f"M{number}")], "next_cursor": next_cursor})


async def test_pages_are_fetched_as_they_are_read(against: Against, kind: str) -> None:
    trial = await against(page_of(1, "c+/="), page_of(2, "b"), page_of(3, None))
    pages = trial.invoke.client.meetings.list(
        status=MeetingStatus.ENDED,
        from_=datetime(2026, 12, 1, 9, tzinfo=WIB),
        to=date(2026, 12, 31),
        page_size=1,
    )
    assert trial.server.requests == [], "nothing is sent before somebody reads"
    observed = []
    if kind == "blocking":
        for item in pages:
            observed.append((item.title, len(trial.server.requests)))
    else:
        async for item in pages:
            observed.append((item.title, len(trial.server.requests)))
    assert observed == [("M1", 1), ("M2", 2), ("M3", 3)]
    queries = [dict(httpx.URL(request.target).params) for request in trial.server.requests]
    filters = {"limit": "1", "status": "ended", "from": "2026-12-01T09:00:00+07:00", "to": "2026-12-31"}
    assert queries == [filters, filters | {"cursor": "c+/="}, filters | {"cursor": "b"}]


async def test_a_list_can_be_read_twice(against: Against) -> None:
    trial = await against(page_of(1, None), page_of(2, None))
    assert [each.title for each in await trial.invoke.items("meetings.list")] == ["M1"]
    assert [each.title for each in await trial.invoke.items("meetings.list")] == ["M2"]


async def test_an_empty_page_does_not_end_a_list(against: Against) -> None:
    trial = await against(answer(200, {"data": [], "next_cursor": "a"}), page_of(1, None))
    assert [each.title for each in await trial.invoke.items("meetings.list")] == ["M1"]


async def test_a_list_that_turns_in_a_circle_ends(against: Against) -> None:
    trial = await against(page_of(1, "a"), page_of(2, "a"))
    with pytest.raises(UnexpectedResponse, match="names itself"):
        await trial.invoke.items("meetings.list")


async def test_a_page_is_tried_again_like_any_read(against: Against) -> None:
    trial = await against(page_of(1, "a"), Drop(), page_of(2, None))
    assert [each.title for each in await trial.invoke.items("meetings.list")] == ["M1", "M2"]


# What is sent


async def test_the_request(against: Against) -> None:
    trial = await against(answer(204))
    assert await trial.invoke("webhooks.delete", ID) is None
    (request,) = trial.server.requests
    assert (request.method, request.target) == ("DELETE", f"/api/v1/webhooks/{ID}")
    assert request.headers["authorization"] == f"Bearer {API_KEY}"
    assert re.fullmatch(r"meetcore-python/[0-9]\S*", request.headers["user-agent"])
    assert request.headers["accept"] == "application/json"
    assert "content-type" not in request.headers
    assert request.body == b""


async def test_only_what_is_given_is_sent(against: Against) -> None:
    trial = await against(answer(201, meeting()), answer(200, webhook()), answer(200, webhook()))
    made = await trial.invoke(
        "meetings.create", title="Rapat", date=date(2026, 12, 1), start_time=time(9), pricing_tier_id="t",
        mic_off=False,
    )  # fmt: skip
    assert isinstance(made, Meeting)
    await trial.invoke("webhooks.update", ID, description=None)
    await trial.invoke("webhooks.update", ID)
    assert [json.loads(request.body) for request in trial.server.requests] == [
        {
            "title": "Rapat",
            "date": "2026-12-01",
            "start_time": "09:00",
            "pricing_tier_id": "t",
            "mic_off": False,
        },
        {"description": None},
        {},
    ]
    assert trial.server.requests[0].headers["content-type"] == "application/json"


def test_an_id_stays_within_its_place() -> None:
    assert path_of("meetings", "../me?x#y z") == "/meetings/..%2Fme%3Fx%23y%20z"
    for wrong in ("", ".", ".."):
        with pytest.raises(ValueError, match="must not be empty"):
            path_of("meetings", wrong)


def test_times_that_cannot_be_meant() -> None:
    with pytest.raises(TypeError, match="in WIB"):
        day_text(datetime(2026, 12, 1, 23, tzinfo=UTC))
    for wrong in (time(9, 0, 1), time(9, 0, 0, 1), time(9, tzinfo=UTC)):
        with pytest.raises(ValueError, match="whole minutes"):
            time_text(wrong)
    with pytest.raises(ValueError, match="with an offset"):
        instant_text(datetime(2026, 12, 1))  # noqa: DTZ001  (the point)
    assert instant_text(None) is None
    assert instant_text("2026-12-01") == "2026-12-01"


async def test_arguments_that_cannot_be_meant_send_nothing(against: Against) -> None:
    trial = await against()
    for key in ("", "two words", "k" * 256, "é", "a\r\nX: y"):
        with pytest.raises(ValueError, match="idempotency key"):
            await trial.invoke("meetings.cancel", ID, idempotency_key=key)
    with pytest.raises(TypeError, match="as a list"):
        await trial.invoke("webhooks.create", url="https://example.com", event_types="meeting.created")
    assert trial.server.requests == []


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("meet.example.com", "the service's address"), ("ftp://meet.test", "the service's address"),
        ("https://", "the service's address"), ("https://u:p@meet.test", "no user"),
        ("https://meet.test?x=1", "no query"), ("https://meet.test/#x", "no fragment"),
        ("https://meet.test/api/v1", "without /api/v1"), ("https://meet.test/api/v1/", "without /api/v1"),
    ],
)  # fmt: skip
def test_a_base_url_that_cannot_be_meant(base_url: str, message: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=message):
            kind(base_url, "key")


@pytest.mark.parametrize("path", ["", "/", "/behind/a/path", "/behind/a/path/"])
async def test_a_base_url_with_a_path(against: Against, kind: str, path: str) -> None:
    trial = await against(answer(200, meeting()))
    async with open_client(kind, trial.server.url + path, "key") as invoke:
        await invoke("meetings.get", ID)
    assert trial.server.requests[0].target == f"{path.rstrip('/')}/api/v1/meetings/{ID}"
