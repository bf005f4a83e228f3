"""The store of meetings: hosts, money while they are made, checks for orphans, and events of providers.

A meeting in progress is under a lease, and every later step is fenced by its token. A host's key that is due
for replacement belongs to another meeting or to none, and is not shown.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings import provider_events, views
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.sessions import Session, Sessions
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.money.views import AccountState
from meetcore.domain.requests.views import Claim
from meetcore.domain.webhooks.events import Event
from meetcore.ports.runtime import Lease


class NumberTaken(Exception):
    """Another meeting that is not over has the id at the provider. Nothing was kept."""


@frozen
class Provisioning:
    """A meeting about to be made: its hold, its host if there is one, its lease, its idempotency key.

    `counts_creation`: the account's creations on the host are limited and counted. `orphan_window_s` opens a
    check for orphans that is due so long after the lease.
    """

    meeting: Meeting
    hold: Hold
    funds: Funds
    usage: CapUsage
    lease: Lease
    claim: Claim | None
    provider_user_id: str
    counts_creation: bool = False
    orphan_window_s: float | None = None


class MeetingRepository(Protocol):
    """Meetings, their hosts and their money."""

    async def load_creation(self, query: views.CreationQuery) -> views.CreationView:
        """Take the account's lock and read the input of the decision on a new meeting. Raises `NotFound`."""

    async def save_provisioning(self, provisioning: Provisioning) -> views.LeaseView | None:
        """Write meeting, hold, reservation, lease and claim, and count the creation; return the state then.

        `None`, and nothing was written, when the host was taken meanwhile.
        """

    async def load_state(self, account_id: UUID, api_key_id: UUID, cap_day: date) -> AccountState:
        """Take the account's lock and read the input of several decisions on its money. Raises `NotFound`."""

    async def save_if_unchanged(
        self, query: views.CreationQuery, provisioning: Provisioning, state: AccountState
    ) -> views.LeaseView | None:
        """Write a decision on a state of `load_state`, or, by a call of `at_once`, on an unlocked account.

        For a query without `per_day`. The host is chosen as it is reserved, in the order of `choose_host`:
        the provisioning names none, the returned view does.

        Returns as `save_provisioning`. `None`, and nothing was written, where the account is locked or no
        longer as in the state, the idempotency key or the query's operation is known, the erasure of the
        account was requested, or no fitting host is free and unlocked: decide again under the account's lock.
        """

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> views.LeaseView | None:
        """Read a meeting with its money, under its lease or `NO_LEASE`; `None` when the lease is another."""

    async def save_scheduled(
        self, view: views.LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event],
    ) -> int | None:  # fmt: skip
        """Write the meeting as made, its hold as the charge, the idempotency key as done, and the events.

        The key has no outcome of its own: the meeting is.

        Returns the due deliveries; `None`, and nothing was written, when account or lease are no longer as in
        the view. Raises `NumberTaken`.
        """

    async def save_abandoned(
        self, view: views.LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> None:  # fmt: skip
        """Release hold, host and idempotency key. Meeting, funds and usage are given as they are afterwards.

        A meeting that was not made is not counted among the creations of its day, the host's
        (`Host.given_back`) and the account's on that host; `was_made`: the provider made and counted it. The
        host gets no new meeting before `host_unavailable_until`. A check for its orphans is due after
        `look_again_s`; `None` closes an open one.
        """

    async def load_locked(
        self, account_id: UUID, meeting_id: UUID, idempotency_key: str | None
    ) -> views.MeetingView | None:
        """Take the account's lock and read a meeting in any state."""

    async def save_cancelling(self, meeting: Meeting, lease: Lease, claim: Claim | None) -> None: ...
    async def save_cancelled(
        self, view: views.LeaseView, meeting: Meeting, refund: "tuple[Funds, CapUsage, Entry] | None",
        events: Sequence[Event], encoded_outcome: bytes | None,
    ) -> int:  # fmt: skip
        """Write a finished cancellation and any refund; see `save_ended`."""

    async def save_cancel_failed(self, view: views.LeaseView, meeting: Meeting) -> None:
        """Restore a meeting that the provider did not cancel; its idempotency key may try again."""

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        """Find a meeting by its id at the provider, take its account's lock and read it again."""

    async def find_recorded(
        self, provider: str, provider_meeting_ids: Sequence[str], ids: Sequence[UUID]
    ) -> Sequence[Meeting]:
        """Read meetings of any account, by their ids at a provider or by ours, without a lock."""

    async def list_scheduled(
        self, provider: str, since: datetime, after: Meeting | None, limit: int
    ) -> Sequence[Meeting]:
        """List a page of a provider's scheduled meetings that begin after an instant, of all accounts."""

    async def load_sessions(self, account_id: UUID, meeting_id: UUID) -> Sessions:
        """Read the sessions of a meeting, whose account's lock is held."""

    async def save_session(self, meeting: Meeting, session: Session) -> None: ...
    async def save_progress(self, meeting: Meeting, due_at: datetime) -> None:
        """Write the status that its sessions give a meeting, and when it is due next."""

    async def save_ended(self, meeting: Meeting, events: Sequence[Event]) -> int:
        """Write the end of a meeting; return the due deliveries.

        Its host stays reserved, and it is due again soon, until `save_cleared`.
        """

    async def save_cleared(self, meeting: Meeting, *, invalidates_host_key: bool) -> None:
        """Write that nothing of a meeting that is over runs at the provider: it frees its host.

        `invalidates_host_key`: the freed host's key was the meeting's to show: it is forgotten and due to be
        replaced, unless an earlier meeting of the host is not over. The look-up of a recording is due.
        """

    async def save_uncleared(self, meeting: Meeting) -> None:
        """Write that something runs at the provider under a meeting that is over; it is due now."""

    async def keep_host(self, meeting: Meeting, seconds: float) -> None:
        """Keep the host of a meeting that is over reserved for so long, up to its next reservation."""

    async def claim_due(self, limit: int, again_s: float) -> Sequence[views.DueMeeting]:
        """Return meetings that are due: to be ended, to be cleared, or to have their recording looked for.

        Each is due again after `again_s`, unless it is saved as ended or cleared, or `schedule_next_check`.
        """

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None, *, is_cleared: bool) -> None:
        """Make a meeting due after so many seconds, or never, if it is still cleared, or still is not."""

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[views.ExpiredLease]: ...
    async def lease_expired(
        self, account_id: UUID, meeting_id: UUID, lease: Lease
    ) -> views.ExpiredLease | None:
        """Take over one meeting if its lease expired."""

    async def take_lease(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> views.ExpiredLease | None:
        """Take over one meeting in progress, whether or not its lease expired."""


class HostKeyRepository(Protocol):
    """Replacement of host keys: a new host is due at once, a disabled or concurrent one never."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[views.DueHostKey]: ...
    async def save(self, host_id: UUID, token: UUID, host_key: str) -> bool:
        """Write the key that the provider was given; false when the lease was lost or a meeting has ended."""

    async def postpone(self, host_id: UUID, token: UUID, seconds: float) -> None: ...


class OrphanCheckRepository(Protocol):
    """Open checks, at most one for each meeting.

    `MeetingRepository.save_provisioning` opens one where the provider can leave orphans, and
    `save_abandoned` moves it or closes it.
    """

    async def open(self, account_id: UUID, meeting_id: UUID) -> None:
        """Make a check due at once, as if an orphan had been seen now."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[views.OrphanCheck]: ...
    async def postpone(
        self, check: views.OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        """Make a check due after so many seconds, with its failures in a row; a sighting restarts its age."""

    async def close(self, check: views.OrphanCheck) -> None: ...


class ProviderEventInbox(Protocol):
    """Verified events of providers, answered at once and applied later. They belong to no account."""

    async def add(self, id: UUID, event: provider_events.ProviderEvent, digest: bytes) -> bool:
        """Write an event due at once; false when its provider's 32-byte digest is known, done or not."""

    async def claim(self, limit: int, lease: Lease) -> Sequence[views.ClaimedEvent]: ...
    async def postpone(self, id: UUID, token: UUID, seconds: float) -> None: ...
    async def done(self, id: UUID, token: UUID) -> None:
        """Delete the content of an event and keep its digest, so that a duplicate is known."""
