"""The authorization code flow with PKCE, and the check of the ID token (OpenID Connect Core, 3.1.3.7)."""

import asyncio
import hmac
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

import jwt

from meetcore.adapters.oidc.http import OidcHttp
from meetcore.adapters.oidc.metadata import OidcClient, ProviderMetadata
from meetcore.domain.members.identities import FlowSecrets, Identity
from meetcore.domain.requests.accounts import InvalidEmail, check_email
from meetcore.ports.identity_provider import IdentityRefused, IdentityUnavailable, ProviderAnswer

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key of the provider's: never `none`, and none by a secret that we have, too."""
LEEWAY_S: Final = 60
WHOLE_S: Final = 10.0


class OidcProvider:
    """An OpenID provider at which this service is a client. `clock` counts seconds."""

    def __init__(
        self, client: OidcClient, http: OidcHttp, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._http = http
        self._metadata = ProviderMetadata(client.issuer, http, clock)

    async def authorization_url(self, flow: FlowSecrets, redirect_uri: str, asks_again: bool) -> str:
        endpoint = (await self._metadata.find()).authorization_endpoint
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email profile",
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.code_challenge,
            "code_challenge_method": "S256",
        }
        if asks_again:
            # Some providers follow one of the two alone; the age obliges them to send `auth_time`.
            query |= {"prompt": "login", "max_age": "0"}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identify(self, answer: ProviderAnswer, flow: FlowSecrets, redirect_uri: str) -> Identity:
        if answer.issuer not in (None, self._client.issuer):
            raise IdentityRefused("another issuer")
        try:
            async with asyncio.timeout(WHOLE_S):
                token = await self._exchange(answer.code, flow, redirect_uri)
                return _identity(await self._verified(token, flow))
        except TimeoutError:
            raise IdentityUnavailable("timeout") from None

    async def check(self) -> None:
        """Read metadata and keys.

        Raises:
            IdentityUnavailable: there are none.
        """
        await self._metadata.find()
        await self._metadata.find_key("")

    async def _exchange(self, code: str, flow: FlowSecrets, redirect_uri: str) -> str:
        metadata, client = await self._metadata.find(), self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": flow.code_verifier,
        }
        if metadata.takes_basic:  # encoded first, as RFC 6749, 2.3.1 has it
            basic = quote(client.client_id, safe=""), quote(client.client_secret, safe="")
            answer = await self._http.post(metadata.token_endpoint, form, basic)
        else:
            own = {"client_id": client.client_id, "client_secret": client.client_secret}
            answer = await self._http.post(metadata.token_endpoint, form | own)
        token = answer.body.get("id_token")
        if answer.status >= 500 or answer.status == 429:
            raise IdentityUnavailable(f"status {answer.status}")
        if answer.status != 200 or not isinstance(token, str):
            raise IdentityRefused("code")
        return token

    async def _verified(self, token: str, flow: FlowSecrets) -> Mapping[str, Any]:
        client = self._client
        try:
            head = jwt.get_unverified_header(token)
            key = await self._metadata.find_key(head.get("kid"))
            if key is None:
                raise IdentityRefused("key")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[each for each in ALGORITHMS if _fits(each, key)],
                audience=client.client_id,
                issuer=client.issuer,
                leeway=LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise IdentityRefused(type(error).__name__) from None
        nonce, audience = claims.get("nonce"), claims["aud"]
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), flow.nonce.encode()):
            raise IdentityRefused("nonce")
        is_shared = isinstance(audience, list) and len(audience) > 1
        party = claims.get("azp") if is_shared or "azp" in claims else client.client_id
        if party != client.client_id:
            raise IdentityRefused("audience")
        return claims


def _fits(algorithm: str, key: jwt.PyJWK) -> bool:
    """Whether an algorithm is one for keys of this type."""
    families = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}
    return algorithm.startswith(families.get(key.key_type or "", ()))


def _identity(claims: Mapping[str, Any]) -> Identity:
    email, name = claims.get("email"), claims.get("name")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        raise IdentityRefused("e-mail address")
    try:
        check_email(email)
    except InvalidEmail:
        raise IdentityRefused("e-mail address") from None
    return Identity(email, name if isinstance(name, str) else "", _instant(claims.get("auth_time")))


def _instant(unix_s: object) -> datetime | None:
    """The time of a claim; `None` where it is no number of seconds since 1970."""
    if isinstance(unix_s, bool) or not isinstance(unix_s, int | float) or not unix_s >= 0:
        return None
    try:
        return datetime.fromtimestamp(unix_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
