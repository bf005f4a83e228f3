"""`meetcore dev`: everything on one machine with nothing to install.

An embedded Postgres, the API with its worker in the same process, the sandbox provider, a demo
account with credits, hosts and a key, and an inbox that receives webhooks over TLS. All of it lives
in one data directory and is there again at the next start.
"""

import asyncio
import base64
import json
import os
import shlex
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import typed_settings
import uvicorn
from attrs import evolve, frozen
from starlette.routing import BaseRoute

from meetcore.adapters.dev_inbox import INBOX_HOST, InboxApp, MailInbox, inbox_routes, make_dev_ca
from meetcore.adapters.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.settings import DEFAULT_BASE_URL, Settings, SettingsRefused, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.app import AGENT_PATH, Service, has_agent_interface, has_dashboard
from meetcore.cli.inputs import Whole, check_counts
from meetcore.cli.output import ExitCode, complain, print_message
from meetcore.cli.ports import refuse_taken
from meetcore.cli.runner import guarded, run_service
from meetcore.cli.server_options import SERVER_OPTIONS
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import Network, open_application, system_network
from meetcore.domain.errors import Conflict
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.sign_in_links import MAX_PORTAL_MINUTES
from meetcore.domain.requests.accounts import email_key
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.webhooks.addresses import Address
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.queries import MAX_PAGE
from meetcore.ports.resolver import Resolver

LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535
DEMO_EMAIL = "demo@example.com"
DEMO_OPERATOR_EMAIL = "operator@example.com"
DEMO_CREDITS = 1_000
DEMO_HOSTS = (("demo-host-1", 100), ("demo-host-2", 100), ("demo-host-3", 300), ("demo-host-4", 1000))
STARTED_POLL_S = 0.02
DATABASE_LOOK_S = 0.5


@frozen
class _Demo:
    """The values in the printed lines."""

    account_id: UUID
    key: str
    inbox: str

    @property
    def inbox_url(self) -> str:
        """What the printed line registers."""
        return f"https://{INBOX_HOST}/{self.inbox}"


@frozen
class _InboxResolver:
    """Resolves the inbox's made-up name itself, and every other by the system."""

    system: Resolver

    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        """Every address a name has."""
        return (IPv4Address(LOOPBACK),) if host == INBOX_HOST else await self.system.resolve(host, account_id)


class _Server(uvicorn.Server):
    """The first server: a signal only ends the server, so that its surroundings shut down in order."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals; uvicorn would raise them again afterwards, before Postgres has stopped."""
        known = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in known.items():
                signal.signal(number, handler)


