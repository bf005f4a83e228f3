"""The ledger: money is neither made nor lost, history neither forgotten nor rewritten."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import define, evolve, field
from attrs.exceptions import FrozenInstanceError
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain import holds
from meetcore.domain.chain import GENESIS, Entry, Proof, chain_hash, first_broken
from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.holds import CapUsage, Hold
from meetcore.domain.ledger import (
    CreditsFellLow,
    Funds,
    Posting,
    adjust,
    is_proven,
    open_account,
    post,
    refund,
    refund_operation,
    top_up,
    top_up_operation,
)
from meetcore.domain.transfers import (
    MAX_CREDITS,
    ROUTES,
    Book,
    InvalidAmount,
    Reference,
    Transfer,
    TransferKind,
    check_amount,
    legs,
)

ACCOUNT = UUID("01930000-0000-7000-8000-000000000001")
KEY = UUID("01930000-0000-7000-8000-000000000002")
NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
THRESHOLD = 100

ACTS = ("top_up", "top_up_again", "charge", "overrun", "refund", "refund_again", "give", "take")
steps = st.tuples(
    st.sampled_from(ACTS),
    st.integers(1, 200),
    st.integers(-3_600, 3_600),  # seconds by which the clock jumps
)


@define
class Till:
    """One account's life, one decision after another. What is refused changes nothing."""

    funds: Funds = field(factory=lambda: open_account(ACCOUNT, THRESHOLD))
    now: datetime = NOW
    history: list[Entry] = field(factory=list)
    states: list[Funds] = field(factory=list)
    facts: list[tuple[int, CreditsFellLow]] = field(factory=list)
    refusals: list[tuple[int, int, InsufficientCredits]] = field(factory=list)
    ids: int = 100

    def play(self, act: str, amount: int, jump_s: int) -> None:
        self.now += timedelta(seconds=jump_s)
        try:
            posting: Posting | None = getattr(self, f"_{act}")(amount)
        except InsufficientCredits as refusal:
            self.refusals.append((amount, self.funds.available, refusal))
            return
        if posting is not None:
            self.keep(posting)

    def keep(self, posting: Posting) -> None:
        if posting.entry is None:
            assert posting.funds == self.funds
            assert posting.facts == ()
            return
        self.funds = posting.funds
        self.history.append(posting.entry)
        self.states.append(posting.funds)
        self.facts += [(len(self.states) - 1, fact) for fact in posting.facts]

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def transfers(self, kind: TransferKind) -> list[Transfer]:
        return [entry.transfer for entry in self.history if entry.transfer.kind is kind]

    def refund_of(self, charge: Transfer) -> Transfer | None:
        name = refund_operation(charge)
        return next((entry.transfer for entry in self.history if entry.transfer.operation == name), None)

    def _top_up(self, amount: int) -> Posting:
        id_ = self.new_id()
        return top_up(self.funds, id_, f"INV-{id_.int}", amount, self.now)

    def _top_up_again(self, amount: int) -> Posting | None:
        if not (known := self.transfers(TransferKind.TOPUP)):
            return None
        before = known[amount % len(known)]
        return top_up(self.funds, self.new_id(), before.reference.id, before.amount, self.now, before)

    def _charge(self, amount: int) -> Posting:
        id_ = self.new_id()
        reference = Reference("meeting", str(id_.int))
        usage = CapUsage(KEY, NOW.date())
        return holds.charge(
            self.funds, usage, None, id_, f"meeting:{id_.int}", amount, reference, self.now
        ).posting

    def _overrun(self, amount: int) -> Posting:
        """Notes that turn out longer than the recording was thought to be."""
        id_ = self.new_id()
        kind, reference = TransferKind.NOTULEN_CHARGE, Reference("note", str(id_.int))
        hold = Hold(id_, f"note:{id_.int}", kind, amount, reference, KEY, NOW.date())
        reserved = holds.take(self.funds, CapUsage(KEY, NOW.date()), None, hold)
        return holds.settle(reserved.funds, reserved.usage, hold, amount * 2, self.new_id(), self.now).posting

    def _refund(self, amount: int) -> Posting | None:
        if not (charges := self.transfers(TransferKind.MEETING_CHARGE)):
            return None
        charge = charges[amount % len(charges)]
        return refund(self.funds, charge, self.new_id(), self.now, self.refund_of(charge))

    def _refund_again(self, amount: int) -> Posting | None:
        if not (refunds := self.transfers(TransferKind.MEETING_REFUND)):
            return None
        before = refunds[amount % len(refunds)]
        charge = next(entry.transfer for entry in self.history if entry.transfer.id == before.reverses)
        return refund(self.funds, charge, self.new_id(), self.now, before)

    def _give(self, amount: int) -> Posting:
        id_ = self.new_id()
        return adjust(self.funds, id_, f"ticket:{id_.int}", amount, Reference("ticket", "7"), self.now)

    def _take(self, amount: int) -> Posting:
        id_ = self.new_id()
        return adjust(self.funds, id_, f"ticket:{id_.int}", -amount, Reference("ticket", "7"), self.now)


