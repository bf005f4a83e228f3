"""Reads of the console, and the figures that operators watch, cheap however much is stored.

Each age is the first entry of an index of what is due; each count stops at `MOST_COUNTED` entries of one. The
credits of a day are summed over the accounts that moved any.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.money.postings import PROPOSAL
from meetcore.adapters.postgres.partitions import LAYOUT, count_ahead, layout_of
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.adapters.postgres.repository import Reads, load_statements
from meetcore.adapters.postgres.requests.registry import ACCOUNT, API_KEY
from meetcore.adapters.postgres.roles import SERVER
from meetcore.domain.members.members import Member
from meetcore.domain.money import transfers, views
from meetcore.domain.payments.payments import Doubt
from meetcore.domain.records import pages
from meetcore.domain.requests.keys import ApiKey
from meetcore.domain.requests.views import StoredAccount
from meetcore.ports.figures import MOST_COUNTED, REMOVAL_TRIES, Figures
from meetcore.ports.queries import MAX_PAGE

SQL = load_statements(
    __file__,
    ACCOUNT=ACCOUNT,
    API_KEY=API_KEY,
    MAX_PAGE=MAX_PAGE,
    PROPOSAL=PROPOSAL,
    REMOVAL_TRIES=REMOVAL_TRIES,
)


_PARAMETERS: Row = {"most": MOST_COUNTED}
_STATES = ("active", "paused", "disabled")
_HOST_STATES = ("free", "busy", "unavailable", "disabled")
_STEPS = ("fetch", "transcribe", "write", "settle")
_DOUBTS = tuple(doubt.value for doubt in Doubt)
_KINDS = tuple(kind.value for kind in transfers.TransferKind)


class PostgresFigures:
    """Read the figures on one connection of the pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self) -> Figures:
        with translated():
            async with self._pool.connection() as connection:
                return await _figures(connection)


async def _figures(connection: Connection) -> Figures:
    async def rows_of(statement: str) -> list[Row]:
        return await (await connection.execute(statement, _PARAMETERS)).fetchall()

    [work], [ledger], [server] = [
        await rows_of(each) for each in (SQL["work_overview"], SQL["ledger"], SERVER)
    ]
    [running_over], [not_removed] = await rows_of(SQL["running_over"]), await rows_of(SQL["not_removed"])
    notes, [standbys] = await rows_of(SQL["notes"]), await rows_of(SQL["standbys"])
    return Figures(
        deliveries_oldest_due_s=_age(work, "deliveries"),
        deliveries={state: work[state] for state in ("pending", "held", "parked")},
        endpoints=_endpoints(await rows_of(SQL["endpoints"])),
        provider_events_oldest_due_s=_age(work, "provider_events"),
        mails_oldest_due_s=_age(work, "mails"),
        mails_oldest_failing_s=_age(work, "failing_mails"),
        meetings_oldest_in_progress_s=_age(work, "meetings"),
        meetings_running_over=running_over["number"],
        notes_oldest_due_s=_by_step(notes, "due_at"),
        notes_oldest_failing_s=_by_step(notes, "failing"),
        notes_oldest_s=_by_step(notes, "created_at"),
        payments_in_doubt=dict.fromkeys(_DOUBTS, 0) | _numbers(await rows_of(SQL["in_doubt"])),
        recordings_not_removed=not_removed["number"],
        hosts=dict.fromkeys(_HOST_STATES, 0) | _numbers(await rows_of(SQL["hosts"])),
        retention_rounds_s={row["kind"]: _age(row, "started_at") for row in await rows_of(SQL["retention"])},
        ledger_verified_at=ledger["verified_at"],
        ledger_is_sound=ledger["is_sound"],
        oldest_transaction_s=_age(server, "xact_start") if server["may_read"] else None,
        replication_lag_s=server["lag_s"] if server["may_read"] else None,
        is_archiving_failing=server["is_archiving_failing"],
        database_bytes=server["size_bytes"],
        oldest_xid_age=server["oldest_xid_age"],
        schema_version=work["schema_version"],
        partitions_ahead=count_ahead(layout_of(await rows_of(LAYOUT)), utc(work["now"])),
        credits_today=dict.fromkeys(_KINDS, 0) | _numbers(await rows_of(SQL["credits"])),
        standbys_streaming=standbys["streaming"] if standbys["is_seen"] else None,
        replication_lag_bytes=standbys["lag_bytes"] if standbys["is_seen"] else None,
    )


