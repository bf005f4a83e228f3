"""`meetcore dev`: everything on one machine with nothing to install.

An embedded Postgres, the API with its worker in the same process, the sandbox provider, a demo
account with credits, hosts, a key and a past, and an inbox that receives webhooks over TLS. All of it lives
in one data directory and is there again at the next start. With `--for-tests` it is removed at the end.
"""

import asyncio
import base64
import os
import shutil
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import uvicorn
from attrs import evolve, frozen
from starlette.routing import BaseRoute

from meetcore.adapters.dev_inbox import INBOX_HOST, InboxApp, MailInbox, inbox_routes, make_dev_certificate
from meetcore.adapters.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from meetcore.adapters.postgres.migrate import MigrationRefused, migrate, missing
from meetcore.adapters.settings import DEFAULT_BASE_URL, SecretStr, Settings, SettingsRefused, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.app import Service
from meetcore.cli import inputs, runner, servers
from meetcore.cli.demo import (
    DEMO_FILE,
    Demo,
    hold_demo_meeting,
    is_inbox_registered,
    keep_demo_account,
    mail_token,
    page_lines,
    start_message,
    write_private,
)
from meetcore.cli.demo_history import DemoHistory, opened_at
from meetcore.cli.for_tests import (
    DATABASE,
    ignore_further_signals,
    open_account,
    settings_for_tests,
    temporary_directory,
)
from meetcore.cli.output import ExitCode, complain, print_message
from meetcore.composition.adapter_checks import try_foreign
from meetcore.composition.application import Application, Part
from meetcore.composition.infrastructure import Network, open_application
from meetcore.composition.past import open_past
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.webhooks import addresses, urls
from meetcore.ports.webhook_sender import Resolver

LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535
STARTED_POLL_S = 0.02
LOOK_S = 0.5
DEFAULT_PORT = 8000
DATA_DIR = Path(".meetcore")


@frozen
class _InboxResolver:
    """Resolves the inbox's made-up name itself, and every other by the system."""

    system: Resolver

    async def resolve(self, host: str, account_id: UUID) -> tuple[addresses.Address, ...]:
        """Return the addresses of a name."""
        return (IPv4Address(LOOPBACK),) if host == INBOX_HOST else await self.system.resolve(host, account_id)


class _Server(uvicorn.Server):
    """The first server: a signal only ends the server, so that its surroundings shut down in order."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals; uvicorn would raise them again afterwards, before Postgres has stopped."""
        known = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in known.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it stops: requests and deliveries in flight can take seconds to end."""
        _say("stopping")
        await super().shutdown(sockets)


class _QuietServer(uvicorn.Server):
    """A second server in the process; the first one handles the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def dev(*, port: inputs.Whole | None = None, data_dir: Path = DATA_DIR, for_tests: bool = False) -> None:
    """Run everything on this machine, with a demo account.

    Parameters
    ----------
    port:
        The port of the API on 127.0.0.1: 8000, or a free one for tests.
    data_dir:
        Where the database, the demo key and the certificates live.
    for_tests:
        Serve the tests of a program: print one line of JSON when it is ready, remove all data at the end.
    """
    if for_tests and data_dir != DATA_DIR:
        raise inputs.InputRefused("--for-tests keeps no data: leave out --data-dir")
    port = (0 if for_tests else DEFAULT_PORT) if port is None else port
    if port:
        inputs.check_counts(1, MAX_PORT, port=port)
    settings = settings_for_tests() if for_tests else load_settings()
    if settings.log_level == "info":
        settings = evolve(settings, log_level="warning")  # request lines would hide the start message
    configure_logs(settings.log_level, "dev")
    try_foreign(settings)
    servers.refuse_taken(LOOPBACK, port, "--port, or make run ARGS='--port NUMBER'")
    if not for_tests:
        _make_data_dir(data_dir)
    with (
        temporary_directory() if for_tests else nullcontext(data_dir) as directory,
        _bound(port) as listener,
    ):
        database = EmbeddedPostgres(directory / "postgres", DATABASE if for_tests else None)
        try:
            _serve(settings, listener, directory, database, is_for_tests=for_tests)
        finally:
            if for_tests:  # it may be elsewhere
                shutil.rmtree(database.home, ignore_errors=True)


