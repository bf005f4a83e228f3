"""The demo account of `meetcore dev`: the same at every start, with hosts, a key and an operator."""

import json
import os
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from attrs import frozen

from meetcore.adapters.dev_inbox import INBOX_HOST
from meetcore.cli.output import ExitCode, complain
from meetcore.cli.private_files import write_private
from meetcore.composition.application import Application
from meetcore.domain.errors import Conflict
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.requests.accounts import email_key
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.queries import MAX_PAGE

DEMO_EMAIL = "demo@example.com"
DEMO_FILE = "demo.json"
DEMO_OPERATOR_EMAIL = "operator@example.com"
DEMO_CREDITS = 1_000
DEMO_HOSTS = (("demo-host-1", 100), ("demo-host-2", 100), ("demo-host-3", 300), ("demo-host-4", 1000))


@frozen
class Demo:
    """The values in the printed lines."""

    account_id: UUID
    key: str
    inbox: str

    @property
    def inbox_url(self) -> str:
        """What the printed line registers."""
        return f"https://{INBOX_HOST}/{self.inbox}"


async def keep_demo_account(application: Application, data_dir: Path) -> Demo:
    """Return the demo account, the same at every start."""
    file = data_dir / DEMO_FILE
    demo = _read_demo(file) if file.exists() else None
    if demo is not None and await application.ports.queries.find_caller(digest(demo.key)) is not None:
        return demo
    account_id = await _open_account(application)
    minted = await application.administration.create_key(account_id, tuple(Scope))
    for provider_user_id, capacity in DEMO_HOSTS:
        with suppress(Conflict):  # an earlier start got this far
            await application.administration.hosts.add(provider_user_id, capacity)
    demo = Demo(account_id, minted.text, os.urandom(4).hex())
    record = {"account_id": str(demo.account_id), "key": demo.key, "inbox": demo.inbox}
    write_private(file, json.dumps(record))
    return demo


async def _open_account(application: Application) -> UUID:
    """Create the account, or find the one of an earlier start whose file is missing."""
    known = await application.ports.registry.list_accounts(DEMO_EMAIL, 1)
    if known:
        return known[0].id
    return (await application.administration.create_account(DEMO_EMAIL, "Demo Account", DEMO_CREDITS)).id


async def is_inbox_registered(application: Application, demo: Demo) -> bool:
    """Whether the demo account has its webhook, as after an earlier start; a second one is a conflict."""
    endpoints = await application.ports.queries.list_endpoints(demo.account_id, MAX_PAGE, None)
    return parse_webhook_url(demo.inbox_url).normalized in {each.url_key for each in endpoints}


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
    known = {email_key(each.email): each.id for each in await operators.list_operators()}
    return known.get(DEMO_OPERATOR_EMAIL) or (await operators.add(DEMO_OPERATOR_EMAIL, OperatorRole.ADMIN)).id
