"""A service with in-memory mails, and browsers that sign in by their links."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
from attrs import frozen

from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.composition.infrastructure import Network
from tests.support.api_harness import BASE_URL, started, until
from tests.support.fakes import FakeMailer
from tests.support.names import Names
from tests.support.pages import Browser

# Of all services of the process: they share a database, and any of them may send what another one queued.
_MAILER = FakeMailer(10_000)
_LINK = re.compile(rf"{BASE_URL}(/\S+/sign-(?:in|up)/[\w-]{{43}})")


@frozen
class MailedService:
    service: Service
    mailer: FakeMailer
    stack: AsyncExitStack

    async def browser(self, home: str = "/dashboard/accounts") -> Browser:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(self.service), base_url=BASE_URL)
        return Browser(await self.stack.enter_async_context(http), home)

    def mails_to(self, email: str) -> list[str]:
        """Return the texts of an address's mails, newest first."""
        return [f"{each.subject}\n{each.text}" for each in self.mailer.mails if each.recipient == email]

    async def mailed_path(self, email: str, after: int = 0) -> str:
        """Wait for more than `after` mails to an address; return the path of the last one's link."""
        await until(lambda: len(self.mails_to(email)) > after)
        found = _LINK.search(self.mails_to(email)[0])
        assert found is not None, self.mails_to(email)[0]
        return found[1]

    async def enter(
        self, browser: Browser, email: str, after: str = "", area: str = "/dashboard"
    ) -> httpx.Response:
        """Request a link by e-mail, and use it."""
        page, before = f"{area}/sign-in", len(self.mails_to(email))
        asked = await browser.post(page, page=f"{page}?reason=fresh", email=email, next=after)
        assert asked.status_code == 200, asked.text
        path = await self.mailed_path(email, before)
        return await browser.post(path, page=path)


@asynccontextmanager
async def mailed_service(settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    service = Service(settings, Network(names, mailer=_MAILER))
    async with AsyncExitStack() as stack, started(service):
        yield MailedService(service, _MAILER, stack)
