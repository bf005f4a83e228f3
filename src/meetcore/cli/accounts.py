"""`meetcore account`: who pays."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO
from uuid import UUID

from cyclopts import App, Parameter

from meetcore.cli import runner
from meetcore.cli.inputs import InputRefused, Json, Whole, check_counts, check_texts, read_id
from meetcore.cli.output import Record, print_message, show
from meetcore.composition.application import Application
from meetcore.domain.fields import shown_fields
from meetcore.domain.money.ledger import MAX_CREDITS, check_reason
from meetcore.domain.requests import accounts, views

DEFAULT_LIMIT = 1_000
MAX_LIMIT = 100_000

account = App(name="account", help="Accounts: who pays.")


@account.command(name="create")
def create_account(*, email: str, full_name: str, credits: Whole = 0, json: Json = False) -> None:
    """Open an account.

    Parameters
    ----------
    email:
        Whose account it is.
    full_name:
        Their name.
    credits:
        Credits to start with; 0 is fine.
    """
    check_counts(0, MAX_CREDITS, credits=credits)
    check_texts(email=email, full_name=full_name)
    runner.show_change(
        "account create",
        lambda app: app.administration.create_account(email, full_name, credits),
        lambda made: {
            **shown_fields(made, "id", "user_id"), "email": email, "full_name": full_name,
            "balance": credits,
        },
        as_json=json,
    )  # fmt: skip


@account.command(name="set")
def set_account(id: str, /, *, credit_low: Whole, json: Json = False) -> None:
    """Change an account.

    Parameters
    ----------
    id:
        The account's id or e-mail address.
    credit_low:
        `credit.low` is sent when the available credits fall below this.
    """
    account_id = runner.read_account(id, as_json=json)
    check_counts(0, MAX_CREDITS, credit_low=credit_low)
    runner.show_change(
        "account set",
        lambda app: app.administration.set_low_threshold(account_id, credit_low),
        lambda _: {"id": str(account_id), "credit_low": credit_low},
        as_json=json,
    )


@account.command(name="list")
def list_accounts(*, email: str | None = None, limit: Whole = DEFAULT_LIMIT, json: Json = False) -> None:
    """List accounts, newest first.

    Parameters
    ----------
    email:
        Only those with this e-mail address, in any case.
    limit:
        So many at most.
    """
    check_counts(1, MAX_LIMIT, limit=limit)
    runner.show_list(
        lambda app: app.administration.registry.list_accounts(email, limit + 1),
        _record,
        as_json=json,
        limit=limit,
        hint="see them with --limit, or look for one with --email",
    )


@account.command(name="show")
def show_account(id: str, /, *, json: Json = False) -> None:
    """Show an account.

    Parameters
    ----------
    id:
        The account's id or e-mail address.
    """
    account_id = runner.read_account(id, as_json=json)
    runner.show_result(lambda app: _find(app, account_id), _record, as_json=json)


def _record(account: views.StoredAccount) -> Record:
    return {
        **shown_fields(account, "id", "user_id", "email", "full_name"),
        "status": accounts.status_of(account.suspended_at).value,
        **shown_fields(account, "balance", "held"),
        "credit_low": account.low_threshold,
        **shown_fields(account, "created_at", "suspended_at", "suspension_reason"),
    }


async def _find(application: Application, account_id: UUID) -> views.StoredAccount:
    return await application.administration.registry.find_account(account_id)


@account.command(name="suspend")
def suspend_account(id: str, /, *, reason: str | None = None, json: Json = False) -> None:
    """Refuse an account's keys from their next request on. Work in progress goes on.

    Parameters
    ----------
    id:
        The account's id or e-mail address.
    reason:
        What its members read; its owners get it by e-mail, too.
    """
    account_id = runner.read_account(id, as_json=json)
    runner.show_change(
        "account suspend",
        lambda app: app.administration.suspend_account(account_id, reason and check_reason(reason)),
        _record,
        before=lambda app: _find(app, account_id),
        as_json=json,
    )


runner.add_change(
    account, "account resume", "Let the keys of a suspended account in again.",
    "the account", lambda app, id_: app.administration.resume_account(id_), _record, find=_find,
)  # fmt: skip


@account.command(name="export")
def export_account(id: str, /, *, to: str | None = None, json: Json = False) -> None:
    """Write the data of an account into a ZIP archive, without secrets.

    Parameters
    ----------
    id:
        The account's id or e-mail address.
    to:
        A file that is not there yet; `account-ID.zip` in this directory when not given.
    """
    account_id = runner.read_account(id, as_json=json)
    path = Path(to or f"account-{account_id}.zip")

    async def work(application: Application) -> int:
        pieces = await application.account_data.export(account_id)
        runner.log_action("account export", {"account_id": str(account_id)})
        return await _write(path, pieces)

    with _named_when_refused(path):
        if path.exists() or not path.parent.is_dir():
            _refuse(path)
    written = runner.with_application(work, as_json=json)
    show({"account_id": str(account_id), "file": str(path), "bytes": written}, as_json=json)


def _refuse(path: Path) -> None:
    raise InputRefused(
        f"{path} is there already: name another file with --to"
        if path.exists()
        else f"{path.parent} is no directory: name a file in one with --to"
    )


@contextmanager
def _named_when_refused(path: Path) -> Iterator[None]:
    """Refuse the argument that named a file where the system refuses it, or the disk is full."""
    try:
        yield
    except OSError as error:
        raise InputRefused(f"{path} cannot be written: {error.strerror}") from None


async def _write(path: Path, pieces: AsyncIterator[bytes]) -> int:
    """Write a file that its owner alone can read; a part of one is not left behind."""
    partial, written = path.with_name(f"{path.name}.part"), 0
    with _named_when_refused(path):
        file = _opened(partial)
        try:
            with file:
                async for piece in pieces:
                    written += file.write(piece)
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
    return written


def _opened(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)  # of an earlier run, or by another user, who may read it
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@account.command(name="erase")
def erase_account(
    id: str, /, *, yes: Annotated[bool, Parameter(negative="")] = False, json: Json = False
) -> None:
    """Erase an account for good: names, addresses, contents. The ledger stays, without names.

    Parameters
    ----------
    id:
        The account's id. Its meetings that are still to take place have to be cancelled first.
    yes:
        Do not ask for the id once more.
    """
    account_id = read_id(id, "the account")
    if not yes:
        _confirm(account_id)

    async def work(application: Application) -> Record:
        erase = application.account_data.erase
        erasure = await erase(account_id)
        runner.log_action("account erase", {"account_id": str(account_id)})
        is_finished = erasure.finished_at is not None or await erase.work_on(account_id)
        return (
            {"account_id": str(account_id)}
            | shown_fields(erasure, "requested_at")
            | {"is_finished": is_finished}
        )

    done = runner.with_application(work, as_json=json)
    show(done, as_json=json)
    if not done["is_finished"]:
        print_message(
            "Recordings are still at the provider, or expected from it: the workers remove them and finish.",
            as_json=True,
        )


def _confirm(account_id: UUID) -> None:
    if not sys.stdin.isatty():
        raise InputRefused("nothing brings an erased account back: add --yes without a terminal")
    sys.stderr.write("Nothing brings an erased account back. Its id once more: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != str(account_id):
        raise InputRefused("that is not the id of the account; nothing was erased")
