"""Those who sign in: use cases of links, sessions, members and operators, and the mails sent."""

from __future__ import annotations

from uuid import UUID

from attrs import define, evolve, field

from meetcore.composition.use_cases import Access
from meetcore.domain.mails.contents import Invitation, SignInLink
from meetcore.domain.mails.mails import Mail
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import OperatorSession
from meetcore.domain.members.sign_in import SignInFirst
from meetcore.domain.members.views import SignedIn, SignedInOperator
from meetcore.usecases.members.sign_in_links import Browser, NewSession
from tests.unit.usecases.application import START, ApplicationHarness, CrashPoint

__all__ = ["BROWSER", "OWNER", "WHERE", "AccessHarness", "link_in", "operator", "token_in", "token_of"]

OWNER = "a@example.com"
WHERE = "192.0.2.9"
BROWSER = Browser("cookie", "Mozilla/5.0", "192.0.2.1")


def operator(role: OperatorRole = OperatorRole.SUPPORT) -> SignedInOperator:
    """An operator who has just signed in."""
    one = Operator(UUID(int=5), "ops@example.com", role, START)
    session = OperatorSession(
        id=UUID(int=6), operator_id=one.id, created_at=START, last_seen_at=START, authenticated_at=START
    )
    return SignedInOperator(session, one)


def link_in(mail: Mail) -> SignInLink | Invitation:
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
        access.request_link = evolve(access.request_link, pause=self._pause)
        return access

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @property
    def mails(self) -> list[Mail]:
        """The mails in the outbox, in the order in which they were put there."""
        return self.harness.mails()

    def last_token(self) -> str:
        return token_in(self.mails[-1])

    async def sign_in(self, email: str = OWNER, browser: Browser = BROWSER) -> NewSession:
        """Ask for a link by e-mail and use it."""
        assert browser.cookie is not None
        await self.access().request_link.for_member(email, browser.cookie, None)
        return await self.access().redeem_link.for_customer(self.last_token(), browser)

    async def signed_in(self, email: str = OWNER) -> SignedIn:
        found = await self.access().sessions.find((await self.sign_in(email)).token)
        assert found is not None
        return found

    async def guest(self, role: Role) -> SignedIn:
        access = self.access()
        link = await access.portal_links.for_guest(self.harness.caller.account.id, role)
        made = await access.redeem_link.for_customer(token_of(link.url), Browser())
        found = await access.sessions.find(made.token)
        assert found is not None
        return found

    async def operator(self, email: str = "ops@example.com") -> SignedInOperator:
        """Return a new operator who has signed in."""
        access = self.access()
        one = await access.operators.add(email, OperatorRole.SUPPORT)
        link = await access.portal_links.for_operator(one.id)
        made = await access.redeem_link.for_operator(token_of(link.url), Browser())
        found = await access.sessions.find_operator(made.token)
        assert found is not None
        return found

    async def view(self, who: SignedInOperator) -> NewSession:
        """Begin an operator's view of the account."""
        impersonate = self.harness.process().console.impersonate
        return await impersonate.begin(who, self.harness.caller.account.id, Browser())

    async def join(self, owner: SignedIn, email: str, role: Role) -> SignedIn:
        """Invite an address, and accept: in a session of their own where it has one."""
        await self.access().members.invite(owner, email, role, "192.0.2.1")
        token, browser = self.last_token(), Browser()
        try:
            made = await self.access().redeem_link.for_customer(token, browser)
        except SignInFirst:
            browser = Browser(earlier=(await self.sign_in(email)).session)
            made = await self.access().redeem_link.for_customer(token, browser)
        found = await self.access().sessions.find(made.token)
        assert found is not None
        return found

    def actions(self) -> list[str]:
        """The actions of the changes."""
        return [entry.action for entry in self.changes()]

    def changes(self) -> list[AuditEntry]:
        """The entries of the audit log that are not of sign-ins."""
        return [entry for entry in self.log() if not entry.action.startswith("session.")]

    def log(self) -> list[AuditEntry]:
        return self.harness.audit_log()
