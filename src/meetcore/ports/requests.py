"""The store of accounts, keys, grants, hosts, idempotency keys, requests and erasures; rate counters."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.records import pages
from meetcore.domain.requests import grants, idempotency, keys, rate_window, request_log, retention, views


class RateStoreUnavailable(Exception):
    """The counters do not answer, and the hit may be counted. Requests are counted elsewhere meanwhile."""


class RateCounters(Protocol):
    """Counts of requests by key, class and minute, shared by every process."""

    async def hit(self, key_id: UUID, operation_class: rate_window.OperationClass, window_start: int) -> int:
        """Add one and return the count, this hit included (rules 8/1 and 8/5).

        No two hits of a window get the same number, and no number is left out. A past window is kept for some
        minutes, so that a clock set back finds its counts again. A key is the API key's id, never the
        caller's address. Raises `RateStoreUnavailable` without an answer in good time.
        """


class IdempotencyRepository(Protocol):
    """Records of idempotency keys."""

    async def load_locked(self, account_id: UUID, key: str) -> views.KeyView:
        """Take the account's lock and read a key. Raises `NotFound`."""

    async def save(self, account_id: UUID, record: idempotency.IdempotencyRecord) -> None:
        """Write a key as bound (not done) or done with its outcome, and end any lease on it."""


class KeyUses(Protocol):
    """The last uses of API keys."""

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        """Write when each key was last used, unless a later use is stored. Unknown keys are left out."""


class RequestLog(Protocol):
    """The requests of all processes."""

    async def save(self, requests: Sequence[request_log.LoggedRequest]) -> None:
        """Write requests, each once, also when repeated. After `StoreUnavailable` they may be written."""


