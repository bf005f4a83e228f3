"""Begin a session by a passkey. A browser asks for a challenge first, and answers it once."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from attrs import frozen

from meetcore.domain.errors import Gone
from meetcore.domain.members.passkeys import (
    ChallengePurpose,
    Passkey,
    attempts_counter,
    check_attempts,
    passkey_refused,
    record_use,
)
from meetcore.domain.members.sign_in_links import request_window
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.passkey_verifier import PasskeyInvalid, PasskeyVerifier
from meetcore.ports.rate_counters import RateCounters
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.passkeys import ask, use_up, verifier_of
from meetcore.usecases.redeem_sign_in_link import (
    Browser,
    NewOperatorSession,
    NewSession,
    start_operator_session,
    start_user_session,
)
from meetcore.usecases.runtime import Runtime


@frozen
class SignInWithPasskey:
    """Signs in customers, or operators where `is_operators`: a passkey of the one is none of the other."""

    store: Store
    counters: RateCounters
    runtime: Runtime
    open_verifier: Callable[[], PasskeyVerifier] | None
    is_operators: bool = False

    @property
    def is_possible(self) -> bool:
        """Whether browsers take passkeys for this site."""
        return self.open_verifier is not None

    async def ask(self, cookie: str, client_address: str | None) -> dict[str, Any]:
        """Make a challenge for the holder of a cookie; return what the browser is asked.

        Raises:
            RateLimited: too many attempts from there.
            Unprocessable: browsers take no passkey for this site.
        """
        verifier = verifier_of(self.open_verifier)
        await self._count("challenge", client_address)
        return verifier.ask_to_sign_in(
            await ask(self.store, self.runtime, ChallengePurpose.SIGN_IN, self.is_operators, cookie)
        )

    async def enter(self, answer: str, browser: Browser) -> NewSession | NewOperatorSession:
        """Begin a session by the answer to a challenge.

        Raises:
            RateLimited: too many attempts from there.
            Unprocessable: the answer does not hold, whatever the reason; the challenge is used up.
        """
        verifier = verifier_of(self.open_verifier)
        await self._count("answer", browser.client_address)
        assert browser.cookie is not None
        try:
            claim = verifier.read(answer)
            await use_up(
                self.store, self.runtime, ChallengePurpose.SIGN_IN, self.is_operators, browser.cookie,
                claim.challenge,
            )  # fmt: skip
            async with self.store.begin() as tx:
                passkey = await tx.passkeys.find_for_sign_in(claim.credential, self.is_operators)
                if passkey is None or claim.user_handle not in (None, passkey.owner.id.bytes):
                    raise passkey_refused()
                sign_count = verifier.verify_sign_in(answer, claim.challenge, passkey.public_key)
                now = self.runtime.now()
                await tx.passkeys.save_use(record_use(passkey, sign_count, now))
                return await self._begin(tx, passkey, browser, now)
        except (PasskeyInvalid, Gone):
            raise passkey_refused() from None

    async def _begin(
        self, tx: Transaction, passkey: Passkey, browser: Browser, now: datetime
    ) -> NewSession | NewOperatorSession:
        if passkey.operator_id is not None:
            return await start_operator_session(tx, self.runtime, now, passkey.operator_id, browser)
        return await start_user_session(tx, self.runtime, now, passkey.owner.id, browser)

    async def _count(self, step: str, client_address: str | None) -> None:
        now = self.runtime.now()
        hits = await self.counters.hit(
            attempts_counter(step, client_address), OperationClass.WRITE, request_window(now)
        )
        check_attempts(hits, now)
