"""`meetcore dev --for-tests`: a service for the tests of a program, which starts it and ends it.

Its data is in a temporary directory and is removed at the end. The world outside is played by the sandbox,
whatever a developer's shell names: of the settings in the environment only those of `KEPT` count.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NoReturn

from meetcore.adapters.dev_inbox import MAIL_PATH
from meetcore.adapters.settings import PREFIX, Settings, load_settings
from meetcore.cli.demo import keep_demo_account, mail_token, sign_in_links
from meetcore.cli.output import ExitCode
from meetcore.composition.infrastructure import Network, open_application
from meetcore.domain.members.roles import OperatorRole

CREDITS: Final = 1_000_000
HOSTS: Final = tuple((f"host-{number}", 1000) for number in range(1, 51))
"""So many meetings of any tier may be at one time."""
KEPT: Final = ("QUOTA_", "WEBHOOK_RETRY_SCHEDULE", "TIERS_FILE", "KEY_PREFIX", "LOG_LEVEL", "TEST_")
"""The settings of the environment that count, by the beginnings of their names."""
DEFAULTS: Final[Mapping[str, str]] = {
    **{f"QUOTA_{name}": "100000" for name in ("READ", "WRITE", "CREDIT", "TOOL", "PAGE")},
    "DRAIN_S": "0",
}
DATABASE: Final[Mapping[str, str]] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings of PostgreSQL for data that need not outlive the machine."""


REMOVALS: Final = 50
REMOVAL_PAUSE_S: Final = 0.1


def settings_for_tests() -> Settings:
    """Read the settings that count, and take all others out of the environment."""
    given = {name: text for name, text in os.environ.items() if name.startswith(PREFIX)}
    for name in given:
        del os.environ[name]
    os.environ.update({PREFIX + name: text for name, text in DEFAULTS.items()})
    os.environ.update(
        {name: text for name, text in given.items() if name.removeprefix(PREFIX).startswith(KEPT)}
    )
    return load_settings()


def ignore_further_signals() -> None:
    """Let nothing interrupt the end: a terminal's SIGINT and a test's SIGTERM may come together."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield an empty directory and remove it at the end, also after a signal."""

    def end(_: int, __: object) -> NoReturn:
        ignore_further_signals()
        raise SystemExit(ExitCode.DONE)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    place = Path(mkdtemp(prefix="meetcore-"))
    place.chmod(0o711)  # root's PostgreSQL runs as another user
    try:
        yield place
    finally:
        _remove(place)


def _remove(place: Path) -> None:
    """Remove a directory into which a process that was just killed may write once more."""
    for _ in range(REMOVALS):
        shutil.rmtree(place, ignore_errors=True)
        if not place.exists():
            return
        time.sleep(REMOVAL_PAUSE_S)


async def open_account(settings: Settings, network: Network, data_dir: Path) -> Callable[[], Awaitable[str]]:
    """Open an account with credits; return what gives the line of JSON with all that a test needs."""
    async with open_application(settings, network) as application:
        demo = await keep_demo_account(application, data_dir, CREDITS, HOSTS)
        token = await application.access.operator_tokens.create(OperatorRole.ADMIN, "tests", 1)
        links = await sign_in_links(application, demo)
    base_url = settings.base_url
    described = {
        "base_url": base_url,
        "api_key": demo.key,
        "account_id": str(demo.account_id),
        "webhook_url": demo.inbox_url,
        "deliveries_url": f"{base_url}/inbox.json",
        "mails_url": f"{base_url}{MAIL_PATH}?token={mail_token(settings)}",
        "dashboard_url": links and links[0],
        "console_url": links and links[1],
        "operator_token": token.text,
        "environment": {
            "MEETCORE_BASE_URL": base_url,
            "MEETCORE_DATABASE_URL": str(settings.database_url),
            "MEETCORE_SECRETS_KEY": str(settings.secrets_key),
        },
    }

    async def line() -> str:
        return json.dumps(described)

    return line
