"""Stripe's library over bounded HTTP, and what its errors mean for a call of the port.

The library sends no telemetry and no description of this machine. It repeats nothing: its caller does,
with the same idempotency key.

Stripe counts amounts in the minor unit of ISO 4217 (https://docs.stripe.com/currencies), but for these:
rupiah have two decimals there, and a whole rupiah is our unit; ISK and UGX have none, and keep two at Stripe;
MGA has two, and none at Stripe. Of three decimals the last must be 0.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

import stripe

from meetcore.adapters.gateway_calls import GatewayHttp, code_text, whole_units
from meetcore.ports.payments import GatewayRefused, GatewayUnknown

API_URL: Final = "https://api.stripe.com"
_HEADERS: Final = frozenset({"authorization", "content-type", "idempotency-key", "stripe-version"})
_MISSING: Final = "resource_missing"

stripe.enable_telemetry = False


class Missing(Exception):
    """The object is not there."""


class BoundedClient(stripe.HTTPClient):
    """Sends the library's requests with bounds of time and size."""

    name = "meetcore"

    def __init__(self, http: GatewayHttp) -> None:
        super().__init__()
        self._bounded = http

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        """Send one request; raises `GatewayUnknown` without a response."""
        sent = {name: value for name, value in headers.items() if name.lower() in _HEADERS}
        body = post_data.encode() if isinstance(post_data, str) else post_data
        response = await self._bounded.send(method.upper(), url, sent, content=body)
        return response.body, response.status, response.headers

    async def close_async(self) -> None:
        """Close the connections."""
        await self._bounded.aclose()


def make_client(secret_key: str, origin: str, http: GatewayHttp) -> stripe.StripeClient:
    """Return the library's client of an account, at an origin or, where it is empty, at Stripe's own."""
    return stripe.StripeClient(
        secret_key,
        base_addresses={"api": origin or API_URL},
        http_client=BoundedClient(http),
        max_network_retries=0,
    )


@contextmanager
def outcomes() -> Iterator[None]:
    """Translate the library's errors; their texts may quote what was sent, and are not passed on.

    Raises:
        Missing: the object is not there.
        GatewayRefused: nothing was done.
        GatewayUnknown: it may have been done, or be done by a repeat. A request that differs from the earlier
            one of its idempotency key is such a case: that one was carried out.
    """
    try:
        yield
    except stripe.IdempotencyError:
        raise GatewayUnknown("stripe: an earlier request of this key was another one") from None
    except (stripe.APIConnectionError, stripe.RateLimitError) as error:
        raise GatewayUnknown(f"stripe: {type(error).__name__}") from None
    except stripe.StripeError as error:
        status, code = error.http_status, error.code
        if status is None or status < 400 or status >= 500 or status in (408, 409, 425):
            raise GatewayUnknown(f"stripe: status {status}") from None
        if code == _MISSING and status == 404:
            raise Missing from None
        raise GatewayRefused(f"stripe: status {status}{code_text(code or type(error).__name__)}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:  # no object
        raise GatewayUnknown(f"stripe: no documented answer ({type(error).__name__})") from None


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
