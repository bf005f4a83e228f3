"""Passkeys as a browser makes and uses them (WebAuthn): what it is asked, and whether its answer holds.

Options and answers are JSON, binary values in base64url. The user has to be verified by the device, by a PIN,
a finger or a face. An answer holds for this site alone: its origin and relying party id are the verifier's.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import field, frozen

__all__ = ["AnsweredChallenge", "NewCredential", "PasskeyInvalid", "PasskeyUser", "PasskeyVerifier"]


class PasskeyInvalid(Exception):
    """An answer that does not hold: malformed, of another site or challenge, or with a wrong signature."""


@frozen
class PasskeyUser:
    """Who registers a passkey: a name, and a handle of at most 64 bytes that says nothing of the person."""

    handle: bytes = field(repr=False)
    name: str


@frozen
class AnsweredChallenge:
    """What an answer claims before it is verified; of a registration there is no `user_handle`."""

    challenge: bytes = field(repr=False)
    credential: bytes = field(repr=False)
    user_handle: bytes | None = field(default=None, repr=False)


@frozen
class NewCredential:
    """A credential that was registered. `public_key` is a COSE key."""

    credential: bytes = field(repr=False)
    public_key: bytes = field(repr=False)
    sign_count: int


class PasskeyVerifier(Protocol):
    """Asks browsers of one site, and verifies what they answer."""

    def ask_to_register(self, challenge: bytes, user: PasskeyUser, known: Sequence[bytes]) -> dict[str, Any]:
        """The options of `navigator.credentials.create`, for a device without any known credential."""

    def ask_to_sign_in(self, challenge: bytes) -> dict[str, Any]:
        """The options of `navigator.credentials.get`, for any passkey of this site."""

    def read(self, answer: str) -> AnsweredChallenge:
        """Read which challenge an answer is to, and of which credential.

        Raises:
            PasskeyInvalid: it is no answer, or has more than `MAX_ANSWER` characters.
        """

    def verify_registration(self, answer: str, challenge: bytes) -> NewCredential:
        """Verify the answer to a challenge of a registration.

        Raises:
            PasskeyInvalid: see the class.
        """

    def verify_sign_in(self, answer: str, challenge: bytes, public_key: bytes) -> int:
        """Verify the answer to a challenge of a sign-in.

        Returns:
            The number of the authenticator's counter. What it must be is for `domain.members.passkeys`.

        Raises:
            PasskeyInvalid: see the class.
        """
