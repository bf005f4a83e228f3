"""`meetcore account list`, `show`, `suspend`, `resume`."""

from meetcore.cli.changes import show_change, show_result
from meetcore.cli.inputs import Json, Whole, check_counts, read_id
from meetcore.cli.output import print_message, show
from meetcore.cli.runner import guarded, with_application
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.requests.accounts import status_of
from meetcore.ports.registry import StoredAccount

DEFAULT_LIMIT = 1_000
MAX_LIMIT = 100_000


def list_accounts(*, email: str | None = None, limit: Whole = DEFAULT_LIMIT, json: Json = False) -> None:
    """List accounts, newest first.

    Parameters
    ----------
    email:
        Only those with this e-mail address, in any case.
    limit:
        So many at most.
    """
    guarded(lambda: check_counts(1, MAX_LIMIT, limit=limit), as_json=json)

    async def work(application: Application) -> list[dict[str, object]]:
        found = await application.administration.registry.list_accounts(email, limit + 1)
        return [_record(each) for each in found]

    records = with_application(work, as_json=json)
    show(records[:limit], as_json=json)
    if len(records) > limit:
        print_message(
            f"There are more than {limit}: see them with --limit, or look for one with --email.", as_json=True
        )


def show_account(id: str, /, *, json: Json = False) -> None:
    """Show an account.

    Parameters
    ----------
    id:
        The account.
    """
    account_id = guarded(lambda: read_id(id, "the account"), as_json=json)

    show_result(lambda app: app.administration.registry.find_account(account_id), _record, as_json=json)


def suspend_account(id: str, /, *, json: Json = False) -> None:
    """Refuse an account's keys from their next request on. What was begun goes on.

    Parameters
    ----------
    id:
        The account.
    """
    account_id = guarded(lambda: read_id(id, "the account"), as_json=json)

    show_change(
        "account suspend",
        lambda app: app.administration.suspend_account(account_id),
        _record,
        before=lambda app: app.administration.registry.find_account(account_id),
        as_json=json,
    )


def resume_account(id: str, /, *, json: Json = False) -> None:
    """Let the keys of a suspended account in again.

    Parameters
    ----------
    id:
        The account.
    """
    account_id = guarded(lambda: read_id(id, "the account"), as_json=json)

    show_change(
        "account resume",
        lambda app: app.administration.resume_account(account_id),
        _record,
        before=lambda app: app.administration.registry.find_account(account_id),
        as_json=json,
    )


def _record(account: StoredAccount) -> dict[str, object]:
    return {
        "id": str(account.id),
        "user_id": str(account.user_id),
        "email": account.email,
        "full_name": account.full_name,
        "status": status_of(account.suspended_at).value,
        "balance": account.balance,
        "held": account.held,
        "credit_low": account.low_threshold,
        "created_at": utc_text(account.created_at),
        "suspended_at": None if account.suspended_at is None else utc_text(account.suspended_at),
    }
