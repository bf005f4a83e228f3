"""The client has the operations of the service, both clients are one surface, and requests are documented."""

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

from meetcore.adapters.http.reference import Reference
from meetcore.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    Meeting,
    MeetingStatus,
    Page,
    UnexpectedResponse,
    Webhook,
)
from meetcore.client.calls import day_text, instant_text, path_of, time_text
from meetcore.client.descriptors import procedure
from meetcore.domain.meetings.schedule import WIB
from tests.client import samples
from tests.client.clients import API_KEY, Against, arguments_of, calls, described, open_client
from tests.client.samples import ID, WANTED, estimate, meeting, webhook
from tests.client.scripted_server import Drop, answer
from tests.support.api_contract import Contract

Route = tuple[str, str]


def operations_of(contract: Contract) -> dict[Route, dict[str, Any]]:
    return {
        (method, re.sub(r"\{\w+\}", "{}", path)): item
        for path, methods in contract.document["paths"].items()
        for method, item in methods.items()
        if method != "parameters"
    }


def routes() -> dict[str, Route]:
    return {name: (call.method.lower(), call.path.replace(ID, "{}")) for name, call in calls().items()}


async def test_the_client_has_the_operations_of_the_service(contract: Contract) -> None:
    assert set(routes().values()) == set(operations_of(contract)) - {("get", "/openapi.json")}


async def test_the_reference_calls_the_methods_of_the_client(contract: Contract) -> None:
    reference = Reference(json.dumps(contract.document).encode())
    for (method, path), operation in operations_of(contract).items():
        page = reference.page(operation["operationId"])
        found = re.search(r"client\.([\w.]+)\((.*?)\)\W", page, re.DOTALL)
        assert found is not None, path
        name = re.sub(r"s\.", ".", found[1]) if "." in found[1] else f"account.{found[1]}"
        assert routes()[name] == (method, path)
        describe = dict(described())[name]._describe
        eval(f"bind(None, {found[2]})", {"bind": inspect.signature(describe).bind})


async def test_every_record_has_the_fields_that_the_service_documents(contract: Contract) -> None:
    checked, documented = 0, operations_of(contract)
    for name, call in calls().items():
        responses = documented[routes()[name]]["responses"]
        (success,) = (response for status, response in responses.items() if status.startswith("2"))
        if call.into is str:
            assert "text/markdown" in success["content"]
        elif call.into is not NoneType:
            checked += fields_agree(contract, success["content"]["application/json"]["schema"], call.into)
    assert checked > 10


def fields_agree(contract: Contract, schema: dict[str, Any], into: Any) -> int:
    """Compare a class, and those of its fields, with a schema; return how many were compared."""
    while "$ref" in schema:
        schema = contract.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if get_origin(into) is Page:
        return fields_agree(contract, schema["properties"]["data"]["items"], get_args(into)[0])
    if "oneOf" in schema:
        return sum(fields_agree(contract, each, into) for each in schema["oneOf"])
    known = {field.name: field for field in attrs.fields(into)}
    optional = {"secret"} if into is Webhook else set()
    assert set(known) - optional == set(schema["properties"]) - optional, into.__name__
    nested = ((known[name].type, each) for name, each in schema["properties"].items())
    return 1 + sum(fields_agree(contract, each, kind) for kind, each in nested if attrs.has(kind))


IN_PYTHON = {"from": "from_", "limit": "page_size"}
BY_METHOD = {"cursor": "Pages.pages", "format": "notes.markdown", "type": "credits.estimate_..."}
"""The parameters that are no arguments of the operation, and the methods that set them."""


async def test_the_client_takes_the_parameters_of_the_service(contract: Contract) -> None:
    checked = 0
    for route, item in operations_of(contract).items():
        methods = [name for name, each in routes().items() if each == route]
        if methods:
            taken = {argument for name in methods for argument in arguments_of(name)}
            documented = {IN_PYTHON.get(name, name) for name in parameters_of(contract, item)}
            elsewhere = set(BY_METHOD) - ({"type"} if route == ("get", "/events") else set())
            assert taken == documented - elsewhere, route
            checked += len(documented)
    assert checked > 50


def parameters_of(contract: Contract, item: dict[str, Any]) -> set[str]:
    """Return the names in an operation's query, body and header."""
    names = {each["name"] for each in item["parameters"] if each["in"] != "path"}
    content = item.get("requestBody", {}).get("content", {}).get("application/json", {})
    for schema in (content.get("schema", {}), *content.get("schema", {}).get("oneOf", [])):
        names |= contract.resolved(schema).get("properties", {}).keys()
    return {"idempotency_key" if name == "Idempotency-Key" else name for name in names}