class _QuietServer(uvicorn.Server):
    """A second server in the process; the first one handles the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def dev(*, port: Whole = 8000, data_dir: Path = Path(".meetcore")) -> None:
    """Run everything on this machine, with a demo account.

    Parameters
    ----------
    port:
        The port of the API on 127.0.0.1.
    data_dir:
        Where the database, the demo key and the certificates live.
    """
    guarded(lambda: check_counts(1, MAX_PORT, port=port))
    settings = guarded(load_settings)
    if settings.log_level == "info":
        settings = evolve(settings, log_level="warning")  # request lines would hide the start message
    configure_logs(settings.log_level)
    refuse_taken(LOOPBACK, port, "--port, or make run ARGS='--port NUMBER'")
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_file, database = data_dir / "secrets.key", EmbeddedPostgres(data_dir / "postgres")
    is_new_key = _keep_secrets_key(key_file)
    try:
        with database as url:
            is_new_database = any(step.number == 1 for step in migrate(url))
            if is_new_key and not is_new_database:
                _refuse_new_key_for_old_data(key_file, database.home)
            run_service(_run(_own_settings(settings, url, port, data_dir), port, data_dir, database))
            if not database.is_running:
                complain("postgres", "the database has stopped; start `meetcore dev` again", as_json=False)
                raise SystemExit(ExitCode.STORE_UNAVAILABLE)
    except SettingsRefused as error:
        complain("secrets_key", f"{key_file}: {error}", as_json=False)
        raise SystemExit(ExitCode.SETTINGS) from None
    except EmbeddedPostgresError as error:
        if is_new_key:
            key_file.unlink(missing_ok=True)  # whether it fits the database is not known
        complain("postgres", str(error), as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def _own_settings(settings: Settings, url: str, port: int, data_dir: Path) -> Settings:
    """The operator's settings with this machine's database, key and addresses."""
    networks = ",".join(filter(None, (settings.webhook_allowed_networks, f"{LOOPBACK}/32")))
    ca_file, _, _ = make_dev_ca(data_dir / "inbox")
    own_url = f"http://{LOOPBACK}:{port}"
    return evolve(
        settings,
        database_url=typed_settings.SecretStr(url),
        secrets_key=typed_settings.SecretStr((data_dir / "secrets.key").read_text("utf-8").strip()),
        base_url=own_url if settings.base_url == DEFAULT_BASE_URL else settings.base_url,
        broker_url=typed_settings.SecretStr(""),  # the worker is in this process
        webhook_allowed_networks=networks,
        webhook_ca_file=settings.webhook_ca_file or str(ca_file),
    )


def _keep_secrets_key(file: Path) -> bool:
    """Create the key file if it is missing; return whether it did."""
    if file.exists():
        return False
    _write_private(file, base64.urlsafe_b64encode(os.urandom(32)).decode())
    return True


def _refuse_new_key_for_old_data(file: Path, directory: Path) -> None:
    """Refuse to start if the key of the existing database is missing: a new one could decrypt nothing."""
    file.unlink()
    message = (
        f"{file} is missing, but the database in {directory} holds what was encrypted with it; "
        "put it back, or start over with another --data-dir"
    )
    complain("secrets_key", message, as_json=False)
    raise SystemExit(ExitCode.REFUSED)


def _write_private(file: Path, text: str) -> None:
    """Write a file that its owner alone may read, whole or not at all."""
    draft = file.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(file)


async def _run(settings: Settings, port: int, data_dir: Path, database: EmbeddedPostgres) -> None:
    network_base = system_network(settings)
    async with _inbox(settings, data_dir, network_base) as (network, routes):
        async with open_application(settings, network) as application:
            demo = await _demo(application, data_dir)
            is_registered = await _is_inbox_registered(application, demo)
            lines = await _page_lines(application, settings.base_url, demo)
        service = Service(settings, network, lambda _: routes)
        config = uvicorn.Config(service, host=LOOPBACK, port=port, **SERVER_OPTIONS)
        server = _Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # noqa: ASYNC110  (the server has no event for it)
            await asyncio.sleep(STARTED_POLL_S)
        if server.started:
            print_message(
                _start_message(settings, demo, data_dir, database, lines, is_registered=is_registered)
            )
        watching = asyncio.create_task(_end_without(database, server))
        await serving
        watching.cancel()


async def _end_without(database: EmbeddedPostgres, server: uvicorn.Server) -> None:
    """Stop the servers when the database has died: it is not restarted."""
    while database.is_running:  # noqa: ASYNC110  (a process has no event for its end)
        await asyncio.sleep(DATABASE_LOOK_S)
    server.should_exit = True


@asynccontextmanager
async def _inbox(
    settings: Settings, data_dir: Path, base: Network
) -> AsyncIterator[tuple[Network, Sequence[BaseRoute]]]:
    """Serve the inbox on a free port of its own, and give a network that resolves its name to it."""
    _, cert_file, key_file = make_dev_ca(data_dir / "inbox")
    # A mail server that is named sends mails from here, too.
    mails = None if str(settings.smtp_url) else MailInbox()
    network = Network(_InboxResolver(base.resolver), mailer=mails)
    async with open_application(settings, network) as application:

        async def find_secrets(url: str) -> list[str]:
            return list(await application.ports.queries.find_secrets(parse_webhook_url(url).normalized))

        inbox = InboxApp(find_secrets)
        listener = socket.create_server((LOOPBACK, 0))
        inbox_port = listener.getsockname()[1]
        config = uvicorn.Config(
            inbox, ssl_certfile=str(cert_file), ssl_keyfile=str(key_file),
            ssl_version=ssl.PROTOCOL_TLS_SERVER, lifespan="off", access_log=False, log_level="warning",
        )  # fmt: skip
        server = _QuietServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            own = urlsplit(settings.base_url).hostname or LOOPBACK
            there = evolve(network, dial_overrides={INBOX_HOST: (LOOPBACK, inbox_port)})
            yield there, inbox_routes(inbox, own, mails=mails)
        finally:
            server.should_exit = True
            await serving


async def _demo(application: Application, data_dir: Path) -> _Demo:
    """Return the demo account, the same at every start."""
    file = data_dir / "demo.json"
    demo = _read_demo(file) if file.exists() else None
    if demo is not None and await application.ports.queries.find_caller(digest(demo.key)) is not None:
        return demo
    account_id = await _demo_account(application)
    minted = await application.administration.create_key(account_id, tuple(Scope))
    for provider_user_id, capacity in DEMO_HOSTS:
        with suppress(Conflict):  # an earlier start got this far
            await application.administration.add_host(provider_user_id, capacity)
    demo = _Demo(account_id, minted.text, os.urandom(4).hex())
    record = {"account_id": str(demo.account_id), "key": demo.key, "inbox": demo.inbox}
    _write_private(file, json.dumps(record))
    return demo


async def _demo_account(application: Application) -> UUID:
    """Create the account, or find the one of an earlier start whose file is missing."""
    known = await application.ports.registry.list_accounts(DEMO_EMAIL, 1)
    if known:
        return known[0].id
    return (await application.administration.create_account(DEMO_EMAIL, "Demo Account", DEMO_CREDITS)).id


async def _is_inbox_registered(application: Application, demo: _Demo) -> bool:
    """Whether the demo account has its webhook, as after an earlier start; a second one is a conflict."""
    endpoints = await application.ports.queries.list_endpoints(demo.account_id, MAX_PAGE, None)
    return parse_webhook_url(demo.inbox_url).normalized in {each.url_key for each in endpoints}


def _read_demo(file: Path) -> _Demo:
    try:
        record = json.loads(file.read_text("utf-8"))
        return _Demo(UUID(record["account_id"]), record["key"], record["inbox"])
    except (ValueError, KeyError, TypeError):
        complain("demo", f"{file} cannot be read; delete it, and a new demo account is made", as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def _start_message(
    settings: Settings, demo: _Demo, data_dir: Path, database: EmbeddedPostgres, dashboard: Sequence[str],
    *, is_registered: bool,
) -> str:  # fmt: skip
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
            *agents,
            f"  demo account     {demo.account_id}",
            f"  demo API key     {demo.key}",
            *_moved_data_lines(database),
            "",
            *_first_commands(base_url, demo, is_registered=is_registered),
            "",
            "Paste this into another terminal for operator's commands, such as `meetcore key create`:",
            "",
            _access(settings, data_dir),
            "",
            "Stop with Ctrl-C.",
        )
    )


async def _page_lines(application: Application, base_url: str, demo: _Demo) -> list[str]:
    """Return the addresses of the pages, each with a sign-in; none if their extra is not installed."""
    if not has_dashboard():
        return []
    links = application.access.portal_links
    dashboard = await links.for_member(demo.account_id, DEMO_EMAIL, MAX_PORTAL_MINUTES)
    console = await links.for_operator(await _demo_operator(application), MAX_PORTAL_MINUTES)
    return [
        f"  dashboard        {base_url}/dashboard",
        f"  sign in (once)   {dashboard.url}",
        f"  console          {base_url}/console",
        f"  sign in (once)   {console.url}",
    ]


async def _demo_operator(application: Application) -> UUID:
    """Add the operator who may do everything, or find the one of an earlier start."""
    operators = application.access.operators
    known = {email_key(each.email): each.id for each in await operators.list_operators()}
    return known.get(DEMO_OPERATOR_EMAIL) or (await operators.add(DEMO_OPERATOR_EMAIL, OperatorRole.ADMIN)).id


def _first_commands(base_url: str, demo: _Demo, *, is_registered: bool) -> list[str]:
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
        f"curl -sS {base_url}/inbox.json",
    ]
    if is_registered:
        return [
            "Paste these, one after the other: create a meeting, see what was delivered.",
            "(An earlier start's webhook is registered; to register it again is 409.)",
            "",
            *create_and_look,
        ]
    return [
        "Paste these, one after the other: register a webhook, create a meeting, see what was delivered.",
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
