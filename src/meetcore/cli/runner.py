"""Execution of one command: its use case on an application of its own, its output, its refusals.

A change is one log line beside the output: the action, the account, and the user of the system.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from cyclopts import App

from meetcore.adapters.settings import Settings, SettingsRefused, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.cli.inputs import InputRefused, Json, read_id
from meetcore.cli.output import ExitCode, Record, complain, print_message, show
from meetcore.composition import configuration, infrastructure
from meetcore.composition.application import Application
from meetcore.domain.errors import DomainError, InsufficientCredits, NotFound
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.members.operators import InvalidDays
from meetcore.domain.members.sign_in import InvalidMinutes
from meetcore.domain.money.ledger import InvalidAmount, InvalidReason, InvalidReference
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.domain.requests.keys import InvalidExpiry, InvalidName, InvalidOverlap
from meetcore.ports import store

T = TypeVar("T")
UseCase = Callable[[Application], Awaitable[T]]

_LOGGED = ("id", "account_id", "amount", "balance", "is_new", "made", "dropped", "applied", "granted_to")
"""Fields of a command's record that may stand in a log: no names, addresses, reasons or keys."""


def guarded(work: Callable[[], T], *, as_json: bool = False, is_repeatable: bool = False) -> T:
    """Run a block; end the program with an `ExitCode` for errors that an operator can resolve.

    `as_json` prints errors as JSON, too. `is_repeatable`: a repetition changes nothing, by its reference.
    """
    try:
        return work()
    except Exception as error:
        refuse(error, as_json=as_json, is_repeatable=is_repeatable)
        raise


def refuse(error: Exception, *, as_json: bool, is_repeatable: bool = False) -> None:
    """End the program with an `ExitCode` for an error that an operator can resolve; return for others."""
    if refusal := _refusal_of(error, is_repeatable=is_repeatable):
        code, message, exit_code = refusal
        complain(code, message, as_json=as_json)
        raise SystemExit(exit_code) from None


def _refusal_of(error: Exception, *, is_repeatable: bool) -> tuple[str, str, ExitCode] | None:
    match error:
        case InputRefused() | InvalidDays() | InvalidEmail() | InvalidExpiry() | InvalidMinutes():
            return "usage", str(error), ExitCode.USAGE
        case InvalidName() | InvalidOverlap() | InvalidReason() | InvalidReference():
            return "usage", str(error), ExitCode.USAGE
        case SettingsRefused():
            return "settings", str(error), ExitCode.SETTINGS
        case InvalidAmount():
            return "invalid_amount", str(error), ExitCode.USAGE
        case InsufficientCredits():
            message = f"only {error.details['available']} of the account's credits can be taken"
            return error.code, message, ExitCode.REFUSED
        case DomainError():
            return error.code, error.message, ExitCode.REFUSED
        case store.StoreUnavailable():
            return *store_failure(error, is_repeatable=is_repeatable), ExitCode.STORE_UNAVAILABLE
    if getattr(error, "sqlstate", None) == _NO_RIGHT:
        return *_RIGHTS_MISSING, ExitCode.STORE_UNAVAILABLE
    return None


_NO_RIGHT: Final = "42501"
"""PostgreSQL's code of a statement that the role may not execute."""
_RIGHTS_MISSING: Final = (
    "store_rights_missing",
    "the role of MEETCORE_DATABASE_URL lacks a right: run this as the owner of the tables, or give the role "
    "what the service needs by `meetcore migrate --grant-to ROLE`",
)


_STORE_FAILURES: Final[Mapping[type[store.StoreUnavailable], tuple[str, str]]] = {
    store.StoreFull: (
        "store_full",
        "the database has no connection left: raise its max_connections, or lower "
        "MEETCORE_DATABASE_POOL_SIZE",
    ),
    store.StoreLoginRefused: (
        "store_login_refused",
        "the database refuses the login: check the user, the password and the database in "
        "MEETCORE_DATABASE_URL",
    ),
    store.StoreSessionRefused: (
        "store_session_refused",
        "a pooler refuses the settings of a session: set MEETCORE_DATABASE_POOLER=transaction",
    ),
    store.StoreReadOnly: (
        "store_read_only",
        "the database takes no writes: MEETCORE_DATABASE_URL leads to a standby, or to a server that is set "
        "to read only",
    ),
    store.ConnectionLost: (
        "store_away",
        "the connection to the database was lost: what was under way was not kept; try again",
    ),
    store.OutcomeUnknown: (
        "store_outcome_unknown",
        "the database did not say whether it was done: look at what is there before doing it again",
    ),
    store.StoreUnavailable: (
        "store_away",
        "the database does not answer: check MEETCORE_DATABASE_URL and that PostgreSQL runs",
    ),
}
_REPEAT: Final = (
    "the database did not say whether it was done: repeat it with the same --reference, which does nothing "
    "twice"
)


def store_failure(error: store.StoreUnavailable, *, is_repeatable: bool = False) -> tuple[str, str]:
    """Return the code and the message of a store failure; the driver's message would reveal addresses."""
    code, message = next(known for kind, known in _STORE_FAILURES.items() if isinstance(error, kind))
    return code, _REPEAT if is_repeatable and isinstance(error, store.OutcomeUnknown) else message


