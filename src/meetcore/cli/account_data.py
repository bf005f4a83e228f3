"""`meetcore account export` and `erase`: what is kept of an account as an archive, and its end."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, BinaryIO
from uuid import UUID

from cyclopts import Parameter

from meetcore.cli.inputs import InputRefused, Json, read_id
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import Record, print_message, show
from meetcore.cli.runner import guarded, with_application
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import utc_text


def export_account(id: str, /, *, to: str | None = None, json: Json = False) -> None:
    """Write what is kept of an account into a ZIP archive, without secrets.

    Parameters
    ----------
    id:
        The account.
    to:
        A file that is not there yet; `account-ID.zip` in this directory when not given.
    """
    account_id = guarded(lambda: read_id(id, "the account"), as_json=json)
    path = Path(to or f"account-{account_id}.zip")

    async def work(application: Application) -> int:
        pieces = await application.account_data.export(account_id)
        log_action("account export", {"account_id": str(account_id)})
        return await _write(path, pieces)

    if path.exists() or not path.parent.is_dir():
        guarded(lambda: _refuse(path), as_json=json)
    written = with_application(work, as_json=json)
    show({"account_id": str(account_id), "file": str(path), "bytes": written}, as_json=json)


def _refuse(path: Path) -> None:
    raise InputRefused(
        f"{path} is there already: name another file with --to"
        if path.exists()
        else f"{path.parent} is no directory: name a file in one with --to"
    )


async def _write(path: Path, pieces: AsyncIterator[bytes]) -> int:
    """Write a file that its owner alone can read; a part of one is not left behind."""
    partial, written = path.with_name(f"{path.name}.part"), 0
    try:
        with _opened(partial) as file:
            async for piece in pieces:
                written += file.write(piece)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    return written


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def erase_account(
    id: str, /, *, yes: Annotated[bool, Parameter(negative="")] = False, json: Json = False
) -> None:
    """Erase an account for good: names, addresses, contents. The ledger stays, without names.

    Parameters
    ----------
    id:
        The account. Its meetings that are still to take place have to be cancelled first.
    yes:
        Do not ask for the id once more.
    """
    account_id = guarded(lambda: read_id(id, "the account"), as_json=json)
    if not yes:
        guarded(lambda: _confirm(account_id), as_json=json)

    async def work(application: Application) -> Record:
        erase = application.account_data.erase
        erasure = await erase(account_id)
        log_action("account erase", {"account_id": str(account_id)})
        is_finished = erasure.finished_at is not None or await erase.work_on(account_id)
        assert erasure.requested_at is not None
        return {
            "account_id": str(account_id),
            "requested_at": utc_text(erasure.requested_at),
            "is_finished": is_finished,
        }

    done = with_application(work, as_json=json)
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
