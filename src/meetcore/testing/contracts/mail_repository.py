"""Mails in a store: added within limits, sent by one worker at a time, erased once they are over."""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.mails.contents import (
    EndpointDisabled,
    Invitation,
    LowCredits,
    MailContent,
    PasskeyChanged,
    SignInLink,
    StatementReady,
)
from meetcore.domain.mails.mails import (
    LIMIT_WINDOW,
    Mail,
    MailLimits,
    Recipient,
    open_mail,
    record_failure,
    record_sent,
)
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.lease import Lease
from meetcore.ports.mails import ClaimedMail
from meetcore.testing.contracts.member_repository import put_member
from meetcore.testing.contracts.store_rig import Rig, StoreRig
from meetcore.testing.contracts.transactions import AT, email_of, new_id, open_customer

CONTENTS: tuple[MailContent, ...] = (
    SignInLink("https://meet.example/sign-in?token=SEALED-one-time", AT),
    Invitation("https://meet.example/join?token=SEALED-invited", "Perkumpulan “Émile”", "Dewi", AT),
    EndpointDisabled(("https://hooks.example/a", "https://hooks.example/b"), 20, AT, "https://meet.example/"),
    LowCredits(9, 10, "https://meet.example/"),
    PasskeyChanged("Dewi's laptop", True, AT, "192.0.2.1", "https://meet.example/"),
    StatementReady(date(2026, 11, 1), "Perkumpulan “Émile”", "https://meet.example/"),
)
NO_LIMITS = MailLimits(10_000, 10_000)


def new_mail(
    rig: StoreRig,
    content: MailContent = CONTENTS[0],
    *,
    to: str | None = None,
    account_id: UUID | None = None,
) -> Mail:
    """Return a mail of the store's present moment."""
    id_ = new_id()
    recipient = Recipient(to or email_of(id_), Language.ENGLISH)
    return open_mail(
        id=id_, account_id=account_id, recipient=recipient, content=content, created_at=rig.now()
    )


async def add_mails(rig: Rig, *mails: Mail, limits: MailLimits = NO_LIMITS) -> int:
    """Add mails; return how many were written."""
    async with rig.store.begin() as tx:
        return await tx.mails.add(*mails, limits=limits)


async def claim_mails(rig: Rig, limit: int = 100, seconds: float = 60.0) -> Sequence[ClaimedMail]:
    """Claim what is due for so many seconds."""
    async with rig.store.begin() as tx:
        return list(await tx.mails.claim_due(limit, Lease(new_id(), seconds)))


async def record_mail(rig: Rig, claimed: ClaimedMail, error: str | None = None, retry_s: int = -1) -> bool:
    """Record that a mail was sent, or an error: tried again in so many seconds, or never if negative.

    Returns:
        False when the claim is lost.
    """
    schedule = RetrySchedule((retry_s,) * 100 if retry_s >= 0 else ())
    async with rig.store.begin() as tx:
        view = await tx.mails.load_claimed(claimed)
        if view is None:
            return False
        sent = record_sent(view.mail, view.now)
        if error is not None:
            sent = record_failure(
                view.mail, error, is_final=False, schedule=schedule, jitter=0.0, now=view.now
            )
        await tx.mails.save(sent)
    return True


async def _add_and_fail(rig: Rig, mail: Mail) -> None:
    async with rig.store.begin() as tx:
        await tx.mails.add(mail, limits=NO_LIMITS)
        raise ZeroDivisionError


