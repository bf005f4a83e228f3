"""Open an account without an operator: a link by e-mail first, the account when it is used.

A known address and an unknown one are answered alike, by the same statement, `answer_after_s` after the
request. Who has an account under the address already is signed in to it by the link.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.members.audit import ActionOrigin, member_actor
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sign_in_links import (
    REQUESTS_PER_EMAIL,
    check_requests,
    link_unusable,
    request_window,
)
from meetcore.domain.members.sign_ups import (
    ALL_SIGN_UPS,
    SIGN_UP_FOR,
    SignUp,
    SignUpMode,
    check_full_name,
    check_sign_ups,
    sign_up_counter,
    sign_up_email_counter,
)
from meetcore.domain.members.tokens import TOKEN_BYTES, is_token, mint_token, token_digest
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.rate_counters import RateCounters
from meetcore.ports.registry import NewAccount
from meetcore.ports.store import Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.administration import DEFAULT_LOW_THRESHOLD
from meetcore.usecases.audit import record_action
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.redeem_sign_in_link import Browser, NewSession, start_session, start_user_session
from meetcore.usecases.runtime import Runtime


@frozen
class SignUpRequest:
    """What somebody asks with: the address and the name as they were typed, and where from.

    `cookie` is that of the browser that asks; the link works there alone.
    """

    email: str
    full_name: str
    cookie: str = field(repr=False)
    client_address: str | None
    language: Language = Language.INDONESIAN


@frozen
class SignUpForAccount:
    """Opens accounts for those whom the mode admits."""

    store: Store
    counters: RateCounters
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str
    mode: SignUpMode = SignUpMode.CLOSED
    answer_after_s: float = 0.25
    pause: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether anybody can sign up."""
        return self.mode is not SignUpMode.CLOSED

    async def request(self, asked: SignUpRequest) -> None:
        """Send a link that opens an account.

        Raises:
            NotFound: sign-up is closed.
            InvalidEmail: it cannot be an address.
            InvalidRequest: the name cannot be one.
            RateLimited: too many requests from there, for this address, or in all.
        """
        self._check_open()
        started = self.runtime.now()
        check_email(asked.email)
        full_name = check_full_name(asked.full_name)
        await self._count(started, asked)
        token = mint_token(self.runtime.entropy.token_bytes(TOKEN_BYTES))
        sign_up = SignUp(
            self.runtime.new_id(started), asked.email, full_name, started, started + SIGN_UP_FOR,
            token_digest(asked.cookie),
        )  # fmt: skip
        only_users, added = self.mode is SignUpMode.INVITED, 0
        async with self.store.begin() as tx:
            if await tx.sign_in.add_sign_up(sign_up, token_digest(token), only_users):
                content = contents.SignInLink(sign_up_url(self.base_url, token), sign_up.expires_at)
                added = await self.mails.add(tx, [Recipient(asked.email, asked.language)], content)
        if added:
            self.notifier.notify()
        spent_s = (self.runtime.now() - started).total_seconds()
        await self.pause(max(0.0, self.answer_after_s - spent_s))

    async def enter(self, token: str, browser: Browser) -> NewSession:
        """Use a link up: open the account with no credits, its owner, and a session.

        Raises:
            NotFound: sign-up is closed.
            Gone: the link cannot be used, whatever the reason; it stays as it was.
        """
        self._check_open()
        now = self.runtime.now()
        if not is_token(token) or browser.digest is None:
            raise link_unusable()
        async with self.store.begin() as tx:
            sign_up = await tx.sign_in.use_sign_up(token_digest(token), browser.digest, now)
            if sign_up is None:
                raise link_unusable()
            return await enter_or_open(tx, self.runtime, now, sign_up.email, sign_up.full_name, browser)

    def _check_open(self) -> None:
        if not self.is_open:
            raise NotFound("Accounts are opened by the operator of this service.")

    async def _count(self, now: datetime, asked: SignUpRequest) -> None:
        """Count a request, the narrowest counter first: one that is refused uses up nothing of the next."""
        check_sign_ups(await self._hit(sign_up_counter(asked.client_address), now), 0, now)
        for_email = await self._hit(sign_up_email_counter(asked.email), now)
        check_requests(for_email, REQUESTS_PER_EMAIL, now)
        check_sign_ups(0, await self._hit(ALL_SIGN_UPS, now), now)

    async def _hit(self, counter: UUID, now: datetime) -> int:
        return await self.counters.hit(counter, OperationClass.WRITE, request_window(now))


async def enter_or_open(
    tx: Transaction, runtime: Runtime, now: datetime, email: str, full_name: str, browser: Browser,
    authenticated_at: datetime | None = None,
) -> NewSession:  # fmt: skip
    """Open an account for the holder of an e-mail address, or begin a session in the one that there is.

    Raises:
        Gone: there is one, and its holder is no member of any.
    """
    user = await tx.members.ensure_user(User(runtime.new_id(now), email, full_name, now))
    account = NewAccount(runtime.new_id(now), user.id, email, full_name, DEFAULT_LOW_THRESHOLD, now)
    try:
        await tx.registry.add_account(account)
    except Conflict:
        return await start_user_session(tx, runtime, now, user.id, browser, authenticated_at=authenticated_at)
    await tx.members.add_membership(Membership(account.id, user.id, Role.OWNER, now))
    origin = ActionOrigin(member_actor(user.id), browser.client_address)
    await record_action(tx, runtime, now, origin, "account.created", account.id, account.id, by_sign_up=True)
    own = evolve(browser, account_id=account.id)
    return await start_session(tx, runtime, now, account.id, user.id, own, authenticated_at=authenticated_at)


def sign_up_url(base_url: str, token: str) -> str:
    """The address of a link that opens an account."""
    return f"{base_url}/dashboard/sign-up/{token}"