def _age(row: Row, name: str) -> float:
    """Return for how many seconds something has been due; 0 where nothing is, or not yet."""
    since = row[name]
    return 0.0 if since is None else max(0.0, (row["now"] - since).total_seconds())


def _by_step(rows: list[Row], name: str) -> Mapping[str, float]:
    return dict.fromkeys(_STEPS, 0.0) | {row["step"]: _age(row, name) for row in rows}


def _numbers(rows: list[Row]) -> dict[str, int]:
    return {row["state"]: row["number"] for row in rows}


def _endpoints(rows: list[Row]) -> Mapping[str, int]:
    numbers = dict.fromkeys(_STATES, 0) | _numbers(rows)
    others = numbers["paused"] + numbers["disabled"]
    return numbers | {"active": min(MOST_COUNTED, max(0, numbers.pop("all") - others))}


T = TypeVar("T")

BOOKING = Columns(pages.HostBooking, "r", "")


_EVENT_AGE = timedelta(seconds=1)
"""The most by which the instant of an event's id and its time of creation differ."""


class ConsoleReads(Reads):
    """Reads of the console's pages."""

    async def search_accounts(self, wanted: pages.AccountSearch, limit: int) -> Sequence[StoredAccount]:
        at = wanted.id_made_at
        parameters: Row = {
            "text": wanted.text,
            "id": wanted.id,
            "key_digest": wanted.key_digest,
            "last_four": wanted.last_four,
            "receipt_year": None if wanted.receipt is None else wanted.receipt[0],
            "receipt_number": None if wanted.receipt is None else wanted.receipt[1],
            "made_from": None if at is None else at - _EVENT_AGE,
            "made_before": None if at is None else at + _EVENT_AGE,
            "limit": limit,
        }
        return await self._list(ACCOUNT, SQL["search"], parameters)

    async def find_account_page(self, account_id: UUID, keys: int, last: int) -> pages.AccountPage | None:
        row = await self._one(SQL["account_page"], id=account_id, keys=keys, last=last)
        if row is None:
            return None
        return pages.AccountPage(
            ACCOUNT.read(row),
            _records(row["members"], Member),
            _records(row["keys"], ApiKey),
            _records(row["entries"], pages.EntryLine),
            _records(row["deliveries"], pages.DeliveryLine),
        )

    async def list_doubts(self, made_before: datetime, limit: int) -> pages.Doubts:
        row = await self._one(SQL["doubts"], made_before=made_before, limit=limit)
        assert row is not None
        return pages.Doubts(
            _records(row["meetings"], pages.DoubtfulMeeting),
            _records(row["removals"], pages.DoubtfulRemoval),
            _records(row["recordings"], pages.KeptRecording),
        )

    async def list_bookings(
        self, begins_at: datetime, ends_at: datetime, limit: int
    ) -> Sequence[pages.HostBooking]:
        found = await self._all(SQL["bookings"], begins_at=begins_at, ends_at=ends_at, limit=limit)
        return [BOOKING.read(row) for row in found]

    async def list_proposals(self, now: datetime, limit: int) -> Sequence[pages.ProposalLine]:
        found = await self._all(SQL["proposals"], now=now, limit=limit)
        return [pages.ProposalLine(PROPOSAL.read(row), row["account_name"]) for row in found]

    async def find_queues(self) -> pages.Queues:
        row = await self._one(SQL["queues"], {})
        assert row is not None
        oldest = row["oldest_transaction_at"]
        return pages.Queues(
            utc(row["now"]),
            row["schema"],
            None if oldest is None else utc(oldest),
            _records(row["queues"], pages.Queue),
        )

    async def find_liability(self) -> tuple[pages.Liability, Sequence[views.MonthTotal]]:
        row = await self._one(SQL["liability"], {})
        assert row is not None
        now = pages.Liability(row["accounts"], row["balance"], row["held"], row["debt"])
        return now, _records(row["months"], views.MonthTotal)


def _records(values: Any, record: type[T]) -> Sequence[T]:
    """Records of a JSON array whose objects have the fields of the record; none for no array."""
    return msgspec.convert(values or [], list[record])  # type: ignore[valid-type]