def played(drawn: list[tuple[str, int, int]]) -> Till:
    till = Till()
    for step in drawn:
        till.play(*step)
    return till


lives = st.lists(steps, max_size=30).map(played)
histories = st.lists(steps, min_size=3, max_size=12).map(played).filter(lambda till: till.history)


@given(lives)
def test_the_sum_over_all_books_is_zero_at_every_moment(till: Till) -> None:
    books: Counter[Book] = Counter()
    for entry in till.history:
        for leg in legs(entry.transfer):
            books[leg.book] += leg.amount
        assert books.total() == 0
        assert books[Book.CUSTOMER] == entry.balance_after


@given(lives)
def test_the_balance_is_the_fold_of_the_entries(till: Till) -> None:
    balance = 0
    for number, (entry, state) in enumerate(zip(till.history, till.states, strict=True), start=1):
        balance += entry.amount
        assert entry.amount == entry.transfer.signed_amount
        assert (entry.number, entry.balance_after) == (number, balance)
        assert (state.entries, state.balance, state.held) == (number, balance, 0)
        assert (state.last_hash, state.last_at) == (entry.hash, entry.at)
    assert till.funds.balance == balance


@given(lives)
def test_only_a_settlement_takes_the_available_balance_below_zero(till: Till) -> None:
    before = 0
    for entry, state in zip(till.history, till.states, strict=True):
        if entry.amount < 0 and entry.transfer.kind is not TransferKind.NOTULEN_CHARGE:
            assert state.available >= 0
        if entry.amount < 0:
            assert before > 0, "nothing is charged while the balance is at or below zero"
        before = state.available


@given(lives)
def test_nothing_is_refused_that_the_available_balance_covers(till: Till) -> None:
    for amount, available, refusal in till.refusals:
        assert amount > available
        assert refusal.details == {"required": amount, "available": available}


@given(lives)
def test_time_never_runs_backwards_along_the_numbers(till: Till) -> None:
    times = [entry.at for entry in till.history]
    assert times == sorted(times)


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


@given(lives)
def test_a_refund_happens_once_and_never_exceeds_its_charge(till: Till) -> None:
    charges = {charge.id: charge for charge in till.transfers(TransferKind.MEETING_CHARGE)}
    refunds = till.transfers(TransferKind.MEETING_REFUND)
    assert len({one.reverses for one in refunds}) == len(refunds)
    for one in refunds:
        assert one.reverses is not None
        charge = charges[one.reverses]
        assert (one.amount, one.reference) == (charge.amount, charge.reference)
        assert (one.api_key_id, one.cap_day) == (charge.api_key_id, charge.cap_day)
        assert one.operation == refund_operation(charge)


@given(lives)
def test_an_operation_is_in_the_ledger_once(till: Till) -> None:
    names = [entry.transfer.operation for entry in till.history]
    assert len(set(names)) == len(names)


@given(lives)
def test_credit_low_is_told_once_and_again_only_after_it_has_been_above(till: Till) -> None:
    told = dict(till.facts)
    assert len(told) == len(till.facts)
    is_armed = False  # an empty account counts as told
    for at, state in enumerate(till.states):
        is_below = state.available < THRESHOLD
        assert (at in told) == (is_below and is_armed)
        if at in told:
            assert told[at] == CreditsFellLow(ACCOUNT, state.available, THRESHOLD)
        is_armed = not is_below
        assert state.is_low == is_below


@pytest.mark.parametrize(("balance", "is_told"), [(THRESHOLD, False), (THRESHOLD - 1, True)])
def test_low_is_below_the_threshold_and_not_at_it(balance: int, is_told: bool) -> None:
    funds = top_up(open_account(ACCOUNT, THRESHOLD), UUID(int=1), "INV-1", 500, NOW).funds
    posting = adjust(funds, UUID(int=2), "ticket:1", balance - 500, Reference("ticket", "1"), NOW)
    assert bool(posting.facts) is is_told


