"""The demo of `meetcore dev`: its account, a first meeting, and the start message.

The account is the same at every start, with hosts, a key and an operator. A new one has a meeting, made by
the API and the join page of the sandbox as a customer and a host would make it; its recording and notes
follow within seconds, by the worker. The message has addresses, links that sign in, and lines to paste.
"""

import hashlib
import hmac
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from attrs import frozen

from meetcore.adapters.dev_inbox import INBOX_HOST, MAIL_PATH
from meetcore.adapters.embedded_postgres import EmbeddedPostgres
from meetcore.adapters.settings import Settings
from meetcore.app import AGENT_PATH, has_agent_interface
from meetcore.cli.output import ExitCode, complain
from meetcore.composition.application import Application
from meetcore.composition.providers import has_dashboard
from meetcore.domain.errors import Conflict
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.sign_in import MAX_PORTAL_MINUTES
from meetcore.domain.requests import accounts, keys
from meetcore.domain.webhooks import events, urls
from meetcore.ports.queries import MAX_PAGE

DEMO_EMAIL = "demo@example.com"
DEMO_FILE = "demo.json"
DEMO_OPERATOR_EMAIL = "operator@example.com"
DEMO_CREDITS = 1_000
DEMO_KEY = "Website"
DEMO_HOSTS = (("demo-host-1", 100), ("demo-host-2", 100), ("demo-host-3", 300), ("demo-host-4", 1000))

TITLE: Final = "Weekly product meeting"
TIER: Final = "standard-100"
EVENTS: Final = (events.EventKind.RECORDING_READY, events.EventKind.NOTE_COMPLETED)
"""Others than those of the printed line, which registers a webhook of its own."""

_MINUTE_S: Final = 60
_LEAD_S: Final = 10
"""The start is at least so far ahead: one that is past when the request is read would be refused."""
_TIMEOUT_S: Final = 10

_DELIVERY_S: Final = 2
_WAIT: Final = f"(The last line first waits {_DELIVERY_S} s for the delivery.)"


@frozen
class Demo:
    """The values in the printed lines."""

    account_id: UUID
    key: str
    inbox: str

    @property
    def inbox_url(self) -> str:
        """The URL that the printed line registers."""
        return f"https://{INBOX_HOST}/{self.inbox}"


async def keep_demo_account(
    application: Application,
    data_dir: Path,
    credits: int = DEMO_CREDITS,
    hosts: Iterable[tuple[str, int]] = DEMO_HOSTS,
) -> Demo:
    """Return the demo account, the same at every start, and add hosts with their capacities."""
    file = data_dir / DEMO_FILE
    demo = _read_demo(file) if file.exists() else None
    if demo is not None and await application.ports.queries.find_caller(keys.digest(demo.key)) is not None:
        return demo
    account_id = await _open_account(application, credits)
    minted = await application.administration.keys.create(account_id, tuple(keys.Scope), name=DEMO_KEY)
    for provider_user_id, capacity in hosts:
        with suppress(Conflict):  # an earlier start got this far
            await application.administration.hosts.add(provider_user_id, capacity)
    demo = Demo(account_id, minted.text, os.urandom(4).hex())
    record = {"account_id": str(demo.account_id), "key": demo.key, "inbox": demo.inbox}
    write_private(file, json.dumps(record))
    return demo


async def _open_account(application: Application, credits: int) -> UUID:
    """Create the account, or find the one of an earlier start whose file is missing."""
    known = await application.ports.registry.list_accounts(DEMO_EMAIL, 1)
    if known:
        return known[0].id
    return (await application.administration.create_account(DEMO_EMAIL, "Demo Account", credits)).id


async def is_inbox_registered(application: Application, demo: Demo) -> bool:
    """Return whether the demo account has its webhook; registering it again is a conflict."""
    endpoints = await application.ports.queries.list_endpoints(demo.account_id, MAX_PAGE, None)
    return urls.parse_webhook_url(demo.inbox_url).normalized in {each.url_key for each in endpoints}


