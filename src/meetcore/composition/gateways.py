"""Payment gateways by name: what each needs, and everything that the service needs of it.

Packages of extras are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from meetcore.adapters.secrets import derive
from meetcore.adapters.settings import SettingsRefused
from meetcore.adapters.settings.plugins import GATEWAYS
from meetcore.adapters.system import SystemClock
from meetcore.composition import plugins
from meetcore.composition.configuration import GATEWAY_PURPOSE, check_secrets
from meetcore.ports.payments import GatewayRefused, GatewayUnknown, PaymentGateway
from meetcore.ports.plugins import AnyGatewayPlugin, GatewayPlugin

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.sandbox.gateway import SandboxGateway
    from meetcore.adapters.settings import Settings
    from meetcore.composition.application import Application
    from meetcore.domain.payments.packages import PackageCatalogue
    from meetcore.ports.payments import NotificationParser
    from meetcore.ports.plugins import Context


class RemoteGateway(PaymentGateway, Protocol):
    """A gateway over a network."""

    async def check(self) -> None:
        """Make a harmless request with the key; raises `GatewayRefused` and `GatewayUnknown`."""

    async def aclose(self) -> None:
        """Close the connections."""


def _open_sandbox(context: Context[plugins.ServiceParts]) -> SandboxGateway:
    from meetcore.adapters.sandbox.gateway import SandboxGateway
    from meetcore.adapters.sandbox.postgres_state import PostgresSandboxPayments

    pool = context.settings.pool
    assert pool is not None
    return SandboxGateway(PostgresSandboxPayments(pool), context.base_url, _sandbox_key(context.settings))


def _sandbox_parser(parts: plugins.ServiceParts) -> NotificationParser:
    from meetcore.adapters.sandbox.gateway import sandbox_notifications

    return sandbox_notifications(_sandbox_key(parts))


def _sandbox_key(parts: plugins.ServiceParts) -> bytes:
    # The last of the keys stays longest; a page's address lives for a day.
    return derive(parts.keys[-1], GATEWAY_PURPOSE)


async def _check_sandbox(_: Context[plugins.ServiceParts]) -> str:
    return "sandbox, which moves no money"


def _remote(
    make: Callable[[Settings], RemoteGateway],
    parse: Callable[[Settings], NotificationParser],
    currencies: Callable[[], Collection[str]] | None = None,
) -> AnyGatewayPlugin:
    """Return the plugin of a gateway over a network."""

    def open_it(context: Context[plugins.ServiceParts]) -> PaymentGateway:
        gateway = make(context.settings.settings)
        context.stack.push_async_callback(gateway.aclose)
        return gateway

    async def check(context: Context[plugins.ServiceParts]) -> str:
        gateway = make(context.settings.settings)
        context.stack.push_async_callback(gateway.aclose)
        return await _check_remote(gateway)

    return GatewayPlugin(
        open_it, plugins.ServiceParts, check, lambda parts: parse(parts.settings), currencies
    )


async def _check_remote(gateway: RemoteGateway) -> str:
    try:
        await gateway.check()
    except GatewayRefused as error:
        raise SettingsRefused(
            f"the key is refused ({error}): check MEETCORE_PAYMENT_GATEWAY_SECRET, its permissions, and that "
            "MEETCORE_PAYMENT_GATEWAY_URL is of the same environment"
        ) from error
    except GatewayUnknown as error:
        raise SettingsRefused(
            f"no answer ({error}): check MEETCORE_PAYMENT_GATEWAY_URL; payments wait"
        ) from error
    path = f"/payment-events/{gateway.name}"
    return f"lets us in; its notifications have to go to MEETCORE_BASE_URL{path}"


def _make_midtrans(settings: Settings) -> RemoteGateway:
    from meetcore.adapters.midtrans import MidtransAccess, MidtransGateway

    access = MidtransAccess.at(str(settings.payment_gateway_secret), settings.payment_gateway_url)
    return MidtransGateway(access, now=SystemClock().now)


def _midtrans_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.midtrans import midtrans_notifications

    return midtrans_notifications(
        str(settings.payment_gateway_webhook_secret or settings.payment_gateway_secret)
    )


def _midtrans_currencies() -> Collection[str]:
    from meetcore.adapters.midtrans import CURRENCY

    return (CURRENCY,)


def _make_xendit(settings: Settings) -> RemoteGateway:
    from meetcore.adapters.xendit import XenditGateway

    return XenditGateway(str(settings.payment_gateway_secret), settings.payment_gateway_url)


def _xendit_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.xendit import xendit_notifications

    return xendit_notifications(str(settings.payment_gateway_webhook_secret))


def _xendit_currencies() -> Collection[str]:
    from meetcore.adapters.xendit import CURRENCIES

    return CURRENCIES


def _make_stripe(settings: Settings) -> RemoteGateway:
    from meetcore.adapters.stripe import StripeGateway

    return StripeGateway(str(settings.payment_gateway_secret), settings.payment_gateway_url)


def _stripe_parser(settings: Settings) -> NotificationParser:
    from meetcore.adapters.stripe import stripe_notifications

    return stripe_notifications(str(settings.payment_gateway_webhook_secret))


SANDBOX = GatewayPlugin(_open_sandbox, plugins.ServiceParts, _check_sandbox, parser=_sandbox_parser)
MIDTRANS = _remote(_make_midtrans, _midtrans_parser, _midtrans_currencies)
XENDIT = _remote(_make_xendit, _xendit_parser, _xendit_currencies)
STRIPE = _remote(_make_stripe, _stripe_parser)


def find_gateway(settings: Settings) -> AnyGatewayPlugin | None:
    """Return the plugin of the gateway that the settings name, if any.

    Raises `SettingsRefused` where a setting or a package is missing, or a currency is sold that it does not
    take.
    """
    if settings.payment_gateway == "none":
        return None
    settings.require_gateway()
    if settings.payment_gateway == "stripe" and find_spec("stripe") is None:
        raise SettingsRefused(
            "MEETCORE_PAYMENT_GATEWAY is stripe, which needs: pip install 'meetcore[payments]'"
        )
    gateway = GATEWAYS.load(settings.payment_gateway)
    if gateway.currencies is not None:
        taken = gateway.currencies()
        if foreign := sorted(_currencies_sold(settings.packages).difference(taken)):
            raise SettingsRefused(
                f"MEETCORE_TIERS_FILE sells credits for {', '.join(foreign)}; {settings.payment_gateway} "
                f"takes {', '.join(taken)} only"
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
    if gateway.check is None:
        return f"{settings.payment_gateway}, which has no check"
    async with AsyncExitStack() as stack:
        return await gateway.check(plugins.context_for(gateway, plugins.ServiceParts(settings), stack))


def open_gateway(parts: plugins.ServiceParts, stack: AsyncExitStack) -> PaymentGateway | None:
    """Open the gateway that the settings name, if any; raises what `find_gateway` does."""
    plugin = find_gateway(parts.settings)
    if plugin is None:
        return None
    name = parts.settings.payment_gateway
    gateway = plugins.opened(GATEWAYS, name, plugin, plugins.context_for(plugin, parts, stack))
    with plugins.refusing(GATEWAYS, name):
        plugins.check_name(GATEWAYS, name, gateway.name)
    return gateway


def notification_parsers(settings: Settings, name: str = "") -> dict[str, NotificationParser]:
    """Return the parser of the gateway that the settings name, by its `name`; none without one."""
    gateway = find_gateway(settings)
    if gateway is None or gateway.parser is None:
        return {}
    parts = plugins.ServiceParts(
        settings, check_secrets(settings) if settings.payment_gateway == "sandbox" else ()
    )
    with plugins.refusing(GATEWAYS, settings.payment_gateway):
        parser = gateway.parser(plugins.own_settings(gateway, parts))
    return {} if parser is None else {name or settings.payment_gateway: parser}


def gateway_pages(application: Application) -> Sequence[Route]:
    """Return the pages on which payments of the sandbox are paid; of other gateways there are none here."""
    from meetcore.adapters.sandbox.gateway import SandboxGateway

    gateway = application.ports.gateway
    if not isinstance(gateway, SandboxGateway):
        return ()
    from meetcore.adapters.sandbox.payment_pages import payment_routes

    return payment_routes(gateway, application.payments.receive_notification)