@pytest.mark.parametrize(("threshold", "is_low"), [(0, False), (1, True), (100, True)])
def test_an_empty_account_counts_as_told(threshold: int, is_low: bool) -> None:
    assert open_account(ACCOUNT, threshold) == Funds(ACCOUNT, low_threshold=threshold, is_low=is_low)


# Applying an operation twice


@given(lives, st.integers(1, 500))
def test_a_top_up_with_a_known_reference_changes_nothing(till: Till, amount: int) -> None:
    first = top_up(till.funds, till.new_id(), "INV-7", amount, till.now)
    assert first.entry is not None
    assert first.entry.transfer.operation == top_up_operation("INV-7")
    again = top_up(first.funds, till.new_id(), "INV-7", amount, till.now, first.entry.transfer)
    assert again == Posting(first.funds, None)


@given(st.integers(1, 500), st.integers(1, 500))
def test_a_reference_belongs_to_one_amount(amount: int, other: int) -> None:
    assume(amount != other)
    first = top_up(open_account(ACCOUNT), UUID(int=1), "INV-7", amount, NOW)
    assert first.entry is not None
    with pytest.raises(Conflict) as refused:
        top_up(first.funds, UUID(int=2), "INV-7", other, NOW, first.entry.transfer)
    assert refused.value.details == {"id": str(UUID(int=1))}


@pytest.mark.spec("3/cancel-before")
@given(lives, st.integers(1, 500))
def test_a_refund_returns_the_whole_charge_and_a_second_one_changes_nothing(till: Till, amount: int) -> None:
    till.play("top_up", 1_000_000, 0)
    before = till.funds.balance
    charged = till._charge(amount)
    assert charged.entry is not None
    charge = charged.entry.transfer
    first = refund(charged.funds, charge, till.new_id(), till.now)
    assert first.funds.balance == before
    assert first.entry is not None
    again = refund(first.funds, charge, till.new_id(), till.now, first.entry.transfer)
    assert again == Posting(first.funds, None)


@pytest.mark.parametrize("kind", sorted(set(TransferKind) - {TransferKind.MEETING_CHARGE}))
def test_only_the_charge_of_a_meeting_is_refunded(kind: TransferKind) -> None:
    with pytest.raises(ValueError, match="only a meeting's charge"):
        refund(open_account(ACCOUNT), evolve(MOVE, kind=kind), UUID(int=9), NOW)


# Amounts

BAD_AMOUNTS: tuple[Any, ...] = (
    0, -1, MAX_CREDITS + 1, 2**63, 10**400, True, False, 1.0, 0.5, float("nan"), float("inf"),
    float("-inf"), "1", None, b"1", 1 + 0j,
)  # fmt: skip
FULL = Funds(ACCOUNT, balance=1_000, is_low=False)
MOVE = Transfer(
    UUID(int=1), "topup:INV-1", TransferKind.TOPUP, 1, Book.TOPUPS, Book.CUSTOMER, Reference("topup", "INV-1")
)


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=repr)
def test_what_is_no_whole_number_of_credits_is_refused_everywhere(amount: Any) -> None:
    usage, reference = CapUsage(KEY, NOW.date()), Reference("meeting", "7")
    hold = Hold(UUID(int=2), "meeting:7", TransferKind.MEETING_CHARGE, amount, reference, KEY, NOW.date())
    good = evolve(hold, amount=10)
    for decide in (
        lambda: check_amount(amount),
        lambda: post(FULL, evolve(MOVE, amount=amount), NOW),
        lambda: top_up(FULL, UUID(int=2), "INV-2", amount, NOW),
        lambda: top_up(FULL, UUID(int=2), "INV-1", amount, NOW, MOVE),
        lambda: holds.take(FULL, usage, None, hold),
        lambda: holds.settle(FULL, usage, good, amount, UUID(int=3), NOW),
        lambda: holds.charge(FULL, usage, None, UUID(int=2), "meeting:7", amount, reference, NOW),
    ):
        with pytest.raises(InvalidAmount, match="credits are whole numbers from 1 to"):
            decide()


