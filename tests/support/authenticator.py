"""A software authenticator that creates passkeys and signs with them.

It does not validate its options: a test chooses origin and relying party.
"""

import base64
import hashlib
import json
import os
from typing import Any, Final

from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["SoftwareAuthenticator"]

USER_PRESENT: Final = 0x01
USER_VERIFIED: Final = 0x04
_HAS_CREDENTIAL: Final = 0x40


@define
class SoftwareAuthenticator:
    """A device with one passkey, a P-256 key pair."""

    origin: str
    rp_id: str
    flags: int = USER_PRESENT | USER_VERIFIED
    sign_count: int = 1
    credential: bytes = field(factory=lambda: os.urandom(32))
    key: ec.EllipticCurvePrivateKey = field(
        factory=lambda: ec.generate_private_key(ec.SECP256R1()), repr=False
    )
    user_handle: bytes | None = None
    is_cross_origin: bool = False

    def register(self, options: dict[str, Any]) -> str:
        """Create a passkey as `navigator.credentials.create` does; return the response as JSON."""
        self.user_handle = _decoded(options["user"]["id"])
        numbers = self.key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = bytes(16) + len(self.credential).to_bytes(2, "big") + self.credential + _cbor(cose)
        data = self._authenticator_data(_HAS_CREDENTIAL) + attested
        client_data = self._client_data("webauthn.create", options["challenge"])
        attestation = _cbor({"fmt": "none", "attStmt": {}, "authData": data})
        return self._answer({"clientDataJSON": client_data, "attestationObject": attestation})

    def sign_in(self, options: dict[str, Any]) -> str:
        """Sign as `navigator.credentials.get` does; return the response as JSON."""
        data = self._authenticator_data(0)
        client_data = self._client_data("webauthn.get", options["challenge"])
        signed = data + hashlib.sha256(client_data).digest()
        response = {
            "clientDataJSON": client_data,
            "authenticatorData": data,
            "signature": self.key.sign(signed, ec.ECDSA(SHA256())),
        }
        return self._answer(response | ({} if self.user_handle is None else {"userHandle": self.user_handle}))

    def _authenticator_data(self, more_flags: int) -> bytes:
        digest = hashlib.sha256(self.rp_id.encode()).digest()
        return digest + bytes([self.flags | more_flags]) + self.sign_count.to_bytes(4, "big")

    def _client_data(self, kind: str, challenge: str) -> bytes:
        data = {"type": kind, "challenge": challenge, "origin": self.origin}
        return json.dumps(data | {"crossOrigin": self.is_cross_origin}).encode()

    def _answer(self, response: dict[str, bytes]) -> str:
        credential = _encoded(self.credential)
        encoded = {name: _encoded(value) for name, value in response.items()}
        return json.dumps({"id": credential, "rawId": credential, "type": "public-key", "response": encoded})


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _cbor(value: object) -> bytes:
    """Encode the needed part of CBOR (RFC 8949): small numbers, bytes, strings and maps."""
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    assert isinstance(value, dict)
    return _head(5, len(value)) + b"".join(_cbor(key) + _cbor(each) for key, each in value.items())


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes([kind << 5 | number])
    size = 1 if number < 1 << 8 else 2
    return bytes([kind << 5 | 23 + size]) + number.to_bytes(size, "big")
