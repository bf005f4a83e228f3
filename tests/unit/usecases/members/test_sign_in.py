"""Sign-in by one-time links, and the sessions of members, guests and operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import ActionNotAllowed, Gone, NotFound, RateLimited
from meetcore.domain.mails.mails import MailLimits
from meetcore.domain.members.audit import ActorKind
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole, Role
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT, IDLE_LIMIT, SEEN_EVERY, is_fresh
from meetcore.domain.members.sign_in import (
    EMAIL_FOR,
    REQUESTS_PER_ADDRESS,
    REQUESTS_PER_EMAIL,
    REQUESTS_PER_PAIR,
    InvalidMinutes,
)
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.usecases.members.sign_in_links import Browser
from tests.unit.usecases.access_harness import BROWSER, OWNER, AccessHarness, link_in, token_in, token_of
from tests.unit.usecases.application import CrashPoint, SimulatedCrash


async def test_a_link_by_email_signs_the_member_in_once_in_the_same_browser(at: AccessHarness) -> None:
    access = at.access()
    await access.request_link.for_member(OWNER.upper(), "cookie", "192.0.2.1")
    (mail,) = at.mails
    link = link_in(mail)
    assert (mail.recipient, link.expires_at) == (OWNER, at.harness.now() + EMAIL_FOR)
    assert link.url.startswith("/dashboard/sign-in/")
    assert at.harness.notifier.notifications == 1
    token = token_in(mail)
    for elsewhere in (Browser(), Browser("another")):
        with pytest.raises(Gone):
            await access.redeem_link.for_customer(token, elsewhere)
    made = await access.redeem_link.for_customer(token, BROWSER)
    with pytest.raises(Gone):
        await access.redeem_link.for_customer(token, BROWSER)
    found = await access.sessions.find(made.token)
    assert found is not None
    assert found.user is not None
    assert (found.session, found.role, found.user.email) == (made.session, Role.OWNER, OWNER)
    assert (found.session.user_agent, found.session.client_address) == ("Mozilla/5.0", "192.0.2.1")
    assert found.account.id == at.harness.caller.account.id
    assert is_fresh(found.session, at.harness.now())


async def test_no_token_is_stored_shown_or_used_again(at: AccessHarness) -> None:
    made = await at.sign_in()
    link = token_in(at.mails[0])
    stored = at.harness.rig.dump()
    shown = repr(at.mails) + repr(made)
    for secret in (link, made.token, BROWSER.cookie):
        assert secret is not None
        assert secret not in stored
        assert secret not in shown
    assert made.token != link
    assert (await at.sign_in()).token != made.token


async def test_an_unknown_address_is_answered_like_a_known_one(at: AccessHarness) -> None:
    access = at.access()
    await access.request_link.for_member(OWNER, "cookie", None)
    await access.request_link.for_member("nobody@example.com", "cookie", None)
    await access.request_link.for_operator(OWNER, "cookie", None)
    assert [mail.recipient for mail in at.mails] == [OWNER]
    assert at.pauses == [access.request_link.answer_after_s] * 3
    with pytest.raises(InvalidEmail):
        await access.request_link.for_member("nobody", "cookie", None)


@pytest.mark.parametrize("email", [OWNER, "nobody@example.com"])
async def test_requests_for_links_are_limited_by_email_whoever_has_it(email: str, at: AccessHarness) -> None:
    request = at.access().request_link
    for number in range(REQUESTS_PER_EMAIL):
        await request.for_member(email, "cookie", f"192.0.2.{number}")
    with pytest.raises(RateLimited):
        await request.for_member(email.upper(), "cookie", "192.0.2.99")
    at.harness.clock.advance(300)
    await request.for_member(email, "cookie", "192.0.2.99")


@pytest.mark.parametrize("email", [OWNER, "nobody@example.com"])
async def test_a_stranger_at_one_address_keeps_nobody_else_from_asking_for_a_link(email: str) -> None:
    at = await AccessHarness().start()
    request = at.access().request_link
    for _ in range(REQUESTS_PER_PAIR):
        await request.for_member(email, "cookie", "192.0.2.66")
    for _ in range(2 * REQUESTS_PER_EMAIL):
        with pytest.raises(RateLimited):
            await request.for_member(email, "cookie", "192.0.2.66")
    await request.for_member(email, "cookie", "192.0.2.1")
    assert len(at.mails) == (REQUESTS_PER_PAIR + 1 if email == OWNER else 0)


async def test_a_strangers_links_use_up_none_of_the_owners_mails(at: AccessHarness) -> None:
    request = at.access().request_link
    for _ in range(3):
        for _ in range(REQUESTS_PER_PAIR):
            await request.for_member(OWNER, "cookie", "2001:db8::66")
        at.harness.clock.advance(300)
    sent = len(at.mails)
    assert sent == MailLimits().per_recipient
    await request.for_member(OWNER, "cookie", "192.0.2.1")
    assert len(at.mails) == sent + 1


async def test_requests_are_limited_by_address_and_a_refused_one_counts_for_no_email_address(
    at: AccessHarness,
) -> None:
    request = at.access().request_link
    for number in range(REQUESTS_PER_ADDRESS):
        await request.for_member(f"n{number}@example.com", "cookie", "192.0.2.1")
    with pytest.raises(RateLimited):
        await request.for_operator(OWNER, "cookie", "192.0.2.1")
    for _ in range(REQUESTS_PER_EMAIL):
        with pytest.raises(RateLimited):
            await request.for_member(OWNER, "cookie", "192.0.2.1")
    await request.for_member(OWNER, "cookie", "192.0.2.2")


async def test_a_link_that_is_over_signs_nobody_in(at: AccessHarness) -> None:
    await at.access().request_link.for_member(OWNER, "cookie", None)
    at.harness.clock.advance(EMAIL_FOR.total_seconds())
    for token in (token_in(at.mails[0]), "", "x" * 43):
        with pytest.raises(Gone):
            await at.access().redeem_link.for_customer(token, BROWSER)


async def test_of_many_that_use_one_link_at_once_one_is_signed_in(at: AccessHarness) -> None:
    await at.access().request_link.for_member(OWNER, "cookie", None)
    redeem = at.access().redeem_link.for_customer
    many = (redeem(token_in(at.mails[0]), BROWSER) for _ in range(5))
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    assert [type(each) for each in outcomes].count(Gone) == 4
    assert at.harness.count("sessions") == 1


async def test_a_crash_while_a_link_is_used_leaves_it_unused(at: AccessHarness) -> None:
    await at.access().request_link.for_member(OWNER, "cookie", None)
    token = token_in(at.mails[0])
    with pytest.raises(SimulatedCrash):
        await at.access(CrashPoint(2)).redeem_link.for_customer(token, BROWSER)
    made = await at.access().redeem_link.for_customer(token, BROWSER)
    assert await at.access().sessions.find(made.token) is not None


async def test_a_portal_link_signs_in_a_guest_of_its_role(at: AccessHarness) -> None:
    guest = await at.guest(Role.DEVELOPER)
    assert (guest.user, guest.role) == (None, Role.DEVELOPER)
    assert guest.origin("192.0.2.1").actor.kind is ActorKind.GUEST
    assert guest.origin(None).actor.id == guest.session.id
    assert at.actions()[-1] == "portal_link.created"
    with pytest.raises(NotFound):
        await at.access().portal_links.for_guest(UUID(int=7))
    for minutes in (0, 61):
        with pytest.raises(InvalidMinutes):
            await at.access().portal_links.for_guest(guest.account.id, Role.VIEWER, minutes)


async def test_a_portal_link_signs_in_a_member_of_the_account(at: AccessHarness) -> None:
    account_id = at.harness.caller.account.id
    link = await at.access().portal_links.for_member(account_id, OWNER.upper(), 1)
    assert link.expires_at == at.harness.now() + timedelta(minutes=1)
    assert token_of(link.url) not in repr(link)
    made = await at.access().redeem_link.for_customer(token_of(link.url), Browser())
    assert made.session.account_id == account_id
    with pytest.raises(NotFound):
        await at.access().portal_links.for_member(account_id, "nobody@example.com")


async def test_a_portal_link_of_a_member_who_was_removed_signs_nobody_in(at: AccessHarness) -> None:
    owner = await at.signed_in()
    member = await at.join(owner, "b@example.com", Role.VIEWER)
    link = await at.access().portal_links.for_member(owner.account.id, "b@example.com")
    assert member.user is not None
    await at.access().members.remove(owner, member.user.id, None)
    with pytest.raises(Gone):
        await at.access().redeem_link.for_customer(token_of(link.url), Browser())


async def test_a_session_ends_when_it_is_not_used_or_signed_out(at: AccessHarness) -> None:
    sessions = at.access().sessions
    idle, ended = await at.sign_in(), await at.sign_in()
    await sessions.end(ended.session)
    assert await sessions.find(ended.token) is None
    at.harness.clock.advance(IDLE_LIMIT.total_seconds() - 1)
    assert await sessions.find(idle.token) is not None
    at.harness.clock.advance(IDLE_LIMIT.total_seconds())
    assert await sessions.find(idle.token) is None
    for token in (None, "", "x" * 43):
        assert await sessions.find(token) is None
        assert await sessions.find_operator(token) is None


async def test_what_is_long_over_is_deleted(at: AccessHarness) -> None:
    await at.sign_in()
    at.harness.clock.advance(ABSOLUTE_LIMIT.total_seconds())
    made = await at.sign_in()
    at.harness.clock.advance(1)
    await at.access().sessions.purge()
    assert [row["id"] for row in at.harness.read("SELECT id FROM sessions")] == [made.session.id]
    assert at.harness.count("sign_in_links") == 1


async def test_the_last_use_is_written_once_a_minute(at: AccessHarness) -> None:
    made = await at.sign_in()
    crash = CrashPoint()
    sessions = at.access(crash).sessions
    at.harness.clock.advance(SEEN_EVERY.total_seconds() - 1)
    assert await sessions.find(made.token)
    assert crash.burnt == 0, "no transaction"
    at.harness.clock.advance(1)
    assert await sessions.find(made.token)
    assert await sessions.find(made.token)
    assert crash.burnt == 3, "one transaction"


async def test_a_user_lists_and_ends_own_sessions(at: AccessHarness) -> None:
    sessions = at.access().sessions
    one = await at.signed_in()
    two, three = await at.signed_in(), await at.signed_in()
    guest = await at.guest(Role.OWNER)
    assert {each.id for each in await sessions.list_own(one)} == {
        one.session.id, two.session.id, three.session.id, guest.session.id,
    }  # fmt: skip
    assert list(await sessions.list_own(guest)) == [guest.session]
    await sessions.end_own(one, two.session.id, None)
    for foreign in (two.session.id, UUID(int=7)):
        with pytest.raises(NotFound):
            await sessions.end_own(one, foreign, None)
    assert (await sessions.end_others(guest, None), await sessions.end_others(one, None)) == (0, 2)
    assert list(await sessions.list_own(one)) == [one.session]


async def test_an_owner_lists_and_ends_guests_and_operators_views(at: AccessHarness) -> None:
    sessions, owner = at.access().sessions, await at.signed_in()
    one, two, view = (
        await at.guest(Role.OWNER),
        await at.guest(Role.VIEWER),
        await at.view(await at.operator()),
    )
    ids = [view.session.id, two.session.id, one.session.id]
    assert [each.id for each in await sessions.list_own(owner)] == [owner.session.id, *ids]
    assert [each.id for each in await sessions.list_own(one)] == ids, "a guest who is an owner"
    for ended in ids[:2]:
        await sessions.end_own(owner, ended, None)
        with pytest.raises(NotFound):
            await sessions.end_own(owner, ended, None)
    assert await sessions.find(view.token) is None
    assert list(await sessions.list_own(owner)) == [owner.session, one.session]


async def test_other_roles_and_other_accounts_neither_see_nor_end_guests(at: AccessHarness) -> None:
    sessions, guest = at.access().sessions, await at.guest(Role.OWNER)
    await at.harness.administration.create_account("b@example.com", "B")
    for who in (await at.guest(Role.DEVELOPER), await at.signed_in("b@example.com")):
        assert list(await sessions.list_own(who)) == [who.session]
        with pytest.raises(NotFound):
            await sessions.end_own(who, guest.session.id, None)
        await sessions.end_others(who, None)
    assert await sessions.list_own(guest) != [], "it goes on"


async def test_an_owners_sign_out_everywhere_ends_guests_and_views_and_voids_their_links(
    at: AccessHarness,
) -> None:
    access, owner, account_id = at.access(), await at.signed_in(), at.harness.caller.account.id
    guest, view = await at.guest(Role.OWNER), await at.view(await at.operator())
    link = await access.portal_links.for_guest(account_id)
    assert await access.sessions.end_others(owner, None) == 2
    assert list(await access.sessions.list_own(owner)) == [owner.session]
    assert await access.sessions.find(view.token) is None
    with pytest.raises(NotFound):
        await access.sessions.end_own(owner, guest.session.id, None)
    with pytest.raises(Gone):
        await access.redeem_link.for_customer(token_of(link.url), Browser())


async def test_an_operator_lists_and_ends_own_sessions_with_views_and_links(at: AccessHarness) -> None:
    access, one = at.access(), await at.operator()
    sessions, links = access.sessions, access.portal_links
    made = []
    for _ in range(3):
        link = await links.for_operator(one.operator.id)
        made.append(await access.redeem_link.for_operator(token_of(link.url), Browser()))
    other = await at.operator("other@example.com")
    assert [each.id for each in await sessions.list_own(one)] == [
        made[2].session.id, made[1].session.id, made[0].session.id, one.session.id,
    ]  # fmt: skip
    await sessions.end_own(one, made[0].session.id, None)
    for foreign in (made[0].session.id, other.session.id):
        with pytest.raises(NotFound):
            await sessions.end_own(one, foreign, None)
    view, unused = await at.view(one), await links.for_operator(one.operator.id)
    await access.request_link.for_operator(one.operator.email, "cookie", None)
    mailed = at.last_token()
    assert await sessions.end_others(one, "192.0.2.1") == 2
    assert list(await sessions.list_own(one)) == [one.session]
    assert await sessions.find(view.token) is None
    for token in (token_of(unused.url), mailed):
        with pytest.raises(Gone):
            await access.redeem_link.for_operator(token, BROWSER)
    assert list(await sessions.list_own(other)) == [other.session]
    [ended, others] = [
        each for each in at.log() if each.action.startswith("session.") and "end" in each.action
    ]
    assert {(each.account_id, each.actor.name) for each in (ended, others)} == {(None, "ops@example.com")}


async def test_a_member_who_comes_by_a_pinned_link_stays_in_its_account(at: AccessHarness) -> None:
    account_id = at.harness.caller.account.id
    sessions, links = at.access().sessions, evolve(at.access().portal_links, pins=True)
    link = await links.for_member(account_id, OWNER)
    made = await at.access().redeem_link.for_customer(token_of(link.url), Browser())
    found = await sessions.find(made.token)
    assert found is not None
    assert found.session.is_pinned
    assert not is_fresh(found.session, at.harness.now())
    assert [each.account_id for each in await sessions.list_accounts(found)] == [account_id]
    with pytest.raises(NotFound):
        await sessions.switch_account(found, account_id, BROWSER)
    guest = await at.access().redeem_link.for_customer(
        token_of((await links.for_guest(account_id)).url), Browser()
    )
    assert guest.session.is_pinned
    assert is_fresh(guest.session, at.harness.now()), "a guest has no other way to sign in"


@pytest.mark.parametrize("role", [Role.OWNER, Role.VIEWER])
async def test_a_pinned_session_ends_itself_and_guests_and_no_other_of_the_user(
    role: Role, at: AccessHarness
) -> None:
    owner, email, access = await at.signed_in(), "b@example.com", at.access()
    await at.harness.administration.create_account(email, "B")
    await at.join(owner, email, role)
    own = await at.signed_in(email)
    links = evolve(access.portal_links, pins=True)
    unused = await links.for_member(owner.account.id, email)
    pinned = []
    for _ in range(2):
        link = await links.for_member(owner.account.id, email)
        made = await access.redeem_link.for_customer(token_of(link.url), Browser())
        found = await access.sessions.find(made.token)
        assert found is not None
        pinned.append(found)
    one, guest = pinned[1], await at.guest(Role.VIEWER)
    guests = [guest.session] if role is Role.OWNER else []
    assert list(await access.sessions.list_own(one)) == [one.session, *guests]
    for foreign in (own, pinned[0]):
        with pytest.raises(NotFound):
            await access.sessions.end_own(one, foreign.session.id, None)
    assert await access.sessions.end_others(one, None) == len(guests)
    assert list(await access.sessions.list_own(one)) == [one.session]
    for other in (own, pinned[0]):
        assert other.session in await access.sessions.list_own(own)
    await access.redeem_link.for_customer(token_of(unused.url), Browser())
    assert await access.sessions.end_others(own, None) > 2, "the user's own session ends pinned ones"


async def test_a_user_of_two_accounts_goes_from_one_to_the_other(at: AccessHarness) -> None:
    owner = await at.signed_in()
    other = await at.harness.administration.create_account("b@example.com", "B")
    at.harness.clock.advance(1)
    member = await at.join(owner, "b@example.com", Role.VIEWER)
    assert member.account.id == owner.account.id
    first = await at.signed_in("b@example.com")
    assert first.account.id == other.id, "the oldest membership"
    at.harness.clock.advance(20 * 60)
    sessions = at.access().sessions
    made = await sessions.switch_account(first, owner.account.id, BROWSER)
    found = await sessions.find(made.token)
    assert found is not None
    assert (found.account.id, found.role) == (owner.account.id, Role.VIEWER)
    assert not is_fresh(found.session, at.harness.now()), "no fresh sign-in"
    assert first.session.id not in {each.id for each in await sessions.list_own(found)}
    for signed_in, account_id in ((owner, other.id), (await at.guest(Role.OWNER), other.id)):
        with pytest.raises(NotFound):
            await sessions.switch_account(signed_in, account_id, BROWSER)


async def test_a_session_that_has_ended_is_replaced_by_none(at: AccessHarness) -> None:
    owner = await at.signed_in()
    await at.harness.administration.create_account("b@example.com", "B")
    await at.join(owner, "b@example.com", Role.VIEWER)
    stolen, rightful = await at.signed_in("b@example.com"), await at.signed_in("b@example.com")
    await at.access().sessions.end_others(rightful, None)
    with pytest.raises(NotFound):
        await at.access().sessions.switch_account(stolen, owner.account.id, BROWSER)
    assert list(await at.access().sessions.list_own(rightful)) == [rightful.session]


async def test_of_a_switch_beside_a_sign_out_everywhere_nothing_stays(at: AccessHarness) -> None:
    owner = await at.signed_in()
    await at.harness.administration.create_account("b@example.com", "B")
    await at.join(owner, "b@example.com", Role.VIEWER)
    sessions, rightful = at.access().sessions, await at.signed_in("b@example.com")
    for _ in range(5):
        stolen = await at.signed_in("b@example.com")
        await asyncio.gather(
            sessions.switch_account(stolen, owner.account.id, BROWSER), sessions.end_others(rightful, None),
            return_exceptions=True,
        )  # fmt: skip
        assert list(await sessions.list_own(rightful)) == [rightful.session]


async def test_an_operators_session_that_has_ended_begins_no_view(at: AccessHarness) -> None:
    sessions, rightful = at.access().sessions, await at.operator()
    link = await at.access().portal_links.for_operator(rightful.operator.id)
    stolen = await at.access().redeem_link.for_operator(token_of(link.url), Browser())
    with_stolen = evolve(rightful, session=stolen.session)
    assert (await at.view(with_stolen)).token
    await sessions.end_others(rightful, None)
    with pytest.raises(NotFound):
        await at.view(with_stolen)
    await sessions.end(rightful.session)
    with pytest.raises(NotFound):
        await at.view(rightful)


async def test_of_a_view_beside_an_operators_sign_out_nothing_stays(at: AccessHarness) -> None:
    sessions, one = at.access().sessions, await at.operator()
    for end in (sessions.end_others, lambda who, _: sessions.end(who.session)):
        for _ in range(5):
            link = await at.access().portal_links.for_operator(one.operator.id)
            made = await at.access().redeem_link.for_operator(token_of(link.url), Browser())
            other = evolve(one, session=made.session)
            by = one if end == sessions.end_others else other
            begun, _ended = await asyncio.gather(at.view(other), end(by, None), return_exceptions=True)
            if not isinstance(begun, NotFound):
                assert not isinstance(begun, BaseException)
                assert await sessions.find(begun.token) is None


async def test_links_asked_for_before_a_sign_out_everywhere_work_no_more(at: AccessHarness) -> None:
    owner = await at.signed_in()
    await at.access().request_link.for_member(OWNER, "cookie", None)
    mailed = at.last_token()
    portal = await at.access().portal_links.for_member(owner.account.id, OWNER)
    await at.access().sessions.end_others(owner, None)
    for token in (mailed, token_of(portal.url)):
        with pytest.raises(Gone):
            await at.access().redeem_link.for_customer(token, BROWSER)
    assert (await at.sign_in()).token, "one that is asked for afterwards works"


async def test_an_operators_session_ends_like_a_customers(at: AccessHarness) -> None:
    access = at.access()
    operator = await access.operators.add("ops@example.com", OperatorRole.SUPPORT)
    made = []
    for _ in range(3):
        link = await access.portal_links.for_operator(operator.id)
        made.append(await access.redeem_link.for_operator(token_of(link.url), Browser()))
    await access.sessions.end(made[0].session)
    assert await access.sessions.find_operator(made[0].token) is None
    at.harness.clock.advance(IDLE_LIMIT.total_seconds() - 1)
    assert await access.sessions.find_operator(made[1].token) is not None
    at.harness.clock.advance(1)
    assert await access.sessions.find_operator(made[1].token) is not None
    assert await access.sessions.find_operator(made[2].token) is None
    await access.operators.remove(operator.id)
    await access.operators.remove(operator.id)
    assert await access.sessions.find_operator(made[1].token) is None
    assert list(await access.operators.list_operators()) == []
    assert at.actions()[-1] == "operator.removed"
    with pytest.raises(NotFound):
        await access.portal_links.for_operator(operator.id)


@pytest.mark.parametrize("role", OperatorRole)
async def test_a_program_of_an_operators_makes_links_by_its_role(
    role: OperatorRole, at: AccessHarness
) -> None:
    access, account_id = at.access(), at.harness.caller.account.id
    operator = await access.operators.add("ops@example.com", role)
    minted = await access.operator_tokens.create(role, "billing")
    links = access.portal_links.by_token(minted.token, "192.0.2.1")
    before = at.log()
    manages: list[Callable[[], Awaitable[object]]] = [lambda: links.for_operator(operator.id)]
    makes: list[Callable[[], Awaitable[object]]] = [
        lambda: links.for_guest(account_id),
        lambda: links.for_guest(account_id, Role.DEVELOPER),
    ]
    makes_owners: list[Callable[[], Awaitable[object]]] = [
        lambda: links.for_guest(account_id, Role.OWNER),
        lambda: links.for_member(account_id, OWNER),
    ]
    for attempts, action in (
        (makes, OperatorAction.MAKE_PORTAL_LINKS), (makes_owners, OperatorAction.MAKE_OWNER_LINKS),
        (manages, OperatorAction.MANAGE_OPERATORS),
    ):  # fmt: skip
        for attempt in attempts:
            if action in OPERATORS_ALLOWED[role]:
                await attempt()
                continue
            with pytest.raises(ActionNotAllowed):
                await attempt()
    done = at.log()[len(before) :]
    assert {entry.actor.name for entry in done} <= {"token billing"}
    assert len(done) == 2 * (role is not OperatorRole.FINANCE) + 3 * (role is OperatorRole.ADMIN)
