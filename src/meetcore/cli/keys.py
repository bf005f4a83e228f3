"""`meetcore key`: who may do what."""

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from meetcore.cli import output, runner
from meetcore.cli.inputs import Json, Whole, read_cap, read_id, read_scopes, read_time
from meetcore.composition.application import Application
from meetcore.domain.fields import shown_fields, shown_value
from meetcore.domain.requests.keys import DEFAULT_NAME, ApiKey, masked
from meetcore.usecases.requests.administration import MintedKey

key = App(name="key", help="API keys: who may do what.")


@key.command(name="create")
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
        The id or e-mail address of the account it belongs to.
    scope:
        What it may do; repeat it, or give several. Fixed from now on.
    name:
        What it is known by in lists: 1 to 60 characters.
    daily_cap:
        Credits it may spend a day (00:00 WIB to 00:00 WIB), or none.
    expires_at:
        When it stops working, such as 2026-12-31T17:00:00Z.
    """
    account_id = runner.read_account(account, "--account", as_json=json)
    scopes = read_scopes(scope)
    cap = read_cap(daily_cap)
    until = read_time(expires_at)

    async def work(application: Application) -> output.Record:
        minted = await application.administration.keys.create(account_id, scopes, cap, until, name=name)
        runner.log_action("key create", {"id": minted.key.id, "account_id": account_id})
        return _minted_record(minted)

    output.show(runner.with_application(work, as_json=json), as_json=json)


@key.command(name="list")
def list_keys(*, account: str | None = None, json: Json = False) -> None:
    """List keys, newest first.

    Parameters
    ----------
    account:
        Only those of this account, by its id or e-mail address.
    """
    account_id = None if account is None else runner.read_account(account, "--account", as_json=json)

    async def work(application: Application) -> list[output.Record]:
        prefix = application.policy.key_prefix
        keys = await application.administration.registry.list_keys(account_id)
        return [{**_record(each), "key": masked(prefix, each)} for each in keys]

    output.show(runner.with_application(work, as_json=json), as_json=json)


@key.command(name="roll")
def roll_key(id: str, /, *, overlap: Whole, json: Json = False) -> None:
    """Put a new key in the place of another. It is printed once; both spend under one daily cap.

    Parameters
    ----------
    id:
        The key's id.
    overlap:
        Hours for which the old key goes on working, up to 168; 0 revokes it at once.
    """
    key_id = read_id(id, "the key")

    async def work(application: Application) -> output.Record:
        minted, old = await application.administration.keys.roll(key_id, overlap)
        runner.log_action("key roll", {"id": key_id, "account_id": old.account_id})
        end = old.revoked_at or old.expires_at
        return {**_minted_record(minted), "rolled_from": id, "rolled_from_ends_at": shown_value(end)}

    output.show(runner.with_application(work, as_json=json), as_json=json)


@key.command(name="set-cap")
def set_cap(id: str, /, *, daily_cap: str, json: Json = False) -> None:
    """Change what a key may spend a day, together with the keys that share its cap.

    Parameters
    ----------
    id:
        The key's id.
    daily_cap:
        Credits a day, or none.
    """
    key_id = read_id(id, "the key")
    cap = read_cap(daily_cap)

    runner.show_change(
        "key set-cap",
        lambda app: app.administration.keys.set_daily_cap(key_id, cap),
        _record,
        before=lambda app: _find(app, key_id),
        as_json=json,
    )


async def _find(application: Application, key_id: UUID) -> ApiKey | None:
    keys = await application.administration.registry.list_keys(None)
    return next((each for each in keys if each.id == key_id), None)


def _minted_record(minted: MintedKey) -> output.Record:
    return {"id": str(minted.key.id), "key": minted.text, **_record(minted.key)}


def _record(key: ApiKey) -> output.Record:
    return shown_fields(
        key, "id", "account_id", "name", "scopes", "daily_cap", "created_by", "client_id", "created_at",
        "last_used_at", "expires_at", "revoked_at",
    )  # fmt: skip


runner.add_change(
    key, "key revoke", "Revoke a key; it stops working at its next request.",
    "the key", lambda app, id_: app.administration.keys.revoke(id_), _record, find=_find,
)  # fmt: skip
