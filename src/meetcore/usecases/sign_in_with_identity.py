"""Begin a session by what an OpenID provider of the operator's says, for those who are members already.

Where sign-up is open, who has no account gets one. The provider is called outside any transaction.
"""

from collections.abc import Callable

from attrs import frozen

from meetcore.domain.errors import Gone, NotFound, Unprocessable
from meetcore.domain.members.identities import (
    Identity,
    flow_secrets,
    identity_refused,
    is_state,
    proved_at,
)
from meetcore.domain.members.passkeys import attempts_counter, check_attempts
from meetcore.domain.members.sign_in_links import request_window
from meetcore.domain.members.sign_ups import MAX_FULL_NAME, SignUpMode
from meetcore.domain.members.tokens import is_token
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.identity_provider import (
    IdentityProvider,
    IdentityRefused,
    IdentityUnavailable,
    ProviderAnswer,
)
from meetcore.ports.rate_counters import RateCounters
from meetcore.ports.store import Store
from meetcore.usecases.redeem_sign_in_link import (
    Browser,
    NewOperatorSession,
    NewSession,
    start_operator_session,
    start_user_session,
)
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sign_up import enter_or_open

DASHBOARD_CALLBACK = "/dashboard/sign-in/oidc/callback"
CONSOLE_CALLBACK = "/console/sign-in/oidc/callback"


@frozen
class SignInWithIdentity:
    """Signs in customers, or operators where `is_operators`, at a provider if there is one.

    `redirect_uri` is where the provider sends browsers back to. `report` is called with the reason why nobody
    was signed in, a short code, and `is_operators`.
    """

    store: Store
    counters: RateCounters
    runtime: Runtime
    provider: IdentityProvider | None
    redirect_uri: str
    is_operators: bool = False
    sign_up: SignUpMode = SignUpMode.CLOSED
    report: Callable[[str, bool], object] = lambda _reason, _is_operators: None

    @property
    def is_possible(self) -> bool:
        """Whether there is a provider."""
        return self.provider is not None

    async def ask(self, token: str, client_address: str | None, asks_again: bool) -> str:
        """The address that the browser with this token is sent to.

        Whether the session is fresh does not depend on `asks_again`, but on what the provider answers.

        Raises:
            NotFound: there is no provider.
            RateLimited: too many attempts from there.
            Unprocessable: the provider does not answer.
        """
        provider = self._provider()
        await self._count(client_address)
        try:
            return await provider.authorization_url(flow_secrets(token), self.redirect_uri, asks_again)
        except IdentityUnavailable as error:
            raise self._refused(str(error)) from None

    async def enter(
        self, token: str | None, state: str, answer: ProviderAnswer, browser: Browser
    ) -> NewSession | NewOperatorSession:
        """Begin a session by the answer that the browser with this token brings back.

        Raises:
            NotFound: there is no provider.
            RateLimited: too many attempts from there.
            Unprocessable: the answer is another browser's or does not hold, or nobody here has the address.
        """
        provider = self._provider()
        await self._count(browser.client_address)
        if token is None or not is_token(token) or not is_state(state, flow := flow_secrets(token)):
            raise self._refused("state")
        try:
            identity = await provider.identify(answer, flow, self.redirect_uri)
            return await self._begin(identity, browser)
        except (IdentityRefused, IdentityUnavailable) as error:
            raise self._refused(str(error)) from None
        except Gone:
            raise self._refused("no access") from None

    async def _begin(self, identity: Identity, browser: Browser) -> NewSession | NewOperatorSession:
        now = self.runtime.now()
        since = proved_at(identity, now)
        async with self.store.begin() as tx:
            if self.is_operators:
                operator = await tx.sign_in.find_operator(identity.email)
                if operator is None:
                    raise self._refused("no access")
                return await start_operator_session(tx, self.runtime, now, operator.id, browser, since)
            user = await tx.sign_in.find_member(identity.email)
            if user is not None:
                return await start_user_session(
                    tx, self.runtime, now, user.id, browser, authenticated_at=since
                )
            if self.sign_up is not SignUpMode.OPEN:
                raise self._refused("no access")
            name = "".join(each for each in identity.full_name if each.isprintable()).strip()
            full_name = name[:MAX_FULL_NAME] or identity.email.partition("@")[0]
            return await enter_or_open(tx, self.runtime, now, identity.email, full_name, browser, since)

    def _refused(self, reason: str) -> Unprocessable:
        self.report(reason, self.is_operators)
        return identity_refused()

    def _provider(self) -> IdentityProvider:
        if self.provider is None:
            raise NotFound("There is no single sign-on here.")
        return self.provider

    async def _count(self, client_address: str | None) -> None:
        now = self.runtime.now()
        hits = await self.counters.hit(
            attempts_counter("provider", client_address), OperationClass.WRITE, request_window(now)
        )
        check_attempts(hits, now)