@pytest.mark.parametrize(
    "amount", [*(amount for amount in BAD_AMOUNTS if amount != -1), -MAX_CREDITS - 1], ids=repr
)
def test_an_adjustment_is_a_whole_number_of_credits_either_way(amount: Any) -> None:
    with pytest.raises(InvalidAmount):
        adjust(FULL, UUID(int=2), "ticket:1", amount, Reference("ticket", "1"), NOW)


@given(st.integers(1, MAX_CREDITS))
@example(1)
@example(MAX_CREDITS)
def test_every_whole_number_up_to_the_largest_is_let_through(amount: int) -> None:
    assert check_amount(amount) == amount


@given(st.integers(-MAX_CREDITS, MAX_CREDITS), st.integers(1, MAX_CREDITS), st.booleans())
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
        with pytest.raises(InvalidAmount, match="balance would leave the range"):
            post(funds, transfer, NOW)


@given(st.integers(-50, 50), st.integers(0, 50), st.integers(1, 100))
def test_an_adjustment_takes_what_is_available_and_not_what_is_held(
    balance: int, held: int, amount: int
) -> None:
    funds = Funds(ACCOUNT, balance=balance, held=held)
    reference = Reference("ticket", "1")
    if amount <= funds.available:
        posting = adjust(funds, UUID(int=2), "ticket:1", -amount, reference, NOW)
        assert posting.funds.available == funds.available - amount
        assert posting.funds.held == held
    else:
        with pytest.raises(InsufficientCredits) as refused:
            adjust(funds, UUID(int=2), "ticket:1", -amount, reference, NOW)
        assert refused.value.details == {"required": amount, "available": funds.available}


# Routes and books


def test_every_kind_takes_its_route() -> None:
    customer = Book.CUSTOMER
    expected = {
        TransferKind.TOPUP: (Book.TOPUPS, customer),
        TransferKind.MEETING_CHARGE: (customer, Book.MEETINGS),
        TransferKind.MEETING_REFUND: (Book.MEETINGS, customer),
        TransferKind.NOTULEN_CHARGE: (customer, Book.NOTULEN),
    }
    assert expected == ROUTES


@given(lives)
def test_the_books_say_what_each_kind_of_work_earned(till: Till) -> None:
    earned: Counter[Book] = Counter()
    expected: Counter[Book] = Counter()
    for entry in till.history:
        transfer = entry.transfer
        for leg in legs(transfer):
            earned[leg.book] += leg.amount
        if transfer.kind is TransferKind.ADJUSTMENT:
            ends = {transfer.source, transfer.destination}
            assert ends == {Book.CUSTOMER, Book.ADJUSTMENTS}
            expected[Book.ADJUSTMENTS] -= entry.amount
        else:
            assert (transfer.source, transfer.destination) == ROUTES[transfer.kind]
            expected[(set(ROUTES[transfer.kind]) - {Book.CUSTOMER}).pop()] -= entry.amount
    del earned[Book.CUSTOMER]
    assert earned == expected


# The chain


@given(lives)
def test_a_history_as_it_was_written_is_whole(till: Till) -> None:
    assert first_broken(ACCOUNT, iter(till.history)) is None
    assert is_proven(till.funds, proof_of(till.history))


@given(lives, st.sampled_from(["account_id", "entries", "balance", "last_hash"]))
def test_funds_that_say_something_else_are_not_what_the_entries_say(till: Till, name: str) -> None:
    forged = evolve(till.funds, **{name: another(getattr(till.funds, name))})
    assert not is_proven(forged, proof_of(till.history))


def proof_of(entries: list[Entry]) -> Proof:
    proof: Proof | None = Proof(ACCOUNT)
    for entry in entries:
        assert proof is not None
        proof = proof.extended(entry)
    assert proof is not None
    return proof


def another(value: Any) -> Any:
    """Something else of the same kind."""
    match value:
        case Book():
            return next(book for book in Book if book is not value)
        case TransferKind():
            return next(kind for kind in TransferKind if kind is not value)
        case Reference():
            return evolve(value, id=value.id + "0")
        case UUID():
            return UUID(int=value.int ^ 1)
        case datetime():
            return value + timedelta(microseconds=1)
        case date():
            return value + timedelta(days=1)
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:]
        case int():
            return value + 1
        case str():
            return value + "0"
    raise AssertionError(value)


ENTRY_FIELDS = [name.name for name in Entry.__attrs_attrs__ if name.name != "transfer"]
TRANSFER_FIELDS = [name.name for name in Transfer.__attrs_attrs__]
MISSING: dict[str, Any] = {"reverses": UUID(int=7), "api_key_id": UUID(int=7), "cap_day": date(2026, 12, 1)}


