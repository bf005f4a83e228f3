"""`meetcore credits adjust`: correct a balance by hand."""

from typing import Annotated

from cyclopts import Parameter

from meetcore.cli.changes import show_change
from meetcore.cli.inputs import Json, Whole, check_counts, check_texts, read_id
from meetcore.cli.runner import guarded
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.money.ledger import MAX_CREDITS
from meetcore.usecases.move_credits import Adjusted


def adjust_credits(
    *,
    account: str,
    amount: Annotated[Whole, Parameter(allow_leading_hyphen=True)],
    reason: str,
    reference: str | None = None,
    json: Json = False,
) -> None:
    """Grant credits without a payment, or take some back. The same reference again changes nothing.

    Parameters
    ----------
    account:
        The account.
    amount:
        Whole credits; negative to take, no more than is available.
    reason:
        What it is for. The customer reads it in the ledger.
    reference:
        Your own name for it, such as a ticket's number; once for each.
    """
    account_id = guarded(lambda: read_id(account, "--account"), as_json=json)
    guarded(lambda: check_counts(1, MAX_CREDITS, amount=abs(amount)), as_json=json)
    guarded(lambda: check_texts(reason=reason, reference=reference), as_json=json)

    show_change(
        "credits adjust",
        lambda app: app.administration.adjust(account_id, amount, reason, reference),
        _record,
        as_json=json,
        is_repeatable=reference is not None,
    )


def _record(done: Adjusted) -> dict[str, object]:
    transfer = done.entry.transfer
    return {
        "id": str(transfer.id),
        "account_id": str(done.entry.account_id),
        "amount": done.entry.amount,
        "reason": transfer.reference.id,
        "reference": transfer.operation.partition(":")[2],
        "balance_after": done.entry.balance_after,
        "balance": done.balance,
        "is_new": done.is_new,
        "created_at": utc_text(done.entry.at),
    }
