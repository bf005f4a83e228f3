"""`meetcore key create`, `list`, `roll`, `revoke`, `set-cap`."""

from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from meetcore.cli.changes import show_change
from meetcore.cli.inputs import Json, Whole, read_cap, read_id, read_scopes, read_time
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import show
from meetcore.cli.runner import guarded, with_application
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.requests.keys import DEFAULT_NAME, ApiKey, masked
from meetcore.usecases.administration import MintedKey


def create_key(
    *,
    account: str,
    scope: Annotated[list[str], Parameter(consume_multiple=True)],
    name: str = DEFAULT_NAME,
    daily_cap: str = "none",
    expires_at: str | None = None,
    json: Json = False,
) -> None:
    """Make an API key. It is printed once.

    Parameters
    ----------
    account:
        The account it belongs to.
    scope:
        What it may do; repeat it, or give several. Fixed from now on.
    name:
        What it is known by in lists: 1 to 60 characters.
    daily_cap:
        Credits it may spend a day (00:00 WIB to 00:00 WIB), or none.
    expires_at:
        When it stops working, such as 2026-12-31T17:00:00Z.
    """
    account_id = guarded(lambda: read_id(account, "--account"), as_json=json)
    scopes = guarded(lambda: read_scopes(scope), as_json=json)
    cap = guarded(lambda: read_cap(daily_cap), as_json=json)
    until = guarded(lambda: read_time(expires_at), as_json=json)

    async def work(application: Application) -> dict[str, object]:
        minted = await application.administration.create_key(account_id, scopes, cap, until, name=name)
        log_action("key create", {"id": minted.key.id, "account_id": account_id})
        return _minted_record(minted)

    show(with_application(work, as_json=json), as_json=json)


def list_keys(*, account: str | None = None, json: Json = False) -> None:
    """List keys, newest first.

    Parameters
    ----------
    account:
        Only those of this account.
    """
    account_id = None if account is None else guarded(lambda: read_id(account, "--account"), as_json=json)

    async def work(application: Application) -> list[dict[str, object]]:
        prefix = application.policy.key_prefix
        keys = await application.administration.registry.list_keys(account_id)
        return [_record(each) | {"key": masked(prefix, each)} for each in keys]

    show(with_application(work, as_json=json), as_json=json)


def roll_key(id: str, /, *, overlap: Whole, json: Json = False) -> None:
    """Put a new key in the place of another. It is printed once; both spend under one daily cap.

    Parameters
    ----------
    id:
        The key's id.
    overlap:
        Hours for which the old key goes on working, up to 168; 0 revokes it at once.
    """
    key_id = guarded(lambda: read_id(id, "the key"), as_json=json)

    async def work(application: Application) -> dict[str, object]:
        minted, old = await application.administration.roll_key(key_id, overlap)
        log_action("key roll", {"id": key_id, "account_id": old.account_id})
        end = old.revoked_at or old.expires_at
        assert end is not None
        return _minted_record(minted) | {"rolled_from": id, "rolled_from_ends_at": utc_text(end)}

    show(with_application(work, as_json=json), as_json=json)


def revoke_key(id: str, /, *, json: Json = False) -> None:
    """Revoke a key; it stops working at its next request.

    Parameters
    ----------
    id:
        The key's id.
    """
    key_id = guarded(lambda: read_id(id, "the key"), as_json=json)

    show_change(
        "key revoke",
        lambda app: app.administration.revoke_key(key_id),
        _record,
        before=lambda app: _find_key(app, key_id),
        as_json=json,
    )


def set_cap(id: str, /, *, daily_cap: str, json: Json = False) -> None:
    """Change what a key may spend a day, together with the keys that share its cap.

    Parameters
    ----------
    id:
        The key's id.
    daily_cap:
        Credits a day, or none.
    """
    key_id = guarded(lambda: read_id(id, "the key"), as_json=json)
    cap = guarded(lambda: read_cap(daily_cap), as_json=json)

    show_change(
        "key set-cap",
        lambda app: app.administration.set_daily_cap(key_id, cap),
        _record,
        before=lambda app: _find_key(app, key_id),
        as_json=json,
    )


async def _find_key(application: Application, key_id: UUID) -> ApiKey | None:
    keys = await application.administration.registry.list_keys(None)
    return next((each for each in keys if each.id == key_id), None)


def _minted_record(minted: MintedKey) -> dict[str, object]:
    record = _record(minted.key)
    return {"id": record.pop("id"), "key": minted.text, **record}


def _record(key: ApiKey) -> dict[str, object]:
    return {
        "id": str(key.id),
        "account_id": str(key.account_id),
        "name": key.name,
        "scopes": [scope.value for scope in key.scopes],
        "daily_cap": key.daily_cap,
        "created_by": None if key.created_by is None else str(key.created_by),
        "created_at": utc_text(key.created_at),
        "last_used_at": None if key.last_used_at is None else utc_text(key.last_used_at),
        "expires_at": None if key.expires_at is None else utc_text(key.expires_at),
        "revoked_at": None if key.revoked_at is None else utc_text(key.revoked_at),
    }
