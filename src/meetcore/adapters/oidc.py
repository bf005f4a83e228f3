"""OpenID Connect: authorization code flow with PKCE, at a provider found by discovery.

Metadata (OpenID Connect Discovery 1.0) and keys are cached for an hour. The issuer must match exactly, and
its endpoints need TLS unless the issuer itself is `http`, for local tests. ID tokens are validated by OpenID
Connect Core, 3.1.3.7.
"""

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import jwt
from attrs import define, field, frozen

from meetcore.adapters.bounded_http import BoundedHttp, NoResponse, NotSent
from meetcore.domain.members.identities import FlowSecrets, Identity
from meetcore.domain.requests.accounts import InvalidEmail, check_email
from meetcore.ports.identity import IdentityRefused, IdentityUnavailable, ProviderAnswer

MAX_ANSWER_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 5.0
KEPT_S: Final = 3600.0
REFRESHED_AFTER_S: Final = 60.0
"""Seconds after which a token with an unknown key reloads the keys."""

T = TypeVar("T")


def open_http(timeout_s: float = TIMEOUT_S) -> BoundedHttp:
    """Open connections to providers."""
    return BoundedHttp(max_bytes=MAX_ANSWER_BYTES, connect_s=timeout_s, whole_s=timeout_s)


async def ask(http: BoundedHttp, method: str, url: str, **content: Any) -> tuple[int, Mapping[str, Any]]:
    """Send a request; return the status and the JSON object in the response, empty without one.

    Raises `IdentityUnavailable` without a whole response in time, or above 256 KiB.
    """
    try:
        answer = await http.send(method, url, {"Accept": "application/json"}, **content)
    except (NotSent, NoResponse) as error:
        raise IdentityUnavailable(str(error)) from None
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = {}
    return answer.status, found if isinstance(found, dict) else {}


@frozen
class OidcClient:
    """Our registration at a provider."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)


@frozen
class Metadata:
    """A provider's endpoints, and whether it takes the secret by HTTP Basic."""

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

    def __init__(self, issuer: str, http: BoundedHttp, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def find(self) -> Metadata:
        """Return the endpoints, or raise `IdentityUnavailable`."""
        return await self._once("metadata", self._read_metadata, KEPT_S)

    async def find_key(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return a signing key by its id; without an id, the only one. Raises as `find`."""
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
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        status, found = await ask(self._http, "GET", url)
        if status != 200 or found.get("issuer") != self._issuer:
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
        status, found = await ask(self._http, "GET", (await self.find()).jwks_uri)
        listed = found.get("keys")
        if status != 200 or not isinstance(listed, list):
            raise IdentityUnavailable("keys")
        keys = []
        for each in listed[:100]:
            try:
                keys.append(jwt.PyJWK(each))
            except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
                continue  # unknown kind of key; others may be known
        return keys


def _key_of(keys: list[jwt.PyJWK], key_id: str | None) -> jwt.PyJWK | None:
    signing = [each for each in keys if each.public_key_use in (None, "sig")]
    if key_id is None:
        return signing[0] if len(signing) == 1 else None
    return next((each for each in signing if each.key_id == key_id), None)


ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric signatures only: never `none` or HMAC with a shared secret."""
LEEWAY_S: Final = 60
WHOLE_S: Final = 10.0
MAX_SUBJECT: Final = 255
"""Characters of a subject (OpenID Connect Core, 2)."""


class OidcProvider:
    """A client of one OpenID provider. `clock` counts seconds."""

    def __init__(
        self, client: OidcClient, http: BoundedHttp, clock: Callable[[], float] = time.monotonic
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
            # Some providers honour only one of the two; `max_age` requires `auth_time`.
            query |= {"prompt": "login", "max_age": "0"}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identify(self, answer: ProviderAnswer, flow: FlowSecrets, redirect_uri: str) -> Identity:
        if answer.issuer not in (None, self._client.issuer):
            raise IdentityRefused("another issuer")
        try:
            async with asyncio.timeout(WHOLE_S):
                token = await self._exchange(answer.code, flow, redirect_uri)
                return _identity(self._client.issuer, await self._verified(token, flow))
        except TimeoutError:
            raise IdentityUnavailable("timeout") from None

    async def check(self) -> None:
        """Read metadata and keys, or raise `IdentityUnavailable`."""
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
            content: dict[str, Any] = {"data": form, "auth": basic}
        else:
            own = {"client_id": client.client_id, "client_secret": client.client_secret}
            content = {"data": form | own}
        status, found = await ask(self._http, "POST", metadata.token_endpoint, **content)
        token = found.get("id_token")
        if status >= 500 or status == 429:
            raise IdentityUnavailable(f"status {status}")
        if status != 200 or not isinstance(token, str):
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
    """Return whether an algorithm suits keys of this type."""
    families = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}
    return algorithm.startswith(families.get(key.key_type or "", ()))


def _identity(issuer: str, claims: Mapping[str, Any]) -> Identity:
    email, name, subject = claims.get("email"), claims.get("name"), claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT:
        raise IdentityRefused("subject")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        raise IdentityRefused("e-mail address")
    try:
        check_email(email)
    except InvalidEmail:
        raise IdentityRefused("e-mail address") from None
    full_name = name if isinstance(name, str) else ""
    return Identity(issuer, subject, email, full_name, _instant(claims.get("auth_time")))


def _instant(unix_s: object) -> datetime | None:
    """Return the time of a claim; `None` unless it is a Unix time."""
    if isinstance(unix_s, bool) or not isinstance(unix_s, int | float) or not unix_s >= 0:
        return None
    try:
        return datetime.fromtimestamp(unix_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
