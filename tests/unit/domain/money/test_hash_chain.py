"""The hash chain: changing, dropping, inserting, swapping or forging any single entry shows."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve, fields_dict
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import hash_chain
from meetcore.domain.money.hash_chain import (
    GENESIS,
    ChainVerifier,
    Entry,
    Fault,
    canonical_entry,
    chain_hash,
    first_broken,
)
from meetcore.domain.money.holds import CapUsage, Hold, charge, settle, take
from meetcore.domain.money.ledger import (
    Funds,
    adjust,
    funds_faults,
    is_proven,
    open_account,
    post,
    refund,
    top_up,
)
from meetcore.domain.money.transfers import Book, Reference, Transfer, TransferKind
from meetcore.testing.strategies.account_histories import ACCOUNT, AccountHistory, account_histories
from meetcore.testing.strategies.moments import instants, time_zones
from meetcore.testing.strategies.money import transfers
from tests.unit.domain.money.test_ledger import TICKET

OTHER_ACCOUNT = UUID("01930000-0000-7000-8000-000000000002")
NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
TICK = timedelta(microseconds=1)
MOVE = Transfer(
    UUID(int=1), "topup:INV-1", TransferKind.TOPUP, 1, Book.TOPUPS, Book.CUSTOMER, Reference("topup", "INV-1")
)

histories = account_histories(max_steps=20, min_entries=3)


def place_in(history: AccountHistory, more: int = 0) -> st.SearchStrategy[int]:
    """The index of an entry; with one more also the place behind the last."""
    return st.integers(0, len(history.entries) - 1 + more)


def proof_of(entries: list[Entry]) -> ChainVerifier:
    proof: ChainVerifier | None = ChainVerifier(ACCOUNT)
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
            return value + TICK
        case date():
            return value - timedelta(days=1)
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:] if value else b"none"
        case int():
            return value + 1
        case str():
            return value + "0"
    raise AssertionError(value)


MISSING: dict[str, Any] = {"reverses": UUID(int=7), "api_key_id": UUID(int=7), "cap_day": date(2026, 12, 1)}


def forged_transfers(transfer: Transfer) -> Iterator[tuple[str, Transfer]]:
    """The transfer with something else in each of its fields."""
    for name in fields_dict(Transfer):
        value = getattr(transfer, name)
        yield name, evolve(transfer, **{name: MISSING[name] if value is None else another(value)})


def forgeries(entry: Entry) -> Iterator[tuple[str, Entry]]:
    """The entry with something else in each of its fields, and in each of its transfer's."""
    for name in fields_dict(Entry).keys() - {"transfer"}:
        yield name, evolve(entry, **{name: another(getattr(entry, name))})
    for name, transfer in forged_transfers(entry.transfer):
        yield f"transfer.{name}", evolve(entry, transfer=transfer)


@given(account_histories())
def test_an_unmodified_history_is_valid(history: AccountHistory) -> None:
    assert first_broken(ACCOUNT, iter(history.entries)) is None
    assert is_proven(history.funds, proof_of(history.entries))
    assert proof_of(history.entries).last_at == history.funds.last_at


@given(account_histories(), st.sampled_from(["account_id", "entries", "balance", "last_hash"]))
def test_funds_that_differ_from_the_entries_are_not_proven(history: AccountHistory, name: str) -> None:
    forged = evolve(history.funds, **{name: another(getattr(history.funds, name))})
    assert not is_proven(forged, proof_of(history.entries))


def test_an_account_without_entries_is_proven_and_has_nothing() -> None:
    assert first_broken(ACCOUNT, []) is None
    assert is_proven(open_account(ACCOUNT), ChainVerifier(ACCOUNT))
    assert not is_proven(Funds(ACCOUNT, balance=1), ChainVerifier(ACCOUNT))
    assert bytes(32) == GENESIS


@given(histories, st.data())
def test_changing_any_single_entry_breaks_the_chain_at_its_number(
    history: AccountHistory, data: st.DataObject
) -> None:
    at, entries = data.draw(place_in(history), "at"), history.entries
    for name, forged in forgeries(entries[at]):
        assert first_broken(ACCOUNT, [*entries[:at], forged, *entries[at + 1 :]]) == at + 1, name


