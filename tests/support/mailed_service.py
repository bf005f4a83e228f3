"""A service that sends mails into memory, and browsers that sign in to it by their links."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
from attrs import frozen

from meetcore.adapters.memory.mailer import MemoryMailer
from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.composition.infrastructure import Network
from tests.support.api_harness import BASE_URL, started, until
from tests.support.names import Names
from tests.support.pages import Browser

# Of all services of the process: they share a database, and any of them may send what another one queued.
_MAILER = MemoryMailer(10_000)
_LINK = re.compile(rf"{BASE_URL}(/\S+/sign-(?:in|up)/[\w-]{{43}})")


@frozen
class MailedService:
    """A running service, its mails, and what opens browsers on it."""

    service: Service
    mailer: MemoryMailer
    stack: AsyncExitStack

    async def browser(self, home: str = "/dashboard/accounts") -> Browser:
        """A new browser without cookies."""
        http = httpx.AsyncClient(transport=httpx.ASGITransport(self.service), base_url=BASE_URL)
        return Browser(await self.stack.enter_async_context(http), home)

    def mails_to(self, email: str) -> list[str]:
        """The texts of the mails to an address, the newest first."""
        return [f"{each.subject}\n{each.text}" for each in self.mailer.mails if each.recipient == email]

    async def mailed_path(self, email: str, after: int = 0) -> str:
        """The path of the link in the last mail to an address, once it has had more mails than that."""
        await until(lambda: len(self.mails_to(email)) > after)
        found = _LINK.search(self.mails_to(email)[0])
        assert found is not None, self.mails_to(email)[0]
        return found[1]

    async def enter(
        self, browser: Browser, email: str, after: str = "", area: str = "/dashboard"
    ) -> httpx.Response:
        """Ask for a link by e-mail, and use it."""
        page, before = f"{area}/sign-in", len(self.mails_to(email))
        asked = await browser.post(page, page=f"{page}?reason=fresh", email=email, next=after)
        assert asked.status_code == 200, asked.text
        path = await self.mailed_path(email, before)
        return await browser.post(path, page=path)


@asynccontextmanager
async def mailed_service(settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    """Run a service of these settings."""
    service = Service(settings, Network(names, mailer=_MAILER))
    async with AsyncExitStack() as stack, started(service):
        yield MailedService(service, _MAILER, stack)
