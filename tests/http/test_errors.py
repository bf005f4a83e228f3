"""Every kind of failure, and that each wears the envelope of spec 7.

The envelope itself, the code for its status and the rate headers are held against every answer of all
tests here by `tests.support.api_contract`; these tests bring about each kind.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.app import Service
from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from tests.support.api_contract import CODES, Contract
from tests.support.api_harness import (
    BASE_URL,
    Customer,
    client_of,
    code_of,
    fields_of,
    new_key,
    settings_for,
    started,
    until,
)
from tests.support.relay import relay_to
from tests.support.texts import assert_contains


@pytest.mark.spec("7/404", "7/envelope", "9/1")
async def test_an_unknown_path(customer: Customer) -> None:
    for path in (
        "/nope", "/me/", "/meetings/a/b", "//me", "/%00", "/%ff", "/meetings/", "/../me",
        "/webhooks/x/nope", "/ME",
    ):  # fmt: skip
        answer = await customer.http.request(
            "GET", f"{BASE_URL}/api/v1{path}", headers={"Authorization": f"Bearer {customer.key.text}"}
        )
        if not answer.request.url.path.startswith("/api/v1"):
            continue  # the client itself walked out of the API
        assert code_of(answer) == (404, "not_found"), path


async def test_an_unknown_path_names_the_nearest_one(customer: Customer) -> None:
    for path, near in (
        ("/meeting", "/meetings"), ("/webhooks/0190a7b2-0000-7000-8000-000000000000/deliverys",
        "/webhooks/{id}/deliveries"), ("/s3cret", None), ("/" + "x" * 5_000, None),
    ):  # fmt: skip
        message = (await customer.get(path)).json()["error"]["message"]
        hint = f" Did you mean {near}?" if near else ""
        assert message == f"No such path.{hint} The API is described at /api/v1/openapi.json.", path


@pytest.mark.spec("7/404", "7/envelope", "8/3")
async def test_the_root_of_the_api_is_inside_the_api(customer: Customer) -> None:
    assert code_of(await customer.http.get(f"{BASE_URL}/api/v1")) == (401, "invalid_api_key")
    header = {"Authorization": f"Bearer {customer.key.text}"}
    assert code_of(await customer.http.get(f"{BASE_URL}/api/v1", headers=header)) == (404, "not_found")


@pytest.mark.spec("7/envelope", "7/400")
async def test_a_wrong_method(customer: Customer, contract: Contract) -> None:
    for method, path in (
        ("PUT", "/me"), ("HEAD", "/me"), ("OPTIONS", "/me"), ("get", "/me"), ("PUT", "/meetings"),
        ("PUT", "/meetings/{id}"), ("DELETE", "/webhooks"), ("GET", "/webhooks/{id}/test"),
        ("DELETE", "/webhooks/{id}/deliveries"), ("PUT", "/webhooks/{id}"), ("POST", "/openapi.json"),
    ):  # fmt: skip
        header = {"Authorization": f"Bearer {customer.key.text}"}
        request = httpx.Request(method, f"{BASE_URL}/api/v1{path.format(id='x')}", headers=header)
        request.method = method  # httpx would write it in capitals
        answer = await customer.http.send(request)
        assert answer.status_code == 405, path
        documented = contract.document["paths"].get(path, {"get": None, "head": None})
        assert answer.headers["Allow"] == ", ".join(sorted(name.upper() for name in documented)), path
        if method != "HEAD":
            assert answer.json()["error"]["code"] == "invalid_request", path


@pytest.mark.spec("1/base", "7/envelope", "7/400")
async def test_a_body_that_is_not_declared_as_json(customer: Customer) -> None:
    for method, path in (("POST", "/meetings"), ("POST", "/webhooks"), ("PATCH", "/webhooks/x")):
        for media in (
            "", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "multipart/form-data",
        ):  # fmt: skip
            answer = await customer.send(method, path, raw=b"{}", headers={"Content-Type": media})
            assert code_of(answer) == (415, "invalid_request"), (path, media)


@pytest.mark.spec("1/base", "7/envelope")
async def test_a_compressed_body_is_refused_as_such(customer: Customer) -> None:
    for method, path in (("POST", "/meetings"), ("PATCH", "/webhooks/x"), ("DELETE", "/webhooks/x")):
        for raw in (gzip.compress(b"{}"), b"{}"):
            answer = await customer.send(method, path, raw=raw, headers={"Content-Encoding": "gzip"})
            assert code_of(answer) == (415, "invalid_request"), path
            assert answer.json()["error"]["details"]["fields"].keys() == {"Content-Encoding"}, path
            assert answer.headers["Accept-Encoding"] == "identity", path
        plain = await customer.send(method, path, raw=b"{}", headers={"Content-Encoding": "Identity"})
        assert plain.status_code != 415, path


@pytest.mark.spec("7/400")
async def test_a_name_is_given_once(customer: Customer) -> None:
    for raw, name in (
        (
            b'{"type":"meeting","pricing_tier_id":"standard-100","auto_notulen":false,"auto_notulen":true}',
            "auto_notulen",
        ),
        (
            b'{"type":"meeting","pricing_tier_id":"standard-100","\\u0061uto_notulen":false,"auto_notulen":false}',
            "auto_notulen",
        ),
        (b'{"type":"meeting","pricing_tier_id":{"a":1,"a":1}}', "a"),
    ):
        answer = await customer.send("POST", "/credits/estimate", raw=raw)
        assert fields_of(answer) == {name: ["must be given once"]}, raw


@pytest.mark.spec("7/400")
async def test_json_with_values_that_are_not_taken(customer: Customer) -> None:
    for value, reason in (
        (b"1e999", "must not have a number out of range (beyond 1e308)"),
        (b"-1e999", "must not have a number out of range (beyond 1e308)"),
        (b"9" * 5000, "must not have a number out of range (beyond 1e308)"),
        (rb'"a\ud800b"', "must be a JSON object in UTF-8 (RFC 8259) without lone surrogates"),
        (rb'"a\udc00b"', "must be a JSON object in UTF-8 (RFC 8259) without lone surrogates"),
        (rb'"a\ude00\ud83d"', "must be a JSON object in UTF-8 (RFC 8259) without lone surrogates"),
    ):
        answer = await customer.send(
            "POST", "/credits/estimate", raw=b'{"type": "notulen", "duration": %s}' % value
        )
        assert fields_of(answer) == {"body": [reason]}, value


@pytest.mark.spec("1/base")
async def test_json_with_parameters_is_json(customer: Customer) -> None:
    for media in ("application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"):
        answer = await customer.send("POST", "/webhooks", raw=b"{}", headers={"Content-Type": media})
        assert set(fields_of(answer)) == {"url", "event_types"}, media


@pytest.mark.spec("7/400", "7/envelope")
async def test_a_body_over_64_kib(customer: Customer) -> None:
    for method, path in (("POST", "/meetings"), ("POST", "/webhooks"), ("PATCH", "/webhooks/x")):
        too_large = b'{"title":"' + b"a" * 65_536 + b'"}'
        assert code_of(await customer.send(method, path, raw=too_large)) == (413, "invalid_request"), path
        at_the_edge = b"{}" + b" " * 65_534
        assert (await customer.send(method, path, raw=at_the_edge)).status_code in (400, 404), path


async def test_a_length_may_begin_with_zeros(customer: Customer) -> None:
    raw = b'{"type": "notulen", "duration": 60}'
    for length, status in ((len(raw), 200), (64 * 1024 + 1, 413)):
        headers = {"Content-Length": f"{'0' * 5000}{length}"}
        answer = await customer.send("POST", "/credits/estimate", raw=raw, headers=headers)
        assert answer.status_code == status, answer.text


@pytest.mark.spec("7/400")
async def test_a_body_over_64_kib_without_content_length(customer: Customer) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        for _ in range(66):
            yield b" " * 1024

    answer = await customer.http.post(
        "/meetings",
        content=dripping(),
        headers={"Authorization": f"Bearer {customer.key.text}", "Content-Type": "application/json"},
    )
    assert code_of(answer) == (413, "invalid_request")


class BurningProvider(SandboxProvider):
    """A provider whose adapter has an unexpected fault."""

    async def create(self, order: ProviderOrder) -> Provisioned:
        raise ZeroDivisionError(f"secret of {order.provider_user_id}")


@pytest.mark.spec("7/500", "7/envelope", "4.1/errors")
async def test_a_fault_at_the_service(customer: Customer) -> None:
    provider = BurningProvider(BASE_URL, PostgresSandboxState(customer.harness.pool), bytes(32))
    async with customer.on(provider=provider) as there:
        answer = await there.post("/meetings", customer.body())
    assert code_of(answer) == (500, "internal_error")
    assert_contains(answer.text, absent=("secret", "ZeroDivision"))
    assert answer.json()["error"]["details"] == {}
    assert await customer.balance() == 1000


async def test_an_unknown_address_outside_the_dashboard_has_a_page_for_browsers(
    http: httpx.AsyncClient,
) -> None:
    for path, docs in (("/nothing", "docs"), ("/docs/a/b", "../../docs")):
        page = await http.get(f"{BASE_URL}{path}", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (page.status_code, page.headers["cache-control"]) == (404, "no-store")
        home = f'href="{docs.removesuffix("docs") or "./"}">Start page</a>'
        assert_contains(
            page.text, "There is nothing at this address", f'href="{docs}"', home, '<html lang="en">'
        )
        asked = {"Accept": "text/html", "Accept-Language": "id-ID,id;q=0.9,en;q=0.8"}
        page = await http.get(f"{BASE_URL}{path}", headers=asked)
        assert_contains(page.text, "Tidak ada apa pun di alamat ini", ">Halaman awal<", '<html lang="id">')
        plain = await http.get(f"{BASE_URL}{path}", headers={"Accept": "*/*"})
        assert (plain.status_code, plain.text) == (404, "Not Found")


@pytest.mark.spec("7/envelope", "9/2", "7/other")
async def test_every_code_has_its_page(http: httpx.AsyncClient) -> None:
    for code in sorted(set().union(*CODES.values())):
        page = await http.get(f"{BASE_URL}/docs/errors/{code}")
        assert page.status_code == 200
        assert page.headers["Content-Type"].startswith("text/html")
        assert f"<h1>{code}</h1>" in page.text
    assert (await http.get(f"{BASE_URL}/docs/errors/no_such_code")).status_code == 404


@pytest.mark.spec("7/envelope", "9/2")
async def test_the_codes_are_those_of_the_spec(contract: Contract) -> None:
    codes = set()
    for path, item in contract.document["paths"].items():
        for method in item:
            for status, code in contract.codes_of(method, path):
                assert code in CODES[status]
                codes.add(code)
    assert codes <= set().union(*CODES.values())


@pytest.mark.spec("4/request-id")
async def test_request_ids_are_the_services_own(customer: Customer) -> None:
    answer = await customer.send("GET", "/me", headers={"X-Request-Id": "mine"})
    assert answer.headers["X-Request-Id"] != "mine"
    many = await asyncio.gather(*(customer.get("/me") for _ in range(20)))
    assert len({each.headers["X-Request-Id"] for each in many}) == 20


@pytest.mark.spec("4/request-id", "7/envelope")
async def test_answers_are_not_kept_by_caches(customer: Customer) -> None:
    for path in ("/me", "/nope"):
        assert (await customer.get(path)).headers["Cache-Control"] == "no-store"


# The database is away


def is_unavailable(answer: httpx.Response) -> bool:
    """Whether this is the answer to a database that is away, and whole."""
    if answer.status_code != 503:
        return False
    assert code_of(answer) == (503, "service_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["X-RateLimit-Remaining"] == answer.headers["X-RateLimit-Limit"]
    return True


@pytest.mark.spec("7/503", "7/envelope", "4/rate-headers")
async def test_the_database_comes_goes_and_comes_back(
    customer: Customer, migrated_url: str, contract: Contract
) -> None:
    async with relay_to(migrated_url) as (relay, url):
        service = Service(settings_for(url))
        async with started(service), client_of(service, contract) as http:
            there = customer.at(http)
            ready, *unavailable = await asyncio.gather(
                http.get(f"{BASE_URL}/readyz"),
                there.get("/me"),
                there.post("/meetings", customer.body(), idem=new_key()),
                there.get("/nope"),
            )
            assert ready.status_code == 503
            assert all(is_unavailable(answer) for answer in unavailable)
            assert (await http.get(f"{BASE_URL}/healthz")).status_code == 200, "the process lives"
            assert (await http.get("/openapi.json")).status_code == 200

            async def is_back() -> bool:
                answer = await there.get("/me")
                return answer.status_code == 200 or not is_unavailable(answer)

            await relay.open()
            await until(is_back, 20)
            await there.make_meeting()

            await relay.close()

            async def is_gone() -> bool:
                return is_unavailable(await there.get("/me"))

            await until(is_gone)
            await relay.open()
            await until(is_back, 20)
            await there.make_meeting()
    assert await customer.balance() == 980


async def test_a_process_that_started_without_its_database_is_ready_on_its_own_schema_only(
    migrated_url: str, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Settings] = []

    def refuse(settings: Settings) -> None:
        looks.append(settings)
        raise SettingsRefused("the schema is not up to date: run `meetcore migrate` first")

    # A loaded machine may take longer than a balancer waits.
    monkeypatch.setattr("meetcore.app.READY_S", 20.0)
    async with relay_to(migrated_url) as (relay, url):
        service = Service(settings_for(url))
        async with started(service), client_of(service, contract) as http:

            async def readiness() -> tuple[int, str]:
                answer = await http.get(f"{BASE_URL}/readyz")
                return answer.status_code, answer.text

            async def is_answered() -> bool:
                return "answer" not in (await readiness())[1]

            assert await readiness() == (503, "the database does not answer\n")
            with monkeypatch.context() as old:
                monkeypatch.setattr("meetcore.app.SCHEMA_EVERY_S", 0.2)
                old.setattr("meetcore.app.check_schema", refuse)
                await relay.open()
                await until(is_answered, 20)
                looks.clear()
                for _ in range(20):
                    assert await readiness() == (503, "the database is not that of this release\n")
                assert len(looks) < 20, "it is not looked at for each poll of a balancer"

            async def is_ready() -> bool:
                return await readiness() == (200, "ok\n")

            await until(is_ready)


@pytest.mark.spec("7/503")
async def test_a_key_and_body_can_be_retried_after_an_outage(
    customer: Customer, migrated_url: str, contract: Contract
) -> None:
    key, body = new_key(), customer.body()
    async with relay_to(migrated_url) as (_, url):
        service = Service(settings_for(url))
        async with started(service), client_of(service, contract) as http:
            assert is_unavailable(await customer.at(http).post("/meetings", body, idem=key))
    assert (await customer.post("/meetings", body, idem=key)).status_code == 201
    assert await customer.balance() == 990
