"""Reads of the console in PostgreSQL: one statement for a page."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from meetcore.adapters.postgres.callers import API_KEY
from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.ledger.parts import TITLE
from meetcore.adapters.postgres.members.proposals import PROPOSAL
from meetcore.adapters.postgres.registry import ACCOUNT
from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.members.members import Member
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.console_queries import (
    AccountPage,
    AccountSearch,
    DeliveryLine,
    DoubtfulMeeting,
    DoubtfulRemoval,
    Doubts,
    EntryLine,
    HostBooking,
    Liability,
    ProposalLine,
)
from meetcore.ports.health import Queue, QueueName, Queues
from meetcore.ports.ledger_totals import MonthTotal
from meetcore.ports.queries import MAX_PAGE
from meetcore.ports.registry import StoredAccount

T = TypeVar("T")

BOOKING = Columns(HostBooking, "r", "")

# The accounts that any part of a search matches, each part by an index of its own. A beginning is a range, which a plan
# for any parameter can take from an index, as it cannot a pattern. An event is found by the instant of its id.
_SEARCH = f"""
SELECT {ACCOUNT.select} FROM accounts a WHERE a.id IN (
    (SELECT id FROM accounts
    WHERE lower(email) ~>=~ lower(%(text)s) AND lower(email) ~<~ (lower(%(text)s) || chr(1114111)) LIMIT 1000)
    UNION ALL
    (SELECT id FROM accounts
    WHERE lower(full_name) ~>=~ lower(%(text)s) AND lower(full_name) ~<~ (lower(%(text)s) || chr(1114111)) LIMIT 1000)
    UNION ALL
    (SELECT b.account_id FROM users u JOIN memberships b ON b.user_id = u.id WHERE lower(u.email) = lower(%(text)s)
    LIMIT 1000)
    UNION ALL
    (SELECT account_id FROM api_keys WHERE last_four = %(last_four)s LIMIT 1000)
    UNION ALL SELECT account_id FROM api_keys WHERE digest = %(key_digest)s
    UNION ALL SELECT id FROM accounts WHERE id = %(id)s
    UNION ALL SELECT account_id FROM memberships WHERE user_id = %(id)s
    UNION ALL SELECT account_id FROM api_keys WHERE id = %(id)s
    UNION ALL SELECT account_id FROM meetings WHERE id = %(id)s
    UNION ALL SELECT account_id FROM api_requests WHERE id = %(id)s
    UNION ALL SELECT account_id FROM events
    WHERE created_at >= %(made_from)s AND created_at <= %(made_before)s AND id = %(id)s
)
ORDER BY a.id DESC LIMIT %(limit)s
"""

# An account with what belongs to it, as JSON: an account has few members and some keys.
_ACCOUNT_PAGE = f"""
SELECT {ACCOUNT.select},
    (SELECT json_agg(json_build_object('user', row_to_json(u), 'membership', row_to_json(b))
        ORDER BY b.created_at, b.user_id)
    FROM memberships b JOIN users u ON u.id = b.user_id WHERE b.account_id = a.id) AS members,
    (SELECT json_agg(k ORDER BY k.id DESC) FROM (
        SELECT {API_KEY.names} FROM api_keys WHERE account_id = a.id ORDER BY id DESC LIMIT %(keys)s) AS k) AS keys,
    (SELECT json_agg(e ORDER BY e.number DESC) FROM (
        SELECT w.number, w.at, t.kind, t.reference_id, w.amount, w.balance_after, t.reference_type,
            {TITLE} AS title
        FROM ledger_entries w JOIN ledger_transfers t ON t.account_id = w.account_id AND t.id = w.transfer_id
        WHERE w.account_id = a.id AND w.book = 'customer' AND w.number > a.entries - %(last)s
        AND w.number <= a.entries) AS e) AS entries,
    (SELECT json_agg(d ORDER BY d.id DESC) FROM (
        SELECT w.id, w.event_id, w.event_kind, w.status, w.created_at, w.due_at AS next_attempt_at, w.attempts_made,
            p.url, t.status_code AS last_status_code, t.error AS last_error, w.endpoint_id
        FROM (SELECT * FROM deliveries WHERE account_id = a.id ORDER BY id DESC LIMIT %(last)s) AS w
        LEFT JOIN webhook_endpoints p ON p.account_id = w.account_id AND p.id = w.endpoint_id
        LEFT JOIN delivery_attempts t
            ON t.account_id = w.account_id AND t.delivery_id = w.id AND t.number = w.attempts_made) AS d) AS deliveries