@given(histories, st.data())
def test_dropping_any_single_entry_breaks_the_chain_at_its_number(
    history: AccountHistory, data: st.DataObject
) -> None:
    """The last one leaves a whole history behind, which is no longer that of the funds."""
    at, entries = data.draw(place_in(history), "at"), history.entries
    rest = [*entries[:at], *entries[at + 1 :]]
    if at < len(rest):
        assert first_broken(ACCOUNT, rest) == at + 1
    else:
        assert first_broken(ACCOUNT, rest) is None
        assert not is_proven(history.funds, proof_of(rest))


@given(histories, st.data())
def test_inserting_any_single_entry_breaks_the_chain_at_its_number(
    history: AccountHistory, data: st.DataObject
) -> None:
    """A double of any entry, at any place: behind itself it takes the next one's number."""
    source, at = data.draw(place_in(history), "source"), data.draw(place_in(history, 1), "at")
    entries = history.entries
    expected = at + 2 if at == source else at + 1
    assert first_broken(ACCOUNT, [*entries[:at], entries[source], *entries[at:]]) == expected


@given(histories, st.data())
def test_swapping_any_two_entries_breaks_the_chain_at_the_first(
    history: AccountHistory, data: st.DataObject
) -> None:
    one, two = sorted(data.draw(st.tuples(place_in(history), place_in(history)), "places"))
    assume(one != two)
    entries = history.entries
    entries[one], entries[two] = entries[two], entries[one]
    assert first_broken(ACCOUNT, entries) == one + 1


@given(histories, transfers(), st.data())
def test_an_entry_forged_with_its_own_hash_breaks_the_chain_behind_it(
    history: AccountHistory, transfer: Transfer, data: st.DataObject
) -> None:
    """Put in or put in another's place: who knows the rules can write one entry, not those that follow it."""
    entries = history.entries
    at, replaced = data.draw(place_in(history, 1), "at"), data.draw(st.booleans(), "replaced")
    states = [open_account(ACCOUNT), *(step.after for step in history.steps if step.entry is not None)]
    forged = post(states[at], evolve(transfer, amount=7), states[at].last_at or NOW).entry
    assert forged is not None
    written = [*entries[:at], forged, *entries[at + replaced :]]
    if at + 1 < len(written):
        assert first_broken(ACCOUNT, written) == at + 2
    else:
        assert first_broken(ACCOUNT, written) is None
        assert not is_proven(history.funds, proof_of(written))


def test_an_instant_without_a_zone_is_refused_and_not_read_in_that_of_the_machine() -> None:
    posting = top_up(open_account(ACCOUNT), UUID(int=1), "INV-1", 1, NOW)
    assert posting.entry is not None
    naive = evolve(posting.entry, at=NOW.replace(tzinfo=None))
    proofs: list[Callable[[], object]] = [
        lambda: first_broken(ACCOUNT, [naive]),
        lambda: ChainVerifier(ACCOUNT).extended(naive),
        lambda: canonical_entry(naive),
        lambda: chain_hash(GENESIS, ACCOUNT, 1, MOVE, 1, naive.at),
        lambda: evolve(posting.funds, last_at=naive.at),
    ]
    for prove in proofs:
        with pytest.raises(ValueError, match=r"^an instant in the ledger has a time zone$"):
            prove()