def _make_data_dir(data_dir: Path) -> None:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise inputs.InputRefused(f"--data-dir {data_dir} cannot be made: {error.strerror}") from None


def _bound(port: int) -> socket.socket:
    """Take a port of loopback, a free one for 0; it listens once the API is up."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    return listener


def _serve(
    settings: Settings, listener: socket.socket, data_dir: Path, database: EmbeddedPostgres, *,
    is_for_tests: bool,
) -> None:  # fmt: skip
    """Run database and service until a signal ends them; end the program with an `ExitCode` for a fault."""
    key_file = data_dir / "secrets.key"
    try:
        _say("starting PostgreSQL")
        with database as url:
            _say("bringing its schema up to date")
            # No other program has the database from here on, and makes a key for it.
            _keep_secrets_key(key_file, database.home, is_new=any(step.number == 1 for step in missing(url)))
            migrate(url)
            own = _own_settings(settings, url, listener.getsockname()[1], data_dir)
            runner.run_service(_run(own, listener, data_dir, database, is_for_tests=is_for_tests))
            if not database.is_running:
                complain("postgres", "the database has stopped; start `meetcore dev` again", as_json=False)
                raise SystemExit(ExitCode.STORE_UNAVAILABLE)
    except SettingsRefused as error:
        complain("secrets_key", f"{key_file}: {error}", as_json=False)
        raise SystemExit(ExitCode.SETTINGS) from None
    except MigrationRefused as error:
        complain("migration_refused", f"{error}, or take another directory (--data-dir)", as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None
    except EmbeddedPostgresError as error:
        complain("postgres", str(error), as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def _say(step: str) -> None:
    """Print a step of the start."""
    sys.stderr.write(f"meetcore: {step} ...\n")
    sys.stderr.flush()


def _own_settings(settings: Settings, url: str, port: int, data_dir: Path) -> Settings:
    """Return the operator's settings with this machine's database, key and addresses."""
    networks = ",".join(filter(None, (settings.webhook_allowed_networks, f"{LOOPBACK}/32")))
    cert_file, _ = make_dev_certificate(data_dir / "inbox")
    own_url = f"http://{LOOPBACK}:{port}"
    return evolve(
        settings,
        database_url=SecretStr(url),
        database_direct_url=SecretStr(""),
        database_read_url=SecretStr(""),
        database_pooler="none",
        secrets_key=SecretStr((data_dir / "secrets.key").read_text("utf-8").strip()),
        payment_gateway="sandbox" if settings.payment_gateway == "none" else settings.payment_gateway,
        base_url=own_url if settings.base_url == DEFAULT_BASE_URL else settings.base_url,
        broker_url=SecretStr(""),  # the worker is in this process
        webhook_allowed_networks=networks,
        ca_file=settings.ca_file or str(cert_file),
        mail_from=settings.mail_from or "meetcore <meetcore@example.com>",
    )


def _keep_secrets_key(file: Path, directory: Path, *, is_new: bool) -> None:
    """Create the key file of a new database; refuse to start without that of another: it opens the values."""
    if file.exists():
        return
    if is_new:
        write_private(file, base64.urlsafe_b64encode(os.urandom(32)).decode())
        return
    message = (
        f"{file} is missing, but the database in {directory} holds what was encrypted with it; "
        f"put it back, or remove {directory}, too, to start over"
    )
    complain("secrets_key", message, as_json=False)
    raise SystemExit(ExitCode.REFUSED)


async def _run(
    settings: Settings, listener: socket.socket, data_dir: Path, database: EmbeddedPostgres, *,
    is_for_tests: bool,
) -> None:  # fmt: skip
    parent = os.getppid() if is_for_tests else None
    async with _inbox(settings, data_dir) as (network, routes):
        own_url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        if is_for_tests:
            up = await open_account(settings, network, data_dir)
        else:
            up = await _prepare_demo(settings, network, data_dir, database, own_url)
        service = Service(settings, network, lambda _: routes)
        server = _Server(uvicorn.Config(service, **servers.SERVER_OPTIONS))
        _say("starting the API and its worker")
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110  (the server has no event for it)
            await asyncio.sleep(STARTED_POLL_S)
        if server.started:
            print_message(await up())
        watching = asyncio.create_task(_end_without(database, server, parent))
        await serving
        if is_for_tests:
            ignore_further_signals()
        watching.cancel()


async def _prepare_demo(
    settings: Settings, network: Network, data_dir: Path, database: EmbeddedPostgres, own_url: str
) -> Callable[[], Awaitable[str]]:
    """Bring the demo account up to date; return what to do once the service is up, which gives a message."""
    is_new = not (data_dir / DEMO_FILE).exists()
    # Meetings of another provider are held by people, and cost there.
    has_past = is_new and settings.provider == "sandbox"
    async with open_application(settings, network, [Part.NOTES] if has_past else ()) as application:
        _say(_first_step(is_new=is_new, has_past=has_past))
        demo = await _keep_demo_account(application, data_dir, has_past=has_past)
        is_registered = await is_inbox_registered(application, demo)
        lines = await page_lines(application, settings.base_url, demo)

    async def start() -> str:
        if has_past:
            _say("holding a first meeting")
            await _hold_demo_meeting(own_url, demo)
        return start_message(settings, demo, data_dir, database, lines, is_registered=is_registered)

    return start


def _first_step(*, is_new: bool, has_past: bool) -> str:
    if has_past:
        return "writing six weeks of a demo account"
    return "opening a demo account" if is_new else "looking after the demo account"


async def _keep_demo_account(application: Application, data_dir: Path, *, has_past: bool) -> Demo:
    """Return the demo account; one that `has_past` was opened weeks ago, and its past is written."""
    now = datetime.now(UTC)
    past = open_past(application, opened_at(now)) if has_past else None
    if past is None:
        return await keep_demo_account(application, data_dir)
    demo = await keep_demo_account(past.application, data_dir)
    await DemoHistory(past, demo, now).fill()
    return demo


async def _hold_demo_meeting(url: str, demo: Demo) -> None:
    """Hold the demo account's meeting; a failure leaves the account empty."""
    with suppress(httpx.HTTPError):
        await hold_demo_meeting(url, demo.key, f"{demo.inbox_url}/notes", datetime.now(WIB))


async def _end_without(database: EmbeddedPostgres, server: uvicorn.Server, parent: int | None) -> None:
    """Stop the servers when the database has died, which is not restarted, or a given parent has ended."""
    while database.is_running and parent in (None, os.getppid()):  # noqa: ASYNC110  (neither has an event)
        await asyncio.sleep(LOOK_S)
    server.should_exit = True


@asynccontextmanager
async def _inbox(settings: Settings, data_dir: Path) -> AsyncIterator[tuple[Network, Sequence[BaseRoute]]]:
    """Serve the inbox on a free port, and yield a network that resolves its name to it."""
    cert_file, key_file = make_dev_certificate(data_dir / "inbox")
    # A mail server that is named sends mails from here, too.
    mails = None if str(settings.smtp_url) else MailInbox()
    network = Network(_InboxResolver(Network().resolver), mailer=mails)
    async with open_application(settings, network) as application:

        async def find_secrets(url: str) -> list[str]:
            return list(await application.ports.queries.find_secrets(urls.parse_webhook_url(url).normalized))

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
            yield there, inbox_routes(inbox, own, mails=mails, mail_token=mail_token(settings))
        finally:
            server.should_exit = True
            await serving
