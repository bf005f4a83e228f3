"""An OpenID provider of the operator's: where a browser is sent, and who it says has come back."""

from typing import Protocol

from attrs import field, frozen

from meetcore.domain.members.identities import FlowSecrets, Identity

__all__ = ["IdentityProvider", "IdentityRefused", "IdentityUnavailable", "ProviderAnswer"]


class IdentityRefused(Exception):
    """The provider refuses, or what it says does not hold. The message is a short code, without its text."""


class IdentityUnavailable(Exception):
    """The provider does not answer in time, or not as one. The message is a short code."""


@frozen
class ProviderAnswer:
    """What a browser brings back. `issuer` is who the provider says that it is, if it does (RFC 9207)."""

    code: str = field(repr=False)
    issuer: str | None = None


class IdentityProvider(Protocol):
    """Asks a provider who somebody is, by the authorization code flow with PKCE."""

    async def authorization_url(self, flow: FlowSecrets, redirect_uri: str, asks_again: bool) -> str:
        """The address that a browser is sent to.

        Args:
            flow: of this sign-in.
            redirect_uri: where the provider sends the browser back to.
            asks_again: whether who is signed in there has to sign in again, and the answer is to say when.

        Raises:
            IdentityUnavailable: see the class.
        """

    async def identify(self, answer: ProviderAnswer, flow: FlowSecrets, redirect_uri: str) -> Identity:
        """Exchange the code of an answer, and verify who the provider says it is.

        Within ten seconds in all.

        Raises:
            IdentityRefused: the code is none, the token is not for us, of this sign-in, in time and signed by
                the provider, or its e-mail address is not verified.
            IdentityUnavailable: see the class.
        """