@given(histories)
def test_a_history_is_bound_to_its_account(history: AccountHistory) -> None:
    assert first_broken(OTHER_ACCOUNT, history.entries) == 1
    assert (
        first_broken(OTHER_ACCOUNT, [evolve(entry, account_id=OTHER_ACCOUNT) for entry in history.entries])
        == 1
    )


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize("is_marked", [False, True])
def test_the_canonical_form_of_an_entry_never_changes(is_marked: bool) -> None:
    """Histories are kept for years: another wording would break every chain that was ever written."""
    transfer = evolve(MOVE, amount=15, reference=Reference("topup", "INV-é"))
    if is_marked:
        key, day = UUID(int=16), date(2026, 12, 1)
        transfer = evolve(transfer, reverses=UUID(int=255), api_key_id=key, cap_day=day)
    encoded = (
        "19300000000700080000000000000" + "01\n3\n1\ntopup\n15\ntopups\ncustomer\n"
        + ("0" * 30 + "ff\n" + "0" * 30 + "10\n2026-12-01\n" if is_marked else "\n\n\n")
        + "85\n2026-12-01T02:00:00+00:00\n11:topup:INV-15:topup5:INV-é"
    )  # fmt: skip
    for previous in (GENESIS, bytes(range(32))):
        expected = hashlib.sha256(previous + encoded.encode()).digest()
        assert chain_hash(previous, ACCOUNT, 3, transfer, 85, NOW) == expected


@given(transfers(), instants(), time_zones())
@example(MOVE, NOW, timezone(timedelta(hours=7)))
def test_a_hash_is_the_same_in_every_time_zone(transfer: Transfer, at: datetime, zone: timezone) -> None:
    """A store gives an instant back in whichever zone it likes, and the entry is still whole."""
    posting = post(open_account(ACCOUNT), evolve(transfer, amount=1), at)
    assert posting.entry is not None
    assert first_broken(ACCOUNT, [evolve(posting.entry, at=at.astimezone(zone))]) is None


@given(transfers())
def test_a_hash_covers_every_field_of_a_transfer(transfer: Transfer) -> None:
    whole = chain_hash(GENESIS, ACCOUNT, 1, transfer, 1, NOW)
    for name, forged in forged_transfers(transfer):
        assert chain_hash(GENESIS, ACCOUNT, 1, forged, 1, NOW) != whole, name


texts = st.text("0:1é", max_size=4)


@given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts))
@example(("1", "", ""), ("", "1", ""))
@example(("", "", "0:2:ab"), ("0:6:", "", "ab"))
@example(("", "", "2:ab"), ("", "4:", "ab"))
def test_no_two_entries_share_one_hash(one: tuple[str, str, str], two: tuple[str, str, str]) -> None:
    """Neighbouring texts cannot trade letters: each is encoded with its length."""

    def hashed(operation: str, type_: str, id_: str) -> bytes:
        transfer = evolve(MOVE, operation=operation, reference=Reference(type_, id_))
        return chain_hash(GENESIS, ACCOUNT, 1, transfer, 1, NOW)

    assert (hashed(*one) == hashed(*two)) == (one == two)


@pytest.mark.parametrize("is_hashed_anew", [False, True])
@pytest.mark.parametrize(("changes", "problem"), [
    ({"account_id": OTHER_ACCOUNT}, "it is another account's"),
    ({"number": 4}, "entry 4 stands in its place"),
    ({"amount": 9}, "its amount is 9, and its transfer moves 1"),
    ({"balance_after": 9}, "its balance_after is 9, and the entries make 2"),
    ({"at": NOW - TICK}, "its time is before that of the entry before it"),
    ({"hash": GENESIS}, "its hash is not that of what it says and of the entry before it"),
])  # fmt: skip
def test_a_fault_describes_the_problem_of_the_entry(
    changes: dict[str, Any], problem: str, is_hashed_anew: bool
) -> None:
    """One defect at a time: entries after the first wrong one are not checked."""
    first = post(open_account(ACCOUNT), MOVE, NOW)
    second = post(first.funds, evolve(MOVE, id=UUID(int=2), operation="topup:INV-2"), NOW)
    assert first.entry is not None
    assert second.entry is not None
    entry = evolve(second.entry, **changes)
    if is_hashed_anew and "hash" not in changes:
        whole = (entry.account_id, entry.number, entry.transfer, entry.balance_after, entry.at)
        entry = evolve(entry, hash=chain_hash(first.entry.hash, *whole))
    entries = map(canonical_entry, (first.entry, entry, first.entry))
    proof, fault = ChainVerifier(ACCOUNT).over(entries)
    assert fault == Fault(2, problem)
    assert proof == ChainVerifier(ACCOUNT).extended(first.entry)


