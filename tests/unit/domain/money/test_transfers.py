"""Transfers: what moves between books, and the amounts that may."""

from collections import Counter
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.money.transfers import (
    MAX_CREDITS,
    ROUTES,
    Book,
    InvalidAmount,
    Leg,
    Transfer,
    TransferKind,
    charge_route,
    check_amount,
    legs,
    refund_route,
    system_book,
)
from meetcore.testing.strategies.account_histories import AccountHistory, account_histories
from meetcore.testing.strategies.money import amounts, bad_amounts, transfers

CUSTOMER = Book.CUSTOMER


@given(amounts())
@example(1)
@example(MAX_CREDITS)
def test_every_whole_number_up_to_the_largest_is_accepted(amount: int) -> None:
    assert check_amount(amount) == amount


@given(bad_amounts())
@example(0)
@example(-1)
@example(MAX_CREDITS + 1)
@example(2**63)
@example(True)
@example(1.0)
@example(float("nan"))
@example(float("inf"))
@example("1")
@example(None)
def test_nothing_else_is_an_amount(amount: Any) -> None:
    with pytest.raises(InvalidAmount, match=r"^credits are whole numbers from 1 to 1000000000000000, not "):
        check_amount(amount)


@given(transfers())
def test_the_legs_of_a_transfer_sum_to_zero_and_the_customers_leg_is_signed(transfer: Transfer) -> None:
    source, destination = legs(transfer)
    assert (source.book, destination.book) == (transfer.source, transfer.destination)
    assert source.amount + destination.amount == 0
    assert destination.amount == transfer.amount > 0
    assert Leg(CUSTOMER, transfer.signed_amount) in (source, destination)


@given(account_histories())
def test_ledger_books_show_the_earnings_of_each_kind_of_work(history: AccountHistory) -> None:
    earned: Counter[StrEnum] = Counter()
    expected: Counter[StrEnum] = Counter()
    for entry in history.entries:
        transfer = entry.transfer
        for leg in legs(transfer):
            earned[leg.book] += leg.amount
        ends = {transfer.source, transfer.destination}
        if transfer.kind is TransferKind.ADJUSTMENT:
            assert ends == {CUSTOMER, Book.ADJUSTMENTS}
        else:
            assert (transfer.source, transfer.destination) == ROUTES[transfer.kind]
        (other,) = ends - {CUSTOMER}
        expected[other] -= entry.amount
    del earned[CUSTOMER]
    assert earned == expected


@pytest.mark.parametrize(("amount", "shown"), [
    (10.0, "10.0 (float)"),
    (0, "0 (int)"),
    (True, "True (bool)"),
    ("7", "'7' (str)"),
    ("9" * 80, "'" + "9" * 39 + " (str)"),
    (10 * MAX_CREDITS, f"{10 * MAX_CREDITS} (int)"),
    (-10 * MAX_CREDITS - 1, "a longer number (int)"),
    (10 * MAX_CREDITS + 1, "a longer number (int)"),
    (10**5_000, "a longer number (int)"),
], ids=range(9))  # fmt: skip
def test_an_invalid_amount_is_reported_with_its_type(amount: Any, shown: str) -> None:
    with pytest.raises(InvalidAmount) as refused:
        check_amount(amount)
    assert str(refused.value) == f"credits are whole numbers from 1 to {MAX_CREDITS}, not {shown}"


@given(transfers())
def test_the_system_book_is_the_other_side_of_every_transfer(transfer: Transfer) -> None:
    assert {transfer.source, transfer.destination} == {Book.CUSTOMER, system_book(transfer.kind)}


class Own(StrEnum):
    """Kinds of a caller's own, two of which are named like what the service has."""

    ORDER = "order"
    CUSTOMER = "customer"
    TOPUP = "topup"


@pytest.mark.parametrize("kind", [*TransferKind, *Own])
def test_a_charge_moves_credits_from_the_customer_to_the_book_of_its_kind(kind: StrEnum) -> None:
    charges = {
        "topup_refund": Book.TOPUPS,
        "meeting_charge": Book.MEETINGS,
        "notulen_charge": Book.NOTULEN,
        "order": Own.ORDER,
    }
    if kind.value in charges:
        assert charge_route(kind) == (CUSTOMER, charges[kind.value])
    else:
        with pytest.raises(ValueError, match=f"^'{kind.value}' is no kind of charge$"):
            charge_route(kind)


@given(transfers(), st.sampled_from([*TransferKind, *Own]))
def test_a_refund_turns_the_route_of_its_charge_round(charge: Transfer, kind: StrEnum) -> None:
    turned = (charge.destination, charge.source)
    if charge.signed_amount < 0 and ROUTES.get(kind, turned) == turned:
        assert refund_route(kind, charge) == turned
    else:
        with pytest.raises(ValueError, match=f"^'{kind.value}' does not give '{charge.kind.value}' back$"):
            refund_route(kind, charge)
