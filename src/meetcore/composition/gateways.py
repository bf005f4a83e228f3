"""Payment gateways by name: what each needs, and everything that the service needs of it.

Packages of extras are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from meetcore.adapters.secrets import derive
from meetcore.adapters.settings import SettingsRefused
from meetcore.adapters.system import SystemClock
from meetcore.composition.configuration import GATEWAY_PURPOSE, check_secrets
from meetcore.ports.payments import GatewayRefused, GatewayUnknown, PaymentGateway

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.postgres.pool import Pool
    from meetcore.adapters.settings import Settings
    from meetcore.composition.application import Application
    from meetcore.domain.payments.packages import PackageCatalogue
    from meetcore.ports.payments import NotificationParser


class RemoteGateway(PaymentGateway, Protocol):
    """A gateway over a network."""

    async def check(self) -> None:
        """Make a harmless request with the key; raises `GatewayRefused` and `GatewayUnknown`."""

    async def aclose(self) -> None:
        """Close the connections."""


@frozen
class Gateway:
    """A payment gateway.

    `open` opens it; the stack closes it. `parser` returns the parser of its notifications, where its secret
    is set. `make` opens one over a network by itself, for a check. Without `currencies` it takes any.
    """

    open: Callable[[Settings, Pool, tuple[bytes, ...], AsyncExitStack], PaymentGateway]
    parser: Callable[[Settings], NotificationParser | None]
    make: Callable[[Settings], RemoteGateway] | None = None
    currencies: Callable[[], Collection[str]] | None = None
    package: str = ""


def _open_sandbox(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], _: AsyncExitStack
) -> PaymentGateway:
    from meetcore.adapters.sandbox.gateway import SandboxGateway
    from meetcore.adapters.sandbox.postgres_payments import PostgresSandboxPayments

    # The last of the keys stays longest; a page's address lives for a day.
    return SandboxGateway(PostgresSandboxPayments(pool), settings.base_url, derive(keys[-1], GATEWAY_PURPOSE))


def _sandbox_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.sandbox.gateway import sandbox_notifications

    return sandbox_notifications(derive(check_secrets(settings)[-1], GATEWAY_PURPOSE))


def _remote(make: Callable[[Settings], RemoteGateway], **more: Any) -> Gateway:
    """Return the entry of a gateway over a network."""

    def open_it(settings: Settings, _: Pool, __: tuple[bytes, ...], stack: AsyncExitStack) -> PaymentGateway:
        gateway = make(settings)
        stack.push_async_callback(gateway.aclose)
        return gateway

    return Gateway(open_it, make=make, **more)


def _make_midtrans(settings: Settings) -> RemoteGateway:
    from meetcore.adapters.midtrans import MidtransAccess, MidtransGateway

    access = MidtransAccess.at(str(settings.gateway_secret), settings.gateway_url)
    return MidtransGateway(access, now=SystemClock().now)


def _midtrans_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.midtrans import midtrans_notifications

    return midtrans_notifications(str(settings.gateway_webhook_secret or settings.gateway_secret))


def _midtrans_currencies() -> Collection[str]:
    from meetcore.adapters.midtrans.gateway import CURRENCY

    return (CURRENCY,)


def _make_xendit(settings: Settings) -> RemoteGateway:
    from meetcore.adapters.xendit import XenditGateway

    return XenditGateway(str(settings.gateway_secret), settings.gateway_url)


def _xendit_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.xendit import xendit_notifications

    return xendit_notifications(str(settings.gateway_webhook_secret))


def _xendit_currencies() -> Collection[str]:
    from meetcore.adapters.xendit.gateway import CURRENCIES

    return CURRENCIES


def _make_stripe(settings: Settings) -> RemoteGateway:
    from meetcore.adapters.stripe import StripeGateway

    return StripeGateway(str(settings.gateway_secret), settings.gateway_url)


def _stripe_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.stripe import stripe_notifications

    return stripe_notifications(str(settings.gateway_webhook_secret))


GATEWAYS = {
    "sandbox": Gateway(_open_sandbox, _sandbox_parser),
    "midtrans": _remote(_make_midtrans, parser=_midtrans_parser, currencies=_midtrans_currencies),
    "xendit": _remote(_make_xendit, parser=_xendit_parser, currencies=_xendit_currencies),
    "stripe": _remote(_make_stripe, parser=_stripe_parser, package="stripe"),
}


def find_gateway(settings: Settings) -> Gateway | None:
    """Return the entry of the gateway that the settings name, if any.

    Raises `SettingsRefused` where a setting or a package is missing, or a currency is sold that it does not
    take.
    """
    if settings.gateway == "none":
        return None
    settings.require_gateway()
    gateway = GATEWAYS[settings.gateway]
    if gateway.package and find_spec(gateway.package) is None:
        raise SettingsRefused(
            f"MEETCORE_GATEWAY is {settings.gateway}, which needs: pip install 'meetcore[payments]'"
        )
    if gateway.currencies is not None:
        taken = gateway.currencies()
        if foreign := sorted(_currencies_sold(settings.packages).difference(taken)):
            raise SettingsRefused(
                f"MEETCORE_TIERS_FILE sells credits for {', '.join(foreign)}; {settings.gateway} takes "
                f"{', '.join(taken)} only"
            )
    return gateway


def _currencies_sold(catalogue: PackageCatalogue) -> set[str]:
    free = () if catalogue.free is None else (catalogue.free.currency,)
    return {*free, *(package.currency for package in catalogue.packages.values())}


async def check_gateway(settings: Settings) -> str:
    """Make one harmless request to the gateway; return a text for the operator.

    Raises `SettingsRefused` for a fault.
    """
    gateway = find_gateway(settings)
    if gateway is None:
        return "none set: operators sell credits"
    if gateway.make is None:
        return f"{settings.gateway}, which moves no money"
    remote = gateway.make(settings)
    try:
        await remote.check()
    except GatewayRefused as error:
        raise SettingsRefused(
            f"the key is refused ({error}): check MEETCORE_GATEWAY_SECRET, its permissions, and that "
            "MEETCORE_GATEWAY_URL is of the same environment"
        ) from error
    except GatewayUnknown as error:
        raise SettingsRefused(f"no answer ({error}): check MEETCORE_GATEWAY_URL; payments wait") from error
    finally:
        await remote.aclose()
    path = f"/payment-events/{settings.gateway}"
    return f"lets us in; its notifications have to go to MEETCORE_BASE_URL{path}"


def open_gateway(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], stack: AsyncExitStack
) -> PaymentGateway | None:
    """Open the gateway that the settings name, if any; raises what `find_gateway` does."""
    gateway = find_gateway(settings)
    return None if gateway is None else gateway.open(settings, pool, keys, stack)


def notification_parsers(settings: Settings) -> dict[str, NotificationParser]:
    """Return the parser of the gateway that the settings name, by its name; none without one."""
    gateway = find_gateway(settings)
    parser = None if gateway is None else gateway.parser(settings)
    return {} if parser is None else {settings.gateway: parser}


def gateway_pages(application: Application) -> Sequence[Route]:
    """Return the pages on which payments of the sandbox are paid; of other gateways there are none here."""
    from meetcore.adapters.sandbox.gateway import SandboxGateway

    gateway = application.ports.gateway
    if not isinstance(gateway, SandboxGateway):
        return ()
    from meetcore.adapters.sandbox.payment_pages import payment_routes

    return payment_routes(gateway, application.payments.receive_notification)
