"""Views of meetings that the store reads and writes for a decision, and of meetings at a provider."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings import hosts, meetings, provider_events
from meetcore.domain.money import holds, ledger
from meetcore.domain.requests.views import Claim, KeyView


@frozen
class CreationQuery:
    """The input of the decision on a new meeting. `operation` is the charge's permanent name.

    `now` is the request's instant and `per_day` how many meetings may be made for one host a day, for
    `Host.can_take`. `needs_host` is false with a provider that has none.
    """

    account_id: UUID
    api_key_id: UUID
    cap_day: date
    operation: str
    idempotency_key: str | None
    seats: int
    start_at: datetime
    end_at: datetime
    now: datetime
    per_day: int | None = None
    needs_host: bool = True
    can_wait_for_host: bool = False


@frozen
class CreationView:
    """The account, and the free hosts that can take the meeting, locked to the end of the transaction.

    `is_contended`: a fitting host is free but locked by another transaction; ask again with
    `can_wait_for_host`. `daily_cap` is the key's present cap. `creations` are those of the query's day on
    active and former hosts with the seats, as of the last commit; `None` without `per_day`. Two accounts that
    create at the same moment may each count the same. `is_erased`: the erasure of the account was requested.
    """

    funds: ledger.Funds
    usage: holds.CapUsage
    daily_cap: int | None
    charged: ledger.Transfer | None
    idempotency: KeyView
    free_hosts: Sequence[hosts.Host]
    is_contended: bool
    creations: hosts.DayCreations | None = None
    is_erased: bool = False


NO_LEASE: Final = UUID(int=0)
"""The token of a meeting that no process works on."""


@frozen
class LeaseView:
    """A meeting in progress, loaded only for the holder of its lease.

    `hold` is there while it is being made, `charge` once it is paid, `usage` for the cap day of either.
    `version` as in `AccountState`. `token` is `NO_LEASE` for a meeting that no process works on.
    """

    token: UUID = field(repr=False)
    version: int | None
    meeting: meetings.Meeting
    provider_user_id: str
    funds: ledger.Funds
    usage: holds.CapUsage
    hold: holds.Hold | None
    charge: ledger.Transfer | None
    claim: Claim | None


@frozen
class MeetingView:
    """A meeting under its account's lock. `is_leased`: a process works on it now.

    `is_due`: by the clock it is to be ended, or its recording looked for, now or later.
    """

    meeting: meetings.Meeting
    idempotency: KeyView
    is_leased: bool
    is_due: bool


@frozen
class ExpiredLease:
    """A meeting whose lease expired, now under the caller's lease."""

    account_id: UUID
    meeting_id: UUID
    token: UUID = field(repr=False)


@frozen
class DueMeeting:
    """A meeting due by the clock; `host` may be empty, `recording_checks` counts this one, too.

    `is_cleared`: it is over, and the provider has said that nothing of it runs.
    """

    meeting: meetings.Meeting
    provider_user_id: str
    recording_checks: int = 0
    is_cleared: bool = False


@frozen
class DueHostKey:
    """A host whose key is due for replacement."""

    host_id: UUID
    provider_user_id: str
    token: UUID = field(repr=False)


@frozen
class OrphanCheck:
    """A check of the provider for orphans of a meeting.

    `age_s` is the time since the creation, or since an orphan was last seen, by the store's clock; it is
    negative while the request may still be under way. `failures` counts the failed checks in a row.
    """

    meeting: meetings.Meeting
    provider_user_id: str
    age_s: float
    failures: int
    token: UUID = field(repr=False)


@frozen
class ClaimedEvent:
    """An event of a provider to apply now. `tries` includes this one.

    `had_expired_lease` where an earlier claim ended without a record.
    """

    id: UUID
    event: provider_events.ProviderEvent
    tries: int
    token: UUID = field(repr=False)
    had_expired_lease: bool = False


@frozen
class MeetingFilter:
    """A choice of an account's meetings; `None` narrows nothing.

    `status` is the `domain.meetings.meetings.shown_status` at the instant `now`; the start lies in
    [`starts_from`, `starts_before`). Each of `words`, from `search_words`, begins a word of the title.
    """

    now: datetime
    status: meetings.MeetingStatus | None = None
    starts_from: datetime | None = None
    starts_before: datetime | None = None
    words: tuple[str, ...] = ()


@frozen
class StartCursor:
    """A place in a list by start: lists go on behind this meeting."""

    start_at: datetime
    id: UUID


FREE_START_WITHIN: Final = timedelta(days=7)
"""How far after the wished start a free one is looked for."""


MAX_ENDS_LOOKED_AT: Final = 200
"""Reservations that are read for a free start, the first to end first."""


@frozen
class FreeStartQuery:
    """A meeting that found no host: so many seats and minutes, from `start_at`, asked for at `now`.

    `per_day` is how many meetings may be made for one host a day (UTC); `None` for any number.
    """

    seats: int
    start_at: datetime
    minutes: int
    now: datetime
    per_day: int | None = None


@frozen
class ProviderOrder:
    """A meeting to make. `meeting_id` is our own id, by which it is found again. `duration` is minutes.

    `provider_user_id` names the host; it is empty with a provider without hosts.
    """

    meeting_id: UUID
    provider_user_id: str
    title: str
    description: str | None
    start_at: datetime
    duration: int
    password: str | None = field(repr=False)
    options: meetings.MeetingOptions


@frozen
class ListedMeeting:
    """A meeting in a host's list; `created_at` is by the provider's clock."""

    provider_meeting_id: str
    created_at: datetime


@frozen
class FoundMeeting:
    """A meeting as the provider has it. `meeting_id` is our reference in it; `None` in others.

    `duration` is minutes. `options` has those that the provider shows.
    """

    made: meetings.Provisioned
    meeting_id: UUID | None
    title: str
    description: str | None = field(repr=False)
    start_at: datetime | None
    duration: int
    options: meetings.MeetingOptions
