"""Entries that are chained under a key, seals of those that are not, and what cannot be forged."""

from __future__ import annotations

import hashlib
import hmac
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.chain_keys import (
    ANY_VERSION,
    KEY_ID_BYTES,
    ChainKey,
    ChainPolicy,
    Seal,
    policy_of,
    seal,
    seal_fault,
    secrets_of,
)
from meetcore.domain.money.hash_chain import (
    GENESIS,
    ChainVerifier,
    Entry,
    Fault,
    canonical_entry,
    chain_hash,
    first_broken,
    policy_faults,
)
from meetcore.domain.money.holds import CapUsage, Hold, charge, settle, take
from meetcore.domain.money.ledger import adjust, open_account, post, refund, top_up
from meetcore.domain.money.transfers import TransferKind
from meetcore.testing.strategies.account_histories import ACCOUNT
from tests.unit.domain.money.test_ledger import MOVE, NOW, TICKET

KEY, OTHER, ATTACKER = (ChainKey.of(bytes([number]) * 32) for number in range(3))
SECRETS = secrets_of([KEY, OTHER])
KEYED_ONLY = policy_of(None, SECRETS)


def history(*keys: ChainKey | None, amount: int = 5) -> list[Entry]:
    """Top-ups, each chained under its key, or under none."""
    funds, entries = open_account(ACCOUNT), []
    for number, key in enumerate(keys, start=1):
        transfer = evolve(MOVE, id=UUID(int=number), operation=f"topup:{number}", amount=amount)
        posting = post(funds, transfer, NOW, key=key)
        assert posting.entry is not None
        funds = posting.funds
        entries.append(posting.entry)
    return entries


def proof_of(entries: list[Entry], policy: ChainPolicy = ANY_VERSION) -> tuple[ChainVerifier, Fault | None]:
    return ChainVerifier(ACCOUNT).over(map(canonical_entry, entries), policy)


def test_a_key_is_named_in_the_entries_and_never_shown() -> None:
    digest = hashlib.sha256(b"meetcore ledger key id\n" + KEY.secret).digest()
    assert ChainKey.of(KEY.secret) == KEY == ChainKey(digest[:KEY_ID_BYTES], bytes(32))
    assert len(KEY.id) == KEY_ID_BYTES
    assert len({KEY.id, OTHER.id, ATTACKER.id}) == 3
    assert KEY.secret.hex() not in repr(KEY)
    assert "secret" not in repr(ChainPolicy(SECRETS))
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match=r"^a chain key has 32 bytes$"):
            ChainKey.of(bytes(length))


def test_the_hash_is_an_hmac_over_the_version_the_key_and_what_version_1_hashes() -> None:
    entry = history(KEY, amount=1)[0]
    encoded = (
        f"{ACCOUNT.hex.lstrip('0')}\n1\n1\ntopup\n1\ntopups\ncustomer\n\n\n\n1\n{NOW.isoformat()}\n"
        "7:topup:15:topup5:INV-1"
    )
    message = b"2\n" + KEY.id + GENESIS + encoded.encode()
    assert entry.hash == hmac.new(KEY.secret, message, hashlib.sha256).digest()
    assert (entry.version, entry.key_id) == (2, KEY.id)
    bare = history(None, amount=1)[0]
    assert (bare.version, bare.key_id) == (1, b"")
    assert bare.hash == hashlib.sha256(GENESIS + encoded.encode()).digest()
    assert chain_hash(GENESIS, ACCOUNT, 1, entry.transfer, 1, NOW, OTHER) != entry.hash


def test_a_history_without_a_seal_has_no_entry_without_a_key() -> None:
    assert policy_of(None, SECRETS) == ChainPolicy(SECRETS, 0)


@given(st.lists(st.sampled_from([KEY, OTHER]), max_size=8))
def test_a_history_under_keys_that_are_given_holds(keys: list[ChainKey]) -> None:
    entries = history(*keys)
    proof, fault = proof_of(entries, KEYED_ONLY)
    assert (fault, proof.entries, proof.unkeyed) == (None, len(keys), 0)
    assert first_broken(ACCOUNT, entries, KEYED_ONLY) is None
    assert policy_faults(proof, KEYED_ONLY) == ()


def test_entries_of_version_2_cannot_be_verified_without_their_key() -> None:
    entries = history(KEY, OTHER, KEY)
    for policy, number in ((ANY_VERSION, 1), (policy_of(None, secrets_of([KEY])), 2)):
        proof, fault = proof_of(entries, policy)
        key_id = entries[number - 1].key_id.hex()
        assert fault == Fault(number, f"it is chained under the key {key_id}, which is not given")
        assert proof.entries == number - 1
    assert ChainVerifier(ACCOUNT).extended(entries[0]) is None
    assert ChainVerifier(ACCOUNT).extended(entries[0], KEYED_ONLY) is not None