@pytest.mark.asyncio
class MailRepositoryContract:
    """What `ports.mails.MailRepository` promises."""

    @pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
    async def test_a_mail_is_read_back_as_it_was_added(self, rig: StoreRig, content: MailContent) -> None:
        customer = await open_customer(rig)
        mail = new_mail(rig, content, account_id=customer.account_id)
        assert await add_mails(rig, mail) == 1
        (claimed,) = await claim_mails(rig)
        assert evolve(claimed.mail, due_at=mail.due_at) == mail
        assert not claimed.had_expired_lease

    async def test_a_mail_may_be_about_no_account(self, rig: StoreRig) -> None:
        await add_mails(rig, new_mail(rig))
        (claimed,) = await claim_mails(rig)
        assert claimed.mail.account_id is None

    async def test_the_mails_about_an_account_are_listed_without_their_texts(self, rig: StoreRig) -> None:
        account_id = (await open_customer(rig)).account_id
        mails = [new_mail(rig, to=f"{number}@example.com", account_id=account_id) for number in range(3)]
        other = new_mail(rig, account_id=(await open_customer(rig)).account_id)
        await add_mails(rig, *mails, other, new_mail(rig))
        for claimed in await claim_mails(rig):
            await record_mail(rig, claimed, None if claimed.mail.id == mails[2].id else "refused")
        shown = await rig.queries.list_mails(account_id, 2, None)
        assert [one.id for one in shown] == [mails[2].id, mails[1].id]
        assert (shown[0].recipient, shown[0].kind, shown[0].sent_at is None) == (
            mails[2].recipient, mails[2].kind, False,
        )  # fmt: skip
        assert (shown[1].failed_at is None, shown[1].last_error, shown[1].attempts_made) == (
            False, "refused", 1,
        )  # fmt: skip
        rest = await rig.queries.list_mails(account_id, 2, mails[1].id)
        assert [one.id for one in rest] == [mails[0].id]

    async def test_no_mail_is_kept_of_a_transaction_that_failed(self, rig: StoreRig) -> None:
        with pytest.raises(ZeroDivisionError):
            await _add_and_fail(rig, new_mail(rig))
        assert await claim_mails(rig) == []

    async def test_owners_and_developers_are_mailed(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        members = [await put_member(rig, customer.account_id, role) for role in Role]
        async with rig.store.begin() as tx:
            assert await tx.mails.find_recipients(customer.account_id) == [
                Recipient(member.email) for member in members[:2]
            ]
            assert await tx.mails.find_recipients(new_id()) == []
            of_finance = await tx.mails.find_recipients(customer.account_id, (Role.FINANCE,))
            assert {one.email for one in of_finance}.isdisjoint(
                one.email for one in await tx.mails.find_recipients(customer.account_id)
            )

    async def test_a_claimed_mail_is_not_claimed_again(self, rig: StoreRig) -> None:
        mails = [new_mail(rig) for _ in range(3)]
        for mail in mails:
            await add_mails(rig, mail)
        first = await claim_mails(rig, limit=2)
        second = await claim_mails(rig, limit=2)
        ids = [one.mail.id for one in (*first, *second)]
        assert ids == [mail.id for mail in mails], "the longest due first"
        assert await claim_mails(rig) == []

    async def test_workers_share_the_mails_that_are_due(self, rig: StoreRig) -> None:
        mails = [new_mail(rig) for _ in range(12)]
        await add_mails(rig, *mails)
        shares = await asyncio.gather(*(claim_mails(rig, limit=4) for _ in range(6)))
        taken = [one.mail.id for share in shares for one in share]
        assert len(taken) == len(set(taken))
        taken += [one.mail.id for one in await claim_mails(rig)]
        assert sorted(taken) == sorted(mail.id for mail in mails)

    async def test_a_dead_workers_mail_is_due_again_and_its_record_comes_too_late(
        self, rig: StoreRig
    ) -> None:
        await add_mails(rig, new_mail(rig))
        (left,) = await claim_mails(rig, seconds=-1)
        (again,) = await claim_mails(rig)
        assert again.had_expired_lease
        assert again.mail.content == left.mail.content
        assert not await record_mail(rig, left)
        assert await record_mail(rig, again)

    async def test_a_sent_mail_is_over(self, rig: StoreRig) -> None:
        await add_mails(rig, new_mail(rig))
        (claimed,) = await claim_mails(rig, seconds=-1)
        assert await record_mail(rig, claimed)
        assert await claim_mails(rig) == []
        assert not await record_mail(rig, claimed)

    async def test_a_failed_attempt_is_counted_and_tried_again_when_it_is_due(self, rig: StoreRig) -> None:
        mails = [new_mail(rig), new_mail(rig)]
        await add_mails(rig, *mails)
        soon, late = await claim_mails(rig)
        assert await record_mail(rig, soon, "timeout", retry_s=0)
        assert await record_mail(rig, late, "timeout", retry_s=3600)
        (again,) = await claim_mails(rig)
        assert again.mail.id == soon.mail.id
        assert (again.mail.attempts_made, again.mail.last_error) == (1, "timeout")
        assert again.mail.content == soon.mail.content
        assert not again.had_expired_lease

    async def test_a_mail_that_was_given_up_is_over(self, rig: StoreRig) -> None:
        await add_mails(rig, new_mail(rig))
        (claimed,) = await claim_mails(rig, seconds=-1)
        assert await record_mail(rig, claimed, "550 5.1.1")
        assert await claim_mails(rig) == []

    async def test_a_recipient_gets_no_more_mails_an_hour_than_the_limit(self, rig: StoreRig) -> None:
        limits = MailLimits(per_recipient=3)
        email = email_of(new_id())
        old = evolve(new_mail(rig, to=email), created_at=rig.now() - LIMIT_WINDOW - timedelta(minutes=1))
        assert await add_mails(rig, old, limits=limits) == 1
        mails = [new_mail(rig, to=spelling) for spelling in (email, email.upper(), email, email)]
        assert await add_mails(rig, *mails, limits=limits) == 3
        assert await add_mails(rig, new_mail(rig, to=email), limits=limits) == 0
        assert await add_mails(rig, new_mail(rig), limits=limits) == 1
        assert len(await claim_mails(rig)) == 5

    async def test_an_account_gets_no_more_mails_an_hour_than_the_limit(self, rig: StoreRig) -> None:
        limits = MailLimits(per_account=2)
        one, other = await open_customer(rig), await open_customer(rig)
        mails = [new_mail(rig, account_id=one.account_id) for _ in range(3)]
        assert await add_mails(rig, *mails, limits=limits) == 2
        assert await add_mails(rig, new_mail(rig, account_id=other.account_id), limits=limits) == 1
        assert await add_mails(rig, *(new_mail(rig) for _ in range(3)), limits=limits) == 3

    async def test_a_limit_holds_over_mails_added_at_the_same_time(self, rig: StoreRig) -> None:
        emails = [email_of(new_id()), email_of(new_id())]
        added = await asyncio.gather(
            *(
                add_mails(rig, *(new_mail(rig, to=email) for email in order), limits=MailLimits(3))
                for order in [emails, emails[::-1]] * 6
            )
        )
        assert sum(added) == 6
