"""Sign in at an OpenID provider of the operator's.

The person is found by the verified e-mail address, and known from the first sign-in on by issuer and subject:
another person who gets the address later is refused. Where sign-up is open, an identity without
an account gets one. The provider is called outside any transaction.
"""

from collections.abc import Callable
from datetime import datetime

from attrs import frozen

from meetcore.domain.errors import Gone, NotFound, Unprocessable
from meetcore.domain.members import audit, identities
from meetcore.domain.members.passkeys import PasskeyOwner
from meetcore.domain.members.sign_in import SignInMethod, SignUpMode, is_token, name_of
from meetcore.domain.requests.accounts import check_email
from meetcore.ports import requests
from meetcore.ports.identity import IdentityProvider, IdentityRefused, IdentityUnavailable, ProviderAnswer
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members import sign_in_links
from meetcore.usecases.members.audit import RefusedSignIns, count_attempt, record_action
from meetcore.usecases.members.sign_up import enter_or_open
from meetcore.usecases.runtime import Runtime, ignore

DASHBOARD_CALLBACK = "/dashboard/sign-in/oidc/callback"
CONSOLE_CALLBACK = "/console/sign-in/oidc/callback"


@frozen
class SignInWithIdentity:
    """Signs in customers, or operators where `is_operators`, at a provider; `NotFound` without one.

    The provider sends browsers back to `redirect_uri`. `report` is called for a refused sign-in, with the
    reason, a short code, and `is_operators`.
    """

    store: Store
    counters: requests.RateCounters
    runtime: Runtime
    refused: RefusedSignIns
    provider: IdentityProvider | None
    redirect_uri: str
    is_operators: bool = False
    sign_up: SignUpMode = SignUpMode.CLOSED
    report: Callable[[str, bool], object] = ignore

    @property
    def is_possible(self) -> bool:
        """Whether there is a provider."""
        return self.provider is not None

    async def ask(self, token: str, client_address: str | None, asks_again: bool) -> str:
        """Return the address that the browser with this token is sent to; `Unprocessable` without an answer.

        Whether the session is fresh does not depend on `asks_again`, but on what the provider answers.
        """
        provider = self._provider()
        await count_attempt(self.counters, "provider", client_address, self.runtime.now())
        try:
            return await provider.authorization_url(
                identities.flow_secrets(token), self.redirect_uri, asks_again
            )
        except IdentityUnavailable as error:
            raise self._refused(str(error)) from None

    async def enter(
        self, token: str | None, state: str, answer: ProviderAnswer, browser: sign_in_links.Browser
    ) -> sign_in_links.NewSession | sign_in_links.NewOperatorSession:
        """Begin a session by the answer that the browser with this token brings back.

        Raises `Unprocessable`: the answer is another browser's or not valid, or the address is unknown;
        `OtherSubject`: the address was another person's at its first sign-in.
        """
        provider = self._provider()
        await count_attempt(self.counters, "provider", browser.client_address, self.runtime.now())
        if (
            token is None
            or not is_token(token)
            or not identities.is_state(state, flow := identities.flow_secrets(token))
        ):
            raise self._refused("state")
        try:
            identity = await provider.identify(answer, flow, self.redirect_uri)
            return await self._begin(identity, browser)
        except (IdentityRefused, IdentityUnavailable) as error:
            raise self._refused(str(error)) from None
        except Gone:
            raise self._refused("no access") from None
        except identities.OtherSubject as other:
            self.report("another subject", self.is_operators)
            how = SignInMethod.SINGLE_SIGN_ON
            await self.refused.of_owner(other.owner, how, browser.client_address)
            raise

    async def _begin(
        self, identity: identities.Identity, browser: sign_in_links.Browser
    ) -> sign_in_links.NewSession | sign_in_links.NewOperatorSession:
        now = self.runtime.now()
        async with self.store.begin() as tx:
            begun = await self._start(tx, identity, browser, now)
            owner = (
                PasskeyOwner(begun.session.user_id)
                if isinstance(begun, sign_in_links.NewSession)
                else PasskeyOwner(operator_id=begun.session.operator_id)
            )
            if not await tx.sign_in.bind_identity(owner, identity.issuer, identity.subject, now):
                raise identities.OtherSubject(owner)
        return begun

    async def _start(
        self, tx: Transaction, identity: identities.Identity, browser: sign_in_links.Browser, now: datetime
    ) -> sign_in_links.NewSession | sign_in_links.NewOperatorSession:
        since, how = identities.proved_at(identity, now), SignInMethod.SINGLE_SIGN_ON
        if self.is_operators:
            operator = await tx.sign_in.find_operator(identity.email)
            if operator is None:
                raise self._refused("no access")
            return await sign_in_links.start_operator_session(
                tx, self.runtime, now, operator.id, browser, how, since
            )
        user = await tx.sign_in.find_member(identity.email)
        if user is not None:
            return await sign_in_links.start_user_session(
                tx, self.runtime, now, user.id, browser, how, authenticated_at=since
            )
        if self.sign_up is not SignUpMode.OPEN:
            raise self._refused("no access")
        full_name = name_of(identity.email, identity.full_name)
        return await enter_or_open(tx, self.runtime, now, identity.email, full_name, browser, how, since)

    def _refused(self, reason: str) -> Unprocessable:
        self.report(reason, self.is_operators)
        return identities.identity_refused()

    def _provider(self) -> IdentityProvider:
        if self.provider is None:
            raise NotFound("There is no single sign-on here.")
        return self.provider


@frozen
class ForgetIdentities:
    """Lets people sign in as other persons of the provider than before, as `origin` asks."""

    store: Store
    runtime: Runtime
    origin: audit.ActionOrigin = audit.SERVICE

    async def __call__(self, email: str) -> int:
        """Forget the persons that a member and an operator of an address were; return how many.

        Raises `InvalidEmail`, and `NotFound` for an address without a user. Sessions go on.
        """
        check_email(email)
        now = self.runtime.now()
        async with self.store.begin() as tx:
            user, operator = await tx.sign_in.find_member(email), await tx.sign_in.find_operator(email)
            owners = [PasskeyOwner(user.id)] if user else []
            owners += [PasskeyOwner(operator_id=operator.id)] if operator else []
            if not owners:
                raise NotFound("No member and no operator has this e-mail address.")
            forgotten = 0
            for owner in owners:
                if count := await tx.sign_in.forget_identities(owner):
                    forgotten += count
                    await record_action(
                        tx, self.runtime, now, self.origin, "identity.forgotten", None, owner.id
                    )
        return forgotten