@given(account_histories(), st.data())
def test_proving_in_portions_equals_proving_the_whole_history(
    history: AccountHistory, data: st.DataObject
) -> None:
    entries = list(map(canonical_entry, history.entries))
    cut = data.draw(st.integers(0, len(entries)), "cut")
    proof, fault = ChainVerifier(ACCOUNT).over(entries[:cut])
    assert fault is None
    assert (
        proof.over(entries[cut:]) == ChainVerifier(ACCOUNT).over(entries) == (proof_of(history.entries), None)
    )


FUNDS = {
    "balance": "the stored balance",
    "entries": "the stored number of entries",
    "last_hash": "the stored last hash",
    "last_at": "the stored time of the last entry",
}


@given(account_histories(min_entries=1), st.sampled_from(sorted(FUNDS)))
def test_stored_funds_get_a_fault_for_each_difference(history: AccountHistory, name: str) -> None:
    assert funds_faults(history.funds, proof_of(history.entries)) == ()
    proven = getattr(history.funds, name)
    stored = another(proven)
    faults = funds_faults(evolve(history.funds, **{name: stored}), proof_of(history.entries))
    shown, due = (value.hex() if isinstance(value, bytes) else value for value in (stored, proven))
    assert faults == (f"{FUNDS[name]} is {shown}, and its entries make {due}",)


def test_ids_with_leading_zeros_are_hashed_as_numbers_too() -> None:
    """An id of zeros is 0: no id is an empty text."""
    transfer = evolve(MOVE, id=UUID(int=0))
    encoded = (
        "0\n1\n0\ntopup\n1\ntopups\ncustomer\n\n\n\n1\n2026-12-01T02:00:00+00:00\n"
        "11:topup:INV-15:topup5:INV-1"
    )
    expected = hashlib.sha256(GENESIS + encoded.encode()).digest()
    assert chain_hash(GENESIS, UUID(int=0), 1, transfer, 1, NOW) == expected


KEY, OTHER, ATTACKER = (hash_chain.ChainKey.of(bytes([number]) * 32) for number in range(3))
SECRETS = hash_chain.secrets_of([KEY, OTHER])


def history(*keys: hash_chain.ChainKey | None, amount: int = 5) -> list[hash_chain.Entry]:
    """Top-ups, each chained under its key, or under none."""
    funds, entries = open_account(ACCOUNT), []
    for number, key in enumerate(keys, start=1):
        transfer = evolve(MOVE, id=UUID(int=number), operation=f"topup:{number}", amount=amount)
        posting = post(funds, transfer, NOW, key=key)
        assert posting.entry is not None
        funds = posting.funds
        entries.append(posting.entry)
    return entries


def keyed_proof_of(
    entries: list[hash_chain.Entry], keys: Mapping[bytes, bytes] = hash_chain.NO_KEYS
) -> tuple[hash_chain.ChainVerifier, hash_chain.Fault | None]:
    return hash_chain.ChainVerifier(ACCOUNT).over(map(hash_chain.canonical_entry, entries), keys)


def test_a_key_is_named_in_the_entries_and_never_shown() -> None:
    digest = hashlib.sha256(b"meetcore ledger key id\n" + KEY.secret).digest()
    assert (
        hash_chain.ChainKey.of(KEY.secret)
        == KEY
        == hash_chain.ChainKey(digest[: hash_chain.KEY_ID_BYTES], bytes(32))
    )
    assert len(KEY.id) == hash_chain.KEY_ID_BYTES
    assert len({KEY.id, OTHER.id, ATTACKER.id}) == 3
    assert KEY.secret.hex() not in repr(KEY)
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match=r"^a chain key has 32 bytes$"):
            hash_chain.ChainKey.of(bytes(length))