FROM accounts a WHERE a.id = %(id)s
"""

# Meetings in progress and removals that failed, the longest first. Of the former there are as many as are being made or
# cancelled now, of the latter a check is open for the minutes after a creation.
_DOUBTS = """
SELECT (SELECT json_agg(d ORDER BY d.lease_until) FROM (
        SELECT m.account_id, a.full_name AS account_name, m.id, m.title, m.status, m.credits, m.created_at, m.start_at,
            m.provider, m.provider_meeting_id, m.lease_until, m.idempotency_key IS NOT NULL AS can_deliver
        FROM meetings m JOIN accounts a ON a.id = m.account_id
        WHERE m.lease_until IS NOT NULL AND (m.status <> 'provisioning' OR m.created_at < %(made_before)s)
        ORDER BY m.lease_until LIMIT %(limit)s) AS d) AS meetings,
    (SELECT json_agg(d ORDER BY d.since) FROM (
        SELECT c.account_id, a.full_name AS account_name, c.meeting_id, m.title, m.start_at, m.provider, c.failures,
            c.since, c.due_at
        FROM orphan_checks c JOIN meetings m ON m.account_id = c.account_id AND m.id = c.meeting_id
        JOIN accounts a ON a.id = c.account_id
        WHERE c.failures > 0 ORDER BY c.due_at LIMIT %(limit)s) AS d) AS removals
"""

# What all accounts have, and the totals of the ledger by month. A row of totals is of an account, a day and a kind; summed
# by day first, they are brought to months but once a day.
_LIABILITY = """
SELECT count(*) AS accounts, COALESCE(sum(balance), 0)::bigint AS balance, COALESCE(sum(held), 0)::bigint AS held,
    COALESCE(-sum(balance) FILTER (WHERE balance < 0), 0)::bigint AS debt,
    (SELECT json_agg(m) FROM (
        SELECT date_trunc('month', day)::date AS month, kind, sum(credits)::bigint AS credits,
            sum(entries)::bigint AS entries
        FROM (SELECT day, kind, sum(credits) AS credits, sum(entries) AS entries FROM ledger_day_totals
            GROUP BY day, kind) AS d
        GROUP BY 1, 2 ORDER BY 1, 2) AS m) AS months
FROM accounts
"""

# What occupies each host in a range of time. A host has few meetings in a week; the index of the constraint that keeps two
# meetings from overlapping finds them.
_BOOKINGS = f"""
SELECT r.host_id, r.account_id, (SELECT full_name FROM accounts WHERE id = r.account_id) AS account_name, r.meeting_id,
    (SELECT title FROM meetings WHERE account_id = r.account_id AND id = r.meeting_id) AS title,
    lower(r.during) AS starts_at, upper(r.during) AS ends_at
