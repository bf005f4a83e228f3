"""Passkeys of a member or of an operator: register one, list them, remove one.

The owner gets a mail of each change, so that the owner notices one by another person.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.errors import NotFound, Unprocessable, require_record
from meetcore.domain.mails.contents import PasskeyChanged
from meetcore.domain.mails.mails import Recipient
from meetcore.domain.members.passkeys import (
    CHALLENGE_BYTES,
    CHALLENGE_FOR,
    Challenge,
    ChallengePurpose,
    Passkey,
    PasskeyOwner,
    check_name,
    check_room,
    passkey_refused,
)
from meetcore.domain.members.roles import Action, OperatorAction, check_operator_allowed
from meetcore.domain.members.sign_in import token_digest
from meetcore.domain.members.views import SignedIn, SignedInOperator, check_member
from meetcore.domain.notes.notes import Language
from meetcore.ports import identity, members, requests
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.members.audit import count_attempt, record_action
from meetcore.usecases.runtime import Runtime

DASHBOARD_PAGE = "/dashboard/passkeys"
CONSOLE_PAGE = "/console/passkeys"

Someone = SignedIn | SignedInOperator


@frozen
class Visitor:
    """Who asks, and from where. `cookie` is the token of the session, to which a challenge is bound."""

    signed_in: Someone
    cookie: str = field(repr=False)
    client_address: str | None
    language: Language = Language.INDONESIAN


@frozen
class Passkeys:
    """The use cases of passkeys. Without `open_verifier` there are none: browsers take none for this site.

    A guest's are `NotFound`. What needs a verifier, or more passkeys than there may be, is `Unprocessable`.
    """

    store: Store
    queries: members.MemberQueries
    counters: requests.RateCounters
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime
    base_url: str
    open_verifier: Callable[[], identity.PasskeyVerifier] | None

    @property
    def are_possible(self) -> bool:
        """Whether browsers take passkeys for this site."""
        return self.open_verifier is not None

    async def list_own(self, signed_in: Someone) -> Sequence[Passkey]:
        """List the signed-in member's passkeys, the oldest first; a guest has none."""
        _check_role(signed_in)
        if isinstance(signed_in, SignedIn) and signed_in.user is None:
            return []
        return await self.queries.list_passkeys(_owner(signed_in))

    async def ask_to_register(self, visitor: Visitor) -> dict[str, Any]:
        """Make a challenge for a new passkey; return the browser's options. May raise `RateLimited`."""
        _check_role(visitor.signed_in)
        owner, now = _owner(visitor.signed_in), self.runtime.now()
        await count_attempt(self.counters, "registration", str(owner.id), now)
        known = await self.queries.list_passkeys(owner)
        check_room(known)
        bytes_ = await ask(
            self.store, self.runtime, ChallengePurpose.REGISTRATION, owner.user_id is None, visitor.cookie
        )
        user = identity.PasskeyUser(owner.id.bytes, _email(visitor.signed_in))
        return verifier_of(self.open_verifier).ask_to_register(
            bytes_, user, [one.credential for one in known]
        )

    async def add(self, visitor: Visitor, name: str, answer: str) -> Passkey:
        """Add the passkey that a browser has made for a challenge.

        Raises:
            InvalidRequest: the name cannot be one.
            Unprocessable: the answer does not hold.
            Conflict: the passkey is there already.
        """
        _check_role(visitor.signed_in)
        owner, name, now = _owner(visitor.signed_in), check_name(name), self.runtime.now()
        made = await self._verified(visitor, owner, answer)
        passkey = Passkey(
            self.runtime.new_id(now), owner.user_id, owner.operator_id, made.credential, made.public_key,
            made.sign_count, name, now,
        )  # fmt: skip
        async with self.store.begin() as tx:
            check_room(await tx.passkeys.load_own(owner))
            await tx.passkeys.add(passkey)
            added = await self._record(tx, visitor, passkey, was_added=True)
        if added:
            self.notifier.notify()
        return passkey

    async def remove(self, visitor: Visitor, passkey_id: UUID) -> None:
        """Remove a passkey. Sessions that it began go on."""
        _check_role(visitor.signed_in)
        async with self.store.begin() as tx:
            passkey = require_record(
                await tx.passkeys.remove(_owner(visitor.signed_in), passkey_id), "passkey"
            )
            added = await self._record(tx, visitor, passkey, was_added=False)
        if added:
            self.notifier.notify()

    async def _verified(self, visitor: Visitor, owner: PasskeyOwner, answer: str) -> identity.NewCredential:
        verifier = verifier_of(self.open_verifier)
        try:
            challenge = verifier.read(answer).challenge
            await use_up(
                self.store, self.runtime, ChallengePurpose.REGISTRATION, owner.user_id is None,
                visitor.cookie, challenge,
            )  # fmt: skip
            return verifier.verify_registration(answer, challenge)
        except identity.PasskeyInvalid:
            raise passkey_refused() from None

    async def _record(self, tx: Transaction, visitor: Visitor, passkey: Passkey, *, was_added: bool) -> int:
        """Write the audit entry and the mail of a change."""
        signed_in, now = visitor.signed_in, self.runtime.now()
        account_id = signed_in.account.id if isinstance(signed_in, SignedIn) else None
        action = "passkey.added" if was_added else "passkey.removed"
        origin = signed_in.origin(visitor.client_address)
        await record_action(tx, self.runtime, now, origin, action, account_id, passkey.id, name=passkey.name)
        page = CONSOLE_PAGE if account_id is None else DASHBOARD_PAGE
        content = PasskeyChanged(passkey.name, was_added, now, visitor.client_address, self.base_url + page)
        chosen = signed_in.user.language if isinstance(signed_in, SignedIn) and signed_in.user else None
        recipient = Recipient(_email(signed_in), chosen or visitor.language)
        return await self.mails.add(tx, [recipient], content, account_id)


