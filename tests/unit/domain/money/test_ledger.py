"""The ledger: money is neither made nor lost, and nothing happens twice."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.money import holds
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import (
    MAX_REASON,
    MAX_REFERENCE,
    CreditsFellLow,
    Funds,
    InvalidReason,
    InvalidReference,
    Posting,
    adjust,
    adjustment_about,
    adjustment_operation,
    check_reference,
    open_account,
    post,
    refund,
    refund_operation,
    top_up,
    top_up_operation,
)
from meetcore.domain.money.transfers import (
    MAX_CREDITS,
    Book,
    InvalidAmount,
    Reference,
    Transfer,
    TransferKind,
    legs,
)
from meetcore.testing.strategies.account_histories import ACCOUNT, AccountHistory, Act, account_histories
from meetcore.testing.strategies.money import amounts, bad_amounts
from meetcore.testing.strategies.money import funds as any_funds

KEY = UUID(int=1)
NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
THRESHOLD = 100
TICKET = Reference("ticket", "7")
FULL = Funds(ACCOUNT, balance=1_000)
MOVE = Transfer(
    UUID(int=1), "topup:INV-1", TransferKind.TOPUP, 1, Book.TOPUPS, Book.CUSTOMER, Reference("topup", "INV-1")
)
SETTLEMENTS = {Act.SETTLE, Act.SETTLE_FOR_LESS, Act.SETTLE_FOR_MORE}


# Over any sequence of decisions


@given(account_histories())
def test_the_sum_over_all_ledger_books_is_zero_after_any_sequence(history: AccountHistory) -> None:
    totals: Counter[StrEnum] = Counter()
    for entry in history.entries:
        for leg in legs(entry.transfer):
            totals[leg.book] += leg.amount
        assert totals.total() == 0
        assert totals[Book.CUSTOMER] == entry.balance_after


@given(account_histories())
def test_the_balance_equals_the_fold_of_the_entries(history: AccountHistory) -> None:
    balance = number = 0
    for step in history.steps:
        if step.entry is not None:
            number, balance = number + 1, balance + step.entry.amount
            assert step.entry.amount == step.entry.transfer.signed_amount
            assert (step.entry.number, step.entry.balance_after) == (number, balance)
            assert (step.after.last_hash, step.after.last_at) == (step.entry.hash, step.entry.at)
        assert (step.after.entries, step.after.balance) == (number, balance)


@given(account_histories())
def test_no_charge_takes_the_available_balance_below_zero_and_only_a_settlement_may(
    history: AccountHistory,
) -> None:
    for step in history.steps:
        if step.after.available < min(0, step.before.available):
            assert step.act in SETTLEMENTS
            assert step.entry is not None
            assert step.hold is not None
            beyond_the_hold = step.entry.transfer.amount - step.hold.amount
            assert step.before.available - step.after.available == beyond_the_hold


@given(account_histories())
def test_refused_or_repeated_operations_change_nothing(history: AccountHistory) -> None:
    for step in history.steps:
        if step.refusal is not None or step.act in (Act.TOP_UP_AGAIN, Act.REFUND_AGAIN):
            assert step.after == step.before
            assert (step.entry, step.facts) == (None, ())


@given(account_histories())
def test_a_refund_never_exceeds_its_charge_and_happens_once(history: AccountHistory) -> None:
    charges = {charge.id: charge for charge in history.transfers(TransferKind.MEETING_CHARGE)}
    refunds = history.transfers(TransferKind.MEETING_REFUND)
    assert len({one.reverses for one in refunds}) == len(refunds)
    for one in refunds:
        assert one.reverses is not None
        charge = charges[one.reverses]
        assert one.amount <= charge.amount
        assert (one.amount, one.reference) == (charge.amount, charge.reference)
        assert (one.api_key_id, one.cap_day) == (charge.api_key_id, charge.cap_day)
        assert one.operation == refund_operation(charge)


@given(account_histories())
def test_a_transfer_is_in_the_ledger_once(history: AccountHistory) -> None:
    made = [entry.transfer for entry in history.entries]
    assert len({transfer.operation for transfer in made}) == len(made)
    assert len({transfer.id for transfer in made}) == len(made)


@given(st.lists(st.integers(-10, 10), min_size=1, max_size=10))
def test_an_entry_bears_its_own_instant_or_else_the_latest_before_it(jumps: list[int]) -> None:
    funds, latest, now = open_account(ACCOUNT), NOW - timedelta(days=1), NOW
    for jump in jumps:
        now += timedelta(seconds=jump)
        latest = max(latest, now)
        posting = post(funds, MOVE, now)
        funds = posting.funds
        assert posting.entry is not None
        assert posting.entry.at == funds.last_at == latest


# The low mark


@given(account_histories())
def test_credit_low_is_emitted_once_until_the_balance_was_above_the_threshold(
    history: AccountHistory,
) -> None:
    """At an entry that ends below the threshold; a hold tells nothing, and its release may make it good."""
    threshold = history.funds.low_threshold
    is_armed = threshold == 0  # an empty account counts as told where it is below
    for step in history.steps:
        is_below = step.after.available < threshold
        is_emitted = step.entry is not None and is_below and is_armed
        expected = (CreditsFellLow(ACCOUNT, step.after.available, threshold),) if is_emitted else ()
        assert step.facts == expected
        is_armed = (is_armed or not is_below) and not is_emitted
        assert step.after.is_low == (not is_armed)


@pytest.mark.parametrize(("balance", "is_emitted"), [(THRESHOLD, False), (THRESHOLD - 1, True)])
def test_low_is_below_the_threshold_and_not_at_it(balance: int, is_emitted: bool) -> None:
    funds = top_up(open_account(ACCOUNT, THRESHOLD), UUID(int=1), "INV-1", 500, NOW).funds
    posting = adjust(funds, UUID(int=2), "ticket:1", balance - 500, TICKET, NOW)
    assert bool(posting.facts) is is_emitted


@pytest.mark.parametrize(("threshold", "is_low"), [(0, False), (1, True), (100, True)])
def test_an_empty_account_counts_as_notified(threshold: int, is_low: bool) -> None:
    assert open_account(ACCOUNT) == open_account(ACCOUNT, 100)
    assert open_account(ACCOUNT, threshold) == Funds(ACCOUNT, low_threshold=threshold, is_low=is_low)


# Applying a transfer twice


@given(any_funds(ACCOUNT), amounts(1_000), st.text(min_size=1, max_size=5))
def test_applying_a_top_up_twice_changes_nothing(funds: Funds, amount: int, reference: str) -> None:
    first = top_up(funds, UUID(int=2), reference, amount, NOW)
    assert first.entry is not None
    assert first.entry.transfer == Transfer(
        UUID(int=2), top_up_operation(reference), TransferKind.TOPUP, amount, Book.TOPUPS, Book.CUSTOMER,
        Reference("topup", reference),
    )  # fmt: skip
    again = top_up(first.funds, UUID(int=3), reference, amount, NOW, first.entry.transfer)
    assert again == Posting(first.funds, None)


@given(amounts(500), amounts(500))
def test_a_reference_belongs_to_one_amount(amount: int, other: int) -> None:
    assume(amount != other)
    first = top_up(open_account(ACCOUNT), UUID(int=1), "INV-7", amount, NOW)
    assert first.entry is not None
    with pytest.raises(Conflict) as refused:
        top_up(first.funds, UUID(int=2), "INV-7", other, NOW, first.entry.transfer)
    assert refused.value.details == {"id": str(UUID(int=1))}
    known = "1 credit" if amount == 1 else f"{amount} credits"
    assert refused.value.message == f"The reference 'INV-7' belongs to a top-up of {known}."


@pytest.mark.spec("3/cancel-before")
@given(amounts(1_000), st.integers(0, 100))
def test_a_refund_returns_the_whole_charge_and_a_second_one_changes_nothing(amount: int, rest: int) -> None:
    funds = Funds(ACCOUNT, balance=amount + rest)
    reference = Reference("meeting", "7")
    charged = holds.charge(
        funds, CapUsage(KEY, NOW.date()), None, UUID(int=2), "meeting:7", amount, reference, NOW
    )
    charge = charged.posting.entry
    assert charge is not None
    first = refund(charged.posting.funds, charge.transfer, UUID(int=3), NOW)
    assert first.funds.balance == funds.balance
    assert first.entry is not None
    assert first.entry.transfer == Transfer(
        UUID(int=3), f"refund:{UUID(int=2)}", TransferKind.MEETING_REFUND, amount, Book.MEETINGS,
        Book.CUSTOMER, reference, reverses=UUID(int=2), api_key_id=KEY, cap_day=NOW.date(),
    )  # fmt: skip
    again = refund(first.funds, charge.transfer, UUID(int=4), NOW, first.entry.transfer)
    assert again == Posting(first.funds, None)


@pytest.mark.parametrize("kind", sorted(set(TransferKind) - {TransferKind.MEETING_CHARGE}))
def test_only_the_charge_of_a_meeting_is_refunded(kind: TransferKind) -> None:
    with pytest.raises(ValueError, match=r"^only a meeting's charge is refunded$"):
        refund(open_account(ACCOUNT), evolve(MOVE, kind=kind), UUID(int=9), NOW)


# Amounts


@given(bad_amounts())
@example(True)
@example(float("nan"))
@example(0)
def test_fractional_credits_are_refused_everywhere(amount: Any) -> None:
    usage, reference = CapUsage(KEY, NOW.date()), Reference("meeting", "7")
    good = Hold(UUID(int=2), "meeting:7", TransferKind.MEETING_CHARGE, 10, reference, KEY, NOW.date())
    for decide in (
        lambda: post(FULL, evolve(MOVE, amount=amount), NOW),
        lambda: top_up(FULL, UUID(int=2), "INV-2", amount, NOW),
        lambda: top_up(FULL, UUID(int=2), "INV-1", amount, NOW, MOVE),
        lambda: holds.take(FULL, usage, None, evolve(good, amount=amount)),
        lambda: holds.settle(evolve(FULL, held=10), evolve(usage, held=10), good, amount, UUID(int=3), NOW),
        lambda: holds.charge(FULL, usage, None, UUID(int=2), "meeting:7", amount, reference, NOW),
    ):
        with pytest.raises(InvalidAmount, match="credits are whole numbers from 1 to"):
            decide()


@given(bad_amounts())
@example(-MAX_CREDITS - 1)
@example(True)
def test_an_adjustment_is_a_whole_number_of_credits_either_way(amount: Any) -> None:
    assume(type(amount) is not int or amount == 0 or amount < -MAX_CREDITS or amount > MAX_CREDITS)
    with pytest.raises(InvalidAmount):
        adjust(FULL, UUID(int=2), "ticket:1", amount, TICKET, NOW)


@given(st.integers(-MAX_CREDITS, MAX_CREDITS), amounts(), st.booleans())
@example(0, MAX_CREDITS, True)
@example(1, MAX_CREDITS, True)
@example(0, MAX_CREDITS, False)
@example(-1, MAX_CREDITS, False)
def test_a_balance_never_leaves_the_range_of_credits(balance: int, amount: int, gives: bool) -> None:
    funds = Funds(ACCOUNT, balance=balance)
    there, back = (Book.TOPUPS, Book.CUSTOMER) if gives else (Book.CUSTOMER, Book.NOTULEN)
    transfer = evolve(MOVE, amount=amount, source=there, destination=back)
    after = balance + (amount if gives else -amount)
    if abs(after) <= MAX_CREDITS:
        assert post(funds, transfer, NOW).funds.balance == after
    else:
        with pytest.raises(InvalidAmount) as refused:
            post(funds, transfer, NOW)
        assert str(refused.value) == "the balance would leave the range of 1000000000000000 credits"


@given(any_funds(ACCOUNT, 60), amounts(100), st.booleans())
@example(Funds(ACCOUNT, 50, 10), 40, False)
@example(Funds(ACCOUNT, 50, 10), 41, False)
@example(Funds(ACCOUNT, -50), 1, True)
def test_an_adjustment_gives_without_limit_and_takes_only_available_credits(
    funds: Funds, amount: int, gives: bool
) -> None:
    signed = amount if gives else -amount
    if gives or amount <= funds.available:
        posting = adjust(funds, UUID(int=2), "ticket:1", signed, TICKET, NOW)
        assert (posting.funds.available, posting.funds.held) == (funds.available + signed, funds.held)
        assert posting.entry is not None
        there, back = Book.ADJUSTMENTS, Book.CUSTOMER
        source, destination = (there, back) if gives else (back, there)
        assert posting.entry.transfer == Transfer(
            UUID(int=2), "ticket:1", TransferKind.ADJUSTMENT, amount, source, destination, TICKET
        )
    else:
        with pytest.raises(InsufficientCredits) as refused:
            adjust(funds, UUID(int=2), "ticket:1", signed, TICKET, NOW)
        assert refused.value.details == {"required": amount, "available": funds.available}


def test_an_adjustment_happens_once_for_each_operation() -> None:
    first = adjust(FULL, UUID(int=2), "adjustment:T-1", -5, TICKET, NOW)
    assert first.entry is not None
    known = first.entry.transfer
    again = adjust(first.funds, UUID(int=3), "adjustment:T-1", -5, TICKET, NOW, known)
    assert again == Posting(first.funds, None)
    drained = evolve(first.funds, held=first.funds.balance)
    assert adjust(drained, UUID(int=3), "adjustment:T-1", -5, TICKET, NOW, known).entry is None
    for other in (5, -6):
        with pytest.raises(Conflict) as refused:
            adjust(first.funds, UUID(int=3), "adjustment:T-1", other, TICKET, NOW, known)
        assert refused.value.details == {"id": str(known.id)}
        assert "-5 credits" in refused.value.message
    with pytest.raises(ValueError, match="'adjustment:T-1' is not 'adjustment:T-2'"):
        adjust(first.funds, UUID(int=3), "adjustment:T-2", -5, TICKET, NOW, known)


def test_an_adjustment_is_named_and_has_a_reason() -> None:
    assert adjustment_operation("T-1") == "adjustment:T-1"
    for reason in ("goodwill for 12 November", "r" * MAX_REASON, "é"):
        assert adjustment_about(reason) == Reference("adjustment", reason)
    for reason in ("", " ", "r" * (MAX_REASON + 1), "two\nlines"):
        with pytest.raises(InvalidReason, match="1 to 200 characters"):
            adjustment_about(reason)


def test_the_top_up_of_another_reference_is_no_proof_of_this_one() -> None:
    first = top_up(FULL, UUID(int=2), "INV-7", 5, NOW)
    assert first.entry is not None
    with pytest.raises(ValueError, match="is not the top-up of 'INV-8'"):
        top_up(first.funds, UUID(int=3), "INV-8", 5, NOW, first.entry.transfer)


def test_the_refund_of_another_charge_is_no_proof_of_this_one() -> None:
    charge = Transfer(
        UUID(int=5), "meeting:5", TransferKind.MEETING_CHARGE, 5, Book.CUSTOMER, Book.MEETINGS,
        Reference("meeting", "5"),
    )  # fmt: skip
    refunded = refund(FULL, charge, UUID(int=6), NOW).entry
    assert refunded is not None
    with pytest.raises(ValueError, match=r"^the existing transfer does not reverse this charge$"):
        refund(FULL, evolve(charge, id=UUID(int=7)), UUID(int=8), NOW, refunded.transfer)


@given(st.text(max_size=MAX_REFERENCE + 2))
@example("")
@example(" ")
@example("x" * MAX_REFERENCE)
@example("x" * (MAX_REFERENCE + 1))
@example("a\nb")
def test_a_reference_is_one_line_that_can_be_read(reference: str) -> None:
    if reference.strip() and len(reference) <= MAX_REFERENCE and reference.isprintable():
        assert check_reference(reference) == reference
    else:
        with pytest.raises(InvalidReference, match="1 to 200 characters"):
            check_reference(reference)


@pytest.mark.parametrize("field", ["balance", "held", "low_threshold"])
@pytest.mark.parametrize("value", [1.0, True, None])
def test_funds_are_in_whole_credits(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be a whole number$"):
        Funds(FULL.account_id, **{field: value})
    if field == "low_threshold":
        with pytest.raises(ValueError, match=f"^{field} must be a whole number$"):
            open_account(FULL.account_id, value)
