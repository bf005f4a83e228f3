"""The suites of the payment gateways on every adapter: the sandbox is one more class with its own rig."""

import pytest

from meetcore.testing.contracts.payments import GatewayFaultsContract, PaymentGatewayContract
from tests.support.gateways import midtrans_at_hand, stripe_at_hand, xendit_at_hand

SHORT_S = 0.4
"""The time limit of calls that get no answer."""


class TestMidtrans(PaymentGatewayContract):
    @pytest.fixture
    async def rig(self):
        async with midtrans_at_hand() as at_hand:
            yield at_hand.rig


class TestMidtransFaults(GatewayFaultsContract):
    @pytest.fixture
    async def faulty(self):
        async with midtrans_at_hand(SHORT_S) as at_hand:
            yield at_hand.rig


class TestXendit(PaymentGatewayContract):
    takes_money_once = False  # a session has no idempotency key
    currencies = ("PHP", "VND", "THB", "SGD", "MYR")

    @pytest.fixture
    async def rig(self):
        async with xendit_at_hand() as at_hand:
            yield at_hand.rig


class TestXenditFaults(GatewayFaultsContract):
    takes_money_once = False  # a session has no idempotency key

    @pytest.fixture
    async def faulty(self):
        async with xendit_at_hand(SHORT_S) as at_hand:
            yield at_hand.rig


class TestStripe(PaymentGatewayContract):
    currencies = ("USD", "JPY", "VND", "HUF", "MGA", "KWD")

    @pytest.fixture
    async def rig(self):
        async with stripe_at_hand() as at_hand:
            yield at_hand.rig


class TestStripeFaults(GatewayFaultsContract):
    @pytest.fixture
    async def faulty(self):
        async with stripe_at_hand(SHORT_S) as at_hand:
            yield at_hand.rig
