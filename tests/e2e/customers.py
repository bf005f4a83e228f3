"""A customer with a key, at one running service, over real HTTP."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import httpx
from attrs import define, field

from meetcore.adapters.settings import SecretStr, Settings
from meetcore.client import Client, Meeting, Webhook
from meetcore.composition.infrastructure import open_application
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from tests.support.program import SECRETS_KEY, TIMEOUT_S, Running, Site, run_apart

CREDITS = 10
_hours = itertools.count()


def meeting_body(**fields: object) -> dict[str, object]:
    """Return a body of `POST /meetings` in its own hour."""
    midnight = datetime.now(WIB).replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight + timedelta(days=2, hours=next(_hours))
    defaults = {
        "title": "Rapat", "date": f"{start:%Y-%m-%d}", "start_time": f"{start:%H:%M}",
        "pricing_tier_id": "standard-100",
    }  # fmt: skip
    return defaults | fields


@define
class Customer:
    """An account, a key and a client.

    `api` is the Python client without retries, so that no retry hides a refusal. `http` is for headers, raw
    bytes and faults. `credits` is the opening balance.
    """

    account_id: str
    key_id: str
    api: Client = field(repr=False)
    http: httpx.Client = field(repr=False)
    credits: int

    def create_meeting(self, **fields: object) -> Meeting:
        """Create a meeting that must succeed."""
        return self.api.meetings.create(**meeting_body(**fields))  # type: ignore[arg-type]  # known by name only

    def hook(self, url: str, *kinds: str) -> Webhook:
        """Register a webhook."""
        return self.api.webhooks.create(url=url, event_types=kinds or ["meeting.created"])


def enrol(site: Site, credits: int = 10_000) -> tuple[str, str, str]:
    """Open an account and return its id, key id and unrestricted key, without the command line."""
    return run_apart(_enrol(site.direct_url, credits))


async def _enrol(database_url: str, credits: int) -> tuple[str, str, str]:
    settings = Settings(database_url=SecretStr(database_url), secrets_key=SecretStr(SECRETS_KEY))
    async with open_application(settings) as application:
        operator = application.administration
        account = await operator.create_account(f"{secrets.token_hex(4)}@example.test", "Sari", credits)
        key = await operator.keys.create(account.id, tuple(Scope))
    return str(account.id), str(key.key.id), key.text


@contextmanager
def customer(site: Site, server: Running, credits: int = 10_000) -> Iterator[Customer]:
    account_id, key_id, key = enrol(site, credits)
    with meetcore_client(server.url, key) as api, client(server.url, key) as http:
        yield Customer(account_id, key_id, api, http, credits)


def meetcore_client(url: str, key: str, max_attempts: int = 1) -> Client:
    """Create a Python client that ignores the environment's proxies."""
    return Client(url, key, transport=httpx.HTTPTransport(), timeout_s=TIMEOUT_S, max_attempts=max_attempts)


def client(url: str, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=f"{url}/api/v1", headers=headers, trust_env=False)