def test_a_call_that_changes_something_has_a_key_and_a_read_has_none() -> None:
    for name, call in calls().items():
        changes = call.method != "GET" and not name.startswith("credit.estimate")
        assert (call.idempotency_key is not None) == changes, name


def test_both_clients_are_made_and_changed_with_the_same_options() -> None:
    for name in ("__init__", "with_options"):
        one, other = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient))
        assert list(one) == list(other)
        assert all(one[each].default == other[each].default for each in set(one) - {"sleep"})
    names = [{name for name in vars(kind) if name[0] != "_"} for kind in (Client, AsyncClient)]
    assert names[0] - {"close"} == names[1] - {"aclose"}


def test_both_clients_have_every_operation_with_the_same_arguments() -> None:
    with Client("https://meet.test", "key") as blocking:
        awaited = AsyncClient("https://meet.test", "key")
        for name, found in described():
            room, _, method = name.rpartition(".")
            rooms = [
                client if room == "account" else getattr(client, f"{room}s")
                for client in (blocking, awaited, blocking.with_response, awaited.with_response)
            ]
            one, other = (getattr(each, method) for each in rooms[:2])
            assert inspect.signature(one) == inspect.signature(other)
            assert "self" not in inspect.signature(one).parameters
            assert one.__doc__ == other.__doc__ == found.__doc__
            assert found.__doc__
            assert one.__name__ == method
            assert getattr(type(blocking), method, found) is found
            for offers in rooms[2:]:
                if isinstance(found, procedure):
                    assert not hasattr(offers, method)
                else:
                    assert inspect.signature(getattr(offers, method)) == inspect.signature(one)


# Responses of later versions


@pytest.mark.parametrize(("name", "arguments", "record"), [
    ("meetings.get", 1, "meeting"), ("credits.get", 0, "balance"), ("webhooks.get", 1, "webhook"),
    ("webhooks.delivery", 2, "delivery"), ("recordings.get", 1, "recording"), ("events.get", 1, "event"),
    ("notes.get", 1, "note"),
])  # fmt: skip
async def test_later_version_breaks_nothing(against: Against, name: str, arguments: int, record: str) -> None:
    changed = {"status": "postponed", "event_type": "tea.ready", "event_types": ["tea.ready"], "x": [{}]}
    trial = await against(answer(200, getattr(samples, record)() | changed))
    found = await trial.invoke(name, *[ID] * arguments)
    assert getattr(found, "status", "postponed") == "postponed"
    assert getattr(found, "event_types", ("tea.ready",)) == ("tea.ready",)


# Pages


def page_of(number: int, next_cursor: str | None) -> bytes:
    return answer(200, {"data": [meeting(title=f"M{number}")], "next_cursor": next_cursor})


async def test_pages_are_fetched_as_they_are_read(against: Against, kind: str) -> None:
    trial = await against(page_of(1, "c+/="), page_of(2, "b"), page_of(3, None))
    pages = trial.invoke.client.meetings.list(
        status=MeetingStatus.ENDED, from_=datetime(2026, 12, 1, 9, tzinfo=WIB), to=date(2026, 12, 31),
        page_size=1,
    )  # fmt: skip
    assert trial.server.requests == [], "nothing is sent before the first item is read"
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


async def test_pages_are_retried_and_an_empty_one_does_not_end_a_list(against: Against) -> None:
    empty = answer(200, {"data": [], "next_cursor": "a"})
    trial = await against(page_of(1, "a"), Drop(), page_of(2, None), empty, page_of(3, None))
    assert [each.title for each in await trial.invoke.items("meetings.list")] == ["M1", "M2"]
    assert [each.title for each in await trial.invoke.items("meetings.list")] == ["M3"], "a list read again"


async def test_a_list_that_turns_in_a_circle_ends(against: Against) -> None:
    trial = await against(page_of(1, "a"), page_of(2, "a"))
    with pytest.raises(UnexpectedResponse, match="its own cursor"):
        await trial.invoke.items("meetings.list")


# Requests


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


