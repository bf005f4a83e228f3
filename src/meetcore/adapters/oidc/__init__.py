"""OpenID Connect: the authorization code flow with PKCE at one provider, found by discovery.

`http`      one call: a whole answer in time, of limited size, or none
`metadata`  what a provider says of itself, and its keys
`provider`  the flow, and the verification of the ID token
"""

from meetcore.adapters.oidc.metadata import OidcClient
from meetcore.adapters.oidc.provider import OidcProvider

__all__ = ["OidcClient", "OidcProvider"]
