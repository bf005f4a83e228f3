"""Those who sign in, in memory: use cases of links, sessions, members and operators, and the mails sent."""

from __future__ import annotations

from attrs import define, evolve, field

from meetcore.composition.access import Access
from meetcore.domain.mails.contents import Invitation, SignInLink
from meetcore.domain.mails.mails import Mail
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.roles import Role
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.redeem_sign_in_link import Browser, NewSession
from tests.unit.usecases.application import ApplicationHarness, CrashPoint

__all__ = ["BROWSER", "OWNER", "AccessHarness", "link_in", "token_in", "token_of"]

OWNER = "a@example.com"
BROWSER = Browser("cookie", "Mozilla/5.0", "192.0.2.1")


def link_in(mail: Mail) -> SignInLink | Invitation:
    """The link in a mail."""
    assert isinstance(mail.content, SignInLink | Invitation)
    return mail.content


def token_in(mail: Mail) -> str:
    """The token of the link in a mail."""
    return token_of(link_in(mail).url)


def token_of(url: str) -> str:
    """The token in the address of a link."""
    return url.rpartition("/")[2]


@define(slots=False)
class AccessHarness:
    """One account with an owner. `pauses` are the seconds that answers waited for."""

    harness: ApplicationHarness = field(factory=ApplicationHarness)
    pauses: list[float] = field(factory=list)

    async def start(self) -> AccessHarness:
        """Open the account."""
        await self.harness.start()
        return self

    def access(self, crash_point: CrashPoint | None = None) -> Access:
        """The use cases of a process, which crashes at a point of its work if one is given."""
        access = self.harness.process(crash_point, sends_mails=True).access
        return evolve(access, request_link=evolve(access.request_link, pause=self._pause))

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @property
    def mails(self) -> list[Mail]:
        """The mails in the outbox, in the order in which they were put there."""
        return [stored.mail for stored in self.harness.state.committed.mails.values()]

    def last_token(self) -> str:
        """The token in the last mail."""
        return token_in(self.mails[-1])

    async def sign_in(self, email: str = OWNER, browser: Browser = BROWSER) -> NewSession:
        """Ask for a link by e-mail and use it."""
        assert browser.cookie is not None
        await self.access().request_link.for_member(email, browser.cookie, None)
        return await self.access().redeem_link.for_customer(self.last_token(), browser)

    async def signed_in(self, email: str = OWNER) -> SignedIn:
        """The same, and find the session."""
        found = await self.access().sessions.find((await self.sign_in(email)).token)
        assert found is not None
        return found

    async def guest(self, role: Role) -> SignedIn:
        """Sign in as a guest."""
        access = self.access()
        link = await access.portal_links.for_guest(self.harness.caller.account.id, role)
        made = await access.redeem_link.for_customer(token_of(link.url), Browser())
        found = await access.sessions.find(made.token)
        assert found is not None
        return found

    async def join(self, owner: SignedIn, email: str, role: Role) -> SignedIn:
        """Invite somebody, who accepts."""
        await self.access().members.invite(owner, email, role, "192.0.2.1")
        made = await self.access().redeem_link.for_customer(self.last_token(), Browser())
        found = await self.access().sessions.find(made.token)
        assert found is not None
        return found

    def actions(self) -> list[str]:
        """The actions in the audit log."""
        return [entry.action for entry in self.log()]

    def log(self) -> list[AuditEntry]:
        """The audit log."""
        return list(self.harness.state.committed.audit_log.values())
