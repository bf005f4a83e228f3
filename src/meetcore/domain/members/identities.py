"""Sign-in at an OpenID provider of the operator's: what binds an answer to the browser that asked.

A browser keeps one random token for a sign-in, in a cookie of its own. State, nonce and the verifier of PKCE
(RFC 7636) are derived from it: an answer in another browser, or to another request, has other ones. Nothing
is stored here; the provider uses its code up, and the cookie goes with the answer.
"""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Final

from attrs import field, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.members.sessions import FRESH_FOR

__all__ = [
    "CLOCK_SKEW",
    "FLOW_FOR",
    "FlowSecrets",
    "Identity",
    "flow_secrets",
    "identity_refused",
    "is_state",
    "proved_at",
]

FLOW_FOR: Final = timedelta(minutes=10)
"""How long a person may take at the provider."""
CLOCK_SKEW: Final = timedelta(minutes=1)
"""How far a provider's clock may be ahead of ours."""


@frozen
class Identity:
    """Who the provider says it is: an e-mail address that it has verified, and a name, which may be empty.

    `authenticated_at` is when the person last proved that to the provider (`auth_time`), if it says so.
    """

    email: str
    full_name: str
    authenticated_at: datetime | None = None


@frozen
class FlowSecrets:
    """What one sign-in is recognised by. `state` and `nonce` are seen by the provider and by the browser."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)

    @property
    def code_challenge(self) -> str:
        """The SHA-256 of the verifier, for the method S256."""
        return _text(hashlib.sha256(self.code_verifier.encode()).digest())


def flow_secrets(token: str) -> FlowSecrets:
    """Derive what a sign-in is recognised by from the token of its browser."""
    state, nonce, verifier = (
        _text(hmac.digest(token.encode(), purpose, hashlib.sha256))
        for purpose in (b"state", b"nonce", b"code verifier")
    )
    return FlowSecrets(state, nonce, verifier)


def proved_at(identity: Identity, now: datetime) -> datetime:
    """The time of authentication of a session that an identity begins.

    A provider may answer without asking the person again. Without a time from it, or with one to come, the
    session is not fresh.
    """
    at = identity.authenticated_at
    return now - FRESH_FOR if at is None or at > now + CLOCK_SKEW else min(at, now)


def is_state(text: str, flow: FlowSecrets) -> bool:
    """Whether an answer is to this sign-in; compared in constant time."""
    return hmac.compare_digest(text.encode(), flow.state.encode())


def identity_refused() -> Unprocessable:
    """The refusal of a sign-in, the same for every reason."""
    return Unprocessable(
        "The sign-in did not work, or this address has no access. Try again, or ask an owner of the account."
    )


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
