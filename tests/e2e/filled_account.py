"""An account with content for every page, at a running service."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from attrs import field, frozen

from meetcore.adapters.settings import SecretStr, Settings
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import open_application
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.sign_in import MAX_PORTAL_MINUTES
from meetcore.domain.requests.keys import Scope
from tests.e2e.customers import client, meeting_body
from tests.e2e.receiver import Receiver
from tests.support.oauth_requests import a_request_for_a_grant
from tests.support.past_credits import last_month, move_credits
from tests.support.program import SECRETS_KEY, Running, Site, run_apart, until

T = TypeVar("T")

LONG_TITLE = "Rapat-koordinasi-" + "anggaran-" * 20


@frozen
class FilledAccount:
    """An account, its ids by part of the path, and its links."""

    account_id: str
    email: str
    operator_email: str
    ids: Mapping[str, str]
    sandbox: Mapping[str, Sequence[str]]
    """Links to the pages of the sandbox by route: a meeting that is over, one to come, an unpaid payment."""
    links: Callable[[], tuple[str, str]] = field(repr=False)
    """Makes a link to the dashboard for its owner, and one to the console for an admin."""


def fill(site: Site, server: Running, receiver: Receiver) -> FilledAccount:
    """Make an account with meetings, a recording, notes, webhooks, deliveries, keys and an invitation."""
    opened = with_application(site, server.url, _open_account)
    account_id, email, key, operator_id, operator_email, month = opened
    with client(server.url, key) as api:
        note, meeting, joining = _hold_meetings(server.url, api)
        webhook, delivery = _deliver(api, receiver)
        request = _refused(api)
        payment = api.post("/credits/topups", json={"package_id": "credits-500"}).raise_for_status().json()
        doubtful = _pay_too_little(api)

    async def make_links(application: Application) -> tuple[str, str]:
        links = application.access.portal_links
        member = await links.for_member(UUID(account_id), email, MAX_PORTAL_MINUTES)
        operator = await links.for_operator(UUID(operator_id), MAX_PORTAL_MINUTES)
        return member.url, operator.url

    ids = {
        "accounts": account_id, "meetings": meeting, "notes": note, "webhooks": webhook,
        "deliveries": delivery, "requests": request, "credits": payment["id"], "payments": doubtful,
        "statements": month, "playground": "create_meeting",
        "connect": with_application(site, server.url, a_request_for_a_grant),
    }  # fmt: skip
    sandbox = {
        "/sandbox/meetings/{meeting_id}": [each.removeprefix(server.url) for each in joining],
        "/sandbox/payments/{payment_id}": [payment["payment_url"].removeprefix(server.url)],
    }
    return FilledAccount(
        account_id, email, operator_email, ids, sandbox,
        lambda: with_application(site, server.url, make_links),
    )  # fmt: skip


def _pay_too_little(api: httpx.Client) -> str:
    """Pay another amount at the sandbox, so that an operator has to look; return the id of the payment."""
    payment = api.post("/credits/topups", json={"package_id": "credits-500"}).raise_for_status().json()
    page, _, query = payment["payment_url"].partition("?")
    assert httpx.post(f"{page}/pay?{query}&amount=1").status_code == 303
    return str(payment["id"])


def _refused(api: httpx.Client) -> str:
    """Send a request that is refused; return its id."""
    answer = api.post("/meetings", json={"title": "", "duration": 5})
    assert answer.status_code == 400, answer.text
    return answer.headers["X-Request-Id"]


def with_application(site: Site, base_url: str, work: Callable[[Application], Awaitable[T]]) -> T:
    """Run an operator's work."""
    settings = Settings(
        database_url=SecretStr(site.database_url), secrets_key=SecretStr(SECRETS_KEY), base_url=base_url
    )

    async def run() -> T:
        async with open_application(settings) as application:
            return await work(application)

    return run_apart(run())


async def _open_account(application: Application) -> tuple[str, str, str, str, str, str]:
    admin = application.administration
    email, operator = (f"{secrets.token_hex(4)}@example.test" for _ in range(2))
    account, month = await admin.create_account(email, "PT Sinar Rapat Nusantara", 0), last_month(application)
    await move_credits(application, account.id, month.begins_at, 12_500)
    key = await admin.keys.create(account.id, tuple(Scope), 500)
    await admin.keys.create(account.id, (Scope.MEETINGS_READ,), None)
    ended = await admin.keys.create(account.id, (Scope.CREDITS_READ,), None)
    await admin.keys.revoke(ended.key.id)
    operator_id = (await application.access.operators.add(operator, OperatorRole.ADMIN)).id
    return str(account.id), email, key.text, str(operator_id), operator, str(month)


def _hold_meetings(url: str, api: httpx.Client) -> tuple[str, str, list[str]]:
    """Hold a recorded meeting with notes, plan one, cancel one.

    Returns:
        The ids of the note and the first meeting, and the links to join the first and the second.
    """

    def make(**fields: object) -> dict[str, Any]:
        return dict(api.post("/meetings", json=meeting_body(**fields)).raise_for_status().json())

    held = make(title="Rapat mingguan tim produk", with_recording=True, description="Baris satu\nBaris dua")
    planned = make(title=LONG_TITLE)
    cancelled = make(title="Wawancara")
    api.delete(f"/meetings/{cancelled['id']}").raise_for_status()
    page = urlsplit(held["join_url"])
    for button in ("start", "end"):
        answer = httpx.post(f"{url}{page.path}/{button}?{page.query}", trust_env=False, timeout=20)
        assert answer.status_code == 303, answer.text
    recordings = f"/recordings?meeting_id={held['id']}"
    found = until(lambda: api.get(recordings).json()["data"], "it is recorded")
    note = api.post("/notes", json={"recording_id": found[0]["id"]}).raise_for_status().json()
    until(lambda: api.get(f"/notes/{note['id']}").json()["status"] == "completed", "notes are written")
    return str(note["id"]), str(held["id"]), [held["join_url"], planned["join_url"]]


def _deliver(api: httpx.Client, receiver: Receiver) -> tuple[str, str]:
    """Register a working and a failing webhook; return the ids of the second and its delivery."""
    _posted(api, receiver.url("works"))
    return _posted(api, receiver.url(f"fail/{'x' * 80}"))


def _posted(api: httpx.Client, url: str) -> tuple[str, str]:
    """Register a webhook and wait for its first post; return both ids."""
    body = {"url": url, "event_types": ["meeting.created"], "description": "Produksi"}
    hook = api.post("/webhooks", json=body).raise_for_status().json()["id"]
    api.post(f"/webhooks/{hook}/test").raise_for_status()

    def attempted() -> list[dict[str, Any]]:
        return [each for each in api.get(f"/webhooks/{hook}/deliveries").json()["data"] if each["attempts"]]

    [delivery] = until(attempted, "it is posted")
    return str(hook), str(delivery["id"])