def ready_settings() -> Settings:
    """Read settings that a program can work with, on a database of this release's schema.

    Raises `SettingsRefused` and `StoreUnavailable`.
    """
    settings = load_settings()
    settings.require_provider()
    configuration.check_secrets(settings)
    configuration.check_schema(settings)
    return settings


def with_application(work: UseCase[T], *, as_json: bool, is_repeatable: bool = False) -> T:
    """Run a use case of the configured application, `guarded`, and close the application."""
    return with_settings(
        lambda _, application: work(application), as_json=as_json, is_repeatable=is_repeatable
    )


def with_settings(
    work: Callable[[Settings, Application], Awaitable[T]], *, as_json: bool, is_repeatable: bool = False
) -> T:
    """Run work that needs the settings, too, in the same way."""

    def run() -> T:
        settings = ready_settings()
        configure_logs(settings.log_level)

        async def inside() -> T:
            # The audit log has changes under the system's user.
            origin = ActionOrigin(Actor(ActorKind.SYSTEM, None, _system_user()))
            async with infrastructure.open_application(settings, origin=origin) as application:
                return await work(settings, application)

        return asyncio.run(inside())

    return guarded(run, as_json=as_json, is_repeatable=is_repeatable)


def run_service(work: Coroutine[Any, Any, T]) -> T:
    """Run a service until it is stopped, on uvloop if available: it needs a fifth of the memory for TLS."""
    if sys.platform == "win32":  # pragma: no cover - has no uvloop
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def show_change(
    action: str,
    use_case: UseCase[T],
    to_record: Callable[[T], Record],
    *,
    before: UseCase[T | None] | None = None,
    as_json: bool,
    is_repeatable: bool = False,
) -> None:
    """Run a change and print its record; log it, unless the record is the one from `before`."""

    async def work(application: Application) -> Record:
        found = None if before is None else await before(application)
        changed = await use_case(application)
        record = to_record(changed)
        if changed != found:
            log_action(action, record)
        return record

    show(with_application(work, as_json=as_json, is_repeatable=is_repeatable), as_json=as_json)


def add_change(
    group: App,
    action: str,
    about: str,
    subject: str,
    change: Callable[[Application, UUID], Awaitable[T]],
    to_record: Callable[[T], Record],
    *,
    find: Callable[[Application, UUID], Awaitable[T | None]] | None = None,
) -> None:
    """Add a command that changes the record of an id, such as `the account` (`subject`).

    `action` is the whole command, as the log names it; its last word is its name. `find` reads the record
    before the change, so that a change of nothing is not logged.
    """

    is_account = subject == "the account"

    def command(id: str, /, *, json: Json = False) -> None:
        of = read_account(id, as_json=json) if is_account else read_id(id, subject)
        before = None if find is None else lambda app: find(app, of)
        show_change(action, lambda app: change(app, of), to_record, before=before, as_json=json)

    id_help = f"{subject.capitalize()}'s id{' or e-mail address' if is_account else ''}."
    command.__doc__ = f"{about}\n\nParameters\n----------\nid:\n    {id_help}\n"
    group.command(command, name=action.rpartition(" ")[2])


def read_account(text: str, what: str = "the account", *, as_json: bool) -> UUID:
    """Read the id of an account, or look it up by the account's e-mail address."""
    if "@" not in text:
        return read_id(text, what)
    found = with_application(lambda app: app.administration.registry.list_accounts(text, 1), as_json=as_json)
    if not found:
        raise NotFound(f"No account with the e-mail address {text}.")
    return found[0].id


def show_result(use_case: UseCase[T], to_record: Callable[[T], Record], *, as_json: bool) -> None:
    """Run a read and print its record."""
    show(to_record(with_application(use_case, as_json=as_json)), as_json=as_json)


def show_list(
    use_case: UseCase[Sequence[T]],
    to_record: Callable[[T], Record],
    *,
    as_json: bool,
    limit: int | None = None,
    hint: str = "",
) -> None:
    """Run a read and print its records: not more than `limit`, and `hint` where there are more."""
    records = [to_record(each) for each in with_application(use_case, as_json=as_json)]
    show(records[:limit], as_json=as_json)
    if limit is not None and len(records) > limit:
        print_message(f"There are more than {limit}: {hint}.", as_json=True)


def log_action(action: str, record: Mapping[str, object]) -> None:
    """Log a change; not on a terminal, whose user reads the command's output."""
    if sys.stderr.isatty():
        return
    import structlog

    fields = {name: record[name] for name in _LOGGED if name in record}
    structlog.get_logger("meetcore").info("operator action", action=action, operator=_system_user(), **fields)


def _system_user() -> str:
    """Return the user who runs the program; under `sudo`, the user who called it."""
    user = _name_of(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "unknown")
    behind = os.environ.get("SUDO_USER", "")
    return f"{behind} as root" if user == "root" and behind else user


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run a user without a name
        return str(uid)
