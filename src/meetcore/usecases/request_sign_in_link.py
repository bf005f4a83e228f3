"""Send a one-time link by e-mail, to a member or to an operator.

A known address and an unknown one are answered alike: the same statement is run for both, and the answer
comes `answer_after_s` after the request. Requests are counted for the client's address, for the two together
and for the e-mail address; whether there were too many does not depend on who has the address.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from attrs import field, frozen

from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.members.sign_in_links import (
    EMAIL_FOR,
    REQUESTS_PER_ADDRESS,
    REQUESTS_PER_EMAIL,
    REQUESTS_PER_PAIR,
    LinkPurpose,
    SignInLink,
    address_counter,
    check_requests,
    email_counter,
    pair_counter,
    request_window,
)
from meetcore.domain.members.tokens import TOKEN_BYTES, mint_token, token_digest
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.rate_counters import RateCounters
from meetcore.ports.store import Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.runtime import Runtime


@frozen
class RequestSignInLink:
    """Sends links. `base_url` is the service's own; the answer takes `answer_after_s` in any case."""

    store: Store
    counters: RateCounters
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str
    answer_after_s: float = 0.25
    pause: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False)

    async def for_member(
        self,
        email: str,
        browser: str,
        client_address: str | None,
        language: Language = Language.INDONESIAN,
    ) -> None:
        """Send a link to the member who has this e-mail address, if there is one.

        Args:
            email: as it was typed.
            browser: the cookie of the browser that asks; the link works there alone.
            client_address: where the request comes from.
            language: of the mail.

        Raises:
            InvalidEmail: it cannot be an address.
            RateLimited: too many requests from there, or for this address.
        """
        await self._send(LinkPurpose.EMAIL, email, browser, client_address, language)

    async def for_operator(
        self,
        email: str,
        browser: str,
        client_address: str | None,
        language: Language = Language.INDONESIAN,
    ) -> None:
        """Send a link to the operator who has this e-mail address, if there is one; see `for_member`."""
        await self._send(LinkPurpose.OPERATOR, email, browser, client_address, language)

    async def _send(
        self, purpose: LinkPurpose, email: str, browser: str, client_address: str | None, language: Language
    ) -> None:
        started = self.runtime.now()
        check_email(email)
        await self._count(started, email, client_address)
        token = mint_token(self.runtime.entropy.token_bytes(TOKEN_BYTES))
        link = SignInLink(
            self.runtime.new_id(started), purpose, started, started + EMAIL_FOR,
            browser_digest=token_digest(browser),
        )  # fmt: skip
        async with self.store.begin() as tx:
            added = 0
            if (address := await self._add(tx, link, token, email)) is not None:
                make_url = console_url if purpose is LinkPurpose.OPERATOR else dashboard_url
                content = contents.SignInLink(make_url(self.base_url, token), link.expires_at)
                added = await self.mails.add(tx, [Recipient(address, language)], content)
        if added:
            self.notifier.notify()
        spent_s = (self.runtime.now() - started).total_seconds()
        await self.pause(max(0.0, self.answer_after_s - spent_s))

    async def _count(self, now: datetime, email: str, client_address: str | None) -> None:
        """Count a request, the narrowest counters first: one that is refused uses up nothing of the next.

        So one client address takes a part of what an e-mail address may be asked for, and never all of it.
        """
        for counter, limit in (
            (address_counter(client_address), REQUESTS_PER_ADDRESS),
            (pair_counter(client_address, email), REQUESTS_PER_PAIR),
            (email_counter(email), REQUESTS_PER_EMAIL),
        ):
            hits = await self.counters.hit(counter, OperationClass.WRITE, request_window(now))
            check_requests(hits, limit, now)

    @staticmethod
    async def _add(tx: Transaction, link: SignInLink, token: str, email: str) -> str | None:
        """Write a link where somebody has the address; return it as it is stored."""
        if link.purpose is LinkPurpose.OPERATOR:
            operator = await tx.sign_in.add_operator_link(link, token_digest(token), email)
            return None if operator is None else operator.email
        user = await tx.sign_in.add_email_link(link, token_digest(token), email)
        return None if user is None else user.email


def dashboard_url(base_url: str, token: str) -> str:
    """The address of a link to the dashboard."""
    return f"{base_url}/dashboard/sign-in/{token}"


def console_url(base_url: str, token: str) -> str:
    """The address of a link to the console."""
    return f"{base_url}/console/sign-in/{token}"