def _read_demo(file: Path) -> Demo:
    try:
        record = json.loads(file.read_text("utf-8"))
        return Demo(UUID(record["account_id"]), record["key"], record["inbox"])
    except (ValueError, KeyError, TypeError):
        complain("demo", f"{file} cannot be read; delete it, and a new demo account is made", as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


async def keep_demo_operator(application: Application) -> UUID:
    """Add the operator who may do everything, or find the one of an earlier start."""
    operators = application.access.operators
    known = {accounts.email_key(each.email): each.id for each in await operators.list_operators()}
    return known.get(DEMO_OPERATOR_EMAIL) or (await operators.add(DEMO_OPERATOR_EMAIL, OperatorRole.ADMIN)).id


def write_private(file: Path, text: str) -> None:
    """Write a file that its owner alone may read, whole or not at all."""
    draft = file.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(file)


async def hold_demo_meeting(base_url: str, key: str, webhook_url: str, now: datetime) -> None:
    """Register a webhook, read, be refused, and make, start and end a meeting with a recording and notes.

    The meeting starts with the next minute, the earliest start that the API allows. `webhook_url` receives
    the events of the recording. Raises `httpx.HTTPError` where a step is refused or not answered.
    """
    minutes = (now.timestamp() + _LEAD_S) // _MINUTE_S + 1
    at = datetime.fromtimestamp(minutes * _MINUTE_S, WIB)
    body = {
        "title": TITLE, "date": f"{at:%Y-%m-%d}", "start_time": f"{at:%H:%M}", "pricing_tier_id": TIER,
        "with_recording": True, "auto_notulen": True,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=_TIMEOUT_S) as http:
        hook = {"url": webhook_url, "event_types": [kind.value for kind in EVENTS]}
        (await http.post("/api/v1/webhooks", json=hook, headers=headers)).raise_for_status()
        for path in ("me", "pricing-tiers", "meetings"):
            (await http.get(f"/api/v1/{path}", headers=headers)).raise_for_status()
        await http.post("/api/v1/meetings", json=body | {"start_time": "25:00"}, headers=headers)
        made = (await http.post("/api/v1/meetings", json=body, headers=headers)).raise_for_status()
        page = urlsplit(made.json()["join_url"])
        for button in ("start", "end"):
            answer = await http.post(f"{page.path}/{button}?{page.query}")
            if answer.status_code >= httpx.codes.BAD_REQUEST:
                answer.raise_for_status()


def mail_token(settings: Settings) -> str:
    """Return the token of the mail inbox, the same at every start: it follows from the secrets key."""
    key = str(settings.secrets_key).encode()
    return hmac.digest(key, b"mail inbox of meetcore dev", hashlib.sha256).hex()[:32]


def start_message(
    settings: Settings, demo: Demo, data_dir: Path, database: EmbeddedPostgres, dashboard: Sequence[str],
    *, is_registered: bool,
) -> str:  # fmt: skip
    """Return the whole message. `dashboard` has lines on the pages, if they are installed.

    `is_registered`: the demo account has its webhook.
    """
    base_url = settings.base_url
    mails = (
        []
        if str(settings.smtp_url)
        else [f"  mail inbox       {base_url}{MAIL_PATH}?token={mail_token(settings)}"]
    )
    agents = (
        [f"  agents (MCP)     {base_url}{AGENT_PATH}"]
        if settings.mcp != "off" and has_agent_interface()
        else []
    )
    return "\n".join(
        (
            "",
            f"meetcore is up at {base_url}",
            *dashboard,
            f"  errors and docs  {base_url}/docs",
            f"  webhook inbox    {base_url}/inbox",
            *mails,
            *(_new_link_lines(base_url) if mails and dashboard else ()),
            *agents,
            f"  demo account     {demo.account_id}",
            f"  demo API key     {demo.key}",
            *_moved_data_lines(database),
            "",
            *_first_commands(base_url, demo, is_registered=is_registered),
            "",
            "For operator's commands, paste this into another terminal first:",
            "",
            _access(settings, data_dir),
            "",
            "Then, for example, make another API key of the demo account:",
            "",
            f"{_program()} key create --account {demo.account_id} --scope meetings:read meetings:write",
            "",
            "Stop with Ctrl-C.",
        )
    )


def _new_link_lines(base_url: str) -> list[str]:
    """Return lines on how to sign in when a printed link was used or has expired."""
    return [
        f"  new sign-in link ask for it as {DEMO_EMAIL} at {base_url}/dashboard/sign-in,",
        f"                   or as {DEMO_OPERATOR_EMAIL} at {base_url}/console/sign-in;",
        "                   its mail appears in the mail inbox",
    ]


def _program() -> str:
    """Return how a shell calls this program, whatever its PATH and working directory."""
    program = Path(sys.executable).with_name("meetcore")
    if program.exists():
        return shlex.quote(str(program))
    return shlex.join((sys.executable, "-m", "meetcore.cli.main"))


def _first_commands(base_url: str, demo: Demo, *, is_registered: bool) -> list[str]:
    """Return lines to paste, without the registration of a webhook where it would be refused with 409."""
    api = f"{base_url}/api/v1"
    sends = f"-H 'Authorization: Bearer {demo.key}' -H 'Content-Type: application/json'"
    webhook = json.dumps({"url": demo.inbox_url, "event_types": ["meeting.created", "meeting.ended"]})
    # At the time of this start: at one that is the same each time, the demo's hosts would soon be taken.
    day, start_time = (datetime.now(WIB) + timedelta(days=1)).isoformat(timespec="minutes")[:16].split("T")
    meeting = json.dumps(
        {"title": "First meeting", "date": day, "start_time": start_time, "pricing_tier_id": "standard-100"}
    )
    create_and_look = [
        f"curl -sS {api}/meetings {sends} -d '{meeting}'",
        "",
        f"sleep {_DELIVERY_S}; curl -sS '{base_url}/inbox.json?path=/{demo.inbox}'",
    ]
    if is_registered:
        return [
            f"Paste these: create a meeting, see what was delivered. {_WAIT}",
            "(An earlier start's webhook is registered; to register it again is 409.)",
            "",
            *create_and_look,
        ]
    return [
        f"Paste these: register a webhook, create a meeting, see what was delivered. {_WAIT}",
        "",
        f"curl -sS {api}/webhooks {sends} -d '{webhook}'",
        "",
        *create_and_look,
    ]


def _moved_data_lines(database: EmbeddedPostgres) -> list[str]:
    """Return lines on where the data is, if it is not in the requested directory."""
    if database.home == database.asked:
        return []
    return [
        f"  database         {database.home}",
        f"                   (Postgres does not run as root, and its user may not enter {database.asked})",
    ]


def _access(settings: Settings, data_dir: Path) -> str:
    """Return the shell commands to reach this database. The secrets key is read from its file."""
    url = shlex.quote(str(settings.database_url))
    key_file = shlex.quote(str((data_dir / "secrets.key").resolve()))
    base_url = shlex.quote(settings.base_url)
    return (
        f"export MEETCORE_BASE_URL={base_url} MEETCORE_PAYMENT_GATEWAY={settings.payment_gateway} "
        f'MEETCORE_DATABASE_URL={url} MEETCORE_SECRETS_KEY="$(cat {key_file})"'
    )


async def sign_in_links(application: Application, demo: Demo) -> tuple[str, str] | None:
    """Return links that sign in to dashboard and console; `None` if their extra is not installed."""
    if not has_dashboard():
        return None
    links = application.access.portal_links
    dashboard = await links.for_member(demo.account_id, DEMO_EMAIL, MAX_PORTAL_MINUTES)
    console = await links.for_operator(await keep_demo_operator(application), MAX_PORTAL_MINUTES)
    return dashboard.url, console.url


async def page_lines(application: Application, base_url: str, demo: Demo) -> list[str]:
    """Return the addresses of the pages, each with a sign-in; none if their extra is not installed."""
    links = await sign_in_links(application, demo)
    if links is None:
        return []
    validity = f"(once, within {MAX_PORTAL_MINUTES} minutes)"
    return [
        f"  dashboard        {base_url}/dashboard",
        f"  customer sign-in {links[0]} {validity}",
        f"  console          {base_url}/console",
        f"  operator sign-in {links[1]} {validity}",
    ]
