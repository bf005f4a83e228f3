"""What an operator keeps: accounts, keys and hosts; no rule of money.

`Registry` reads them; `RegistryRepository` changes them in a transaction, together with the audit entry.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.requests.keys import ApiKey

__all__ = ["NewAccount", "Registry", "RegistryRepository", "StoredAccount"]


@frozen
class NewAccount:
    """An account to open. `low_threshold` is credits."""

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    low_threshold: int
    created_at: datetime


@frozen
class StoredAccount:
    """An account as an operator sees it. `balance`, `held` and `low_threshold` are credits.

    `statements_mailed` is the first day of the last month whose statement was mailed about; None where nobody
    asked for it.
    """

    id: UUID
    user_id: UUID
    email: str
    full_name: str
    created_at: datetime
    suspended_at: datetime | None
    balance: int
    held: int
    low_threshold: int
    statements_mailed: date | None = None


class Registry(Protocol):
    """The operator's records, read. One statement each; a `NotFound` names what is missing."""

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[StoredAccount]:
        """The newest accounts, so many at most; with this e-mail address, in any case, where given."""

    async def find_account(self, account_id: UUID) -> StoredAccount:
        """One account.

        Raises:
            NotFound: no such account.
        """

    async def list_keys(self, account_id: UUID | None) -> Sequence[ApiKey]:
        """Every key, newest first; of one account where given."""

    async def list_hosts(self) -> Sequence[Host]:
        """Every host, smallest first."""


class RegistryRepository(Protocol):
    """The operator's records, changed. A `NotFound` names what is missing.

    A load locks its row, so that what is read is what the change finds.
    """

    async def add_account(self, account: NewAccount) -> None:
        """Open an active account with empty funds.

        Raises:
            Conflict: another account has this e-mail address, by `domain.requests.accounts.email_key`.
                Accounts that shared one before may stay.
        """

    async def load_account(self, account_id: UUID) -> StoredAccount:
        """Take the account's lock and read it.

        Raises:
            NotFound: no such account.
        """

    async def suspend_account(self, account_id: UUID, at: datetime) -> StoredAccount:
        """Suspend an account; one that is suspended keeps its time.

        Raises:
            NotFound: no such account.
        """

    async def resume_account(self, account_id: UUID) -> StoredAccount:
        """Make an account active; one that is active stays as it is.

        Raises:
            NotFound: no such account.
        """

    async def set_low_threshold(self, account_id: UUID, credits: int) -> None:
        """Change the threshold of `credit.low`.

        Raises:
            NotFound: no such account.
        """

    async def set_statements_mailed(self, account_id: UUID, month: date | None) -> None:
        """Note the first day of the last month whose statement was mailed about; None to mail no more.

        Raises:
            NotFound: no such account.
        """

    async def find_statements_due(self, month: date, limit: int) -> Sequence[UUID]:
        """Accounts that were mailed about no statement from this month on, and asked to be."""

    async def add_key(self, key: ApiKey, key_digest: bytes) -> None:
        """Keep a key by its digest.

        Raises:
            NotFound: no such account.
        """

    async def load_key(self, key_id: UUID) -> ApiKey:
        """Take the lock of a key's account, under which its keys are changed, and read the key.

        Raises:
            NotFound: no such key.
        """

    async def revoke_key(self, key_id: UUID, at: datetime) -> ApiKey:
        """Revoke a key from `at` on; one that is revoked keeps its time.

        Raises:
            NotFound: no such key.
        """

    async def save_key_end(self, key: ApiKey) -> None:
        """Write when a key expires and was revoked; an earlier end that is stored stays."""

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> ApiKey:
        """Change a key's cap in credits a day, and that of all keys that share it; `None` removes it.

        The caller holds the account's lock, so that no key is rolled meanwhile.

        Raises:
            NotFound: no such key.
        """

    async def add_host(self, host: Host, at: datetime) -> None:
        """Add a licensed host.

        Raises:
            Conflict: the provider's user is a host already.
        """

    async def load_host(self, host_id: UUID) -> Host:
        """Lock a host and read it.

        Raises:
            NotFound: no such host.
        """

    async def disable_host(self, host_id: UUID) -> Host:
        """Give a host no new meetings; those it has stay.

        Raises:
            NotFound: no such host.
        """

    async def enable_host(self, host_id: UUID) -> Host:
        """Let a host have new meetings again; until when the provider makes it wait stays as it is.

        Raises:
            NotFound: no such host.
        """