FROM hosts h CROSS JOIN LATERAL (
    SELECT * FROM host_reservations w
    WHERE w.host_id = h.id AND w.during && tstzrange(%(begins_at)s, %(ends_at)s) LIMIT {MAX_PAGE}
) AS r
ORDER BY lower(r.during), r.meeting_id LIMIT %(limit)s
"""

# Proposals that can be decided, the first to expire first.
_PROPOSALS = f"""
SELECT {PROPOSAL.select}, (SELECT full_name FROM accounts WHERE id = p.account_id) AS account_name
FROM credit_proposals p
WHERE p.is_approved IS NULL AND NOT p.is_replaced AND p.expires_at > %(now)s ORDER BY p.expires_at LIMIT %(limit)s
"""

_MOST_COUNTED = 1001


def _due(name: QueueName, table: str, due: str, condition: str = "true") -> str:
    # What is due of one kind, by the index of its due times. The bound is the statement's time: a volatile one could not
    # bound the scan.
    return f"""
    SELECT '{name}' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
        SELECT {due} AS at FROM {table} WHERE {due} <= statement_timestamp() AND {condition}
        ORDER BY {due} LIMIT {_MOST_COUNTED}) AS w"""


# Every queue, the database's time, its schema, and its oldest transaction of those that the role may see.
_QUEUES = f"""
SELECT clock_timestamp() AS now, (SELECT max(number) FROM schema_migrations) AS schema,
    (SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid())
        AS oldest_transaction_at,
    (SELECT json_agg(q) FROM ({
    " UNION ALL ".join(
        (
            _due(QueueName.DELIVERIES, "deliveries", "due_at", "NOT is_throttled"),
            _due(QueueName.MAILS, "mails", "due_at"),
            _due(QueueName.NOTES, "notes", "due_at"),
            _due(QueueName.RECORDINGS, "recordings", "due_at"),
            _due(QueueName.PROVIDER_EVENTS, "provider_events", "due_at"),
            _due(QueueName.MEETINGS, "meetings", "lease_until"),
            _due(QueueName.REMOVALS, "orphan_checks", "due_at"),
        )
    )
}) AS q) AS queues
"""

_EVENT_AGE = timedelta(seconds=1)
"""How far the instant of an event's id and its time of creation lie apart at most."""


class ConsoleReads(Reads):
    """What the pages of the console show."""

    async def search_accounts(self, wanted: AccountSearch, limit: int) -> Sequence[StoredAccount]:
        at = wanted.id_made_at
        parameters: Row = {
            "text": wanted.text,
            "id": wanted.id,
            "key_digest": wanted.key_digest,
            "last_four": wanted.last_four,
            "made_from": None if at is None else at - _EVENT_AGE,
            "made_before": None if at is None else at + _EVENT_AGE,
            "limit": limit,
        }
        return [ACCOUNT.read(row) for row in await self._all(_SEARCH, parameters)]

    async def find_account_page(self, account_id: UUID, keys: int, last: int) -> AccountPage | None:
        row = await self._one(_ACCOUNT_PAGE, {"id": account_id, "keys": keys, "last": last})
        if row is None:
            return None
        return AccountPage(
            ACCOUNT.read(row),
            _records(row["members"], Member),
            _records(row["keys"], ApiKey),
            _records(row["entries"], EntryLine),
            _records(row["deliveries"], DeliveryLine),
        )

    async def list_doubts(self, made_before: datetime, limit: int) -> Doubts:
        row = await self._one(_DOUBTS, {"made_before": made_before, "limit": limit})
        assert row is not None
        return Doubts(_records(row["meetings"], DoubtfulMeeting), _records(row["removals"], DoubtfulRemoval))

    async def list_bookings(
        self, begins_at: datetime, ends_at: datetime, limit: int
    ) -> Sequence[HostBooking]:
        found = await self._all(_BOOKINGS, {"begins_at": begins_at, "ends_at": ends_at, "limit": limit})
        return [BOOKING.read(row) for row in found]

    async def list_proposals(self, now: datetime, limit: int) -> Sequence[ProposalLine]:
        found = await self._all(_PROPOSALS, {"now": now, "limit": limit})
        return [ProposalLine(PROPOSAL.read(row), row["account_name"]) for row in found]

    async def find_queues(self) -> Queues:
        row = await self._one(_QUEUES, {})
        assert row is not None
        oldest = row["oldest_transaction_at"]
        return Queues(
            utc(row["now"]),
            row["schema"],
            None if oldest is None else utc(oldest),
            _records(row["queues"], Queue),
        )

    async def find_liability(self) -> tuple[Liability, Sequence[MonthTotal]]:
        row = await self._one(_LIABILITY, {})
        assert row is not None
        now = Liability(row["accounts"], row["balance"], row["held"], row["debt"])
        return now, _records(row["months"], MonthTotal)


def _records(values: Any, record: type[T]) -> Sequence[T]:
    """Records of a JSON array whose objects have the fields of the record; none for no array."""
    return msgspec.convert(values or [], list[record])  # type: ignore[valid-type]
