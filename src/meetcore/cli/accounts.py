"""`meetcore account`, `key`, `credits`, `host`: the operator's records."""

from uuid import UUID

from cyclopts import App

from meetcore.cli.account_admin import (
    list_accounts,
    resume_account,
    show_account,
    suspend_account,
)
from meetcore.cli.account_data import erase_account, export_account
from meetcore.cli.adjust import adjust_credits
from meetcore.cli.changes import show_change
from meetcore.cli.inputs import Json, Whole, check_counts, check_texts, read_id
from meetcore.cli.keys import create_key, list_keys, revoke_key, roll_key, set_cap
from meetcore.cli.output import show
from meetcore.cli.runner import guarded, with_application
from meetcore.cli.seal import seal_credits
from meetcore.cli.verify import verify_credits
from meetcore.composition.application import Application
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.money.ledger import MAX_CREDITS
from meetcore.usecases.move_credits import ToppedUp

MAX_SEATS = 1_000_000

account = App(name="account", help="Accounts: who pays.")
key = App(name="key", help="API keys: who may do what.")
credits_ = App(name="credits", help="Credits: top up, and prove the ledger.")
host = App(name="host", help="Licensed hosts at the video provider.")


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
    guarded(lambda: check_counts(0, MAX_CREDITS, credits=credits), as_json=json)
    guarded(lambda: check_texts(email=email, full_name=full_name), as_json=json)

    show_change(
        "account create",
        lambda app: app.administration.create_account(email, full_name, credits),
        lambda made: {
            "id": str(made.id),
            "user_id": str(made.user_id),
            "email": email,
            "full_name": full_name,
            "balance": credits,
        },
        as_json=json,
    )


@account.command(name="set")
def set_account(id: str, /, *, credit_low: Whole, json: Json = False) -> None:
    """Change an account.

    Parameters
    ----------
    id:
        The account.
    credit_low:
        `credit.low` is sent when the available credits fall below this.
    """
    account_id = guarded(lambda: read_id(id, "the account"), as_json=json)
    guarded(lambda: check_counts(0, MAX_CREDITS, credit_low=credit_low), as_json=json)

    show_change(
        "account set",
        lambda app: app.administration.set_low_threshold(account_id, credit_low),
        lambda _: {"id": id, "credit_low": credit_low},
        as_json=json,
    )


account.command(list_accounts, name="list")
account.command(show_account, name="show")
account.command(suspend_account, name="suspend")
account.command(resume_account, name="resume")
account.command(export_account, name="export")
account.command(erase_account, name="erase")


key.command(create_key, name="create")
key.command(list_keys, name="list")
key.command(roll_key, name="roll")
key.command(revoke_key, name="revoke")
key.command(set_cap, name="set-cap")


@credits_.command(name="topup")
def top_up(*, account: str, amount: Whole, reference: str | None = None, json: Json = False) -> None:
    """Add paid credits. The same reference again changes nothing and prints the first top-up.

    Parameters
    ----------
    account:
        The account.
    amount:
        Whole credits.
    reference:
        The payment's own name, such as an invoice number.
    """
    account_id = guarded(lambda: read_id(account, "--account"), as_json=json)
    guarded(lambda: check_counts(1, MAX_CREDITS, amount=amount), as_json=json)
    guarded(lambda: check_texts(reference=reference), as_json=json)

    show_change(
        "credits topup",
        lambda app: app.administration.top_up(account_id, amount, reference),
        _top_up_record,
        as_json=json,
        is_repeatable=reference is not None,
    )


credits_.command(adjust_credits, name="adjust")
credits_.command(seal_credits, name="seal")
credits_.command(verify_credits, name="verify")


@host.command(name="add")
def add_host(
    *, provider_user_id: str, capacity: Whole, max_concurrent: Whole = 1, json: Json = False
) -> None:
    """Add a licensed host.

    Parameters
    ----------
    provider_user_id:
        The user at the video provider.
    capacity:
        How many seats its licence has.
    max_concurrent:
        How many meetings it may run at a time.
    """
    guarded(lambda: check_texts(provider_user_id=provider_user_id), as_json=json)
    guarded(
        lambda: check_counts(1, MAX_SEATS, capacity=capacity, max_concurrent=max_concurrent), as_json=json
    )

    show_change(
        "host add",
        lambda app: app.administration.hosts.add(provider_user_id, capacity, max_concurrent),
        _host_record,
        as_json=json,
    )


@host.command(name="list")
def list_hosts(*, json: Json = False) -> None:
    """List hosts, smallest first."""

    async def work(application: Application) -> list[dict[str, object]]:
        return [_host_record(each) for each in await application.administration.registry.list_hosts()]

    show(with_application(work, as_json=json), as_json=json)


@host.command(name="disable")
def disable_host(id: str, /, *, json: Json = False) -> None:
    """Give a host no new meetings; those it has stay.

    Parameters
    ----------
    id:
        The host's id.
    """
    host_id = guarded(lambda: read_id(id, "the host"), as_json=json)

    show_change(
        "host disable",
        lambda app: app.administration.hosts.disable(host_id),
        _host_record,
        before=lambda app: _find_host(app, host_id),
        as_json=json,
    )


@host.command(name="enable")
def enable_host(id: str, /, *, json: Json = False) -> None:
    """Give a host meetings again.

    Parameters
    ----------
    id:
        The host's id.
    """
    host_id = guarded(lambda: read_id(id, "the host"), as_json=json)

    show_change(
        "host enable",
        lambda app: app.administration.hosts.enable(host_id),
        _host_record,
        before=lambda app: _find_host(app, host_id),
        as_json=json,
    )


async def _find_host(application: Application, host_id: UUID) -> Host | None:
    hosts = await application.administration.registry.list_hosts()
    return next((each for each in hosts if each.id == host_id), None)


def _top_up_record(done: ToppedUp) -> dict[str, object]:
    transfer = done.entry.transfer
    return {
        "id": str(transfer.id),
        "account_id": str(done.entry.account_id),
        "amount": done.entry.amount,
        "reference": transfer.reference.id,
        "balance_after": done.entry.balance_after,
        "balance": done.balance,
        "is_new": done.is_new,
        "created_at": utc_text(done.entry.at),
    }


def _host_record(host_: Host) -> dict[str, object]:
    return {
        "id": str(host_.id),
        "provider_user_id": host_.provider_user_id,
        "capacity": host_.capacity,
        "max_concurrent": host_.max_concurrent,
        "uses": host_.uses,
        "is_active": host_.is_active,
        "creations": host_.creations,
        "creations_on": None if host_.creations_on is None else host_.creations_on.isoformat(),
        "unavailable_until": None if host_.unavailable_until is None else utc_text(host_.unavailable_until),
    }
