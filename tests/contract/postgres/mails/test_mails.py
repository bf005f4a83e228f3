"""Mails: added within limits, sent by one worker at a time, erased after their end."""

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.domain.mails.contents import MailContent, PasskeyChanged
from meetcore.domain.mails.mails import LIMIT_WINDOW, Mail, MailLimits, Recipient
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.members.roles import Role
from tests.support.postgres_rig import PostgresRig
from tests.support.records import CONTENTS, add_mails, claim_mails, new_mail, put_member, record_mail
from tests.support.transactions import Customer, email_of, new_id, open_customer


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
async def test_a_mail_is_read_back_as_it_was_added(rig: PostgresRig, content: MailContent) -> None:
    customer = await open_customer(rig)
    mail = new_mail(rig, content, account_id=customer.account_id)
    assert await add_mails(rig, mail) == 1
    (claimed,) = await claim_mails(rig)
    assert evolve(claimed.mail, due_at=mail.due_at) == mail
    assert not claimed.had_expired_lease


async def test_the_mails_about_an_account_are_listed_without_their_texts(rig: PostgresRig) -> None:
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


async def test_owners_and_developers_are_mailed(rig: PostgresRig, customer: Customer) -> None:
    members = [await put_member(rig, customer.account_id, role) for role in Role]
    async with rig.store.begin() as tx:
        assert await tx.mails.find_recipients(customer.account_id) == [
            Recipient(member.email) for member in members[:2]
        ]
        assert await tx.mails.find_recipients(new_id()) == []
        assert await tx.mails.find_recipients(customer.account_id, MailTopic.PAYMENTS) == [
            Recipient(members[0].email), Recipient(members[2].email),
        ]  # fmt: skip


async def test_members_choose_the_topics_of_their_mails(rig: PostgresRig, customer: Customer) -> None:
    owner, developer, finance, viewer = [await put_member(rig, customer.account_id, role) for role in Role]
    id = customer.account_id
    assert (await rig.queries.find_settings(id, owner.id))[1] == {}
    async with rig.store.begin() as tx:
        await tx.mails.save_topics(id, owner.id, {MailTopic.PAYMENTS: False, MailTopic.CREDITS: False})
        await tx.mails.save_topics(id, viewer.id, {MailTopic.PAYMENTS: True, MailTopic.CREDITS: True})
        found = {topic: await tx.mails.find_recipients(id, topic) for topic in MailTopic}
    account, topics = await rig.queries.find_settings(id, owner.id)
    assert (account.id, topics) == (id, {MailTopic.PAYMENTS: False, MailTopic.CREDITS: False})
    assert (await rig.queries.find_settings(id, None))[1] == {}
    assert {topic: {one.email for one in of_topic} for topic, of_topic in found.items()} == {
        MailTopic.CREDITS: {finance.email, viewer.email},
        MailTopic.PAYMENTS: {finance.email},  # a viewer sees no payments
        MailTopic.STATEMENTS: {owner.email, finance.email},
        MailTopic.WEBHOOKS: {owner.email, developer.email},
    }


async def test_workers_share_the_mails_that_are_due(rig: PostgresRig) -> None:
    mails = [new_mail(rig) for _ in range(12)]
    await add_mails(rig, *mails)
    shares = await asyncio.gather(*(claim_mails(rig, limit=4) for _ in range(6)))
    taken = [one.mail.id for share in shares for one in share]
    assert len(taken) == len(set(taken))
    taken += [one.mail.id for one in await claim_mails(rig)]
    assert sorted(taken) == sorted(mail.id for mail in mails)