def forgeries(entry: Entry) -> Iterator[tuple[str, Entry]]:
    """The entry with something else in each of its fields, and in each of its transfer's."""
    for name in ENTRY_FIELDS:
        yield name, evolve(entry, **{name: another(getattr(entry, name))})
    for name in TRANSFER_FIELDS:
        value = getattr(entry.transfer, name)
        other = MISSING[name] if value is None else another(value)
        yield f"transfer.{name}", evolve(entry, transfer=evolve(entry.transfer, **{name: other}))


@given(histories, st.data())
def test_a_changed_entry_is_found_at_its_number(till: Till, data: Any) -> None:
    at = data.draw(st.integers(0, len(till.history) - 1), "at")
    for name, forged in forgeries(till.history[at]):
        entries = [*till.history[:at], forged, *till.history[at + 1 :]]
        assert first_broken(ACCOUNT, entries) == at + 1, name


@given(histories, st.data())
def test_a_dropped_entry_is_found_at_its_number(till: Till, data: Any) -> None:
    """The last one leaves a whole history behind, which is no longer that of the funds."""
    at = data.draw(st.integers(0, len(till.history) - 1), "at")
    rest = [*till.history[:at], *till.history[at + 1 :]]
    if at < len(rest):
        assert first_broken(ACCOUNT, rest) == at + 1
    else:
        assert first_broken(ACCOUNT, rest) is None
        assert not is_proven(till.funds, proof_of(rest))


@given(histories, st.data())
def test_an_inserted_entry_is_found_at_its_number(till: Till, data: Any) -> None:
    """A double of any entry, at any place: behind itself it takes the next one's number."""
    source = data.draw(st.integers(0, len(till.history) - 1), "source")
    at = data.draw(st.integers(0, len(till.history)), "at")
    entries = [*till.history[:at], till.history[source], *till.history[at:]]
    expected = at + 2 if at == source else at + 1
    assert first_broken(ACCOUNT, entries) == expected


@given(histories, st.data())
def test_two_swapped_entries_are_found_at_the_first(till: Till, data: Any) -> None:
    places = st.integers(0, len(till.history) - 1)
    one, two = sorted(data.draw(st.tuples(places, places), "places"))
    assume(one != two)
    entries = list(till.history)
    entries[one], entries[two] = entries[two], entries[one]
    assert first_broken(ACCOUNT, entries) == one + 1


@given(histories)
def test_a_history_is_bound_to_its_account(till: Till) -> None:
    assert first_broken(KEY, till.history) == 1
    assert first_broken(KEY, [evolve(entry, account_id=KEY) for entry in till.history]) == 1


def test_time_that_goes_back_is_found_even_where_the_hashes_fit() -> None:
    first = post(open_account(ACCOUNT), MOVE, NOW)
    assert first.entry is not None
    earlier = NOW - timedelta(microseconds=1)
    transfer = evolve(MOVE, id=UUID(int=2), operation="topup:INV-2")
    hash_ = chain_hash(first.entry.hash, ACCOUNT, 2, transfer, 2, earlier)
    forged = Entry(ACCOUNT, 2, transfer, 1, 2, earlier, hash_)
    assert first_broken(ACCOUNT, [first.entry, forged]) == 2
    assert first_broken(ACCOUNT, [first.entry]) is None


texts = st.text("0:1é", max_size=4)


@given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts))
@example(("1", "", ""), ("", "1", ""))
@example(("", "", "0:2:ab"), ("0:6:", "", "ab"))
@example(("", "", "2:ab"), ("", "4:", "ab"))
def test_no_two_entries_share_one_hash(one: tuple[str, str, str], two: tuple[str, str, str]) -> None:
    """Neighbouring texts cannot trade letters: each field is told with its length."""

    def hashed(operation: str, type_: str, id_: str) -> bytes:
        transfer = evolve(MOVE, operation=operation, reference=Reference(type_, id_))
        return chain_hash(GENESIS, ACCOUNT, 1, transfer, 1, NOW)

    assert (hashed(*one) == hashed(*two)) == (one == two)


def test_entries_and_funds_cannot_be_changed() -> None:
    posting = post(FULL, MOVE, NOW)
    assert posting.entry is not None
    for record, name in ((posting.entry, "amount"), (posting.entry.transfer, "amount"), (FULL, "balance")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, name, 1_000_000)
