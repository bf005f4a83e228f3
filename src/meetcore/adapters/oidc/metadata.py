"""What a provider says of itself (OpenID Connect Discovery 1.0), and its keys; both are kept for an hour.

The issuer must be the one that was asked for, to the letter, and its endpoints need TLS, except beside an
issuer without it, which is for a test on this machine.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import jwt
from attrs import define, field, frozen

from meetcore.adapters.oidc.http import OidcHttp
from meetcore.ports.identity_provider import IdentityUnavailable

KEPT_S: Final = 3600.0
REFRESHED_AFTER_S: Final = 60.0
"""How long after its keys were read a token with an unknown key makes us read them again."""

T = TypeVar("T")


@frozen
class OidcClient:
    """Who we are at a provider."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)


@frozen
class Metadata:
    """The endpoints of a provider, and how it takes our secret."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    takes_basic: bool


@define
class _Kept:
    read_at: float
    value: Any


class ProviderMetadata:
    """Reads metadata and keys of one issuer. `clock` counts seconds."""

    def __init__(self, issuer: str, http: OidcHttp, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def find(self) -> Metadata:
        """Find the endpoints.

        Raises:
            IdentityUnavailable: the issuer does not answer, or not with metadata of its own.
        """
        return await self._once("metadata", self._read_metadata, KEPT_S)

    async def find_key(self, key_id: str | None) -> jwt.PyJWK | None:
        """Find a key that the provider signs with, by its id; the only one where the token names none.

        Raises:
            IdentityUnavailable: see `find`.
        """
        keys = await self._once("keys", self._read_keys, KEPT_S)
        if (found := _key_of(keys, key_id)) is None:
            keys = await self._once("keys", self._read_keys, REFRESHED_AFTER_S)
            found = _key_of(keys, key_id)
        return found

    async def _once(self, name: str, read: Callable[[], Awaitable[T]], kept_s: float) -> T:
        kept = self._kept.get(name)
        if kept is None or self._clock() - kept.read_at >= kept_s:
            kept = self._kept[name] = _Kept(self._clock(), await read())
        value: T = kept.value
        return value

    async def _read_metadata(self) -> Metadata:
        answer = await self._http.get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        found = answer.body
        if answer.status != 200 or found.get("issuer") != self._issuer:
            raise IdentityUnavailable("metadata")
        methods = found.get("token_endpoint_auth_methods_supported")
        return Metadata(
            self._address(found, "authorization_endpoint"),
            self._address(found, "token_endpoint"),
            self._address(found, "jwks_uri"),
            not isinstance(methods, list) or "client_secret_basic" in methods,
        )

    def _address(self, found: Mapping[str, Any], name: str) -> str:
        url = found.get(name)
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
        except ValueError:
            raise IdentityUnavailable("metadata") from None
        schemes = {"https", urlsplit(self._issuer).scheme}
        if parts.scheme not in schemes or not parts.hostname or parts.fragment:
            raise IdentityUnavailable("metadata")
        return parts.geturl()

    async def _read_keys(self) -> list[jwt.PyJWK]:
        answer = await self._http.get((await self.find()).jwks_uri)
        listed = answer.body.get("keys")
        if answer.status != 200 or not isinstance(listed, list):
            raise IdentityUnavailable("keys")
        keys = []
        for each in listed[:100]:
            try:
                keys.append(jwt.PyJWK(each))
            except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
                continue  # of a kind that we do not know: others may be known
        return keys


def _key_of(keys: list[jwt.PyJWK], key_id: str | None) -> jwt.PyJWK | None:
    signing = [each for each in keys if each.public_key_use in (None, "sig")]
    if key_id is None:
        return signing[0] if len(signing) == 1 else None
    return next((each for each in signing if each.key_id == key_id), None)
