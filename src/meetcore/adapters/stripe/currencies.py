"""Amounts as Stripe counts them, by https://docs.stripe.com/currencies.

Stripe counts in the minor unit of ISO 4217, but for these: rupiah have two decimals there, and a whole rupiah
is our unit; ISK and UGX have none, and keep two at Stripe; MGA has two, and none at Stripe. Of three decimals
the last must be 0.
"""

from decimal import Decimal
from typing import Final

from meetcore.adapters.gateway_calls import whole_units
from meetcore.ports.payments import GatewayRefused

_HUNDREDTHS: Final = frozenset({"IDR", "ISK", "UGX"})
_WHOLE: Final = frozenset({"MGA"})
_THREE_DECIMALS: Final = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})


def to_stripe(amount: int, currency: str) -> int:
    """Return an amount in Stripe's unit; raises `GatewayRefused` for one that Stripe does not take."""
    if currency in _HUNDREDTHS:
        return amount * 100
    if (currency in _WHOLE and amount % 100) or (currency in _THREE_DECIMALS and amount % 10):
        raise GatewayRefused(f"stripe: no such amounts of {currency}")
    return amount // 100 if currency in _WHOLE else amount


def from_stripe(amount: int, currency: str) -> int:
    """Return an amount in our unit; raises `GatewayUnknown` for a fraction of it, as `whole_units` does."""
    decimals = -2 if currency in _HUNDREDTHS else 2 if currency in _WHOLE else 0
    return whole_units(Decimal(amount), decimals)
