"""Operator tasks: accounts, keys, top-ups, hosts."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.money import ledger
from meetcore.domain.money.ledger import Entry
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.keys import (
    DEFAULT_NAME,
    SECRET_BYTES,
    ApiKey,
    Scope,
    check_expiry,
    check_name,
    digest,
    last_four,
    mint,
)
from meetcore.ports.registry import NewAccount, Registry, StoredAccount
from meetcore.ports.store import Store
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime

DEFAULT_LOW_THRESHOLD = 100


@frozen
class MintedKey:
    """A new key: the only moment at which it can be read."""

    key: ApiKey
    text: str = field(repr=False)


@frozen
class ToppedUp:
    """A top-up in the ledger. `is_new` is false when the reference had been topped up before."""

    entry: Entry
    balance: int
    is_new: bool


@frozen
class Adjusted:
    """An adjustment in the ledger. `is_new` is false when the reference had been adjusted before."""

    entry: Entry
    balance: int
    is_new: bool


@frozen
class Administration:
    """The operator's use cases."""

    store: Store
    registry: Registry
    notifier: WorkerNotifier
    runtime: Runtime
    key_prefix: str

    async def create_account(self, email: str, full_name: str, credits: int = 0) -> NewAccount:
        """Open an account, with credits if any are given.

        Raises:
            InvalidEmail: see `check_email`.
            Conflict: an account has this e-mail address already.
        """
        check_email(email)
        now = self.runtime.now()
        account = NewAccount(
            self.runtime.new_id(now), self.runtime.new_id(now), email, full_name, DEFAULT_LOW_THRESHOLD, now
        )
        await self.registry.add_account(account)
        if credits:
            await self.top_up(account.id, credits, f"opening-{account.id}")
        return account

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        """Change the threshold of `credit.low`.

        Raises:
            NotFound: no such account.
        """
        await self.registry.set_low_threshold(account_id, credits)

    async def top_up(self, account_id: UUID, amount: int, reference: str | None = None) -> ToppedUp:
        """Add credits, once for each reference.

        Raises:
            InvalidAmount: not a whole number of credits from 1 up.
            NotFound: no such account.
            Conflict: the reference belongs to a top-up of another amount.
        """
        now = self.runtime.now()
        transfer_id = self.runtime.new_id(now)
        reference = reference or str(transfer_id)
        async with self.store.begin() as tx:
            view = await tx.ledger.load_locked(account_id, ledger.top_up_operation(reference))
            existing = None if view.entry is None else view.entry.transfer
            posting = ledger.top_up(
                view.funds, transfer_id, reference, amount, now, existing, self.runtime.chain_key
            )
            if posting.entry is None:
                assert view.entry is not None
                return ToppedUp(view.entry, view.funds.balance, is_new=False)
            due = await tx.ledger.append(posting.funds, posting.entry, events_of(self.runtime, now, posting))
        if due:
            self.notifier.notify()
        return ToppedUp(posting.entry, posting.funds.balance, is_new=True)

    async def adjust(
        self, account_id: UUID, amount: int, reason: str, reference: str | None = None
    ) -> Adjusted:
        """Correct a balance by hand, once for each reference; the only event is `credit.low`.

        Args:
            account_id: whose balance.
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
        about = ledger.adjustment_about(reason)
        now = self.runtime.now()
        transfer_id = self.runtime.new_id(now)
        operation = ledger.adjustment_operation(reference or str(transfer_id))
        async with self.store.begin() as tx:
            view = await tx.ledger.load_locked(account_id, operation)
            existing = None if view.entry is None else view.entry.transfer
            posting = ledger.adjust(
                view.funds, transfer_id, operation, amount, about, now, existing, self.runtime.chain_key
            )
            if posting.entry is None:
                assert view.entry is not None
                return Adjusted(view.entry, view.funds.balance, is_new=False)
            due = await tx.ledger.append(posting.funds, posting.entry, events_of(self.runtime, now, posting))
        if due:
            self.notifier.notify()
        return Adjusted(posting.entry, posting.funds.balance, is_new=True)

    async def suspend_account(self, account_id: UUID) -> StoredAccount:
        """Refuse an account's keys from their next request on.

        Work in progress goes on: meetings take place, queued notes are made, webhooks are sent.

        Raises:
            NotFound: no such account.
        """
        return await self.registry.suspend_account(account_id, self.runtime.now())

    async def create_key(
        self,
        account_id: UUID,
        scopes: Sequence[Scope],
        daily_cap: int | None = None,
        expires_at: datetime | None = None,
        *,
        name: str = DEFAULT_NAME,
        created_by: UUID | None = None,
    ) -> MintedKey:
        """Make a key. Its scopes are fixed from now on (rule 5/4).

        `created_by` is the member who makes it, if it is not the operator.

        Raises:
            NotFound: no such account.
            InvalidExpiry: it expires in the past.
            InvalidName: see `check_name`.
        """
        now = self.runtime.now()
        check_expiry(expires_at, now)
        check_name(name)
        text = mint(self.key_prefix, self.runtime.entropy.token_bytes(SECRET_BYTES))
        unique = tuple(dict.fromkeys(scopes))
        key = ApiKey(
            self.runtime.new_id(now), account_id, unique, daily_cap, now, expires_at,
            name=name, last_four=last_four(text), created_by=created_by,
        )  # fmt: skip
        await self.registry.add_key(key, digest(text))
        return MintedKey(key, text)

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        """Revoke a key from now on.

        Raises:
            NotFound: no such key.
        """
        return await self.registry.revoke_key(key_id, self.runtime.now())

    async def add_host(self, provider_user_id: str, capacity: int, max_concurrent: int = 1) -> Host:
        """Add a licensed host.

        Raises:
            Conflict: the provider's user is a host already.
        """
        now = self.runtime.now()
        host = Host(self.runtime.new_id(now), provider_user_id, capacity, max_concurrent)
        await self.registry.add_host(host, now)
        return host