def test_the_hash_is_an_hmac_over_the_name_of_the_key_and_what_is_hashed_without_one() -> None:
    entry = history(KEY, amount=1)[0]
    encoded = (
        f"{ACCOUNT.hex.lstrip('0')}\n1\n1\ntopup\n1\ntopups\ncustomer\n\n\n\n1\n{NOW.isoformat()}\n"
        "7:topup:15:topup5:INV-1"
    )
    message = KEY.id + hash_chain.GENESIS + encoded.encode()
    assert entry.hash == hmac.new(KEY.secret, message, hashlib.sha256).digest()
    assert entry.key_id == KEY.id
    bare = history(None, amount=1)[0]
    assert bare.key_id == b""
    assert bare.hash == hashlib.sha256(hash_chain.GENESIS + encoded.encode()).digest()
    assert hash_chain.chain_hash(hash_chain.GENESIS, ACCOUNT, 1, entry.transfer, 1, NOW, OTHER) != entry.hash


@given(st.lists(st.sampled_from([KEY, OTHER]), max_size=8))
def test_a_history_under_keys_that_are_given_holds(keys: list[hash_chain.ChainKey]) -> None:
    entries = history(*keys)
    proof, fault = keyed_proof_of(entries, SECRETS)
    assert (fault, proof.entries) == (None, len(keys))
    assert hash_chain.first_broken(ACCOUNT, entries, SECRETS) is None


def test_entries_cannot_be_verified_without_their_key() -> None:
    entries = history(KEY, OTHER, KEY)
    for given_keys, number in ((hash_chain.NO_KEYS, 1), (hash_chain.secrets_of([KEY]), 2)):
        proof, fault = keyed_proof_of(entries, given_keys)
        key_id = entries[number - 1].key_id.hex()
        assert fault == hash_chain.Fault(number, f"it is chained under the key {key_id}, which is not given")
        assert proof.entries == number - 1
    assert hash_chain.ChainVerifier(ACCOUNT).extended(entries[0]) is None
    assert hash_chain.ChainVerifier(ACCOUNT).extended(entries[0], SECRETS) is not None


@given(st.lists(st.sampled_from([None, ATTACKER]), min_size=1, max_size=4), st.integers(0, 3))
def test_no_valid_entry_can_be_written_without_a_key(
    keys: list[hash_chain.ChainKey | None], before: int
) -> None:
    """An attacker may write anything to the store, and name our key where it helps."""
    own = [KEY] * before
    entries = history(*own, *keys)
    for named in (b"", KEY.id, ATTACKER.id):
        forged = [*entries[:before], *(evolve(entry, key_id=named) for entry in entries[before:])]
        assert hash_chain.first_broken(ACCOUNT, forged, SECRETS) == before + 1


@pytest.mark.parametrize("before", [0, 1])
def test_a_ledger_under_keys_has_no_entry_without_one(before: int) -> None:
    entries = history(*[KEY] * before, None)
    expected = hash_chain.Fault(before + 1, "it is chained without a key")
    assert keyed_proof_of(entries, SECRETS)[1] == expected
    renamed = evolve(entries[-1], key_id=KEY.id)
    assert keyed_proof_of([*entries[:-1], renamed], SECRETS)[1] == hash_chain.Fault(
        before + 1, "its hash is not that of what it says and of the entry before it"
    )


def test_every_decision_takes_the_key() -> None:
    usage = CapUsage(UUID(int=3), cap_day(NOW))
    hold = Hold(UUID(int=7), "meeting:2", TransferKind.MEETING_CHARGE, 5, TICKET, usage.api_key_id, usage.day)
    first = top_up(open_account(ACCOUNT), UUID(int=1), "INV-1", 100, NOW, key=KEY)
    charged = charge(first.funds, usage, None, UUID(int=2), "meeting:1", 10, TICKET, NOW, key=KEY)
    held = take(charged.posting.funds, charged.usage, None, hold)
    settled = settle(held.funds, held.usage, hold, 5, UUID(int=4), NOW, KEY)
    assert charged.posting.entry is not None
    returned = refund(settled.posting.funds, charged.posting.entry.transfer, UUID(int=5), NOW, key=KEY)
    adjusted = adjust(returned.funds, UUID(int=6), "adjustment:1", -1, TICKET, NOW, key=KEY)
    postings = (first, charged.posting, settled.posting, returned, adjusted)
    entries = [posting.entry for posting in postings if posting.entry is not None]
    assert [entry.key_id for entry in entries] == [KEY.id] * 5
    assert hash_chain.first_broken(ACCOUNT, entries, SECRETS) is None
