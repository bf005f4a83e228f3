"""Members of an account: invited, changed and removed by owners alone, and never without an owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.passkeys import WebauthnVerifier
from meetcore.domain.errors import ActionNotAllowed, Gone, NotFound, Unprocessable
from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import MailLimits, MailStatus
from meetcore.domain.members.members import (
    INVITATIONS_BEFORE_CREDITS,
    INVITATIONS_WINDOW,
    MAX_PENDING_INVITATIONS,
    Membership,
)
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import is_fresh
from meetcore.domain.members.sign_in import INVITATION_FOR, SignInFirst, SignInMethod
from meetcore.domain.members.views import OpenInvitation, SignedIn
from meetcore.domain.money.ledger import CreditsFellLow
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.usecases.mails import CreditMails
from meetcore.usecases.members.members import Members
from meetcore.usecases.members.passkeys import Visitor
from meetcore.usecases.members.sign_in_links import Browser
from meetcore.usecases.members.sign_up import enter_or_open
from tests.support.authenticator import SoftwareAuthenticator
from tests.unit.usecases.access_harness import OWNER, WHERE, AccessHarness, link_in, token_in, token_of
from tests.unit.usecases.application import ApplicationHarness

SITE = "https://meetcore.test"
SOMEBODY = UUID(int=7)
Change = Callable[[Members, SignedIn], Awaitable[object]]
CHANGES: dict[str, Change] = {
    "invite": lambda members, by: members.invite(by, "b@example.com", Role.OWNER, None),
    "revoke": lambda members, by: members.revoke_invitation(by, SOMEBODY, None),
    "remove": lambda members, by: members.remove(by, SOMEBODY, None),
    "change": lambda members, by: members.change_role(by, SOMEBODY, Role.OWNER, None),
}


async def test_the_owner_of_a_new_account_is_who_has_its_address(at: AccessHarness) -> None:
    owner = await at.signed_in()
    assert owner.user is not None
    assert (owner.user.id, owner.role) == (owner.account.user_id, Role.OWNER)
    (member,) = await at.access().members.list_members(owner)
    assert (member.user, member.membership.role) == (owner.user, Role.OWNER)


async def test_an_invitation_makes_a_member_once(at: AccessHarness) -> None:
    owner = await at.signed_in()
    members = at.access().members
    invitation = (await members.invite(owner, "b@example.com", Role.FINANCE, "192.0.2.1")).invitation
    mail = at.mails[-1]
    assert mail.recipient == "b@example.com"
    content = link_in(mail)
    assert isinstance(content, contents.Invitation)
    assert owner.user is not None
    assert (content.account_name, content.role) == ("A", Role.FINANCE)
    assert content.invited_by == f"{owner.user.full_name} ({owner.user.email})"
    assert content.expires_at == at.harness.now() + INVITATION_FOR
    assert list(await members.list_invitations(owner)) == [invitation]
    redeem = at.access().redeem_link
    shown = await redeem.find_invitation(token_in(mail))
    assert shown == OpenInvitation("A", Role.FINANCE, content.invited_by)
    made = await redeem.for_customer(token_in(mail), Browser())
    assert await redeem.find_invitation(token_in(mail)) is None
    assert await redeem.find_invitation("x") is None
    member = await at.access().sessions.find(made.token)
    assert member is not None
    assert member.user is not None
    assert (member.role, member.user.email, member.account.id) == (
        Role.FINANCE, "b@example.com", owner.account.id,
    )  # fmt: skip
    assert list(await members.list_invitations(owner)) == []
    with pytest.raises(Gone):
        await at.access().redeem_link.for_customer(token_in(mail), Browser())
    assert at.actions()[-2:] == ["member.invited", "member.joined"]
    invited, joined = at.changes()[-2:]
    assert (invited.actor.id, invited.client_address) == (owner.user.id, "192.0.2.1")
    assert joined.actor.id == member.user.id
    assert "@" not in f"{[(each.actor.name, each.details) for each in at.log()]}", "ids are written alone"


async def test_an_invitation_opens_its_own_account_alone_and_is_not_fresh(at: AccessHarness) -> None:
    member = await at.join(await at.signed_in(), "b@example.com", Role.OWNER)
    assert member.session.is_pinned
    assert not is_fresh(member.session, at.harness.now())


async def test_a_user_accepts_an_invitation_in_an_own_session_alone(at: AccessHarness) -> None:
    owner = await at.signed_in()
    other = await at.harness.administration.create_account("b@example.com", "B")
    await at.access().members.invite(owner, "B@example.com", Role.VIEWER, None)
    token, redeem = at.last_token(), at.access().redeem_link.for_customer
    own = await at.sign_in("b@example.com")
    portal = await evolve(at.access().portal_links, pins=True).for_member(other.id, "b@example.com")
    pinned = await redeem(token_of(portal.url), Browser())
    over = await at.sign_in("b@example.com")
    await at.access().sessions.end(over.session)
    guest = await at.guest(Role.OWNER)
    before = at.harness.count("sessions")
    for earlier in (None, owner.session, pinned.session, over.session, guest.session):
        with pytest.raises(SignInFirst):
            await redeem(token, Browser("cookie", earlier=earlier))
    assert at.harness.count("sessions") == before
    at.harness.clock.advance(20 * 60)
    made = await redeem(token, Browser(earlier=own.session))
    assert (made.session.account_id, made.session.user_id) == (owner.account.id, own.session.user_id)
    assert made.session.authenticated_at == own.session.authenticated_at, "as fresh as the own session"
    assert await at.access().sessions.find(own.token) is None, "replaced"


@pytest.mark.parametrize(
    ("role", "gone"), [(None, {"b@example.com", "c@example.com"}), (Role.DEVELOPER, {"c@example.com"})]
)
async def test_invitations_of_a_member_end_with_the_right_to_make_them(
    role: Role | None, gone: set[str], at: AccessHarness
) -> None:
    owner, members = await at.signed_in(), at.access().members
    other = await at.join(owner, "b@example.com", Role.OWNER)
    assert owner.user is not None
    assert other.user is not None
    made = {
        email: (await members.invite(by, email, Role.OWNER, None)).invitation
        for by, email in ((other, "c@example.com"), (owner, "b@example.com"), (owner, "d@example.com"))
    }
    tokens = {mail.recipient: token_in(mail) for mail in at.mails[-3:]}
    if role is None:
        await members.remove(owner, other.user.id, WHERE)
    else:
        await members.change_role(owner, other.user.id, role, WHERE)
    assert {each.email for each in await members.list_invitations(owner)} == made.keys() - gone
    revoked = [each for each in at.changes() if each.action == "member.invitation_revoked"]
    assert {each.target_id for each in revoked} == {str(made[email].id) for email in gone}
    assert {(each.actor.id, each.client_address) for each in revoked} == {(owner.user.id, WHERE)}
    for email in gone:
        with pytest.raises(Gone):
            await at.access().redeem_link.for_customer(tokens[email], Browser())


async def test_a_second_invitation_replaces_the_first(at: AccessHarness) -> None:
    owner = await at.signed_in()
    await at.access().members.invite(owner, "b@example.com", Role.OWNER, None)
    first = at.last_token()
    member = await at.join(owner, "B@example.com", Role.VIEWER)
    assert member.role is Role.VIEWER
    with pytest.raises(Gone):
        await at.access().redeem_link.for_customer(first, Browser())


async def test_an_invitation_that_was_taken_back_or_is_over_makes_no_member(at: AccessHarness) -> None:
    owner = await at.signed_in()
    members, redeem = at.access().members, at.access().redeem_link
    invitation = (await members.invite(owner, "b@example.com", Role.OWNER, None)).invitation
    await members.revoke_invitation(owner, invitation.id, None)
    with pytest.raises(NotFound):
        await members.revoke_invitation(owner, invitation.id, None)
    revoked = at.last_token()
    await members.invite(owner, "c@example.com", Role.OWNER, None)
    at.harness.clock.advance(INVITATION_FOR.total_seconds())
    for token in (revoked, at.last_token()):
        assert await redeem.find_invitation(token) is None
        with pytest.raises(Gone):
            await redeem.for_customer(token, Browser())
    assert len(await members.list_members(owner)) == 1


async def test_a_member_who_is_invited_again_keeps_the_role(at: AccessHarness) -> None:
    owner = await at.signed_in()
    again = await at.join(owner, OWNER, Role.VIEWER)
    assert again.role is Role.OWNER
    assert at.actions()[-1] == "member.invited"


@pytest.mark.parametrize("name", CHANGES)
async def test_owners_alone_change_members(name: str, at: AccessHarness) -> None:
    guest = await at.guest(Role.DEVELOPER)
    before = at.actions()
    with pytest.raises(ActionNotAllowed):
        await CHANGES[name](at.access().members, guest)
    assert at.actions() == before
    assert at.mails == []


async def test_viewers_do_not_see_the_team(at: AccessHarness) -> None:
    viewer, members = await at.guest(Role.VIEWER), at.access().members
    for read in (members.list_members, members.list_invitations):
        with pytest.raises(ActionNotAllowed):
            await read(viewer)


async def test_a_role_is_changed_from_the_next_request_on(at: AccessHarness) -> None:
    owner, members = await at.signed_in(), at.access().members
    developer = await at.join(owner, "b@example.com", Role.DEVELOPER)
    made = await at.sign_in("b@example.com")
    assert developer.user is not None
    for _ in range(2):
        await members.change_role(owner, developer.user.id, Role.VIEWER, None)
    found = await at.access().sessions.find(made.token)
    assert found is not None
    assert found.role is Role.VIEWER
    assert at.actions().count("member.role_changed") == 1
    assert at.log()[-1].details == {"before": "developer", "after": "viewer"}


async def test_a_removed_member_is_out_at_once_and_has_no_link(at: AccessHarness) -> None:
    owner, members = await at.signed_in(), at.access().members
    viewer = await at.join(owner, "b@example.com", Role.VIEWER)
    made = await at.sign_in("b@example.com")
    assert viewer.user is not None
    await members.remove(owner, viewer.user.id, None)
    assert await at.access().sessions.find(made.token) is None
    sent = len(at.mails)
    await at.access().request_link.for_member("b@example.com", "cookie", None)
    assert len(at.mails) == sent
    with pytest.raises(NotFound):
        await members.remove(owner, viewer.user.id, None)


def verifier() -> WebauthnVerifier:
    return WebauthnVerifier("meetcore.test", SITE)


async def join_again(at: AccessHarness, owner: SignedIn) -> UUID | None:
    return (await at.join(owner, "b@example.com", Role.VIEWER)).session.user_id


async def sign_up(at: AccessHarness, _owner: SignedIn) -> UUID | None:
    runtime = at.harness.runtime
    async with at.harness.store.begin() as tx:
        begun = await enter_or_open(
            tx, runtime, runtime.now(), "b@example.com", "B", Browser(), SignInMethod.SIGN_UP
        )
    return begun.session.user_id


async def open_by_operator(at: AccessHarness, _owner: SignedIn) -> UUID | None:
    return (await at.harness.administration.create_account("b@example.com", "B")).user_id


@pytest.mark.parametrize("comes_back", [join_again, sign_up, open_by_operator])
async def test_the_next_holder_of_an_address_gets_no_passkey_of_the_removed_member(
    comes_back: Callable[[AccessHarness, SignedIn], Awaitable[UUID | None]], at: AccessHarness
) -> None:
    owner, access, device = await at.signed_in(), at.access(), SoftwareAuthenticator(SITE, "meetcore.test")
    member = await at.join(owner, "b@example.com", Role.DEVELOPER)
    passkeys = evolve(access.passkeys, open_verifier=verifier)
    sign_in = evolve(access.member_passkeys, open_verifier=verifier)
    visitor = Visitor(member, "cookie", None)
    await passkeys.add(visitor, "Laptop", device.register(await passkeys.ask_to_register(visitor)))

    async def enter() -> object:
        device.sign_count += 1
        return await sign_in.enter(device.sign_in(await sign_in.ask("cookie", None)), Browser("cookie"))

    assert member.user is not None
    other = await at.harness.administration.create_account("c@example.com", "C")
    user_id, now = member.user.id, at.harness.now()
    async with at.harness.store.begin() as tx:
        await tx.members.add_membership(Membership(other.id, user_id, Role.VIEWER, now))
    await access.members.remove(owner, user_id, None)
    await at.join(owner, "b@example.com", Role.DEVELOPER)
    assert await enter(), "a member of another account meanwhile"
    await access.members.remove(owner, user_id, None)
    async with at.harness.store.begin() as tx:
        await tx.members.remove_membership(other.id, user_id, now)
    assert await comes_back(at, owner) == user_id
    with pytest.raises(Unprocessable):
        await enter()
    assert list(await passkeys.list_own(member)) == []


async def test_a_removed_member_gets_no_news_that_waits(at: AccessHarness) -> None:
    owner, access = await at.signed_in(), at.access()
    finance = await at.join(owner, "b@example.com", Role.FINANCE)
    assert finance.user is not None
    async with at.harness.store.begin() as tx:
        low = CreditsFellLow(owner.account.id, 5, 100)
        assert await CreditMails(access.members.mails).low(tx, low) == 2
    await access.members.remove(owner, finance.user.id, None)
    news = [each for each in at.mails if each.kind is contents.MailKind.LOW_CREDITS]
    assert {(each.recipient, each.status) for each in news} == {
        (owner.account.email, MailStatus.PENDING), ("b@example.com", MailStatus.FAILED),
    }  # fmt: skip


async def test_the_last_owner_stays(at: AccessHarness) -> None:
    owner, members = await at.signed_in(), at.access().members
    assert owner.user is not None
    with pytest.raises(Unprocessable):
        await members.remove(owner, owner.user.id, None)
    with pytest.raises(Unprocessable):
        await members.change_role(await at.guest(Role.OWNER), owner.user.id, Role.VIEWER, None)


async def test_two_owners_who_remove_each_other_leave_one(at: AccessHarness) -> None:
    one = await at.signed_in()
    other = await at.join(one, "b@example.com", Role.OWNER)
    assert one.user is not None
    assert other.user is not None
    members = at.access().members
    outcomes = await asyncio.gather(
        members.remove(one, other.user.id, None), members.remove(other, one.user.id, None),
        return_exceptions=True,
    )  # fmt: skip
    assert {type(each) for each in outcomes} == {type(None), NotFound}
    assert len(await members.list_members(one)) == 1


async def test_an_owner_who_is_one_no_more_changes_nothing(at: AccessHarness) -> None:
    one = await at.signed_in()
    other = await at.join(one, "b@example.com", Role.OWNER)
    assert one.user is not None
    assert other.user is not None
    members, dashboard = at.access().members, at.harness.process().dashboard
    keys = dashboard.keys
    invited = (await members.invite(one, "c@example.com", Role.VIEWER, None)).invitation
    minted = await keys.create(one, None, "K", [], None, None, None)
    await members.change_role(one, other.user.id, Role.VIEWER, None)
    for change in (
        members.remove(other, one.user.id, None),
        members.invite(other, "d@example.com", Role.OWNER, None),
        members.revoke_invitation(other, invited.id, None),
        keys.create(other, None, "K", [], None, None, None),
        keys.roll(other, None, minted.key.id, 1, None),
        keys.set_daily_cap(other, None, minted.key.id, 5),
        keys.revoke(other, None, minted.key.id),
        dashboard.settings.set_low_threshold(other, None, 5),
        dashboard.settings.set_statement_mails(other, None, is_on=True),
    ):
        with pytest.raises(ActionNotAllowed):
            await change
    await members.remove(one, other.user.id, None)
    with pytest.raises(NotFound):
        await keys.create(other, None, "K", [], None, None, None)
    assert at.harness.count("invitations") == 2
    assert at.harness.count("api_keys") == 2


async def test_an_invitation_needs_an_address(at: AccessHarness) -> None:
    with pytest.raises(InvalidEmail):
        await at.access().members.invite(await at.signed_in(), "b", Role.VIEWER, None)


async def test_an_account_that_never_had_credits_makes_few_invitations_a_day() -> None:
    at = AccessHarness(ApplicationHarness(credits=0))
    await at.start()
    owner, members = await at.signed_in(), at.access().members
    lefts = [
        (await members.invite(owner, f"n{number}@example.com", Role.VIEWER, None)).left
        for number in range(INVITATIONS_BEFORE_CREDITS)
    ]
    assert lefts == [4, 3, 2, 1, 0]
    for email in ("n0@example.com", "more@example.com"):
        with pytest.raises(Unprocessable, match="Before its first top-up"):
            await members.invite(owner, email, Role.VIEWER, None)
    assert len(await members.list_invitations(owner)) == INVITATIONS_BEFORE_CREDITS
    at.harness.clock.advance(INVITATIONS_WINDOW.total_seconds())
    owner = await at.signed_in()
    assert (await members.invite(owner, "more@example.com", Role.VIEWER, None)).left == 4
    await at.harness.administration.top_up(owner.account.id, 1, "INV-1")
    assert (await members.invite(owner, "last@example.com", Role.VIEWER, None)).left == 43


async def test_pending_invitations_are_bounded_and_one_that_is_taken_back_makes_room(
    at: AccessHarness,
) -> None:
    owner, members = await at.signed_in(), at.access().members
    made = [
        await members.invite(owner, f"n{number}@example.com", Role.VIEWER, None)
        for number in range(MAX_PENDING_INVITATIONS)
    ]
    assert made[-1].left == 0
    with pytest.raises(Unprocessable, match="50 invitations are pending"):
        await members.invite(owner, "more@example.com", Role.VIEWER, None)
    again = await members.invite(owner, "N3@example.com", Role.VIEWER, None)
    assert again.left == 0, "it replaces one"
    await members.revoke_invitation(owner, again.invitation.id, None)
    assert (await members.invite(owner, "more@example.com", Role.VIEWER, None)).left == 0


async def test_an_invitation_that_is_not_mailed_replaces_none(at: AccessHarness) -> None:
    owner, members = await at.signed_in(), at.access().members
    made = [
        await members.invite(owner, "b@example.com", Role.VIEWER, None)
        for _ in range(MailLimits().per_recipient)
    ]
    with pytest.raises(Unprocessable, match="Too many invitations were mailed"):
        await members.invite(owner, "b@example.com", Role.VIEWER, None)
    assert list(await members.list_invitations(owner)) == [made[-1].invitation]
