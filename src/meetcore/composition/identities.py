"""OpenID providers: opened where the settings name them, each with the package that the extra `web` has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.ports.identity_provider import IdentityProvider

if TYPE_CHECKING:
    from meetcore.adapters.oidc import OidcClient

Providers = tuple[IdentityProvider | None, IdentityProvider | None]
"""That of members, and that of operators."""


def oidc_clients(settings: Settings) -> "tuple[OidcClient | None, OidcClient | None]":
    """Read who we are at the providers of members and of operators, as far as they are set.

    Raises:
        SettingsRefused: something of a provider is missing, or the package.
    """
    settings.require_oidc()
    if not (settings.oidc_issuer or settings.console_oidc_issuer):
        return None, None
    if find_spec("jwt") is None:
        raise SettingsRefused("an OpenID provider needs: pip install 'meetcore[server,web]'")
    from meetcore.adapters.oidc import OidcClient

    def client(issuer: str, client_id: str, secret: str) -> OidcClient | None:
        return OidcClient(issuer, client_id, secret) if issuer else None

    return (
        client(settings.oidc_issuer, settings.oidc_client_id, str(settings.oidc_client_secret)),
        client(
            settings.console_oidc_issuer,
            settings.console_oidc_client_id,
            str(settings.console_oidc_client_secret),
        ),
    )


@asynccontextmanager
async def open_identities(settings: Settings) -> AsyncIterator[Providers]:
    """Open the providers that the settings name; they are called at the first sign-in.

    Raises:
        SettingsRefused: see `oidc_clients`.
    """
    members, operators = oidc_clients(settings)
    if members is None and operators is None:
        yield None, None
        return
    from meetcore.adapters.oidc import OidcProvider
    from meetcore.adapters.oidc.http import OidcHttp

    http = OidcHttp()
    try:
        yield (
            None if members is None else OidcProvider(members, http),
            None if operators is None else OidcProvider(operators, http),
        )
    finally:
        await http.aclose()


async def check_provider(client: "OidcClient", timeout_s: float) -> None:
    """Read what a provider says of itself, and its keys.

    Raises:
        IdentityUnavailable: it does not answer, or not as one.
    """
    from meetcore.adapters.oidc import OidcProvider
    from meetcore.adapters.oidc.http import OidcHttp

    http = OidcHttp(timeout_s)
    try:
        await OidcProvider(client, http).check()
    finally:
        await http.aclose()
