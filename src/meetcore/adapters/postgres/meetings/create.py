"""Making a meeting: hold and reservation, then charge and room, or neither.

Each transaction is one locked read and one write. Lock order: account, then host.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from attrs import evolve
from psycopg.errors import UniqueViolation

from meetcore.adapters.postgres import columns, repository
from meetcore.adapters.postgres.meetings.rows import (
    HOST,
    MEETING,
    MOST_CHECKED_HOSTS,
    MOST_FREE_HOSTS,
    ending_parameters,
    meeting,
    scheduled_parameters,
)
from meetcore.adapters.postgres.money.rows import FUNDS, HOLD, MONEY, TRANSFER, USAGE, entry_parameters, usage
from meetcore.adapters.postgres.requests.idempotency import KEY, key_record
from meetcore.adapters.postgres.webhooks.rows import event_parameters
from meetcore.domain.errors import require_record
from meetcore.domain.meetings import hosts, meetings, views
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.money.views import AccountState
from meetcore.domain.requests.views import Claim, KeyView
from meetcore.domain.webhooks.events import Event
from meetcore.ports.meetings import NumberTaken, Provisioning

# A meeting's columns, its host the one that was reserved.
_ON_HOST = MEETING.values.replace("%(meeting_host_id)s", "host_id")

SQL = repository.load_statements(
    __file__, **MONEY, HOST=HOST, KEY=KEY, MEETING=MEETING, MEETING_ON_HOST=_ON_HOST,
    MOST_CHECKED_HOSTS=MOST_CHECKED_HOSTS, MOST_FREE_HOSTS=MOST_FREE_HOSTS,
)  # fmt: skip


class MeetingCreation(repository.Repository):
    """Creation of meetings: hold and reservation under a lease, then charge and join link, or neither."""

    async def load_creation(self, query: views.CreationQuery) -> views.CreationView:
        parameters: columns.Row = {
            "account_id": query.account_id,
            "api_key_id": query.api_key_id,
            "day": query.cap_day,
            "operation": query.operation,
            "key": query.idempotency_key,
            "seats": query.seats,
            "start_at": query.start_at,
            "end_at": query.end_at,
            "now": query.now,
            "today": query.now.astimezone(UTC).date(),
            "per_day": query.per_day,
            "needs_host": query.needs_host,
        }
        if query.can_wait_for_host:
            await self._run(SQL["wait_for_host"], parameters)
        row = require_record(await self._locked(SQL["load_creation"], parameters), "account")
        host = HOST.find(row)
        return views.CreationView(
            funds=FUNDS.read(row),
            usage=usage(row, query.api_key_id, query.cap_day),
            daily_cap=row["daily_cap"],
            charged=TRANSFER.find(row),
            idempotency=KeyView(key_record(row, self._cipher), columns.utc(row["now"])),
            free_hosts=() if host is None else (host,),
            is_contended=row["is_contended"],
            creations=None
            if query.per_day is None
            else hosts.DayCreations(int(row["creations_used"]), int(row["creations_left"])),
            is_erased=row["is_erased"],
        )

    async def save_provisioning(self, provisioning: Provisioning) -> views.LeaseView | None:
        row = await self._one(SQL["save_provisioning"], self._reservation(provisioning))
        return None if row is None else _leased(provisioning, row, provisioning.provider_user_id)

    async def load_state(self, account_id: UUID, api_key_id: UUID, cap_day: date) -> AccountState:
        row = require_record(
            await self._locked(SQL["load_state"], account_id=account_id, api_key_id=api_key_id, day=cap_day),
            "account",
        )
        return AccountState(None, FUNDS.read(row), usage(row, api_key_id, cap_day), row["daily_cap"])

    async def save_if_unchanged(
        self, query: views.CreationQuery, provisioning: Provisioning, state: AccountState
    ) -> views.LeaseView | None:
        parameters = self._reservation(provisioning) | {
            "version": state.version,
            "operation": query.operation,
            "seats": query.seats,
            "now": query.now,
            "per_day": query.per_day,
            "needs_host": query.needs_host,
        }
        row = await self._one(SQL["save_if_unchanged"], parameters)
        return None if row is None else _leased(provisioning, row, row["provider_user_id"] or "")

    def _reservation(self, provisioning: Provisioning) -> columns.Row:
        """Return the parameters of the statements that reserve what a meeting needs."""
        made, claim, lease = provisioning.meeting, provisioning.claim, provisioning.lease
        return (
            MEETING.parameters(made, self._cipher)
            | FUNDS.parameters(provisioning.funds)
            | USAGE.parameters(provisioning.usage)
            | {
                "start_at": made.start_at,
                "end_at": made.end_at,
                "hold_id": provisioning.hold.id,
                "key": None if claim is None else claim.key,
                "fingerprint": None if claim is None else claim.fingerprint,
                "today": made.created_at.astimezone(UTC).date(),
                "counts_creation": provisioning.counts_creation,
                "orphan_window_s": provisioning.orphan_window_s,
                "lease_token": lease.token,
                "lease_s": lease.seconds,
            }
        )

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> views.LeaseView | None:
        parameters = {"account_id": account_id, "meeting_id": meeting_id, "token": token}
        row = await self._locked(SQL["load_leased"], parameters)
        if row is None:
            return None
        hold, charge = HOLD.find(row), TRANSFER.find(row)
        if hold is not None:
            used = usage(row, hold.api_key_id, hold.cap_day)
        elif charge is not None and charge.api_key_id is not None and charge.cap_day is not None:
            used = usage(row, charge.api_key_id, charge.cap_day)
        else:
            raise LookupError(f"meeting {meeting_id} has neither a hold nor a charge")
        claim = None if row["key"] is None else Claim(row["key"], row["fingerprint"], meeting_id)
        return views.LeaseView(
            token, row["version"], meeting(row, self._cipher), row["provider_user_id"], FUNDS.read(row), used,
            hold, charge, claim,
        )  # fmt: skip

    async def save_scheduled(
        self, view: views.LeaseView, meeting: meetings.Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event],
    ) -> int | None:  # fmt: skip
        parameters = (
            scheduled_parameters(view, meeting, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage)
            | entry_parameters(entry)
            | event_parameters(events, self._cipher)
            | {"token": view.token, "version": view.version}
        )
        try:
            row = await self._one(SQL["save_scheduled"], parameters)
        except UniqueViolation as error:
            if error.diag.constraint_name != "meetings_open_at_provider":
                raise
            raise NumberTaken(f"{meeting.provider} gave an id that another meeting has") from error
        return None if row is None else int(row["due"])

    async def save_abandoned(
        self, view: views.LeaseView, meeting: meetings.Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None, was_made: bool = False,
    ) -> None:  # fmt: skip
        await self._run(
            SQL["save_abandoned"],
            ending_parameters(view, meeting, None, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage),
            today=meeting.created_at.astimezone(UTC).date(),
            unavailable_until=host_unavailable_until,
            look_again_s=look_again_s,
            was_made=was_made,
        )


def _leased(provisioning: Provisioning, row: columns.Row, provider_user_id: str) -> views.LeaseView:
    """Return the view of a reservation that the owner of its lease goes on from."""
    return views.LeaseView(
        provisioning.lease.token, row["version"], evolve(provisioning.meeting, host_id=row["host_id"]),
        provider_user_id, provisioning.funds, provisioning.usage, provisioning.hold, None, provisioning.claim,
    )  # fmt: skip
