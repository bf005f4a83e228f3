"""A customer with a key, at one running service, over real HTTP."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
from attrs import define, field

from meetcore.domain.keys import Scope
from meetcore.domain.schedule import WIB
from tests.e2e.program import Running, Site

SCOPES = tuple(scope.value for scope in Scope)
CREDITS = 10
_hours = itertools.count()


def meeting_body(**fields: object) -> dict[str, object]:
    """A body for `POST /meetings` in an hour of its own."""
    midnight = datetime.now(WIB).replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight + timedelta(days=2, hours=next(_hours))
    told = {
        "title": "Rapat", "date": f"{start:%Y-%m-%d}", "start_time": f"{start:%H:%M}",
        "pricing_tier_id": "standard-100",
    }  # fmt: skip
    return told | fields


@define
class Customer:
    """An account, a key and a client."""

    account_id: str
    key_id: str
    http: httpx.Client = field(repr=False)

    def meet(self, **fields: object) -> dict[str, Any]:
        """Create a meeting that must succeed."""
        made = self.http.post("/meetings", json=meeting_body(**fields))
        assert made.status_code == 201, made.text
        return dict(made.json())

    def hook(self, url: str, *kinds: str) -> dict[str, Any]:
        """Register a webhook."""
        made = self.http.post("/webhooks", json={"url": url, "event_types": kinds or ["meeting.created"]})
        assert made.status_code == 201, made.text
        return dict(made.json())

    def webhook(self, endpoint: dict[str, Any]) -> dict[str, Any]:
        """The record of a webhook as it is now."""
        return dict(self.http.get(f"/webhooks/{endpoint['id']}").raise_for_status().json())


def enrol(site: Site, credits: int = 10_000, **settings: object) -> tuple[str, str, str]:
    """An account with a key that may do everything: account id, key id, key."""
    made = site.cli(
        "account", "create", "--email", f"{secrets.token_hex(4)}@example.test", "--full-name", "Sari",
        "--credits", credits, **settings,
    )  # fmt: skip
    key = site.cli("key", "create", "--account", made["id"], "--scope", *SCOPES, **settings)
    return made["id"], key["id"], key["key"]


@contextmanager
def customer(site: Site, server: Running) -> Iterator[Customer]:
    """A new customer at a running service."""
    account_id, key_id, key = enrol(site)
    with client(server.url, key) as http:
        yield Customer(account_id, key_id, http)


def client(url: str, key: str) -> httpx.Client:
    """A client with a key."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=20, trust_env=False)
