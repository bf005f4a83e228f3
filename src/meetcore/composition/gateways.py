"""Payment gateways by name. Packages of extras are imported where they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from attrs import frozen

from meetcore.adapters.secrets import derive
from meetcore.composition.configuration import GATEWAY_PURPOSE, check_secrets

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.postgres.pool import Pool
    from meetcore.adapters.settings import Settings
    from meetcore.composition.application import Application
    from meetcore.ports.payments import NotificationParser, PaymentGateway


@frozen
class Gateway:
    """A payment gateway.

    `open` opens it; the stack closes it. `parser` returns the parser of its notifications, where its secret
    is set.
    """

    open: Callable[[Settings, Pool, tuple[bytes, ...], AsyncExitStack], PaymentGateway]
    parser: Callable[[Settings], NotificationParser | None]


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


GATEWAYS = {"sandbox": Gateway(_open_sandbox, _sandbox_parser)}


def open_gateway(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], stack: AsyncExitStack
) -> PaymentGateway | None:
    """Open the gateway that the settings name, if any."""
    if settings.gateway == "none":
        return None
    return GATEWAYS[settings.gateway].open(settings, pool, keys, stack)


def notification_parsers(settings: Settings) -> dict[str, NotificationParser]:
    """Return the parser of the gateway that the settings name, by its name; none without one."""
    if settings.gateway == "none":
        return {}
    parser = GATEWAYS[settings.gateway].parser(settings)
    return {} if parser is None else {settings.gateway: parser}


def gateway_pages(application: Application) -> Sequence[Route]:
    """Return the pages on which payments of the sandbox are paid; of other gateways there are none here."""
    from meetcore.adapters.sandbox.gateway import SandboxGateway

    gateway = application.ports.gateway
    if not isinstance(gateway, SandboxGateway):
        return ()
    from meetcore.adapters.sandbox.payment_pages import payment_routes

    return payment_routes(gateway, application.payments.receive_notification)
