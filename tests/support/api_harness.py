"""A running service and its customers, for tests over HTTP.

Every response to a client made here is checked against the contract.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import httpx
from attrs import evolve, field, frozen
from starlette.types import ASGIApp

from meetcore.adapters.api.http_common import DEFAULT_LIMITS, RequestLimits
from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.http.openapi import daily_document
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.settings import SecretStr, Settings
from meetcore.composition.application import Application, Ports, build
from meetcore.composition.infrastructure import Network
from meetcore.composition.observability import LOGGED
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from meetcore.usecases.requests.administration import Administration, MintedKey
from tests.support.api_contract import Contract
from tests.support.program import TIMEOUT_S

BASE_URL = "https://meetcore.test"
SECRETS_KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
ALL_SCOPES = tuple(Scope)
PRICES = Path(__file__).resolve().parents[1] / "fixtures" / "prices.toml"
TIER = "standard-100"
TIER_CREDITS = 10
RECORDING_CREDITS = 5
PLENTY = 1_000_000
SLOT = timedelta(hours=8)
"""The longest tier, so that meetings in different slots never share a host."""


def settings_for(database_url: str, **changes: Any) -> Settings:
    """Return settings with high quotas and small pools: suites share a hundred connections."""
    given: dict[str, Any] = {
        "database_url": SecretStr(database_url),
        "secrets_key": SecretStr(SECRETS_KEY),
        "base_url": BASE_URL,
        "payment_gateway": "sandbox",
        "tiers_file": str(PRICES),
        "database_pool_size": 5,
        "quota_read": 10_000,
        "quota_write": 10_000,
        "quota_credit": 10_000,
        "quota_tool": 10_000,
        "quota_page": 10_000,
    }
    return Settings(**given | changes)


@asynccontextmanager
async def started(app: ASGIApp) -> AsyncIterator[None]:
    """Run an application's lifespan around a block."""
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    replies: asyncio.Queue[Any] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}

    async def run() -> None:
        await app(scope, messages.get, replies.put)

    running = asyncio.create_task(run())
    await messages.put({"type": "lifespan.startup"})
    answer = await replies.get()
    assert answer["type"] == "lifespan.startup.complete", answer
    try:
        yield
    finally:
        await messages.put({"type": "lifespan.shutdown"})
        await running


@asynccontextmanager
async def api_on(
    application: Application,
    adjust: Callable[[UseCases], UseCases] = lambda use: use,
    *,
    limits: RequestLimits = DEFAULT_LIMITS,
    **changes: Any,
) -> AsyncIterator[ApiApp]:
    """Run the API alone, on an application with changed ports, policies or limits."""
    changed = rebuilt(application, **changes)
    yield api_of(changed, adjust(changed.api), limits)


def api_of(
    application: Application, use: UseCases | None = None, limits: RequestLimits = DEFAULT_LIMITS
) -> ApiApp:
    """Return the API of an application, on its use cases or on others."""
    base_url = application.policy.base_url
    document = daily_document(OPERATIONS, base_url)
    return ApiApp(use or application.api, application.admit, application.runtime, base_url, document, limits)


def rebuilt(application: Application, **changes: Any) -> Application:
    """Return the application with changed fields."""
    ports = {name: changes.pop(name) for name in attrs.fields_dict(Ports) if name in changes}
    return build(evolve(application.ports, **ports), evolve(application.policy, **changes), LOGGED)


@asynccontextmanager
async def pool_of(settings: Settings) -> AsyncIterator[Pool]:
    pool = make_pool(str(settings.database_url), max_size=4)
    await pool.open(wait=False)
    try:
        yield pool
    finally:
        await pool.close()


