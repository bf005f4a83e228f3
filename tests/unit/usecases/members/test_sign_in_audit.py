"""Sign-ins, refusals, sign-outs and reads in the audit log, and the bound of those that can be repeated."""

from __future__ import annotations

import pytest

from meetcore.domain.errors import Gone
from meetcore.domain.members.audit import REPEATS_IN_A_WINDOW, ActorKind, AuditEntry
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sign_in import REQUEST_WINDOW_S
from meetcore.domain.money.views import TransactionFilter
from meetcore.usecases.members.sign_in_links import Browser
from tests.unit.usecases.access_harness import BROWSER, OWNER, WHERE, AccessHarness, operator, token_of


def of(at: AccessHarness, *actions: str) -> list[AuditEntry]:
    return [entry for entry in at.log() if entry.action in actions]


def methods(at: AccessHarness, action: str = "session.started") -> list[object]:
    return [entry.details["how"] for entry in of(at, action)]


async def test_each_sign_in_is_recorded_with_how_and_from_where(at: AccessHarness) -> None:
    owner = await at.signed_in()
    guest = await at.guest(Role.VIEWER)
    await at.join(owner, "new@example.com", Role.VIEWER)
    first, second, third = of(at, "session.started")
    assert methods(at) == ["email_link", "portal_link", "invitation"]
    assert owner.user is not None
    assert (first.actor.id, first.target_id) == (owner.user.id, str(owner.session.id))
    assert (first.account_id, first.client_address) == (owner.account.id, BROWSER.client_address)
    assert (second.actor.kind, second.actor.id) == (ActorKind.GUEST, guest.session.id)
    assert third.actor.kind is ActorKind.MEMBER


async def test_a_sign_in_to_the_console_is_recorded_with_the_operators_address(at: AccessHarness) -> None:
    access = at.access()
    one = await access.operators.add("ops@example.com", OperatorRole.SUPPORT)
    link = await access.portal_links.for_operator(one.id)
    await access.redeem_link.for_operator(token_of(link.url), Browser(None, "", WHERE))
    [entry] = of(at, "session.started")
    assert (entry.account_id, entry.actor.id, entry.actor.name) == (None, one.id, "ops@example.com")
    assert (entry.client_address, entry.details) == (WHERE, {"how": "portal_link"})
    with pytest.raises(Gone):
        await access.redeem_link.for_operator(token_of(link.url), Browser())
    [refused] = of(at, "session.refused")
    assert (refused.account_id, refused.target_id) == (None, str(one.id))


async def test_a_used_link_and_one_of_another_browser_are_recorded_for_its_user(at: AccessHarness) -> None:
    access = at.access()
    await access.request_link.for_member(OWNER, "cookie", None)
    token = at.last_token()
    with pytest.raises(Gone):
        await access.redeem_link.for_customer(token, Browser("another", "", WHERE))
    await access.redeem_link.for_customer(token, BROWSER)
    with pytest.raises(Gone):
        await access.redeem_link.for_customer(token, BROWSER)
    first, second = of(at, "session.refused")
    assert (first.client_address, second.client_address) == (WHERE, BROWSER.client_address)
    assert (first.actor.kind, first.account_id) == (ActorKind.SYSTEM, at.harness.caller.account.id)
    queries = at.harness.process().ports.queries
    [_, _, shown, *_] = await queries.list_audit_entries(first.account_id, 9, None)
    assert shown.id == first.id
    assert shown.details == {"how": "email_link", "email": OWNER}, "looked up when it is shown"
    assert OWNER not in str(at.harness.read("SELECT details FROM audit_log"))


async def test_an_unknown_link_is_not_recorded(at: AccessHarness) -> None:
    for token in ("A" * 43, "no token"):
        with pytest.raises(Gone):
            await at.access().redeem_link.for_customer(token, BROWSER)
        with pytest.raises(Gone):
            await at.access().redeem_link.for_operator(token, BROWSER)
    assert of(at, "session.refused") == []


async def test_a_link_of_an_operator_who_was_removed_is_refused(at: AccessHarness) -> None:
    access = at.access()
    one = await access.operators.add("ops@example.com", OperatorRole.SUPPORT)
    link = await access.portal_links.for_operator(one.id)
    await access.operators.remove(one.id)
    with pytest.raises(Gone):
        await access.redeem_link.for_operator(token_of(link.url), BROWSER)
    assert at.harness.count("operator_sessions") == 0
    [refused] = of(at, "session.started", "session.refused")
    assert (refused.action, refused.target_id) == ("session.refused", str(one.id))


async def test_who_holds_a_used_link_does_not_fill_the_audit_log(at: AccessHarness) -> None:
    await at.sign_in()
    token, links = at.last_token(), at.access().redeem_link

    async def try_often() -> None:
        for _ in range(REPEATS_IN_A_WINDOW + 5):
            with pytest.raises(Gone):
                await links.for_customer(token, BROWSER)

    await try_often()
    assert len(of(at, "session.refused")) == REPEATS_IN_A_WINDOW
    at.harness.clock.advance(REQUEST_WINDOW_S)
    await try_often()
    assert len(of(at, "session.refused")) == 2 * REPEATS_IN_A_WINDOW


async def test_sign_outs_of_other_sessions_are_recorded_once(at: AccessHarness) -> None:
    owner, two = await at.signed_in(), await at.signed_in()
    await at.signed_in()
    await at.access().sessions.end_own(owner, two.session.id, WHERE)
    for _ in range(2):
        await at.access().sessions.end_others(owner, WHERE)
    one, others = of(at, "session.ended", "session.others_ended")
    assert (one.target_id, one.client_address) == (str(two.session.id), WHERE)
    assert (others.details, others.client_address) == ({"ended": 1}, WHERE)


async def test_downloads_of_the_ledger_are_recorded(at: AccessHarness) -> None:
    guest = await at.guest(Role.VIEWER)
    reads = at.harness.process().dashboard.reads
    for _ in range(REPEATS_IN_A_WINDOW + 1):
        pages = await reads.file_of_entries(guest, WHERE, TransactionFilter(), None)
        del pages  # gives its place back
    entries = of(at, "ledger.downloaded")
    assert len(entries) == REPEATS_IN_A_WINDOW
    assert (entries[0].actor.id, entries[0].client_address) == (guest.session.id, WHERE)


async def test_what_an_operator_searches_and_reads_is_recorded(at: AccessHarness) -> None:
    who, account_id = operator(), at.harness.caller.account.id
    accounts = at.harness.process().console.accounts
    await accounts.search(who, WHERE, "")
    await accounts.search(who, WHERE, OWNER)
    await accounts.search(who, WHERE, "nobody@example.com")
    await accounts.find(who, WHERE, account_id)
    found, none, read = of(at, "account.searched", "account.read")
    assert [each.account_id for each in (found, none, read)] == [account_id, None, account_id]
    assert [each.details for each in (found, none, read)] == [{"found": 1}, {"found": 0}, {}]
    assert {(each.actor.name, each.client_address) for each in (found, none, read)} == {
        ("ops@example.com", WHERE)
    }
    for _ in range(REPEATS_IN_A_WINDOW):
        await accounts.find(who, WHERE, account_id)
    assert len(of(at, "account.read")) == REPEATS_IN_A_WINDOW