async def test_a_recipient_gets_no_more_mails_an_hour_than_the_limit(rig: PostgresRig) -> None:
    limits = MailLimits(per_recipient=3)
    email = email_of(new_id())
    old = evolve(new_mail(rig, to=email), created_at=rig.now() - LIMIT_WINDOW - timedelta(minutes=1))
    assert await add_mails(rig, old, limits=limits) == 1
    mails = [new_mail(rig, to=spelling) for spelling in (email, email.upper(), email, email)]
    assert await add_mails(rig, *mails, limits=limits) == 3
    assert await add_mails(rig, new_mail(rig, to=email), limits=limits) == 0
    assert await add_mails(rig, new_mail(rig), limits=limits) == 1
    assert len(await claim_mails(rig)) == 5


async def test_an_account_gets_no_more_mails_an_hour_than_the_limit(rig: PostgresRig) -> None:
    limits = MailLimits(per_account=2)
    one, other = await open_customer(rig), await open_customer(rig)
    mails = [new_mail(rig, account_id=one.account_id) for _ in range(3)]
    assert await add_mails(rig, *mails, limits=limits) == 2
    assert await add_mails(rig, new_mail(rig, account_id=other.account_id), limits=limits) == 1
    assert await add_mails(rig, *(new_mail(rig) for _ in range(3)), limits=limits) == 3


async def test_each_kind_of_mail_is_counted_apart(rig: PostgresRig) -> None:
    customer, email, limits = await open_customer(rig), email_of(new_id()), MailLimits(1, 1)

    def one(content: MailContent, counted_as: str = "") -> Mail:
        made = new_mail(rig, content, to=email, account_id=customer.account_id)
        return evolve(made, counted_as=counted_as)

    for content in CONTENTS:
        assert await add_mails(rig, one(content), limits=limits) == 1, "of each kind one"
    for content in CONTENTS:
        is_kept = isinstance(content, PasskeyChanged)
        assert await add_mails(rig, one(content), limits=limits) == is_kept, "notices of security always"


async def test_links_are_counted_apart_for_each_client_that_asks(rig: PostgresRig) -> None:
    email, limits = email_of(new_id()), MailLimits(per_recipient=2)
    added = [
        await add_mails(rig, evolve(new_mail(rig, to=email), counted_as=client), limits=limits)
        for client in ("stranger", "stranger", "stranger", "owner", "owner", "owner")
    ]
    assert added == [1, 1, 0, 1, 1, 0]


async def test_a_limit_holds_over_mails_added_at_the_same_time(rig: PostgresRig) -> None:
    emails = [email_of(new_id()), email_of(new_id())]
    added = await asyncio.gather(
        *(
            add_mails(rig, *(new_mail(rig, to=email) for email in order), limits=MailLimits(3))
            for order in [emails, emails[::-1]] * 6
        )
    )
    assert sum(added) == 6


@pytest.mark.parametrize("error", [None, "550 5.1.1"])
async def test_a_mail_that_is_over_has_no_content_any_more(rig: PostgresRig, error: str | None):
    await add_mails(rig, new_mail(rig, CONTENTS[0]))
    [row] = await rig.rows("SELECT * FROM mails")
    assert b"SEALED-one-time" in row["content"]
    (claimed,) = await claim_mails(rig)
    await record_mail(rig, claimed, error)
    [row] = await rig.rows("SELECT * FROM mails")
    assert (row["content"], row["due_at"], row["lease_token"]) == (None, None, None)
    assert (row["last_error"], row["failed_at"] is None) == (error, error is None)


async def test_a_mail_that_does_not_open_keeps_no_other_from_being_sent(rig: PostgresRig):
    other_key = PostgresRig(rig.pool, AesGcmCipher([bytes(KEY_BYTES)]))
    await add_mails(other_key, new_mail(other_key))
    mail = new_mail(rig)
    await add_mails(rig, mail)
    unreadable, readable = await claim_mails(rig)
    assert (unreadable.mail.content, readable.mail.id) == (None, mail.id)
    assert await record_mail(rig, unreadable, "unreadable", retry_s=0)
    (again,) = await claim_mails(other_key)
    assert again.mail.content is not None, "its key may be given again"
