"""Refunds and doubts of payments, as operators settle them."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import ActionNotAllowed, Conflict
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money.ledger import InvalidReason, InvalidReference
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.payments.payments import Doubt, GatewayStatus, PaymentStatus, topup_reference
from meetcore.domain.payments.refunds import RefundState
from meetcore.ports.payments import GatewayRefused, GatewayUnknown, Notification
from meetcore.usecases.requests.console import Movement
from tests.unit.usecases.access_harness import WHERE, operator
from tests.unit.usecases.application import CrashPoint, SimulatedCrash, crash_points
from tests.unit.usecases.payments.gateway import PaymentHarness

ONE, SUPPORT = operator(OperatorRole.FINANCE), operator(OperatorRole.SUPPORT)
OTHER = evolve(ONE, operator=evolve(ONE.operator, id=UUID(int=9), email="other@example.com"))


@pytest.fixture
async def shop() -> PaymentHarness:
    shop = await PaymentHarness().start()
    async with shop.harness.store.begin() as tx:
        await tx.operators.add(ONE.operator)
        await tx.operators.add(OTHER.operator)
    return shop


async def paid(shop: PaymentHarness) -> UUID:
    payment_id = await shop.bought()
    await shop.pay(payment_id)
    await shop.follow()
    return payment_id


async def paid_late(shop: PaymentHarness) -> UUID:
    payment_id = await shop.bought()
    await shop.payments.end(payment_id, GatewayStatus.EXPIRED)
    await shop.notify(payment_id)
    await shop.follow()
    await shop.pay(payment_id)
    await shop.follow()
    return payment_id


async def refunded(shop: PaymentHarness, state: RefundState) -> UUID:
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    shop.payments.refund_state = state
    await shop.follow()
    return payment_id


async def refund(
    shop: PaymentHarness, payment_id: UUID, credits: int = 100, who: SignedInOperator = ONE,
    crash_point: CrashPoint | None = None, reason: str = "asked for",
) -> Movement:  # fmt: skip
    accounts = shop.process(crash_point).console.accounts
    return await accounts.move_credits(
        who, WHERE, shop.harness.caller.account.id, ProposalKind.REFUND, -credits, reason,
        topup_reference(payment_id),
    )  # fmt: skip


async def test_a_refund_takes_credits_and_sends_their_money_back_once(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    assert await refund(shop, payment_id) is Movement.POSTED
    assert shop.harness.funds().balance == 400
    assert shop.payments.refunds == []  # the money follows
    for _ in range(3):
        await shop.follow()
        await shop.notify(payment_id)
    assert shop.payments.refunds == [(payment_id, 111_000)]
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.is_doubtful, payment.next_look_at is None) == (
        PaymentStatus.REFUNDED,
        False,
        False,
    )
    with pytest.raises(Conflict, match="Only a paid payment can be refunded"):
        await refund(shop, payment_id, 50)
    shop.harness.prove()


async def test_a_payment_of_another_gateway_is_not_refunded_here(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    shop.harness.write("UPDATE payments SET gateway = 'midtrans'")
    with pytest.raises(Conflict, match="was paid by midtrans, which is not the gateway that is set"):
        await refund(shop, payment_id)
    assert shop.harness.funds().balance == 500
    assert (await shop.payment(payment_id)).status is PaymentStatus.PAID


async def test_refunds_alone_are_summed_over_a_day(shop: PaymentHarness) -> None:
    first, second = await paid(shop), await paid(shop)
    assert await refund(shop, first, 60) is Movement.POSTED
    assert await refund(shop, second, 60) is Movement.PROPOSED
    assert shop.harness.funds().balance == 940


async def test_a_lost_answer_of_a_refund_sends_no_money_twice(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    shop.faults.plan("answer of refund", GatewayUnknown("lost"))
    await shop.follow()
    shop.harness.clock.advance(3_601)
    await shop.follow()
    assert shop.payments.refunds == [(payment_id, 111_000)]
    (row,) = shop.harness.read("SELECT paid_back_at FROM payment_refunds")
    assert row["paid_back_at"] is not None


async def test_a_refund_that_the_gateway_refuses_is_in_doubt(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    shop.faults.plan("refund", GatewayRefused("too old"))
    await shop.follow()
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.doubt) == (PaymentStatus.REFUNDED, Doubt.REFUND_REFUSED)
    console = shop.process().console.payments
    assert [each.payment.id for each in await console.list_payments(ONE, 10, None, in_doubt=True)] == [
        payment_id
    ]
    await console.dismiss(ONE, WHERE, payment_id, "sent by bank transfer")
    assert await console.list_payments(ONE, 10, None, in_doubt=True) == []
    await shop.notify(payment_id)  # makes it due again
    await shop.follow()
    assert shop.payments.refunds == []
    assert (await shop.payment(payment_id)).next_look_at is None


async def test_a_refund_is_followed_until_the_gateway_has_sent_it(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    shop.payments.refund_state = RefundState.UNDER_WAY
    for _ in range(2):
        await shop.follow()
        found = await shop.papers(payment_id)
        assert found.refund is not None
        assert (found.payment.status, found.refund.paid_back_at) == (PaymentStatus.REFUNDED, None)
        shop.harness.clock.advance(3_601)
    shop.payments.refund_state = RefundState.SENT
    await shop.follow()
    found = await shop.papers(payment_id)
    assert found.refund is not None
    assert found.refund.paid_back_at == shop.now()
    assert found.payment.next_look_at is None
    assert found.receipt is not None


@pytest.mark.parametrize("is_sent_first", [True, False])
async def test_the_credits_of_a_refund_that_failed_are_given_back_once(
    shop: PaymentHarness, is_sent_first: bool
) -> None:
    payment_id = await refunded(shop, RefundState.SENT if is_sent_first else RefundState.UNDER_WAY)
    assert shop.harness.funds().balance == 400
    shop.payments.refund_state = RefundState.FAILED
    kept = shop.payments.kept
    kept[payment_id] = evolve(kept[payment_id], status=GatewayStatus.PAID)
    for _ in range(2):
        await shop.notify(payment_id)
        await shop.follow()
    found = await shop.papers(payment_id)
    assert found.refund is not None
    assert found.refund.failed_at is not None
    assert (found.payment.status, found.payment.doubt) == (PaymentStatus.PAID, Doubt.REFUND_FAILED)
    assert found.payment.is_doubtful
    assert [entry.amount for entry in shop.harness.entries()] == [500, -100, 100]
    assert shop.harness.entries()[-1].transfer.operation == f"topup:payment:{payment_id}:refund_failed"
    assert shop.payments.refunds == [(payment_id, 111_000)]
    with pytest.raises(Conflict, match="The gateway failed to refund this payment"):
        await refund(shop, payment_id, 50)
    (income,) = await shop.process().console.payments.list_income(ONE)
    assert (income.received, income.refunded) == (555_000, 0)
    shop.harness.prove()


async def test_a_refusal_of_a_refund_that_was_sent_means_nothing(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    await shop.follow()
    shop.faults.plan("refund", GatewayRefused("another key"))
    await shop.notify(payment_id)
    await shop.follow()
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.doubt, payment.next_look_at) == (PaymentStatus.REFUNDED, None, None)


@pytest.mark.parametrize("is_refunded", [True, False])
async def test_a_dispute_is_put_on_the_operators_list(shop: PaymentHarness, is_refunded: bool) -> None:
    payment_id = await paid(shop)
    if is_refunded:
        await refund(shop, payment_id)
    shop.harness.write("UPDATE payments SET transaction_id = 'pi_1'")
    receive = shop.process().payments.receive_notification
    notice = Notification(None, "the reason", transaction_id="pi_1", is_dispute=True)
    balance = shop.harness.funds().balance
    assert await receive(notice)
    await shop.follow()
    console = shop.process().console.payments
    assert [line.payment.doubt for line in await console.list_payments(ONE, 10, None, in_doubt=True)] == [
        Doubt.DISPUTED
    ]
    page = await console.find(ONE, payment_id)
    assert page is not None
    assert "the reason" in [message.body for message in page.messages]
    if not is_refunded:
        with pytest.raises(Conflict, match="Money of it went back at the gateway, or is disputed"):
            await refund(shop, payment_id)
    await console.dismiss(ONE, WHERE, payment_id, "the bank was answered")
    assert await receive(notice)
    page = await console.find(ONE, payment_id)
    assert page is not None
    assert not page.payment.is_doubtful
    assert (page.closed_by, page.closing_reason) == (ONE.operator.email, "the bank was answered")
    assert shop.harness.funds().balance == balance
    assert not await receive(evolve(notice, transaction_id="pi_2"))


async def test_a_closed_dispute_leaves_what_was_accepted_of_another_amount(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, 1)
    await shop.follow()
    console = shop.process().console.payments
    await console.accept(ONE, WHERE, payment_id)
    assert await shop.process().payments.receive_notification(Notification(payment_id, "x", is_dispute=True))
    await shop.follow()
    await console.dismiss(ONE, WHERE, payment_id, "won")
    shop.faults.plan("find", GatewayUnknown("simulated"))
    for _ in range(2):  # before the gateway has answered, and after
        await shop.follow()
        with pytest.raises(Conflict, match="or is disputed, or another amount was paid"):
            await refund(shop, payment_id)
        shop.harness.clock.advance(3_601)
    payment = await shop.payment(payment_id)
    assert (payment.doubt, payment.is_doubtful, payment.next_look_at) == (Doubt.WRONG_AMOUNT, False, None)
    assert (shop.payments.refunds, shop.harness.funds().balance) == ([], 500)


async def test_a_closed_dispute_leaves_late_money_to_be_accepted(shop: PaymentHarness) -> None:
    payment_id = await paid_late(shop)
    assert await shop.process().payments.receive_notification(Notification(payment_id, "x", is_dispute=True))
    await shop.follow()
    console = shop.process().console.payments
    await console.dismiss(ONE, WHERE, payment_id, "won")
    await shop.follow()
    assert (await shop.payment(payment_id)).doubt is Doubt.PAID_AFTER_END
    await console.accept(ONE, WHERE, payment_id)
    assert shop.harness.funds().balance == 500


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_refund_of_a_gateway_that_was_replaced_is_the_operators(
    shop: PaymentHarness, is_sent: bool
) -> None:
    payment_id = await refunded(shop, RefundState.SENT if is_sent else RefundState.UNDER_WAY)
    shop.harness.write("UPDATE payments SET gateway = 'midtrans', next_look_at = clock_timestamp()")
    shop.harness.clock.advance(3_601)
    await shop.follow()
    payment = await shop.payment(payment_id)
    expected = (None, None) if is_sent else (Doubt.UNANSWERED, None)
    assert (payment.doubt, payment.next_look_at) == expected
    assert payment.status is PaymentStatus.REFUNDED


async def test_a_dispute_of_a_refused_refund_has_the_gateway_asked_for_no_refund(
    shop: PaymentHarness,
) -> None:
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    shop.faults.plan("refund", GatewayRefused("too old"))
    await shop.follow()
    receive = shop.process().payments.receive_notification
    assert await receive(Notification(payment_id, "the reason", is_dispute=True))
    await shop.follow()
    assert shop.payments.refunds == []
    assert (await shop.payment(payment_id)).doubt is Doubt.DISPUTED
    console = shop.process().console.payments
    for doubt in (Doubt.DISPUTED, Doubt.REFUND_REFUSED):
        [line] = await console.list_payments(ONE, 10, None, in_doubt=True)
        assert line.payment.doubt is doubt
        await console.dismiss(ONE, WHERE, payment_id, "settled elsewhere")
    assert await console.list_payments(ONE, 10, None, in_doubt=True) == []
    logged = shop.harness.rig.read(
        "SELECT details->>'doubt' AS doubt FROM audit_log WHERE action = 'payment.dismissed' ORDER BY id"
    )
    assert [row["doubt"] for row in logged] == ["disputed", "refund_refused"]


async def test_a_chargeback_is_asked_about_until_the_gateway_answers(shop: PaymentHarness) -> None:
    payment_id = await paid(shop)
    kept = shop.payments.kept
    kept[payment_id] = evolve(kept[payment_id], status=GatewayStatus.REVERSED)
    assert await shop.notify(payment_id)
    for _ in range(2):
        shop.faults.plan("find", GatewayUnknown("simulated"))
        await shop.follow()
        payment = await shop.payment(payment_id)
        assert (payment.status, payment.doubt) == (PaymentStatus.PAID, None)
        shop.harness.clock.advance(481)
    await shop.follow()
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.doubt, payment.next_look_at) == (PaymentStatus.PAID, Doubt.REVERSED, None)
    assert shop.harness.funds().balance == 500
    dismiss = shop.process().console.payments.dismiss
    for _ in range(2):  # closed, too: else a refund that was made there would pass for this one
        with pytest.raises(Conflict, match="Money of it went back at the gateway, or is disputed"):
            await refund(shop, payment_id)
        if (await shop.payment(payment_id)).is_doubtful:
            await dismiss(ONE, WHERE, payment_id, "adjusted")
    assert shop.harness.funds().balance == 500


async def test_a_death_at_any_line_of_a_refund_sends_the_money_once() -> None:
    for point in crash_points():
        shop = await PaymentHarness().start()
        async with shop.harness.store.begin() as tx:
            await tx.operators.add(ONE.operator)
        payment_id = await paid(shop)
        with suppress(SimulatedCrash):
            await refund(shop, payment_id, crash_point=point)
            await shop.follow(point)
        if (await shop.payment(payment_id)).status is PaymentStatus.PAID:
            await refund(shop, payment_id)
        shop.harness.clock.advance(31)
        await shop.follow()
        assert (shop.payments.refunds, shop.harness.funds().balance) == ([(payment_id, 111_000)], 400)


async def test_an_operator_accepts_late_money(shop: PaymentHarness) -> None:
    payment_id = await paid_late(shop)
    console = shop.process().console.payments
    accepted = await console.accept(ONE, WHERE, payment_id)
    assert (accepted.status, shop.harness.funds().balance, shop.receipts()) == (
        PaymentStatus.PAID,
        500,
        [(2026, 1)],
    )
    with pytest.raises(Conflict):
        await console.accept(OTHER, WHERE, payment_id)
    page = await console.find(ONE, payment_id)
    assert page is not None
    assert {message.source for message in page.messages} == {"checkout", "notification", "look"}
    assert page.payment.account_id == shop.harness.caller.account.id
    assert page.receipt is not None
    assert page.receipt.seller.name == "PT Rapat"
    assert "payment.accepted" in [entry.action for entry in shop.harness.audit_log()]


async def test_the_gateway_is_asked_once_more_about_an_accepted_payment(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, 555_001)
    await shop.follow()
    kept = shop.payments.kept
    kept[payment_id] = evolve(kept[payment_id], status=GatewayStatus.REVERSED)  # its notification is lost
    await shop.process().console.payments.accept(ONE, WHERE, payment_id)
    await shop.follow()
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.doubt, payment.is_doubtful) == (PaymentStatus.PAID, Doubt.REVERSED, True)


async def test_an_accepted_payment_of_another_amount_is_not_refunded_as_if_all_had_arrived(
    shop: PaymentHarness,
) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, 1)
    await shop.follow()
    await shop.process().console.payments.accept(ONE, WHERE, payment_id)
    with pytest.raises(Conflict, match="another amount was paid"):
        await refund(shop, payment_id)
    assert (shop.payments.refunds, shop.harness.funds().balance) == ([], 500)


async def test_no_credits_go_to_an_account_that_was_erased_meanwhile(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, 1)
    await shop.follow()
    await shop.harness.process().account_data.erase(shop.harness.caller.account.id)
    with pytest.raises(Conflict, match="The account was erased"):
        await shop.process().console.payments.accept(ONE, WHERE, payment_id)
    assert (shop.harness.funds().balance, shop.receipts()) == (0, [])


async def test_who_may_settle_payments(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    console = shop.process().console.payments
    page = await console.find(SUPPORT, payment_id)
    assert page is not None
    assert (page.payment.account_id, page.receipt) == (shop.harness.caller.account.id, None)
    assert await console.list_payments(SUPPORT, 10, None, in_doubt=True) == []
    for attempt in (
        console.accept(SUPPORT, WHERE, payment_id),
        console.dismiss(SUPPORT, WHERE, payment_id, "x"),
        console.list_income(SUPPORT),
        refund(shop, payment_id, who=SUPPORT),
    ):
        with pytest.raises(ActionNotAllowed):
            await attempt
    with pytest.raises(InvalidReason):
        await console.dismiss(ONE, WHERE, payment_id, " ")
    with pytest.raises(InvalidReason):
        await refund(shop, payment_id, reason=" ")


async def test_the_money_of_a_month_is_summed(shop: PaymentHarness) -> None:
    first = await paid(shop)
    await paid(shop)
    await refund(shop, first)
    (income,) = await shop.process().console.payments.list_income(ONE)
    assert (income.currency, income.received, income.tax, income.refunded, income.payments) == (
        "IDR", 1_110_000, 110_000, 111_000, 2,
    )  # fmt: skip
    assert f"{income.month:%Y-%m}" == "2026-12"


async def test_a_refund_that_fails_in_a_later_month_leaves_the_sums_of_its_own(shop: PaymentHarness) -> None:
    """The statement of a month is as it was, too: it books the failure in the month of the failure."""
    payment_id = await paid(shop)
    await refund(shop, payment_id)
    await shop.follow()
    shop.harness.clock.advance(31 * 24 * 3600)
    shop.payments.refund_state = RefundState.FAILED
    await shop.notify(payment_id)
    await shop.follow()
    found = await shop.process().console.payments.list_income(ONE)
    assert [(f"{each.month:%Y-%m}", each.received, each.refunded) for each in found] == [
        ("2027-01", 0, -111_000), ("2026-12", 555_000, 111_000),
    ]  # fmt: skip


async def test_operators_make_no_top_up_in_the_name_of_a_payment(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    accounts, account_id = shop.process().console.accounts, shop.harness.caller.account.id
    for amount in (10, 1_000):
        with pytest.raises(InvalidReference, match="does not begin with payment:"):
            await accounts.move_credits(
                ONE, WHERE, account_id, ProposalKind.TOPUP, amount, "paid", topup_reference(payment_id)
            )
    # A command of the machine's own would take the payment's name in the ledger, and leave its money
    # uncredited.
    administration = shop.process().administration
    with pytest.raises(InvalidReference, match="does not begin with payment:"):
        await administration.top_up(account_id, 10, topup_reference(payment_id))
    await shop.pay(payment_id)
    await shop.follow()
    assert shop.harness.funds().balance == 500
