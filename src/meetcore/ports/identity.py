"""Verification of a sign-in by an identity provider, or by a passkey (WebAuthn)."""

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import field, frozen

from meetcore.domain.members.identities import FlowSecrets, Identity


class IdentityRefused(Exception):
    """The provider refuses, or its answer is not valid. The message is a short code, without its text."""


class IdentityUnavailable(Exception):
    """No valid response of the provider in time. The message is a short code."""


@frozen
class ProviderAnswer:
    """The parameters of a redirect back; `issuer` as of RFC 9207, if any."""

    code: str = field(repr=False)
    issuer: str | None = None


class IdentityProvider(Protocol):
    """Identifies a user by the authorization code flow with PKCE."""

    async def authorization_url(self, flow: FlowSecrets, redirect_uri: str, asks_again: bool) -> str:
        """Return the address to redirect a browser to; `asks_again` requires a fresh sign-in and its time."""

    async def identify(self, answer: ProviderAnswer, flow: FlowSecrets, redirect_uri: str) -> Identity:
        """Exchange the code of an answer and verify the token, within ten seconds in all.

        Raises:
            IdentityRefused: the code is not valid, the token is not for us, of this sign-in, in time and
                signed by the provider, or its e-mail address is not verified.
            IdentityUnavailable: see the class.
        """


class PasskeyInvalid(Exception):
    """An answer that is malformed, of another site or challenge, or with a wrong signature."""


@frozen
class PasskeyUser:
    """The user of a new passkey: a name, and a handle of at most 64 bytes without personal data."""

    handle: bytes = field(repr=False)
    name: str


@frozen
class AnsweredChallenge:
    """The claims of an answer before it is verified; a registration has no `user_handle`."""

    challenge: bytes = field(repr=False)
    credential: bytes = field(repr=False)
    user_handle: bytes | None = field(default=None, repr=False)


@frozen
class NewCredential:
    """A registered credential. `public_key` is a COSE key."""

    credential: bytes = field(repr=False)
    public_key: bytes = field(repr=False)
    sign_count: int


class PasskeyVerifier(Protocol):
    """Makes challenges for browsers of one site, and verifies their answers. Raises `PasskeyInvalid`.

    Options and answers are JSON, binary values in base64url. The device has to verify the user. An answer is
    valid for this site alone: its origin and relying party id are the verifier's.
    """

    def ask_to_register(self, challenge: bytes, user: PasskeyUser, known: Sequence[bytes]) -> dict[str, Any]:
        """Return options of `navigator.credentials.create`, for a device without any known credential."""

    def ask_to_sign_in(self, challenge: bytes) -> dict[str, Any]:
        """Return options of `navigator.credentials.get`, for any passkey of this site."""

    def read(self, answer: str) -> AnsweredChallenge:
        """Read challenge and credential of an answer, of up to `MAX_ANSWER` characters."""

    def verify_registration(self, answer: str, challenge: bytes) -> NewCredential: ...
    def verify_sign_in(self, answer: str, challenge: bytes, public_key: bytes) -> int:
        """Verify the answer to a sign-in; return the counter, for `domain.members.passkeys`."""