def client_of(app: ASGIApp, contract: Contract) -> httpx.AsyncClient:
    """Return a client that checks every response."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url=f"{BASE_URL}/api/v1",
        event_hooks={"response": [contract.check]},
    )


class Slots:
    """Times without other meetings, from the day after tomorrow on."""

    def __init__(self) -> None:
        midnight = datetime.now(WIB).replace(hour=0, minute=0, second=0, microsecond=0)
        self._first = midnight + timedelta(days=2)
        self._numbers = itertools.count()

    def take(self) -> datetime:
        """Return the beginning of a slot, in WIB."""
        start = self._first + next(self._numbers) * SLOT
        assert start < datetime.now(UTC) + timedelta(days=364), "the tests used up the year"
        return start


@frozen
class Funds:
    """The balance of an account in the database."""

    balance: int
    held: int
    entries: int


@frozen
class Customer:
    """An account and one of its keys, at one service."""

    harness: ApiHarness
    http: httpx.AsyncClient
    account_id: UUID
    user_id: UUID
    email: str
    key: MintedKey = field(repr=False)

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        idem: str | None = None,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request with the customer's key; `raw` is an unencoded body."""
        sent = {"Authorization": f"Bearer {self.key.text}"}
        if idem is not None:
            sent["Idempotency-Key"] = idem
        if raw is not None:
            sent["Content-Type"] = "application/json"
            return await self.http.request(method, path, content=raw, headers=sent | (headers or {}))
        json = {} if body is None else {"json": body}
        return await self.http.request(method, path, headers=sent | (headers or {}), **json)  # type: ignore[arg-type]

    async def get(self, path: str) -> httpx.Response:
        return await self.send("GET", path)

    async def post(self, path: str, body: object, *, idem: str | None = None) -> httpx.Response:
        return await self.send("POST", path, body, idem=idem)

    async def patch(self, path: str, body: object, *, idem: str | None = None) -> httpx.Response:
        return await self.send("PATCH", path, body, idem=idem)

    async def delete(self, path: str, *, idem: str | None = None) -> httpx.Response:
        return await self.send("DELETE", path, idem=idem)

    async def make_meeting(self, **fields: Any) -> dict[str, Any]:
        """Create a meeting in its own slot."""
        made = await self.post("/meetings", self.harness.body(**fields))
        assert made.status_code == 201, made.text
        return dict(made.json())

    async def make_webhook(self, **fields: Any) -> dict[str, Any]:
        """Register a webhook under a unique URL."""
        made = await self.post("/webhooks", self.harness.webhook_body(**fields))
        assert made.status_code == 201, made.text
        return dict(made.json())

    async def balance(self) -> int:
        """Return the balance by `GET /me`."""
        answer = await self.get("/me")
        assert answer.status_code == 200, answer.text
        return int(answer.json()["credits"]["balance"])

    async def funds(self) -> Funds:
        """Return the balance in the database."""
        rows = await self.harness.query(
            "SELECT balance, held, entries FROM accounts WHERE id = %s", self.account_id
        )
        return Funds(**rows[0])

    async def key_rows(self) -> list[dict[str, Any]]:
        return await self.harness.query(
            "SELECT key, is_done, answer FROM idempotency_keys WHERE account_id = %s ORDER BY key",
            self.account_id,
        )

    async def meeting_statuses(self) -> list[str]:
        """Return the statuses of all meetings, invisible ones included."""
        rows = await self.harness.query("SELECT status FROM meetings WHERE account_id = %s", self.account_id)
        return sorted(row["status"] for row in rows)

    async def hosts_taken(self) -> int:
        rows = await self.harness.query(
            "SELECT meeting_id FROM host_reservations WHERE account_id = %s", self.account_id
        )
        return len(rows)

    def at(self, http: httpx.AsyncClient) -> Customer:
        return evolve(self, http=http)

    @asynccontextmanager
    async def on(
        self, adjust: Callable[[UseCases], UseCases] = lambda use: use, **changes: Any
    ) -> AsyncIterator[Customer]:
        """Run an API with other parts, as by `api_on`, and return the customer at it."""
        async with (
            api_on(self.application, adjust, **changes) as api,
            client_of(api, self.harness.contract) as http,
        ):
            yield self.at(http)

    @property
    def application(self) -> Application:
        return self.harness.application

    def body(self, **fields: Any) -> dict[str, Any]:
        return self.harness.body(**fields)

    async def query(self, statement: str, *values: object) -> list[dict[str, Any]]:
        return await self.harness.query(statement, *values)

    async def another_key(
        self, scopes: Sequence[Scope] = ALL_SCOPES, daily_cap: int | None = None
    ) -> Customer:
        return evolve(
            self, key=await self.harness.administration.keys.create(self.account_id, scopes, daily_cap)
        )


@frozen
class ApiHarness:
    """The session's service."""

    application: Application
    http: httpx.AsyncClient
    slots: Slots
    settings: Settings
    network: Network
    pool: Pool
    contract: Contract

    @property
    def administration(self) -> Administration:
        return self.application.administration

    async def customer(
        self,
        credits: int = 1000,
        scopes: Sequence[Scope] = ALL_SCOPES,
        daily_cap: int | None = None,
        expires_at: datetime | None = None,
    ) -> Customer:
        email = f"{secrets.token_hex(6)}@example.test"
        account = await self.administration.create_account(email, "Sari Dewi", credits)
        key = await self.administration.keys.create(account.id, scopes, daily_cap, expires_at)
        return Customer(self, self.http, account.id, account.user_id, email, key)

    async def query(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """Query the database."""
        async with self.pool.connection() as connection:
            cursor = await connection.cursor().execute(statement, values)
            return await cursor.fetchall() if cursor.description is not None else []

    def body(self, **fields: Any) -> dict[str, Any]:
        """Return a body of `POST /meetings` in its own slot, without fields given as `...`."""
        start = self.slots.take()
        defaults = {
            "title": "Rapat mingguan",
            "date": f"{start:%Y-%m-%d}",
            "start_time": f"{start:%H:%M}",
            "pricing_tier_id": TIER,
        }
        return {name: value for name, value in (defaults | fields).items() if value is not ...}

    def webhook_body(self, **fields: Any) -> dict[str, Any]:
        """Return a body of `POST /webhooks` with a unique URL, without fields given as `...`."""
        defaults = {
            "url": f"https://hooks.test/{secrets.token_hex(8)}",
            "event_types": ["meeting.created"],
        }
        return {name: value for name, value in (defaults | fields).items() if value is not ...}


def new_key() -> str:
    return secrets.token_urlsafe(16)


def fields_of(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == "invalid_request"
    return dict(error["details"]["fields"])


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def until(condition: Callable[[], Any], seconds: float = TIMEOUT_S) -> Any:
    """Poll a condition, perhaps awaitable, until it is true, more rarely the longer it takes."""
    began = asyncio.get_running_loop().time()
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        waited = asyncio.get_running_loop().time() - began
        assert waited < seconds, f"not within {seconds} s"
        await asyncio.sleep(min(max(0.02, waited / 10), 0.1))
