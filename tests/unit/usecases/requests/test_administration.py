"""Operators: accounts, keys and adjustments, and how an account is found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound, Unprocessable
from meetcore.domain.ids import uuid7
from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.money.ledger import InvalidAmount, InvalidReason, Reference, TransferKind
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.records.pages import AccountSearch
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.domain.requests.keys import (
    DEFAULT_NAME,
    KEYS_PER_ACCOUNT,
    InvalidExpiry,
    InvalidName,
    Scope,
    digest,
    mint,
)
from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.requests.console import read_search, without_secret
from tests.unit.usecases.application import ApplicationHarness

REASON = "goodwill for 12 November"


def events(harness: ApplicationHarness) -> list[EventKind]:
    return [kind for kind, _ in harness.events()]


async def test_an_account_has_an_email_address_of_its_own(harness: ApplicationHarness) -> None:
    before = harness.count("accounts")
    with pytest.raises(InvalidEmail):
        await harness.administration.create_account("nobody", "N", 5)
    with pytest.raises(Conflict):
        await harness.administration.create_account(harness.caller.account.email.upper(), "N", 5)
    assert harness.count("accounts") == before


async def test_a_key_that_has_expired_is_not_created(harness: ApplicationHarness) -> None:
    account_id = harness.caller.account.id
    with pytest.raises(InvalidExpiry):
        await harness.administration.keys.create(account_id, tuple(Scope), None, harness.now())
    soon = harness.now() + timedelta(seconds=1)
    assert (
        await harness.administration.keys.create(account_id, tuple(Scope), None, soon)
    ).key.expires_at == soon


async def test_no_key_has_the_id_that_stands_for_what_members_do_by_hand(harness: ApplicationHarness) -> None:
    keys, account_id = harness.administration.keys, harness.caller.account.id
    known = (await keys.create(account_id, ())).key
    with pytest.raises(Conflict):
        await keys.create(account_id, (), new_id=account_id)
    with pytest.raises(Conflict):
        await keys.roll(known.id, 0, account_id)


async def test_a_key_has_a_name_the_end_of_its_text_and_its_maker(harness: ApplicationHarness) -> None:
    account_id, member = harness.caller.account.id, harness.caller.account.user_id
    acting = harness.administration.acting_as(ActionOrigin(Actor(ActorKind.MEMBER, member, "m@example.com")))
    plain = await harness.administration.keys.create(account_id, tuple(Scope))
    named = await acting.keys.create(account_id, (), name="Kasir")
    assert (plain.key.name, plain.key.created_by) == (DEFAULT_NAME, None)
    assert (named.key.name, named.key.created_by) == ("Kasir", member)
    assert named.key.last_four == named.text[-4:]
    with pytest.raises(InvalidName):
        await harness.administration.keys.create(account_id, (), name="two\nlines")
    assert named.key in await harness.registry.list_keys(account_id)


@pytest.mark.spec("5/7")
async def test_an_account_has_so_many_working_keys(harness: ApplicationHarness) -> None:
    account_id, administration = harness.caller.account.id, harness.administration.keys
    soon = harness.now() + timedelta(minutes=1)
    first = (await administration.create(account_id, (), None, soon)).key
    has = len(await harness.registry.list_keys(account_id))
    made = [await administration.create(account_id, ()) for _ in range(KEYS_PER_ACCOUNT - has)]
    for more in (administration.create(account_id, ()), administration.roll(first.id, 1)):
        with pytest.raises(Unprocessable):
            await more
    await administration.revoke(made[0].key.id)
    await administration.create(account_id, ())
    harness.clock.advance(60)  # the first one has expired
    await administration.create(account_id, ())
    with pytest.raises(Unprocessable):
        await administration.create(account_id, ())


async def test_a_key_is_rolled_and_its_cap_stays_one() -> None:
    harness = await ApplicationHarness(daily_cap=50).start()
    old_id = harness.caller.key.id
    minted, old = await harness.administration.keys.roll(old_id, 24)
    assert old.expires_at == harness.now() + timedelta(hours=24)
    assert minted.key.cap_key_id == old_id
    keys = {key.id: key for key in await harness.registry.list_keys(old.account_id)}
    assert keys == {minted.key.id: minted.key, old_id: old}
    caller = await harness.process().admit.authenticate(f"Bearer {minted.text}", harness.now())
    assert caller.key == minted.key
    await harness.administration.keys.set_daily_cap(minted.key.id, 7)
    assert [key.daily_cap for key in await harness.registry.list_keys(old.account_id)] == [7, 7]


async def test_a_key_that_cannot_be_used_or_is_not_there_is_not_rolled(harness: ApplicationHarness) -> None:
    key = harness.caller.key
    await harness.administration.keys.roll(key.id, 0)
    before = await harness.registry.list_keys(key.account_id)
    with pytest.raises(Conflict):
        await harness.administration.keys.roll(key.id, 0)
    with pytest.raises(NotFound):
        await harness.administration.keys.roll(UUID(int=1), 0)
    assert await harness.registry.list_keys(key.account_id) == before


@pytest.mark.spec("1/credits")
async def test_an_adjustment_gives_or_takes_and_records_its_reason() -> None:
    harness = await ApplicationHarness(credits=150).start()
    account_id = harness.caller.account.id
    given = await harness.administration.adjust(account_id, 25, REASON, "T-1")
    taken = await harness.administration.adjust(account_id, -100, "topped up twice")
    assert (given.balance, taken.balance, taken.entry.amount) == (175, 75, -100)
    assert given.entry.transfer.kind is TransferKind.ADJUSTMENT
    assert given.entry.transfer.reference == Reference("adjustment", REASON)
    assert given.entry.transfer.operation == "adjustment:T-1"
    listed = await harness.queries.list_transactions(
        account_id, TransactionFilter(TransferKind.ADJUSTMENT), 9, None
    )
    assert [entry.transfer.reference.id for entry in listed] == ["topped up twice", REASON]
    assert events(harness).count(EventKind.CREDIT_LOW) == 1
    assert events(harness).count(EventKind.CREDIT_TOPUP_SUCCEEDED) == 1, "the opening and nothing else"


async def test_an_adjustment_takes_no_more_than_is_available() -> None:
    harness = await ApplicationHarness(credits=100).start()
    account_id = harness.caller.account.id
    with pytest.raises(InsufficientCredits):
        await harness.administration.adjust(account_id, -101, REASON)
    with pytest.raises(InvalidAmount):
        await harness.administration.adjust(account_id, 0, REASON)
    with pytest.raises(InvalidReason):
        await harness.administration.adjust(account_id, 5, " ")
    with pytest.raises(NotFound):
        await harness.administration.adjust(UUID(int=7), 5, REASON)
    assert (await harness.registry.find_account(account_id)).balance == 100
    assert (await harness.administration.adjust(account_id, -100, REASON)).balance == 0


AT = datetime(2026, 12, 1, tzinfo=UTC)
ID = uuid7(AT, bytes(10))
KEY = mint("mk", bytes(32))


@pytest.mark.parametrize(("text", "wanted"), [
    (" Sari@Example.com ", AccountSearch("Sari@Example.com")),
    ("Toko Maju", AccountSearch("Toko Maju")),
    ("Sari", AccountSearch("Sari", last_four="Sari")),
    (str(ID), AccountSearch(id=ID, id_made_at=AT)),
    (KEY, AccountSearch(key_digest=digest(KEY))),
    ("mk_live_…AAAA", AccountSearch(last_four="AAAA")),
    ("mk_live_...AAAA", AccountSearch(last_four="AAAA")),
    ("…AAAA", AccountSearch(last_four="AAAA")),
    ("sk_live_…AAAA", AccountSearch("sk_live_…AAAA")),
    ("mk_live_", AccountSearch("mk_live_")),
    ("2026-000042", AccountSearch("2026-000042", receipt=(2026, 42))),
    ("a\0b", AccountSearch()),
    ("x" * 255, AccountSearch()),
])  # fmt: skip
def test_a_text_says_what_to_find(text: str, wanted: AccountSearch) -> None:
    assert read_search(text, "mk") == wanted


def test_a_whole_key_is_masked() -> None:
    assert without_secret(f" {KEY} ", "mk") == "mk_live_…AAAA"
    assert without_secret("Toko Maju", "mk") == "Toko Maju"
    assert read_search(without_secret(KEY, "mk"), "mk").last_four == "AAAA"
