"""What `meetcore dev` prints when it is up: addresses, links that sign in, lines to paste."""

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from meetcore.adapters.embedded_postgres import EmbeddedPostgres
from meetcore.adapters.settings import Settings
from meetcore.app import AGENT_PATH, has_agent_interface, has_dashboard
from meetcore.cli.demo_account import DEMO_EMAIL, DEMO_OPERATOR_EMAIL, Demo, keep_demo_operator
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.sign_in_links import MAX_PORTAL_MINUTES

_DELIVERY_S: Final = 2
_WAIT: Final = f"(The last line first waits {_DELIVERY_S} s for the delivery.)"


def start_message(
    settings: Settings, demo: Demo, data_dir: Path, database: EmbeddedPostgres, dashboard: Sequence[str],
    *, is_registered: bool,
) -> str:  # fmt: skip
    """Return the message as a whole.

    Args:
        settings: the addresses.
        demo: the demo account.
        data_dir: where the secrets key is.
        database: where the data is.
        dashboard: lines on the pages; none where they are not installed.
        is_registered: whether the demo account has its webhook.
    """
    base_url = settings.base_url
    mails = [] if str(settings.smtp_url) else [f"  mail inbox       {base_url}/inbox/mails"]
    agents = [f"  agents (MCP)     {base_url}{AGENT_PATH}"] if settings.mcp and has_agent_interface() else []
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
    """Return lines on how to sign in when a printed link is used up or too old."""
    return [
        f"  new sign-in link ask for it as {DEMO_EMAIL} at {base_url}/dashboard/sign-in,",
        f"                   or as {DEMO_OPERATOR_EMAIL} at {base_url}/console/sign-in;",
        f"                   its mail appears at {base_url}/inbox/mails",
    ]


def _program() -> str:
    """Return how a shell calls this program, whatever its PATH and working directory."""
    program = Path(sys.executable).with_name("meetcore")
    if program.exists():
        return shlex.quote(str(program))
    return shlex.join((sys.executable, "-m", "meetcore.cli.main"))


def _first_commands(base_url: str, demo: Demo, *, is_registered: bool) -> list[str]:
    """Lines to paste. The one that registers a webhook is left out where it would be refused with 409."""
    api = f"{base_url}/api/v1"
    sends = f"-H 'Authorization: Bearer {demo.key}' -H 'Content-Type: application/json'"
    webhook = json.dumps({"url": demo.inbox_url, "event_types": ["meeting.created", "meeting.ended"]})
    tomorrow = (datetime.now(WIB) + timedelta(days=1)).date().isoformat()
    meeting = json.dumps(
        {"title": "First meeting", "date": tomorrow, "start_time": "09:00", "pricing_tier_id": "standard-100"}
    )
    create_and_look = [
        f"curl -sS {api}/meetings {sends} -d '{meeting}'",
        "",
        f"sleep {_DELIVERY_S}; curl -sS {base_url}/inbox.json",
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
        f"export MEETCORE_BASE_URL={base_url} MEETCORE_DATABASE_URL={url} "
        f'MEETCORE_SECRETS_KEY="$(cat {key_file})"'
    )


async def page_lines(application: Application, base_url: str, demo: Demo) -> list[str]:
    """Return the addresses of the pages, each with a sign-in; none if their extra is not installed."""
    if not has_dashboard():
        return []
    links = application.access.portal_links
    dashboard = await links.for_member(demo.account_id, DEMO_EMAIL, MAX_PORTAL_MINUTES)
    console = await links.for_operator(await keep_demo_operator(application), MAX_PORTAL_MINUTES)
    validity = f"(once, within {MAX_PORTAL_MINUTES} minutes)"
    return [
        f"  dashboard        {base_url}/dashboard",
        f"  sign in          {dashboard.url} {validity}",
        f"  console          {base_url}/console",
        f"  sign in          {console.url} {validity}",
    ]