async def test_only_given_arguments_are_sent(against: Against) -> None:
    trial = await against(
        answer(201, meeting()), *[answer(200, webhook())] * 2, *[answer(200, estimate())] * 2
    )
    made = await trial.invoke(
        "meetings.create", title="Rapat", date=date(2026, 12, 1), start_time=time(9), pricing_tier_id="t",
        mic_off=False, must_login=None,
    )  # fmt: skip
    assert isinstance(made, Meeting)
    await trial.invoke("webhooks.update", ID, description=None)
    await trial.invoke("webhooks.update", ID)
    flags = {"auto_notulen": True, "must_login": True, "mic_off": False, "email_notification": True}
    await trial.invoke("credits.estimate_meeting", pricing_tier_id="plus-300", **flags)
    await trial.invoke("credits.estimate_notulen", duration=90)
    assert [json.loads(request.body) for request in trial.server.requests] == [
        {
            "title": "Rapat", "date": "2026-12-01", "start_time": "09:00", "pricing_tier_id": "t",
            "mic_off": False,
        },
        {"description": None},
        {},
        {"type": "meeting", "pricing_tier_id": "plus-300"} | flags,
        {"type": "notulen", "duration": 90},
    ]  # fmt: skip
    assert trial.server.requests[0].headers["content-type"] == "application/json"


def test_an_id_stays_within_its_path() -> None:
    assert path_of("meetings", "../me?x#y z") == "/meetings/..%2Fme%3Fx%23y%20z"
    for wrong in ("", ".", ".."):
        with pytest.raises(ValueError, match="must not be empty"):
            path_of("meetings", wrong)


def test_invalid_times() -> None:
    with pytest.raises(TypeError, match="in WIB"):
        day_text(datetime(2026, 12, 1, 23, tzinfo=UTC))
    for wrong in (time(9, 0, 1), time(9, 0, 0, 1), time(9, tzinfo=UTC)):
        with pytest.raises(ValueError, match="whole minutes"):
            time_text(wrong)
    with pytest.raises(ValueError, match="with an offset"):
        instant_text(datetime(2026, 12, 1))  # noqa: DTZ001  (the point)
    assert (instant_text(None), instant_text("2026-12-01")) == (None, "2026-12-01")


async def test_invalid_arguments_send_nothing(against: Against) -> None:
    trial = await against()
    for key in ("", "two words", "k" * 256, "é", "a\r\nX: y"):
        with pytest.raises(ValueError, match="idempotency key"):
            await trial.invoke("meetings.cancel", ID, idempotency_key=key)
    with pytest.raises(TypeError, match="as a list"):
        await trial.invoke("webhooks.create", url="https://example.com", event_types="meeting.created")
    for name, required in (
        ("meetings.create", WANTED),
        ("credits.estimate_meeting", {"pricing_tier_id": "t"}),
    ):
        with pytest.raises(TypeError, match="no flag 'sings'"):
            await trial.invoke(name, **required, sings=True)
    assert trial.server.requests == []


@pytest.mark.parametrize(("base_url", "message"), [
    ("meet.example.com", "the service's address"), ("ftp://meet.test", "the service's address"),
    ("https://", "the service's address"), ("https://u:p@meet.test", "no user"),
    ("https://meet.test?x=1", "no query"), ("https://meet.test/#x", "no fragment"),
    ("https://meet.test/api/v1", "without /api/v1"), ("https://meet.test/api/v1/", "without /api/v1"),
])  # fmt: skip
def test_an_invalid_base_url(base_url: str, message: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=message):
            kind(base_url, "key")


@pytest.mark.parametrize(
    "host", ["meet.example.com", "10.0.0.7:8000", "localhost.example.com", "[2001:db8::1]"]
)
def test_a_key_is_sent_in_the_clear_only_where_that_was_said(host: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="base_url is not https: the key would be sent in the clear"):
            kind(f"http://{host}", "key")
        kind(f"http://{host}", "key", allow_http=True).with_options(timeout_s=1)
        for own in ("localhost:8000", "127.0.0.1:8000", "127.8.8.8", "[::1]:8000", "api.localhost"):
            kind(f"http://{own}", "key")


def test_without_asyncio_a_failure_is_that_of_the_one_attempt() -> None:
    """Under trio the first wait was a RuntimeError: no running event loop."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    client = AsyncClient("https://meet.test", "key", transport=httpx.MockTransport(fail))
    with pytest.raises(ConnectionFailed) as failed:
        next(client.me().__await__())
    assert failed.value.attempts == 1


@pytest.mark.parametrize("path", ["", "/", "/behind/a/path", "/behind/a/path/"])
async def test_a_base_url_with_a_path(against: Against, kind: str, path: str) -> None:
    trial = await against(answer(200, meeting()))
    async with open_client(kind, trial.server.url + path, "key") as invoke:
        await invoke("meetings.get", ID)
    assert trial.server.requests[0].target == f"{path.rstrip('/')}/api/v1/meetings/{ID}"
