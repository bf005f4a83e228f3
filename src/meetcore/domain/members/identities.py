"""Sign-in at an OpenID provider of the operator's: the binding of a response to its browser.

A browser keeps one random token for a sign-in, in a cookie of its own. State, nonce and the verifier of PKCE
(RFC 7636) are derived from it: a response in another browser, or to another request, has other ones. Nothing
is stored here; the provider uses its code up, and the cookie goes with the response.
"""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Final

from attrs import field, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.members.passkeys import PasskeyOwner
from meetcore.domain.members.sessions import FRESH_FOR

FLOW_FOR: Final = timedelta(minutes=10)
"""How long a person may take at the provider."""
CLOCK_SKEW: Final = timedelta(minutes=1)
"""How far a provider's clock may be ahead of ours."""


@frozen
class Identity:
    """The provider's claims: a person by issuer and subject, a verified e-mail address, and a name or none.

    `authenticated_at` is when the person last proved that to the provider (`auth_time`), if it is known.
    """

    issuer: str
    subject: str
    email: str
    full_name: str
    authenticated_at: datetime | None = None


@frozen
class FlowSecrets:
    """The secrets of one sign-in. The provider and the browser see `state` and `nonce`."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)

    @property
    def code_challenge(self) -> str:
        """The SHA-256 of the verifier, for the method S256."""
        return _text(hashlib.sha256(self.code_verifier.encode()).digest())


def flow_secrets(token: str) -> FlowSecrets:
    """Derive the secrets of a sign-in from the token of its browser."""
    state, nonce, verifier = (
        _text(hmac.digest(token.encode(), purpose, hashlib.sha256))
        for purpose in (b"state", b"nonce", b"code verifier")
    )
    return FlowSecrets(state, nonce, verifier)


def proved_at(identity: Identity, now: datetime) -> datetime:
    """Return when a session that an identity begins was authenticated; not fresh without a valid instant."""
    at = identity.authenticated_at
    return now - FRESH_FOR if at is None or at > now + CLOCK_SKEW else min(at, now)


def is_state(text: str, flow: FlowSecrets) -> bool:
    """Return whether a response is to this sign-in, in constant time."""
    return hmac.compare_digest(text.encode(), flow.state.encode())


def identity_refused() -> Unprocessable:
    """Return the refusal of a sign-in, the same for every reason."""
    return Unprocessable(
        "The sign-in did not work, or this address has no access. Try again, or ask an owner of the account."
    )


class OtherSubject(Unprocessable):
    """A sign-in as a user or an operator whom the provider knew as another person before."""

    def __init__(self, owner: PasskeyOwner) -> None:
        super().__init__(
            "The provider knows another person by this e-mail address than before. Ask the operator of the "
            "service."
        )
        self.owner = owner


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
