"""An area of the site: the dashboard or the console, each with sessions, use cases and roles of its own."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Generic, TypeVar

from attrs import frozen

from meetcore.domain.notes.notes import Language
from meetcore.ports.member_queries import SignedIn, SignedInOperator
from meetcore.usecases.redeem_sign_in_link import Browser, NewOperatorSession, NewSession
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sessions import Sessions
from meetcore.usecases.sign_in_with_identity import SignInWithIdentity
from meetcore.usecases.sign_in_with_passkey import SignInWithPasskey

Who = TypeVar("Who", bound=SignedIn | SignedInOperator)
Use = TypeVar("Use")
Allowed = TypeVar("Allowed", bound=StrEnum)


@frozen
class Area(Generic[Who, Use, Allowed]):
    """What differs between the dashboard and the console.

    `root` begins every path, and `site` the names of the cookies. `find` knows the sessions of this area
    alone. `menu` has a path, a label and the action that it needs for each of its pages. `sends_mail` is
    whether sign-in links can be sent, `can_sign_up` whether accounts can be opened. The name at the top
    leads to the page of `name_page`, if there is one.
    """

    root: str
    site: str
    use: Use
    sessions: Sessions
    runtime: Runtime
    sends_mail: bool
    can_sign_up: bool
    find: Callable[[str | None], Awaitable[Who | None]]
    send_link: Callable[[str, str, str | None, Language], Awaitable[None]]
    passkeys: SignInWithPasskey
    identities: SignInWithIdentity
    redeem: Callable[[str, Browser], Awaitable[NewSession | NewOperatorSession]]
    actions: type[Allowed]
    check: Callable[[Who, Allowed], None]
    is_allowed: Callable[[Who, Allowed], bool]
    name: Callable[[Who], str]
    name_page: Callable[[Who], str]
    menu: Sequence[tuple[str, str, Allowed]]

    @property
    def sign_in(self) -> str:
        """The path of the sign-in page."""
        return f"{self.root}/sign-in"
