"""Changes of accounts, keys and balances, each with its audit entry in the same transaction."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import Factory, evolve, field, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.audit import SERVICE, ActionOrigin, ActorKind, Detail
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.money.statements import last_closed
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.keys import (
    DEFAULT_NAME,
    SECRET_BYTES,
    ApiKey,
    Scope,
    check_expiry,
    check_name,
    check_overlap,
    digest,
    last_four,
    mint,
    roll,
)
from meetcore.ports.registry import NewAccount, Registry, StoredAccount
from meetcore.ports.store import Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.audit import record_action
from meetcore.usecases.credit_postings import CreditPostings, Posted, PostingRequest, post_within
from meetcore.usecases.erased_accounts import lock_unerased
from meetcore.usecases.host_administration import HostAdministration
from meetcore.usecases.move_credits import Adjusted, ToppedUp, adjustment_request, top_up_request
from meetcore.usecases.runtime import Runtime

DEFAULT_LOW_THRESHOLD = 100


@frozen
class MintedKey:
    """A new key: the only moment at which it can be read."""

    key: ApiKey
    text: str = field(repr=False)


@frozen
class Administration:
    """Changes as `origin` asks for them; reads are the registry's. Credits are moved by `postings`."""

    store: Store
    registry: Registry
    notifier: WorkerNotifier
    runtime: Runtime
    key_prefix: str
    origin: ActionOrigin = SERVICE
    postings: CreditPostings = field(
        default=Factory(lambda self: CreditPostings(self.store), takes_self=True), repr=False
    )

    def acting_as(self, origin: ActionOrigin) -> "Administration":
        """Return the same use cases for another actor, who stands in the audit log."""
        return evolve(self, origin=origin)

    async def create_account(self, email: str, full_name: str, credits: int = 0) -> NewAccount:
        """Open an account, with credits if any are given; who has the address is its owner.

        Raises:
            InvalidEmail: see `check_email`.
            Conflict: an account has this e-mail address already.
        """
        check_email(email)
        now = self.runtime.now()
        user, due = User(self.runtime.new_id(now), email, full_name, now), 0
        async with self.store.begin() as tx:
            user = await tx.members.ensure_user(user)
            account = NewAccount(
                self.runtime.new_id(now), user.id, email, full_name, DEFAULT_LOW_THRESHOLD, now
            )
            await tx.registry.add_account(account)
            await tx.members.add_membership(Membership(account.id, user.id, Role.OWNER, now))
            await self._record(tx, now, "account.created", account.id, account.id)
            if credits:
                _, due = await self.top_up_within(tx, now, account.id, credits, f"opening-{account.id}")
        if credits:
            self.runtime.metrics.credits_moved(TransferKind.TOPUP, credits)
        if due:
            self.notifier.notify()
        return account

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        """Change the threshold of `credit.low`.

        Raises:
            NotFound: no such account.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = (await tx.registry.load_account(account_id)).low_threshold
            if before != credits:
                await tx.registry.set_low_threshold(account_id, credits)
                await self._record(
                    tx, now, "account.threshold_changed", account_id, account_id, before=before, after=credits
                )

    async def set_statement_mails(self, account_id: UUID, *, is_on: bool) -> None:
        """Mail owners and finance when the statement of a month is there, from the present month on, or stop.

        Raises:
            NotFound: no such account.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            was_on = (await tx.registry.load_account(account_id)).statements_mailed is not None
            if was_on is not is_on:
                month = last_closed(now).first_day if is_on else None
                await tx.registry.set_statements_mailed(account_id, month)
                action = "account.statement_mails_changed"
                await self._record(tx, now, action, account_id, account_id, before=was_on, after=is_on)

    async def top_up(
        self, account_id: UUID, amount: int, reference: str | None = None, reason: str | None = None
    ) -> ToppedUp:
        """Add credits, once for each reference; a reason stands in the audit log.

        Raises:
            InvalidAmount: not a whole number of credits from 1 up.
            NotFound: no such account.
            Conflict: the reference belongs to a top-up of another amount.
        """
        now = self.runtime.now()
        request = top_up_request(self.runtime, self.origin, now, account_id, amount, reference, reason)
        return ToppedUp.of(await self._post(request, TransferKind.TOPUP, amount))

    async def adjust(
        self, account_id: UUID, amount: int, reason: str, reference: str | None = None
    ) -> Adjusted:
        """Correct a balance by hand, once for each reference; the only event is `credit.low`.

        Args:
            amount: credits, negative to take; no more than is available.
            reason: what it is for, kept in the ledger, where the customer reads it.
            reference: the operator's own name for it, such as a ticket's number.

        Raises:
            InvalidAmount: zero, or no whole number of credits.
            InsufficientCredits: it would take more than is available.
            NotFound: no such account.
            Conflict: the reference belongs to an adjustment of another amount.
            InvalidReason: see `ledger.adjustment_about`.
        """
        now = self.runtime.now()
        request = adjustment_request(self.runtime, self.origin, now, account_id, amount, reason, reference)
        return Adjusted.of(await self._post(request, TransferKind.ADJUSTMENT, amount))

    async def _post(self, request: PostingRequest, kind: TransferKind, amount: int) -> Posted:
        posted = await self.postings.post(request)
        if posted.is_new:
            self.runtime.metrics.credits_moved(kind, amount)
        if posted.due:
            self.notifier.notify()
        return posted

    async def adjust_within(
        self, tx: Transaction, now: datetime, account_id: UUID, amount: int, reason: str,
        reference: str | None,
    ) -> tuple[Adjusted, int]:  # fmt: skip
        """Do what `adjust` does in a transaction of the caller's; with it, how many deliveries became due."""
        request = adjustment_request(self.runtime, self.origin, now, account_id, amount, reason, reference)
        posted = await post_within(tx, request)
        return Adjusted.of(posted), posted.due

    async def suspend_account(self, account_id: UUID) -> StoredAccount:
        """Refuse an account's keys from their next request on.

        Work in progress goes on: meetings take place, queued notes are made, webhooks are sent.

        Raises:
            NotFound: no such account.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_account(account_id)
            account = await tx.registry.suspend_account(account_id, now)
            if account != before:
                await self._record(tx, now, "account.suspended", account_id, account_id)
        return account

    async def resume_account(self, account_id: UUID) -> StoredAccount:
        """Let the keys of a suspended account in again.

        Raises:
            Conflict: the account was erased.
            NotFound: no such account.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            if (await tx.erasures.load_locked(account_id)).requested_at is not None:
                raise Conflict("It was erased, and nothing brings it back: open another one.", account_id)
            before = await tx.registry.load_account(account_id)
            account = await tx.registry.resume_account(account_id)
            if account != before:
                await self._record(tx, now, "account.resumed", account_id, account_id)
        return account

    async def create_key(
        self,
        account_id: UUID,
        scopes: Sequence[Scope],
        daily_cap: int | None = None,
        expires_at: datetime | None = None,
        *,
        name: str = DEFAULT_NAME,
        new_id: UUID | None = None,
    ) -> MintedKey:
        """Make a key. Its scopes are fixed from now on (rule 5/4).

        `new_id` is for a form that may be sent twice: its text could not be shown again.

        Raises:
            NotFound: no such account.
            Conflict: there is a key of the new id, or the account was erased.
            InvalidExpiry: it expires in the past.
            InvalidName: see `check_name`.
        """
        now = self.runtime.now()
        check_expiry(expires_at, now)
        check_name(name)
        text = mint(self.key_prefix, self.runtime.entropy.token_bytes(SECRET_BYTES))
        unique = tuple(dict.fromkeys(scopes))
        key = ApiKey(
            new_id or self.runtime.new_id(now), account_id, unique, daily_cap, now, expires_at,
            name=name, last_four=last_four(text), created_by=self._member_id,
        )  # fmt: skip
        async with self.store.begin() as tx:
            await lock_unerased(tx, account_id)
            await _check_new(tx, new_id)
            await tx.registry.add_key(key, digest(text))
            await self._record(
                tx, now, "key.created", account_id, key.id, name=name, scopes=" ".join(unique),
                daily_cap=daily_cap, expires_at=None if expires_at is None else utc_text(expires_at),
            )  # fmt: skip
        return MintedKey(key, text)

    async def roll_key(
        self, key_id: UUID, overlap_h: int, new_id: UUID | None = None
    ) -> tuple[MintedKey, ApiKey]:
        """Put a new key in the place of another, which ends after so many hours; both spend under one cap.

        `new_id` is for a form that may be sent twice, see `create_key`.

        Returns:
            The new key, and the old one with its end.

        Raises:
            NotFound: no such key.
            InvalidOverlap, Conflict: see `keys.roll`; Conflict, too, where there is a key of the new id.
        """
        check_overlap(overlap_h)
        now = self.runtime.now()
        text = mint(self.key_prefix, self.runtime.entropy.token_bytes(SECRET_BYTES))
        async with self.store.begin() as tx:
            key = await tx.registry.load_key(key_id)
            await _check_new(tx, new_id)
            rolled = roll(key, overlap_h, new_id or self.runtime.new_id(now), text, now, self._member_id)
            await tx.registry.save_key_end(rolled.old)
            await tx.registry.add_key(rolled.new, digest(text))
            await self._record(
                tx, now, "key.rolled", key.account_id, key_id, overlap_h=overlap_h,
                new_key_id=str(rolled.new.id),
            )  # fmt: skip
        return MintedKey(rolled.new, text), rolled.old

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        """Revoke a key from now on.

        Raises:
            NotFound: no such key.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_key(key_id)
            key = await tx.registry.revoke_key(key_id, now)
            if key != before:
                await self._record(tx, now, "key.revoked", key.account_id, key_id)
        return key

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        """Change the cap of a key and of those that share it, in credits a day; `None` removes it (rule 5/7).

        Raises:
            NotFound: no such key.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_key(key_id)
            key = await tx.registry.set_daily_cap(key_id, daily_cap)
            if key != before:
                await self._record(
                    tx,
                    now,
                    "key.cap_changed",
                    key.account_id,
                    key_id,
                    before=before.daily_cap,
                    after=daily_cap,
                )
        return key

    @property
    def hosts(self) -> HostAdministration:
        """Changes of hosts, as the same origin asks for them."""
        return HostAdministration(self.store, self.runtime, self.origin)

    async def top_up_within(
        self, tx: Transaction, now: datetime, account_id: UUID, amount: int, reference: str | None,
        reason: str | None = None,
    ) -> tuple[ToppedUp, int]:  # fmt: skip
        """Do what `top_up` does in a transaction of the caller's; with it, how many deliveries became due."""
        request = top_up_request(self.runtime, self.origin, now, account_id, amount, reference, reason)
        posted = await post_within(tx, request)
        return ToppedUp.of(posted), posted.due

    @property
    def _member_id(self) -> UUID | None:
        """The member who acts, if it is one."""
        actor = self.origin.actor
        return actor.id if actor.kind is ActorKind.MEMBER else None

    async def _record(
        self, tx: Transaction, now: datetime, action: str, account_id: UUID | None, target_id: UUID,
        **details: Detail,
    ) -> None:  # fmt: skip
        await record_action(tx, self.runtime, now, self.origin, action, account_id, target_id, **details)


async def _check_new(tx: Transaction, key_id: UUID | None) -> None:
    """Check under the account's lock that there is no key of this id."""
    if key_id is None:
        return
    try:
        await tx.registry.load_key(key_id)
    except NotFound:
        return
    raise Conflict("This form was sent before, and its key was made. A key is shown once.", key_id)
