"""Changes of accounts, keys and balances, each with its audit entry in the same transaction."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import Factory, evolve, field, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.mails.contents import SuspensionChanged
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members import audit, members, roles
from meetcore.domain.money import ledger, statements, transfers
from meetcore.domain.requests import accounts, views
from meetcore.domain.requests.keys import (
    DEFAULT_NAME,
    SECRET_BYTES,
    ApiKey,
    Scope,
    check_expiry,
    check_name,
    check_overlap,
    check_room,
    digest,
    last_four,
    mint,
    roll,
)
from meetcore.ports import observability, requests
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.meetings.hosts import HostAdministration
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.money.credit_postings import (
    CreditPostings,
    Posted,
    PostingRequest,
    adjustment_request,
    post_within,
    top_up_request,
)
from meetcore.usecases.requests.erasure import check_role, lock_unerased
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.endpoints import WebhookAdministration

DEFAULT_LOW_THRESHOLD = 100


@frozen
class MintedKey:
    """A new key: the only moment at which it can be read."""

    key: ApiKey
    text: str = field(repr=False)


@frozen
class KeyAdministration:
    """Changes of API keys as `origin` asks for them."""

    store: Store
    runtime: Runtime
    key_prefix: str
    origin: audit.ActionOrigin

    async def create(
        self, account_id: UUID, scopes: Sequence[Scope], daily_cap: int | None = None,
        expires_at: datetime | None = None, *, name: str = DEFAULT_NAME, new_id: UUID | None = None,
    ) -> MintedKey:  # fmt: skip
        """Make a key, whose scopes are fixed (rule 5/4); a `new_id` is for a form that may be sent twice.

        Raises:
            Conflict: there is a key of the new id, or the account was erased.
            InvalidExpiry: it expires in the past.
            InvalidName: see `check_name`.
            Unprocessable: see `check_room`.
        """
        now = self.runtime.now()
        check_expiry(expires_at, now)
        check_name(name)
        text = mint(self.key_prefix, self.runtime.entropy.token_bytes(SECRET_BYTES))
        unique = tuple(dict.fromkeys(scopes))
        key = ApiKey(
            new_id or self.runtime.new_id(now), account_id, unique, daily_cap, now, expires_at,
            name=name, last_four=last_four(text), created_by=self.origin.member_id,
        )  # fmt: skip
        async with self.store.begin() as tx:
            await lock_unerased(tx, account_id)
            await check_role(tx, account_id, self.origin.member_id, roles.Action.MANAGE_KEYS)
            await _check_new(tx, account_id, new_id)
            await add_key(tx, key, text, now)
            await self._record(
                tx, now, "key.created", account_id, key.id, name=name, scopes=" ".join(unique),
                daily_cap=daily_cap, expires_at=None if expires_at is None else utc_text(expires_at),
            )  # fmt: skip
        return MintedKey(key, text)

    async def roll(
        self, key_id: UUID, overlap_h: int, new_id: UUID | None = None
    ) -> tuple[MintedKey, ApiKey]:
        """Put a new key in the place of another, which ends after so many hours; both spend under one cap.

        Returns the new key, and the old one with its end. Raises `InvalidOverlap`, `Conflict`: see
        `keys.roll`; Conflict, too, where there is a key of the new id; Unprocessable: see `check_room`.
        """
        check_overlap(overlap_h)
        now = self.runtime.now()
        text = mint(self.key_prefix, self.runtime.entropy.token_bytes(SECRET_BYTES))
        async with self.store.begin() as tx:
            key = await tx.registry.load_key(key_id)
            await check_role(tx, key.account_id, self.origin.member_id, roles.Action.MANAGE_KEYS)
            await _check_new(tx, key.account_id, new_id)
            rolled = roll(
                key, overlap_h, new_id or self.runtime.new_id(now), text, now, self.origin.member_id
            )
            await tx.registry.save_key_end(rolled.old)
            await add_key(tx, rolled.new, text, now)
            await self._record(
                tx, now, "key.rolled", key.account_id, key_id, overlap_h=overlap_h,
                new_key_id=str(rolled.new.id),
            )  # fmt: skip
        return MintedKey(rolled.new, text), rolled.old

    async def revoke(self, key_id: UUID) -> ApiKey:
        """Revoke a key from now on."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_key(key_id)
            await check_role(tx, before.account_id, self.origin.member_id, roles.Action.MANAGE_KEYS)
            key = await tx.registry.revoke_key(key_id, now)
            if key != before:
                action = "key.revoked" if key.client_id is None else "grant.revoked"
                await self._record(tx, now, action, key.account_id, key_id)
        return key

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        """Change the cap of a key and of those that share it, in credits a day; `None`: none (rule 5/7)."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_key(key_id)
            await check_role(tx, before.account_id, self.origin.member_id, roles.Action.MANAGE_CAPS)
            key = await tx.registry.set_daily_cap(key_id, daily_cap)
            if key != before:
                await self._record(
                    tx, now, "key.cap_changed", key.account_id, key_id, before=before.daily_cap,
                    after=daily_cap,
                )  # fmt: skip
        return key

    async def _record(
        self, tx: Transaction, now: datetime, action: str, account_id: UUID | None, target_id: UUID,
        **details: audit.Detail,
    ) -> None:  # fmt: skip
        await record_action(tx, self.runtime, now, self.origin, action, account_id, target_id, **details)


@frozen
class Administration:
    """Changes as `origin` asks for them; reads are the registry's. Credits are moved by `postings`.

    `mails` is `None` where no mails are sent.
    """

    store: Store
    registry: requests.Registry
    notifier: WorkerNotifier
    runtime: Runtime
    key_prefix: str
    origin: audit.ActionOrigin = audit.SERVICE
    postings: CreditPostings = field(
        default=Factory(lambda self: CreditPostings(self.store), takes_self=True), repr=False
    )
    mails: MailQueue | None = None

    def acting_as(self, origin: audit.ActionOrigin) -> "Administration":
        """Return the same use cases for another actor, who stands in the audit log."""
        return evolve(self, origin=origin)

    async def create_account(self, email: str, full_name: str, credits: int = 0) -> views.NewAccount:
        """Open an account, with credits if any are given; the holder of the address is its owner.

        Raises:
            InvalidEmail: see `check_email`.
            Conflict: an account has this e-mail address already.
        """
        accounts.check_email(email)
        now = self.runtime.now()
        user, due = members.User(self.runtime.new_id(now), email, full_name, now), 0
        async with self.store.begin() as tx:
            user = await tx.members.ensure_user(user)
            account = views.NewAccount(
                self.runtime.new_id(now), user.id, email, full_name, DEFAULT_LOW_THRESHOLD, now
            )
            await tx.registry.add_account(account)
            await tx.members.add_membership(members.Membership(account.id, user.id, roles.Role.OWNER, now))
            await self._record(tx, now, "account.created", account.id, account.id)
            if credits:
                due = (await self.top_up_within(tx, now, account.id, credits, f"opening-{account.id}")).due
        if credits:
            observability.count_credits(self.runtime.metrics, transfers.TransferKind.TOPUP, credits)
        if due:
            self.notifier.notify()
        return account

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        """Change the threshold of `credit.low`."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = (await tx.registry.load_account(account_id)).low_threshold
            await check_role(tx, account_id, self.origin.member_id, roles.Action.MANAGE_SETTINGS)
            if before != credits:
                await tx.registry.set_low_threshold(account_id, credits)
                await self._record(
                    tx, now, "account.threshold_changed", account_id, account_id, before=before, after=credits
                )

    async def set_statement_mails(self, account_id: UUID, *, is_on: bool) -> None:
        """Mail owners and finance when a month's statement is there, from the present month on, or stop."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            was_on = (await tx.registry.load_account(account_id)).statements_mailed is not None
            await check_role(tx, account_id, self.origin.member_id, roles.Action.MANAGE_SETTINGS)
            if was_on is not is_on:
                month = statements.last_closed(now).first_day if is_on else None
                await tx.registry.set_statements_mailed(account_id, month)
                action = "account.statement_mails_changed"
                await self._record(tx, now, action, account_id, account_id, before=was_on, after=is_on)

    async def top_up(
        self, account_id: UUID, amount: int, reference: str | None = None, reason: str | None = None
    ) -> Posted:
        """Add credits, once for each reference; a reason stands in the audit log.

        Raises:
            InvalidAmount: not a whole number of credits from 1 up.
            InvalidReference: see `check_reference`.
            Conflict: the reference belongs to a top-up of another amount.
        """
        request = self._top_up(self.runtime.now(), account_id, amount, reference, reason)
        return await self._post(request, transfers.TransferKind.TOPUP, amount)

    async def adjust(
        self, account_id: UUID, amount: int, reason: str, reference: str | None = None
    ) -> Posted:
        """Correct a balance by hand, once for each reference; the only event is `credit.low`.

        A negative amount takes, no more than is available. The customer reads the reason in the ledger. The
        reference is the operator's own name for it, such as a ticket's number.

        Raises:
            InvalidAmount: zero, or no whole number of credits.
            InsufficientCredits: it would take more than is available.
            Conflict: the reference belongs to an adjustment of another amount.
            InvalidReason: see `ledger.adjustment_about`.
        """
        now = self.runtime.now()
        request = adjustment_request(self.runtime, self.origin, now, account_id, amount, reason, reference)
        return await self._post(request, transfers.TransferKind.ADJUSTMENT, amount)

    async def _post(self, request: PostingRequest, kind: transfers.TransferKind, amount: int) -> Posted:
        posted = await self.postings.post(request)
        if posted.is_new:
            observability.count_credits(self.runtime.metrics, kind, amount)
        if posted.due:
            self.notifier.notify()
        return posted

    async def adjust_within(
        self, tx: Transaction, now: datetime, account_id: UUID, amount: int, reason: str,
        reference: str | None,
    ) -> Posted:  # fmt: skip
        """Adjust in a transaction of the caller's, who counts and notifies."""
        request = adjustment_request(self.runtime, self.origin, now, account_id, amount, reason, reference)
        return await post_within(tx, self.runtime, request)

    async def suspend_account(self, account_id: UUID, reason: str | None = None) -> views.StoredAccount:
        """Refuse an account's keys from their next request on. Members read the reason, owners by mail, too.

        Work in progress goes on: meetings take place, queued notes are made, webhooks are sent.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_account(account_id)
            account, mailed = await tx.registry.suspend_account(account_id, now, reason), 0
            if account != before:
                await self._record(tx, now, "account.suspended", account_id, account_id, reason=reason)
                mailed = await self._mail_owners(tx, now, account)
        if mailed:
            self.notifier.notify()
        return account

    async def resume_account(self, account_id: UUID) -> views.StoredAccount:
        """Let the keys of a suspended account in again; raise `Conflict` where it was erased."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            if (await tx.erasures.load_locked(account_id)).requested_at is not None:
                raise Conflict("It was erased, and nothing brings it back: open another one.", account_id)
            before = await tx.registry.load_account(account_id)
            account, mailed = await tx.registry.resume_account(account_id), 0
            if account != before:
                await self._record(tx, now, "account.resumed", account_id, account_id)
                mailed = await self._mail_owners(tx, now, account)
        if mailed:
            self.notifier.notify()
        return account

    async def _mail_owners(self, tx: Transaction, now: datetime, account: views.StoredAccount) -> int:
        if self.mails is None:
            return 0
        content = SuspensionChanged(
            account.full_name, account.suspended_at is not None, account.suspension_reason, now,
            f"{self.mails.base_url}/dashboard",
        )  # fmt: skip
        recipients = await tx.mails.find_recipients(account.id, None)
        return await self.mails.add(tx, recipients, content, account.id, str(account.id))

    @property
    def keys(self) -> KeyAdministration:
        """Changes of keys, as the same origin asks for them."""
        return KeyAdministration(self.store, self.runtime, self.key_prefix, self.origin)

    @property
    def hosts(self) -> HostAdministration:
        """Changes of hosts, as the same origin asks for them."""
        return HostAdministration(self.store, self.runtime, self.origin)

    @property
    def webhooks(self) -> WebhookAdministration:
        """Changes of webhook endpoints of all accounts, as the same origin asks for them."""
        return WebhookAdministration(self.store, self.notifier, self.runtime, self.origin)

    async def top_up_within(
        self, tx: Transaction, now: datetime, account_id: UUID, amount: int, reference: str | None,
        reason: str | None = None,
    ) -> Posted:  # fmt: skip
        """Top up in a transaction of the caller's, who counts and notifies."""
        request = self._top_up(now, account_id, amount, reference, reason)
        return await post_within(tx, self.runtime, request)

    def _top_up(
        self, now: datetime, account_id: UUID, amount: int, reference: str | None, reason: str | None
    ) -> PostingRequest:
        if reference is not None:
            ledger.check_reference(reference)
        return top_up_request(self.runtime, self.origin, now, account_id, amount, reference, reason)

    async def _record(
        self, tx: Transaction, now: datetime, action: str, account_id: UUID | None, target_id: UUID,
        **details: audit.Detail,
    ) -> None:  # fmt: skip
        await record_action(tx, self.runtime, now, self.origin, action, account_id, target_id, **details)


async def add_key(tx: Transaction, key: ApiKey, text: str, now: datetime) -> None:
    """Add a key by its text to an account, whose lock is held. Raises as `check_room`."""
    check_room(await tx.registry.count_working_keys(key.account_id, now))
    await tx.registry.add_key(key, digest(text))


async def _check_new(tx: Transaction, account_id: UUID, key_id: UUID | None) -> None:
    """Check under the account's lock that there is no key of this id, which a member's form may name.

    The account's own id stands for what members do by hand; see `dashboard_key`.
    """
    if key_id is None:
        return
    try:
        if key_id != account_id:
            await tx.registry.load_key(key_id)
    except NotFound:
        return
    raise Conflict("This form was sent before, and its key was made. A key is shown once.", key_id)