async def ask(
    store: Store, runtime: Runtime, purpose: ChallengePurpose, is_operators: bool, cookie: str
) -> bytes:
    """Write a new challenge for the holder of a cookie; return its bytes."""
    bytes_ = runtime.entropy.token_bytes(CHALLENGE_BYTES)
    challenge = Challenge(
        challenge_digest(bytes_), purpose, is_operators, token_digest(cookie), runtime.now() + CHALLENGE_FOR
    )
    async with store.at_once() as tx:
        await tx.passkeys.add_challenge(challenge)
    return bytes_


async def use_up(
    store: Store, runtime: Runtime, purpose: ChallengePurpose, is_operators: bool, cookie: str,
    challenge: bytes,
) -> None:  # fmt: skip
    """Use a challenge up before anything is verified; raise `Unprocessable` where this cookie has none."""
    async with store.at_once() as tx:
        is_used = await tx.passkeys.use_challenge(
            challenge_digest(challenge), purpose, is_operators, token_digest(cookie), runtime.now()
        )
    if not is_used:
        raise passkey_refused()


def challenge_digest(challenge: bytes) -> bytes:
    """Return the SHA-256 under which a challenge is stored."""
    return token_digest(challenge.hex())


def verifier_of(open_verifier: Callable[[], identity.PasskeyVerifier] | None) -> identity.PasskeyVerifier:
    """Open the verifier; raise `Unprocessable` where there is none."""
    if open_verifier is None:
        raise Unprocessable("Passkeys need a host name with TLS as the address of this service.")
    return open_verifier()


def _check_role(signed_in: Someone) -> None:
    if isinstance(signed_in, SignedIn):
        check_member(signed_in, Action.MANAGE_PASSKEYS)
    else:
        check_operator_allowed(signed_in.operator.role, OperatorAction.MANAGE_PASSKEYS)


def _owner(signed_in: Someone) -> PasskeyOwner:
    if isinstance(signed_in, SignedInOperator):
        return PasskeyOwner(operator_id=signed_in.operator.id)
    if signed_in.user is None:
        raise NotFound("A guest has no passkeys.")
    return PasskeyOwner(signed_in.user.id)


def _email(signed_in: Someone) -> str:
    if isinstance(signed_in, SignedInOperator):
        return signed_in.operator.email
    assert signed_in.user is not None
    return signed_in.user.email