class RequestQueries(Protocol):
    """Reads of logged requests."""

    async def list_requests(
        self, account_id: UUID, wanted: views.RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[request_log.LoggedRequest]:
        """List an account's requests, the newest first."""

    async def list_caused_deliveries(
        self, request: request_log.LoggedRequest
    ) -> Sequence[pages.DeliveryLine]:
        """List the deliveries to present endpoints of the events that a request caused, the first one first.

        Of events later than a second after the request only those of the note that it asked for.
        """

    async def find_request(self, account_id: UUID, request_id: UUID) -> pages.RequestDetails | None:
        """Return a request without its deliveries."""

    async def find_request_of_any(self, request_id: UUID) -> request_log.LoggedRequest | None:
        """Return a request of any account."""


class ErasureRepository(Protocol):
    """The content of accounts to be erased, in portions, and their erasures."""

    async def load_locked(self, account_id: UUID) -> retention.Erasure:
        """Take the account's lock and read its erasure. Raises `NotFound`."""

    async def is_requested(self, account_id: UUID) -> bool:
        """Return whether the account is erased or being erased, under its lock."""

    async def start(self, account_id: UUID, at: datetime) -> None:
        """Write the erasure, and end every access to the account, under its lock.

        The account is suspended and loses name and address, as its pending invitations do. Its keys are
        revoked and lose their names. Its sessions are deleted and its memberships end. Users who belong to no
        other account lose name, address and passkeys, and the mails to them are deleted; so do those whom the
        account removed before, by its audit log.
        """

    async def claim_due(self, at: datetime, limit: int) -> Sequence[UUID]:
        """Take accounts whose erasure is due, from its request on, and put it off by `retry_delay`."""

    async def find_recorded(self, account_id: UUID, limit: int) -> Sequence[UUID]:
        """Find meetings of the account whose recordings are not expired."""

    async def erase_meetings(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        """Erase titles, descriptions, passwords and links of the meetings after an id; return the last id."""

    async def erase_notes(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        """Erase the content of notes that are not in progress, in the same way."""

    async def delete_portion(self, account_id: UUID, limit: int) -> int:
        """Delete up to `limit` each of deliveries, events, mails, answers, requests; return how many."""

    async def finish(self, account_id: UUID, at: datetime) -> bool:
        """Finish the erasure; False while the account's meetings or recordings are worked on."""


class Registry(Protocol):
    """Reads of accounts and keys, the newest first, and of hosts, the smallest first."""

    async def list_accounts(self, email: str | None, limit: int) -> Sequence[views.StoredAccount]:
        """List accounts; with this e-mail address, in any case, where given."""

    async def find_account(self, account_id: UUID) -> views.StoredAccount:
        """Return one account. Raises `NotFound`."""

    async def list_keys(self, account_id: UUID | None) -> Sequence[keys.ApiKey]: ...
    async def list_hosts(self) -> Sequence[Host]: ...


class RegistryRepository(Protocol):
    """Changes of accounts, keys and hosts. A load locks its row. `NotFound` names a missing record."""

    async def add_account(self, account: views.NewAccount) -> None:
        """Open an account without funds; raise `Conflict` for a known `requests.accounts.email_key`."""

    async def load_account(self, account_id: UUID) -> views.StoredAccount: ...
    async def suspend_account(
        self, account_id: UUID, at: datetime, reason: str | None = None
    ) -> views.StoredAccount:
        """Suspend an account; a suspended one keeps its time and reason."""

    async def resume_account(self, account_id: UUID) -> views.StoredAccount: ...
    async def set_low_threshold(self, account_id: UUID, credits: int) -> None: ...
    async def set_statements_mailed(self, account_id: UUID, month: date | None) -> None:
        """Write the first day of the last month whose statement was mailed; `None` to mail no more."""

    async def find_statements_due(self, month: date, limit: int) -> Sequence[UUID]:
        """Find accounts that asked for statements and were mailed none from this month on."""

    async def add_key(self, key: keys.ApiKey, key_digest: bytes) -> None: ...
    async def count_working_keys(self, account_id: UUID, now: datetime) -> int:
        """Count the keys and grants of an account that are neither revoked nor expired."""

    async def load_key(self, key_id: UUID) -> keys.ApiKey:
        """Take the lock of a key's account and read the key."""

    async def revoke_key(self, key_id: UUID, at: datetime) -> keys.ApiKey:
        """Revoke a key; a revoked one keeps its time."""

    async def save_key_end(self, key: keys.ApiKey) -> None:
        """Write when a key expires and was revoked, unless an earlier end is stored."""

    async def set_daily_cap(self, key_id: UUID, daily_cap: int | None) -> keys.ApiKey:
        """Change the cap in credits a day of a key and of all that share it, under the account's lock."""

    async def add_host(self, host: Host, at: datetime) -> None:
        """Add a licensed host. Raises `Conflict` when the provider's user is a host already."""

    async def load_host(self, host_id: UUID) -> Host: ...
    async def set_host_active(self, host_id: UUID, *, is_active: bool) -> Host:
        """Give a host no new meetings, where those it has stay, or give it new ones again."""


class GrantRepository(Protocol):
    """OAuth clients, requests for grants, and tokens of grants, which are API keys. A load locks its row."""

    async def find_client(self, client_id: str) -> grants.OAuthClient | None: ...
    async def save_client(self, client: grants.OAuthClient) -> None:
        """Write a client, in the place of an earlier one of its id."""

    async def add_authorization(self, authorization: grants.Authorization) -> None: ...
    async def find_authorization(self, id: UUID) -> grants.Authorization | None: ...
    async def load_authorization(self, id: UUID) -> grants.Authorization | None: ...
    async def allow(self, authorization: grants.Authorization, code_digest: bytes, at: datetime) -> None:
        """Write the key and the times of an answer, with its code, and that the client is used."""

    async def delete_authorization(self, id: UUID) -> None: ...
    async def find_code(self, code_digest: bytes) -> grants.Authorization | None: ...
    async def use_code(self, id: UUID, at: datetime) -> bool:
        """Use the code of an authorization; False where it was used already."""

    async def find_refresh_token(self, token_digest: bytes) -> grants.RefreshToken | None: ...
    async def use_refresh_token(self, token_digest: bytes, at: datetime) -> bool:
        """Use a refresh token; False where it was used already."""

    async def issue(
        self, key: keys.ApiKey, access_digest: bytes, refresh_digest: bytes, at: datetime
    ) -> None:
        """Write the tokens of a grant and both ends of the key; its earlier access token works no more."""

    async def revoke_of_member(self, account_id: UUID, user_id: UUID, at: datetime) -> Sequence[keys.ApiKey]:
        """Revoke the grants that a member gave in an account, under its lock, and return them."""

    async def purge(self, now: datetime) -> int:
        """Delete a portion of what is past the times of `domain.requests.grants`; return how many."""
