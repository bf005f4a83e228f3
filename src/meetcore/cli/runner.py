"""Running one command: its use case on an application of its own, its refusals as messages and exit codes."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from attrs import evolve

from meetcore.adapters.settings import Settings, SettingsRefused, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.cli.inputs import InputRefused
from meetcore.cli.operator_log import system_user
from meetcore.cli.output import ExitCode, complain
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import check_schema, open_application
from meetcore.composition.secret_keys import check_secrets
from meetcore.domain.errors import DomainError, InsufficientCredits
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.members.operator_tokens import InvalidDays
from meetcore.domain.members.sign_in_links import InvalidMinutes
from meetcore.domain.money.ledger import InvalidAmount, InvalidReason
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.domain.requests.keys import InvalidExpiry, InvalidName, InvalidOverlap
from meetcore.ports.restores import FenceRefused
from meetcore.ports.store import (
    ConnectionLost,
    OutcomeUnknown,
    StoreFenced,
    StoreFull,
    StoreLoginRefused,
    StoreReadOnly,
    StoreSessionRefused,
    StoreUnavailable,
)

T = TypeVar("T")


def guarded(work: Callable[[], T], *, as_json: bool = False, is_repeatable: bool = False) -> T:
    """Run a block; end the program with an exit code for errors that an operator can resolve.

    Args:
        work: the block.
        as_json: whether errors are printed as JSON, too.
        is_repeatable: whether the same command again changes nothing, because it has a reference.

    Raises:
        SystemExit: see `output.ExitCode`.
    """
    try:
        return work()
    except InputRefused as error:
        _end("usage", str(error), ExitCode.USAGE, as_json=as_json)
    except SettingsRefused as error:
        _end("settings", str(error), ExitCode.SETTINGS, as_json=as_json)
    except (
        InvalidDays,
        InvalidEmail,
        InvalidExpiry,
        InvalidMinutes,
        InvalidName,
        InvalidOverlap,
        InvalidReason,
    ) as error:
        _end("usage", str(error), ExitCode.USAGE, as_json=as_json)
    except InvalidAmount as error:
        _end("invalid_amount", str(error), ExitCode.USAGE, as_json=as_json)
    except InsufficientCredits as error:
        available = error.details["available"]
        _end(error.code, f"at most the {available} credits that are available can be taken",
            ExitCode.REFUSED, as_json=as_json)  # fmt: skip
    except DomainError as error:
        _end(error.code, error.message, ExitCode.REFUSED, as_json=as_json)
    except FenceRefused as error:
        _end("fence", str(error), ExitCode.REFUSED, as_json=as_json)
    except StoreUnavailable as error:
        _end(*store_failure(error, is_repeatable=is_repeatable), ExitCode.STORE_UNAVAILABLE, as_json=as_json)


def store_failure(error: StoreUnavailable, *, is_repeatable: bool = False) -> tuple[str, str]:
    """Return the code and the message of a store failure; the driver's message would reveal addresses."""
    match error:
        case StoreFull():
            hint = "raise its max_connections, or lower MEETCORE_DATABASE_POOL_SIZE"
            return "store_full", f"the database has no connection left: {hint}"
        case StoreLoginRefused():
            hint = "check the user, the password and the database in MEETCORE_DATABASE_URL"
            return "store_login_refused", f"the database refuses the login: {hint}"
        case StoreSessionRefused():
            hint = "set MEETCORE_DATABASE_POOLER=transaction"
            return "store_session_refused", f"a pooler refuses the settings of a session: {hint}"
        case StoreFenced():
            hint = "a pooler passes no settings: name PostgreSQL itself in MEETCORE_DATABASE_URL"
            return "store_fenced", f"the database was restored and is not released: {hint}"
        case StoreReadOnly():
            hint = "MEETCORE_DATABASE_URL leads to a standby, or to a server that is set to read only"
            return "store_read_only", f"the database takes no writes: {hint}"
        case ConnectionLost():
            hint = "what was under way was not kept; try again"
            return "store_away", f"the connection to the database was lost: {hint}"
        case OutcomeUnknown():
            hint = "look at what is there before doing it again"
            if is_repeatable:
                hint = "repeat it with the same --reference, which does nothing twice"
            return "store_outcome_unknown", f"the database did not say whether it was done: {hint}"
        case _:
            hint = "check MEETCORE_DATABASE_URL and that PostgreSQL runs"
            return "store_away", f"the database does not answer: {hint}"


def _end(code: str, message: str, exit_code: ExitCode, *, as_json: bool) -> NoReturn:
    complain(code, message, as_json=as_json)
    raise SystemExit(exit_code)


def ready_settings() -> Settings:
    """Settings that a program can work with, on a database that has the schema.

    Raises:
        SettingsRefused: one is impossible or missing, or the schema is not this release's.
        StoreUnavailable: the database does not answer.
    """
    settings = load_settings()
    settings.require_provider()
    check_secrets(settings)
    check_schema(settings)
    return settings


def with_application(
    work: Callable[[Application], Awaitable[T]], *, as_json: bool, is_repeatable: bool = False
) -> T:
    """Run a use case of the configured application and close the application.

    Raises:
        SystemExit: see `guarded`.
    """
    return with_settings(
        lambda _, application: work(application), as_json=as_json, is_repeatable=is_repeatable
    )


def with_settings(
    work: Callable[[Settings, Application], Awaitable[T]], *, as_json: bool, is_repeatable: bool = False
) -> T:
    """Do the same for work that needs the settings, too."""

    def run() -> T:
        settings = ready_settings()
        configure_logs(settings.log_level)

        async def inside() -> T:
            async with open_application(settings) as application:
                return await work(settings, _acting_as_system_user(application))

        return asyncio.run(inside())

    return guarded(run, as_json=as_json, is_repeatable=is_repeatable)


def _acting_as_system_user(application: Application) -> Application:
    """The same application; what it changes stands in the audit log under the system's user."""
    origin, access = ActionOrigin(Actor(ActorKind.SYSTEM, None, system_user())), application.access
    return evolve(
        application,
        administration=application.administration.acting_as(origin),
        account_data=application.account_data.acting_as(origin),
        restore=None if application.restore is None else application.restore.acting_as(origin),
        access=evolve(
            access,
            portal_links=access.portal_links.acting_as(origin),
            operators=access.operators.acting_as(origin),
            operator_tokens=access.operator_tokens.acting_as(origin),
        ),
    )


def run_service(work: Coroutine[Any, Any, T]) -> T:
    """Run a service until it is stopped, on uvloop if available.

    A worker with hundreds of TLS connections takes a fifth of the memory there.
    """
    if sys.platform == "win32":  # pragma: no cover - has no uvloop
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
