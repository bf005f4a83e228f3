"""Open an account without an operator: a link by e-mail first, the account when it is used.

A known address and an unknown one are answered alike, by the same statement, `answer_after_s` after the
request. Who has an account under the address already is signed in to it by the link.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from attrs import field, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.members import audit, members, roles, sign_in
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests import accounts, views
from meetcore.ports.requests import RateCounters
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.members.audit import count_hit, record_action
from meetcore.usecases.members.sign_in_links import Browser, NewSession, start_session, start_user_session
from meetcore.usecases.requests.administration import DEFAULT_LOW_THRESHOLD
from meetcore.usecases.runtime import Runtime


@frozen
class SignUpRequest:
    """A request to sign up: address and name as they were typed, and the client's address.

    `cookie` is that of the browser that asks; the link works there alone.
    """

    email: str
    full_name: str
    cookie: str = field(repr=False)
    client_address: str | None
    language: Language = Language.INDONESIAN


@frozen
class SignUpForAccount:
    """Opens accounts for those whom the mode admits. Each raises `NotFound` where sign-up is closed."""

    store: Store
    counters: RateCounters
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str
    mode: sign_in.SignUpMode = sign_in.SignUpMode.CLOSED
    answer_after_s: float = 0.25
    pause: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether accounts can be opened without an operator."""
        return self.mode is not sign_in.SignUpMode.CLOSED

    async def request(self, asked: SignUpRequest) -> None:
        """Send a link that opens an account.

        Raises:
            InvalidEmail: it cannot be an address.
            InvalidRequest: the name cannot be one.
            RateLimited: too many requests from there, for this address, or in all.
        """
        self._check_open()
        started = self.runtime.now()
        accounts.check_email(asked.email)
        full_name = sign_in.check_full_name(asked.full_name)
        await self._count(started, asked)
        token = sign_in.mint_token(self.runtime.entropy.token_bytes(sign_in.TOKEN_BYTES))
        sign_up = sign_in.SignUp(
            self.runtime.new_id(started), asked.email, full_name, started, started + sign_in.SIGN_UP_FOR,
            sign_in.token_digest(asked.cookie),
        )  # fmt: skip
        only_members, added = self.mode is sign_in.SignUpMode.INVITED, 0
        async with self.store.begin() as tx:
            if await tx.sign_in.add_sign_up(sign_up, sign_in.token_digest(token), only_members):
                content = contents.SignInLink(sign_up_url(self.base_url, token), sign_up.expires_at)
                added = await self.mails.add(
                    tx, [Recipient(asked.email, asked.language)], content, counted_as="sign_up"
                )
        if added:
            self.notifier.notify()
        spent_s = (self.runtime.now() - started).total_seconds()
        await self.pause(max(0.0, self.answer_after_s - spent_s))

    async def enter(self, token: str, browser: Browser) -> NewSession:
        """Use a link up: open the account with no credits, its owner, and a session; else `Gone`."""
        self._check_open()
        now = self.runtime.now()
        if not sign_in.is_token(token) or browser.digest is None:
            raise sign_in.link_unusable()
        async with self.store.begin() as tx:
            sign_up = await tx.sign_in.use_sign_up(sign_in.token_digest(token), browser.digest, now)
            if sign_up is None:
                raise sign_in.link_unusable()
            return await enter_or_open(
                tx, self.runtime, now, sign_up.email, sign_up.full_name, browser, sign_in.SignInMethod.SIGN_UP
            )

    def _check_open(self) -> None:
        if not self.is_open:
            raise NotFound("Accounts are opened by the operator of this service.")

    async def _count(self, now: datetime, asked: SignUpRequest) -> None:
        """Count a request, the narrowest counter first: one that is refused uses up nothing of the next."""
        sign_in.check_sign_ups(
            await count_hit(self.counters, sign_in.sign_up_counter(asked.client_address), now), 0, now
        )
        for_email = await count_hit(self.counters, sign_in.sign_up_email_counter(asked.email), now)
        sign_in.check_requests(for_email, sign_in.REQUESTS_PER_EMAIL, now)
        sign_in.check_sign_ups(0, await count_hit(self.counters, sign_in.ALL_SIGN_UPS, now), now)


async def enter_or_open(
    tx: Transaction, runtime: Runtime, now: datetime, email: str, full_name: str, browser: Browser,
    how: sign_in.SignInMethod, authenticated_at: datetime | None = None,
) -> NewSession:  # fmt: skip
    """Open an account for an e-mail address, or begin a session in its own; `Gone` for a member of none."""
    user = await tx.members.ensure_user(members.User(runtime.new_id(now), email, full_name, now))
    account = views.NewAccount(runtime.new_id(now), user.id, email, full_name, DEFAULT_LOW_THRESHOLD, now)
    try:
        await tx.registry.add_account(account)
    except Conflict:
        return await start_user_session(
            tx, runtime, now, user.id, browser, how, authenticated_at=authenticated_at
        )
    await tx.members.add_membership(members.Membership(account.id, user.id, roles.Role.OWNER, now))
    origin = audit.ActionOrigin(audit.member_actor(user.id), browser.client_address)
    await record_action(tx, runtime, now, origin, "account.created", account.id, account.id, by_sign_up=True)
    return await start_session(tx, runtime, now, account.id, user.id, browser, how, None, authenticated_at)


def sign_up_url(base_url: str, token: str) -> str:
    """Return the address of a link that opens an account."""
    return f"{base_url}/dashboard/sign-up/{token}"
