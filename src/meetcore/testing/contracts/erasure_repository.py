"""Erasure of accounts in a store: what goes, what stays, and that each portion can be repeated."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.members.audit import Actor, ActorKind, AuditEntry
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.requests.erasures import ERASED, Erasure, erased_email
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.ports.queries import EventFilter, MeetingFilter, TransactionFilter
from meetcore.testing.contracts.mail_repository import add_mails, claim_mails, new_mail
from meetcore.testing.contracts.note_transactions import completed, find_note
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    email_of,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    reserved,
    scheduled,
    start_cancelling,
)

LATER = AT + timedelta(minutes=5)


async def _locked(rig: StoreRig, account_id: UUID) -> Erasure:
    async with rig.store.begin() as tx:
        return await tx.erasures.load_locked(account_id)


async def _start(rig: StoreRig, account_id: UUID) -> None:
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.erasures.start(account_id, AT)


async def _finish(rig: StoreRig, account_id: UUID) -> bool:
    async with rig.store.begin() as tx:
        return await tx.erasures.finish(account_id, LATER)


async def _claimed(rig: StoreRig, at: datetime, limit: int = 1000) -> set[UUID]:
    async with rig.store.begin() as tx:
        return set(await tx.erasures.claim_due(at, limit))


async def _member(rig: StoreRig, user: User, *customers: Customer) -> User:
    async with rig.store.begin() as tx:
        user = await tx.members.ensure_user(user)
        for customer in customers:
            await tx.members.add_membership(Membership(customer.account_id, user.id, Role.VIEWER, AT))
    return user


async def _remove(rig: StoreRig, account_id: UUID, user: User) -> None:
    """Remove a member, as an owner does."""
    actor = Actor(ActorKind.MEMBER, None, "owner@example.com")
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.members.remove_membership(account_id, user.id, AT)
        await tx.audit_log.append(AuditEntry(new_id(), AT, account_id, actor, "member.removed", str(user.id)))


@pytest.mark.asyncio
class ErasureRepositoryContract:
    """What `ports.erasures.ErasureRepository` promises. A part of `StoreContract`."""

    async def test_an_erasure_depends_on_what_is_under_way(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=9))
        id_ = customer.account_id
        assert await _locked(rig, id_) == Erasure(id_, 0, 0)
        await scheduled(rig, other)
        meeting = await scheduled(rig, customer)
        assert (await _locked(rig, id_)).open_meetings == 1
        await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        assert (await _locked(rig, id_)).open_meetings == 0
        await reserved(rig, customer, MeetingSpec(credits=5))
        assert (await _locked(rig, id_)).holds == 1
        with pytest.raises(NotFound):
            await _locked(rig, new_id())

    async def test_an_erasure_ends_every_access(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig, 7), await open_customer(rig)
        at_both = await _member(rig, User(new_id(), email_of(new_id()), "Both", AT), customer, other)
        alone = await _member(rig, User(new_id(), email_of(new_id()), "Alone", AT), customer)
        await add_mails(rig, new_mail(rig, to=alone.email), new_mail(rig, to=at_both.email))
        await _start(rig, customer.account_id)
        caller = await rig.queries.find_caller(customer.digest)
        assert caller is not None
        assert (caller.account.email, caller.account.full_name) == (erased_email(customer.account_id), ERASED)
        assert caller.account.suspended_at is not None
        async with rig.store.begin() as tx:
            assert await tx.erasures.is_requested(customer.account_id)
            assert not await tx.erasures.is_requested(other.account_id)
        assert caller.account.balance == 7
        assert caller.key.revoked_at == AT
        assert caller.key.name == ERASED
        assert await rig.queries.list_members(customer.account_id) == []
        assert [each.user for each in await rig.queries.list_members(other.account_id)] == [at_both]
        async with rig.store.begin() as tx:
            fresh = User(new_id(), alone.email, "Anew", AT)
            assert await tx.members.ensure_user(fresh) == fresh, "the address is free"
        untouched = await rig.queries.find_caller(other.digest)
        assert untouched is not None
        assert untouched.key.revoked_at is None
        assert (await _locked(rig, customer.account_id)).requested_at == AT
        assert [one.mail.recipient for one in await claim_mails(rig)] == [at_both.email]

    async def test_members_who_were_removed_before_are_erased_too(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        gone = await _member(rig, User(new_id(), email_of(new_id()), "Gone", AT), customer)
        elsewhere = await _member(rig, User(new_id(), email_of(new_id()), "Elsewhere", AT), customer, other)
        foreign = await _member(rig, User(new_id(), email_of(new_id()), "Foreign", AT), other)
        for account, user in ((customer, gone), (customer, elsewhere), (other, foreign)):
            await _remove(rig, account.account_id, user)
        for _ in range(2):
            await _start(rig, customer.account_id)
        async with rig.store.begin() as tx:
            fresh = User(new_id(), gone.email, "Anew", AT)
            assert await tx.members.ensure_user(fresh) == fresh, "the address is free"
            for user in (elsewhere, foreign):
                assert await tx.members.ensure_user(User(new_id(), user.email, "Anew", AT)) == user

    async def test_contents_go_in_portions_and_money_stays(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig, 1000), await open_customer(rig, 1000)
        await rig.put_hosts(new_host(max_concurrent=9))
        id_ = customer.account_id
        for owner in (customer, other):
            for _ in range(3):
                meeting = await scheduled(rig, owner)
                await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        notes = [await completed(rig, customer) for _ in range(2)]
        foreign = await completed(rig, other)
        await add_mails(rig, new_mail(rig, account_id=id_), new_mail(rig, account_id=other.account_id))
        async with rig.store.begin() as tx:
            record = IdempotencyRecord("b", b"f" * 32, is_done=True, encoded_outcome=b"x")
            await tx.idempotency.save(id_, record)
        entries = await rig.queries.list_transactions(id_, TransactionFilter(), 50, None)
        await _start(rig, id_)
        for _ in range(2):  # each portion can be repeated
            after: UUID | None = None
            async with rig.store.begin() as tx:
                while (after := await tx.erasures.erase_meetings(id_, after, 2)) is not None:
                    pass
                while (after := await tx.erasures.erase_notes(id_, after, 1)) is not None:
                    pass
                while await tx.erasures.delete_portion(id_, 2):
                    pass
        shown = await rig.queries.list_meetings(id_, MeetingFilter(AT), 50, None)
        assert {one.title for one in shown} == {ERASED}
        assert {(one.description, one.password, one.join_url) for one in shown} == {(None, None, None)}
        assert {one.status for one in shown} == {MeetingStatus.CANCELLED}
        assert [(await find_note(rig, note)).status for note in notes] == [NoteStatus.ERASED] * 2
        assert await rig.queries.list_events(id_, EventFilter(AT - timedelta(days=90)), 50, None) == []
        assert await rig.queries.list_transactions(id_, TransactionFilter(), 50, None) == entries
        kept = await rig.queries.list_meetings(other.account_id, MeetingFilter(AT), 50, None)
        assert ERASED not in {one.title for one in kept}
        assert (await find_note(rig, foreign)).status is NoteStatus.COMPLETED
        async with rig.store.begin() as tx:
            assert (await tx.idempotency.load_locked(id_, "b")).record is None

    async def test_an_erasure_is_pending_until_nothing_is_worked_on(self, rig: StoreRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        for owner in (customer, other):
            await _start(rig, owner.account_id)
        assert {customer.account_id, other.account_id} <= await _claimed(rig, AT)
        assert await _finish(rig, customer.account_id)
        assert not await _finish(rig, customer.account_id)
        claimed = await _claimed(rig, AT + timedelta(days=1))
        assert other.account_id in claimed
        assert customer.account_id not in claimed
        assert (await _locked(rig, customer.account_id)).finished_at == LATER
        assert not await _finish(rig, (await open_customer(rig)).account_id), "nothing was requested"

    async def test_an_erasure_that_was_taken_is_due_again_later(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        id_ = customer.account_id
        assert id_ not in await _claimed(rig, AT)
        await _start(rig, id_)
        assert id_ not in await _claimed(rig, AT - timedelta(seconds=1))
        taken_at = AT
        for delay in (timedelta(minutes=5), timedelta(minutes=5), timedelta(minutes=5)):
            assert id_ in await _claimed(rig, taken_at)
            assert id_ not in await _claimed(rig, taken_at + delay - timedelta(seconds=1))
            taken_at += delay
        for days, delay in ((1 / 6, timedelta(hours=1)), (9, timedelta(hours=2))):
            taken_at = AT + timedelta(days=days)
            assert id_ in await _claimed(rig, taken_at)
            assert id_ not in await _claimed(rig, taken_at + delay - timedelta(seconds=1))
            assert id_ in await _claimed(rig, taken_at + delay)

    async def test_the_longest_due_erasure_is_taken_first_and_once(self, rig: StoreRig) -> None:
        ids = [(await open_customer(rig)).account_id for _ in range(3)]
        for number, id_ in enumerate(ids):
            async with rig.store.begin() as tx:
                await tx.lock_account(id_)
                await tx.erasures.start(id_, AT - timedelta(days=9000, seconds=-number))
        early = AT - timedelta(days=8999)
        taken = [await _claimed(rig, early, 1) for _ in ids]
        assert taken == [{id_} for id_ in ids]

    async def test_meetings_that_are_worked_on_keep_an_erasure_open(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await scheduled(rig, customer)
        await _start(rig, customer.account_id)
        assert not await _finish(rig, customer.account_id)
