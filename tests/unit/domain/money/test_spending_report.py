"""Spending by month, key and member."""

from uuid import UUID

from meetcore.domain.money.spending_report import (
    MAX_ENTRIES_SUMMED,
    Payer,
    PayerTotal,
    Spent,
    add_up,
    by_payer,
    is_partial,
)
from meetcore.domain.money.transfers import TransferKind

KEY, HAND = Payer(UUID(int=1)), Payer(None, "sari@example.test")


def total(payer: Payer, kind: TransferKind, credits: int, entries: int = 1) -> PayerTotal:
    return PayerTotal(payer, kind, credits, entries)


def test_charges_less_refunds_are_spent() -> None:
    kinds = [
        (TransferKind.MEETING_CHARGE, -30), (TransferKind.MEETING_REFUND, 10),
        (TransferKind.NOTULEN_CHARGE, -7), (TransferKind.TOPUP, 500), (TransferKind.ADJUSTMENT, -5),
    ]  # fmt: skip
    spent = add_up(kinds)
    assert spent == Spent(20, 7)
    assert spent.total == 27
    assert add_up([]) == Spent()


def test_payers_are_ordered_by_what_they_spent() -> None:
    totals = [
        total(HAND, TransferKind.MEETING_CHARGE, -10),
        total(KEY, TransferKind.MEETING_CHARGE, -30),
        total(HAND, TransferKind.NOTULEN_CHARGE, -25),
        total(Payer(None), TransferKind.TOPUP, 1000),
        total(Payer(UUID(int=2)), TransferKind.MEETING_REFUND, 4),
    ]
    assert list(by_payer(totals)) == [
        (HAND, Spent(10, 25)), (KEY, Spent(30, 0)), (Payer(UUID(int=2)), Spent(-4, 0)),
    ]  # fmt: skip


def test_a_month_with_more_entries_than_are_summed_is_partial() -> None:
    some = total(KEY, TransferKind.MEETING_CHARGE, -1, MAX_ENTRIES_SUMMED - 1)
    assert not is_partial([some])
    assert is_partial([some, total(KEY, TransferKind.TOPUP, 1)])
