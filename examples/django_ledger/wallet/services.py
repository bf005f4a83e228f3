"""What can be done with an account: each is one transaction that locks, asks the ledger and saves.

Owns the transactions. `meetcore.domain` decides about money, and raises before anything has
changed, so that a refusal rolls back nothing but a read.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction
from django.dispatch import Signal

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings import schedule
from meetcore.domain.money import holds, ledger

from .models import Account, EntryRow

__all__ = ["buy", "credits_fell_low", "open_account", "refund", "top_up", "unproven"]

credits_fell_low = Signal()
"""Sent once the transaction is committed, with `fact`, a `ledger.CreditsFellLow`."""


def open_account(account_id: UUID, low_threshold: int = 20) -> None:
    """Make an empty account."""
    funds = ledger.open_account(account_id, low_threshold)
    Account.objects.create(id=account_id, low_threshold=funds.low_threshold, is_low=funds.is_low)


def top_up(account_id: UUID, reference: str, amount: int, at: datetime) -> int:
    """Add paid credits once for each reference; gives the balance.

    Raises:
        NotFound: no such account.
        Conflict: the reference belongs to a top-up of another amount.
        InvalidAmount: not a whole number of credits, at least 1.
    """
    operation = ledger.top_up_operation(reference)

    def decide(funds: ledger.Funds) -> ledger.Posting:
        existing = _find(account_id, operation=operation)
        return ledger.top_up(funds, uuid4(), reference, amount, at, existing)

    return _change(account_id, decide)


def buy(account_id: UUID, order: str, price: int, at: datetime) -> int:
    """Pay for an order, once for each order; gives the balance.

    Raises:
        NotFound: no such account.
        Conflict: the order was paid at another price.
        InsufficientCredits: the price is more than what is available.
        InvalidAmount: not a whole number of credits, at least 1.
    """
    operation = f"order:{order}"

    def decide(funds: ledger.Funds) -> ledger.Posting:
        existing = _find(account_id, operation=operation)
        if existing is not None:
            if existing.amount != price:
                raise Conflict(f"The order {order!r} was paid with {existing.amount} credits.", existing.id)
            return ledger.Posting(funds, None)
        # No daily caps in this shop: the account stands in for the key, and the usage is not kept.
        usage = holds.CapUsage(account_id, schedule.cap_day(at))
        about = ledger.Reference("order", order)
        return holds.charge(funds, usage, None, uuid4(), operation, price, about, at).posting

    return _change(account_id, decide)


def refund(account_id: UUID, order: str, at: datetime) -> int:
    """Give the credits of an order back, whole and once; gives the balance.

    Raises:
        NotFound: no such account, or the order was never paid.
    """

    def decide(funds: ledger.Funds) -> ledger.Posting:
        charge = _find(account_id, operation=f"order:{order}")
        if charge is None:
            raise NotFound(f"No paid order {order!r}.")
        existing = _find(account_id, reverses=charge.id)
        return ledger.refund(funds, charge, uuid4(), at, existing)

    return _change(account_id, decide)


def unproven() -> Iterator[tuple[UUID, int]]:
    """Prove every account: yields those whose history or funds were tampered with.

    Yields:
        The account's id and the number of the first entry that is wrong.
    """
    for account_id in Account.objects.values_list("id", flat=True).iterator():
        # Under the lock: a posting between the two reads would look like tampering.
        with transaction.atomic():
            account = Account.objects.select_for_update().get(pk=account_id)
            proof = ledger.ChainVerifier(account_id)
            for row in EntryRow.objects.filter(account=account).order_by("number").iterator():
                extended = proof.extended(row.entry())
                if extended is None:
                    break
                proof = extended
            if not ledger.is_proven(account.funds(), proof):
                yield account_id, proof.entries + 1


def _change(account_id: UUID, decide: Callable[[ledger.Funds], ledger.Posting]) -> int:
    """Load under the lock, decide, save; the balance afterwards. What was raised has changed nothing."""
    with transaction.atomic():
        # Everything else is read after this line, so that it is what the transaction before us left behind.
        account = Account.objects.select_for_update().filter(pk=account_id).first()
        if account is None:
            raise NotFound("No account with this id.")
        posting = decide(account.funds())
        if posting.entry is not None:
            EntryRow.of(posting.entry).save(force_insert=True)
            account.take_over(posting.funds)
        for fact in posting.facts:
            transaction.on_commit(lambda fact=fact: credits_fell_low.send(Account, fact=fact))
        return posting.funds.balance


def _find(account_id: UUID, **named: object) -> ledger.Transfer | None:
    row = EntryRow.objects.filter(account_id=account_id, **named).first()
    return None if row is None else row.transfer()
