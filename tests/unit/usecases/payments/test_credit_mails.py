"""Mails about payments, and about credits that run low."""

from __future__ import annotations

from uuid import UUID

import pytest

from meetcore.domain.mails.contents import (
    LowCredits,
    MailContent,
    PaymentEnded,
    PaymentReceived,
    PaymentRefunded,
)
from meetcore.domain.members.roles import Role
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.domain.payments.refunds import RefundState
from tests.support.records import put_member
from tests.unit.usecases.access_harness import WHERE
from tests.unit.usecases.application import ApplicationHarness, SimulatedCrash, crash_points
from tests.unit.usecases.fakes import recorded
from tests.unit.usecases.note_scenario import note_scenario
from tests.unit.usecases.payments.gateway import PaymentHarness
from tests.unit.usecases.payments.test_refunds import ONE, refund

PAGE = "https://meet.example/dashboard/credits"
OWNER = "a@example.com"
"""The owner of a harness's account, by whose address it was opened."""
MAILED = {"sends_mails": True, "base_url": "https://meet.example"}


async def opened() -> tuple[PaymentHarness, set[str]]:
    """A shop whose account has members, and the addresses of those who read about credits."""
    shop = await PaymentHarness(ApplicationHarness(credits=0, policy=MAILED)).start()
    account_id = shop.harness.caller.account.id
    users = {role: await put_member(shop.harness.rig, account_id, role) for role in Role}
    return shop, {OWNER, users[Role.OWNER].email, users[Role.FINANCE].email}


def contents(harness: ApplicationHarness) -> dict[str, list[MailContent | None]]:
    """What was queued, by recipient."""
    found: dict[str, list[MailContent | None]] = {}
    for mail in harness.mails():
        found.setdefault(mail.recipient, []).append(mail.content)
    return found


async def test_a_received_payment_is_mailed_once_with_its_receipt() -> None:
    for point in crash_points():
        shop, readers = await opened()
        payment_id = await shop.bought()
        await shop.pay(payment_id, notify=2)
        try:
            await shop.follow(point)
        except* SimulatedCrash:
            pass
        shop.harness.clock.advance(31)
        await shop.notify(payment_id)
        await shop.follow()
        received = PaymentReceived("2026-000001", 500, 555_000, "IDR", "A", f"{PAGE}/{payment_id}")
        assert contents(shop.harness) == {reader: [received] for reader in readers}


@pytest.mark.parametrize(
    ("status", "is_expired"), [(GatewayStatus.FAILED, False), (GatewayStatus.EXPIRED, True)]
)
async def test_a_payment_that_ended_unpaid_is_mailed_once(status: GatewayStatus, is_expired: bool) -> None:
    shop, readers = await opened()
    payment_id = await shop.bought()
    await shop.payments.end(payment_id, status)
    for _ in range(2):
        await shop.notify(payment_id)
        await shop.follow()
    ended = PaymentEnded(500, 555_000, "IDR", is_expired, "A", f"{PAGE}/{payment_id}")
    assert contents(shop.harness) == {reader: [ended] for reader in readers}
    assert shop.harness.notifier.notifications


async def test_a_payment_whose_page_was_never_shown_is_not_mailed() -> None:
    shop, _ = await opened()
    payment_id = await shop.bought()
    shop.payments.kept.clear()
    shop.harness.write("UPDATE payments SET payment_url = NULL, reference = NULL, next_look_at = now()")
    await shop.follow()
    assert (await shop.payment(payment_id)).status == "failed"
    assert contents(shop.harness) == {}


async def test_the_decisions_of_operators_are_mailed() -> None:
    shop, readers = await opened()
    async with shop.harness.store.begin() as tx:
        await tx.operators.add(ONE.operator)
    good, bad = await shop.bought(), await shop.bought()
    for each in (good, bad):
        await shop.pay(each, 1)
    await shop.follow()
    console = shop.process().console.payments
    await console.accept(ONE, WHERE, good)
    await console.dismiss(ONE, WHERE, bad, "never paid")
    received = PaymentReceived("2026-000001", 500, 555_000, "IDR", "A", f"{PAGE}/{good}")
    ended = PaymentEnded(500, 555_000, "IDR", False, "A", f"{PAGE}/{bad}")
    assert contents(shop.harness) == {reader: [received, ended] for reader in readers}


async def paid() -> tuple[PaymentHarness, set[str], UUID]:
    """The same with an operator, and a payment that was made."""
    shop, readers = await opened()
    async with shop.harness.store.begin() as tx:
        await tx.operators.add(ONE.operator)
    payment_id = await shop.bought()
    await shop.pay(payment_id)
    await shop.follow()
    return shop, readers, payment_id


@pytest.mark.parametrize("state", [RefundState.SENT, RefundState.FAILED])
async def test_a_refund_is_mailed_once(state: RefundState) -> None:
    shop, readers, payment_id = await paid()
    await refund(shop, payment_id)
    shop.payments.refund_state = state
    for _ in range(2):
        await shop.follow()
        await shop.notify(payment_id)
    mails = PaymentRefunded(100, 111_000, "IDR", state is RefundState.FAILED, "A", f"{PAGE}/{payment_id}")
    assert {reader: found[1:] for reader, found in contents(shop.harness).items()} == {
        reader: [mails] for reader in readers
    }


async def mailed(credits: int = 120) -> ApplicationHarness:
    return await ApplicationHarness(credits=credits, policy=MAILED).start()


async def test_credits_that_a_posting_makes_low_are_mailed_once() -> None:
    harness = await mailed()
    use, account_id = harness.administration, harness.caller.account.id
    await use.adjust(account_id, -10, "usage")  # from now on the funds are remembered
    assert contents(harness) == {}
    await use.adjust(account_id, -20, "usage", "r")
    await use.adjust(account_id, -20, "usage", "r")
    await use.adjust(account_id, -1, "usage")
    low = LowCredits(90, 100, "A", PAGE)
    assert contents(harness) == {OWNER: [low]}
    assert harness.notifier.notifications
    await use.top_up(account_id, 50)
    await use.adjust(account_id, -50, "usage")
    assert contents(harness) == {OWNER: [low, LowCredits(89, 100, "A", PAGE)]}
    harness.prove()


async def test_credits_that_a_meeting_makes_low_are_mailed_once() -> None:
    for point in crash_points():
        harness = await mailed(115)
        for number in range(2):
            try:
                await harness.make(crash_point=point, date=f"2026-12-0{number + 3}")
            except SimulatedCrash:
                await harness.recover()
        balance = harness.funds().balance
        assert contents(harness) == ({OWNER: [LowCredits(95, 100, "A", PAGE)]} if balance < 100 else {})


async def test_credits_that_a_refund_makes_low_are_mailed() -> None:
    shop, readers, payment_id = await paid()
    await shop.harness.administration.adjust(shop.harness.caller.account.id, -390, "usage")
    await refund(shop, payment_id, 20)
    low = LowCredits(90, 100, "A", PAGE)
    assert {reader: found[1:] for reader, found in contents(shop.harness).items()} == {
        reader: [low] for reader in readers
    }


async def test_credits_that_notes_make_low_are_mailed() -> None:
    one = await note_scenario(recorded("rapat", 601.0), credits=120)
    one.harness.policy = MAILED
    await one.ask()
    await one.work(one.harness.write_notes())
    assert contents(one.harness) == {OWNER: [LowCredits(94, 100, "A", PAGE)]}
    one.prove()