@given(st.lists(st.sampled_from([None, ATTACKER]), min_size=1, max_size=4), st.integers(0, 3))
def test_no_valid_entry_can_be_written_without_a_key(keys: list[ChainKey | None], before: int) -> None:
    """An attacker may write anything to the store, and name our key where it helps."""
    own = [KEY] * before
    entries = history(*own, *keys)
    for named in (b"", KEY.id, ATTACKER.id):
        forged = [*entries[:before], *(evolve(entry, key_id=named) for entry in entries[before:])]
        assert first_broken(ACCOUNT, forged, KEYED_ONLY) == before + 1


def test_a_history_put_back_to_version_1_does_not_hold() -> None:
    _, fault = proof_of(history(None, None, amount=1_000_015), KEYED_ONLY)
    assert fault == Fault(1, "it is chained without a key, behind what is sealed")
    assert proof_of(history(KEY, None), KEYED_ONLY)[1] == Fault(
        2, "it is chained without a key, behind what is sealed"
    )


@given(st.lists(st.sampled_from([None, KEY, OTHER]), min_size=1, max_size=6))
def test_an_older_history_is_sealed_up_to_its_last_entry_without_a_key(keys: list[ChainKey | None]) -> None:
    entries = history(*keys)
    proof, fault = proof_of(entries, ChainPolicy(SECRETS))
    assert fault is None
    last = max((number for number, key in enumerate(keys, start=1) if key is None), default=0)
    assert proof.unkeyed == last
    if not last:
        assert proof.unkeyed_hash == GENESIS
        return
    assert proof.unkeyed_hash == entries[last - 1].hash
    sealed = seal(ACCOUNT, proof.unkeyed, proof.unkeyed_hash, KEY)
    assert seal_fault(sealed, SECRETS) is None
    policy = policy_of(sealed, SECRETS)
    assert first_broken(ACCOUNT, entries, policy) is None
    more = history(*keys, KEY)
    assert first_broken(ACCOUNT, more, policy) is None
    assert first_broken(ACCOUNT, history(*keys, None), policy) == len(keys) + 1


def test_sealed_entries_cannot_be_rewritten_or_removed() -> None:
    entries = history(None, None, None)
    policy = policy_of(seal(ACCOUNT, 3, entries[-1].hash, KEY), SECRETS)
    assert proof_of(history(None, None, None, amount=1_000_015), policy)[1] == Fault(
        3, "its hash is not the sealed one"
    )
    proof, fault = proof_of(entries[:2], policy)
    assert fault is None
    assert policy_faults(proof, policy) == ("its seal is over 3 entries, and it has 2",)
    whole, _ = proof_of(entries, policy)
    assert policy_faults(whole, policy) == ()
    assert policy_faults(whole, ANY_VERSION) == ()
    assert first_broken(ACCOUNT, entries, ChainPolicy(SECRETS, 3)) is None, "a number without a hash"


@pytest.mark.parametrize("number", [1, 2])
def test_only_a_sound_entry_at_the_seal_can_differ_from_it(number: int) -> None:
    entries = history(None, None)
    policy = policy_of(seal(ACCOUNT, 2, entries[-1].hash, KEY), SECRETS)
    other = evolve(entries[number - 1].transfer, operation="topup:another")
    entries[number - 1] = evolve(entries[number - 1], transfer=other)
    expected = Fault(number, "its hash is not that of what it says and of the entry before it")
    assert proof_of(entries, policy)[1] == expected
    entries[0] = evolve(entries[0], hash=bytes(32))
    assert proof_of(entries, policy)[1] == evolve(expected, number=1)


def test_a_seal_is_bound_to_account_history_and_key() -> None:
    sealed = seal(ACCOUNT, 3, bytes(32), KEY)
    for forged in (
        evolve(sealed, account_id=UUID(int=9)),
        evolve(sealed, entries=4),
        evolve(sealed, last_hash=bytes(31) + b"x"),
        evolve(sealed, key_id=OTHER.id),
        evolve(sealed, mac=bytes(32)),
        seal(ACCOUNT, 3, bytes(32), ChainKey(KEY.id, ATTACKER.secret)),
    ):
        assert seal_fault(forged, SECRETS) == "its seal is not ours"
    lost = f"its seal is under the key {ATTACKER.id.hex()}, which is not given"
    assert seal_fault(seal(ACCOUNT, 3, bytes(32), ATTACKER), SECRETS) == lost
    assert isinstance(sealed, Seal)


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
    assert first_broken(ACCOUNT, entries, KEYED_ONLY) is None
