"""An OpenID provider on loopback that approves given users, with injectable faults."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import jwt
from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from meetcore.ports.identity import ProviderAnswer
from meetcore.testing.stand_in import Reply, Request, as_json, serving

CLIENT_ID, CLIENT_SECRET = "meetcore:test", "s3cret/of+the:client"


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@define(slots=False)
class OpenIdProvider:
    """A provider with `person` signed in.

    `metadata`, `claims`, `head` override its documents; `sign` signs an ID token, `answers` replaces the
    response of a path. `calls` counts requests by path.
    """

    url: str = ""
    person: dict[str, Any] = field(factory=dict)
    metadata: dict[str, Any] = field(factory=dict)
    claims: dict[str, Any] = field(factory=dict)
    head: dict[str, Any] = field(factory=dict)
    answers: dict[str, Callable[[], Reply | None]] = field(factory=dict)
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = field(factory=_rsa)
    algorithm: str = "RS256"
    sign: Callable[[dict[str, Any]], str] | None = None
    calls: dict[str, int] = field(factory=dict)
    _codes: dict[str, dict[str, str]] = field(factory=dict)

    @property
    def issuer(self) -> str:
        """The issuer, with a final slash as some have it."""
        return f"{self.url}/tenant/"

    @property
    def settings(self) -> dict[str, Any]:
        """Return the service's settings, without prefix."""
        return {"issuer": self.issuer, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}

    def approve(self, url: str) -> dict[str, str]:
        """Approve at an authorization address; return the callback's query."""
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}" == self.url
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert asked["client_id"] == CLIENT_ID
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    async def answer(self, request: Request) -> Reply | None:
        path = "/" + "/".join(request.segments)
        self.calls[path] = self.calls.get(path, 0) + 1
        if path in self.answers:
            return self.answers[path]()
        match path:
            case "/tenant/.well-known/openid-configuration":
                return as_json(self._metadata())
            case "/keys":
                return as_json({"keys": [{"kty": "unknown"}, self._public_key()]})
            case "/token":
                return self._token(request)
            case "/authorize":
                found = self.approve(f"{self.url}/authorize?{urlencode(request.query)}")
                target = f"{request.query['redirect_uri']}?{urlencode(found)}"
                return Reply(302, headers={"Location": target})
        return Reply(404)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer, "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/keys",
        } | self.metadata  # fmt: skip

    def _public_key(self) -> dict[str, Any]:
        public: Any = self.key.public_key()
        of = RSAAlgorithm if isinstance(self.key, rsa.RSAPrivateKey) else ECAlgorithm
        return dict(json.loads(of.to_jwk(public))) | {"kid": "one", "use": "sig"}

    def _token(self, request: Request) -> Reply:
        form = dict(parse_qsl(request.body.decode()))
        if self._client(request, form) != (CLIENT_ID, CLIENT_SECRET):
            return as_json({"error": "invalid_client"}, 401)
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or (asked["code_challenge"], asked["redirect_uri"]) != (
            challenge,
            form["redirect_uri"],
        ):
            return as_json({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "sub": "subject", "iat": now, "exp": now + 300,
            "nonce": asked["nonce"], "auth_time": now if "max_age" in asked else None,
        } | self.person | self.claims  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        sign = self.sign or self._signed
        return as_json({"access_token": "x", "token_type": "Bearer", "id_token": sign(claims)})

    def _signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, self.algorithm, headers={"kid": "one"} | self.head)

    @staticmethod
    def _client(request: Request, form: dict[str, str]) -> tuple[str, str]:
        kind, _, encoded = request.headers.get("authorization", "").partition(" ")
        if kind != "Basic":
            return form.get("client_id", ""), form.get("client_secret", "")
        user, _, password = base64.b64decode(encoded).decode().partition(":")
        return unquote(user), unquote(password)

    async def brought_back(self, url: str) -> ProviderAnswer:
        """Return the callback of an authorization address."""
        found = self.approve(url)
        return ProviderAnswer(found["code"], found["iss"])


@asynccontextmanager
async def openid_provider(**fields: Any) -> AsyncIterator[OpenIdProvider]:
    provider = OpenIdProvider(**fields)
    async with serving(provider.answer) as port:
        provider.url = f"http://127.0.0.1:{port}"
        yield provider
