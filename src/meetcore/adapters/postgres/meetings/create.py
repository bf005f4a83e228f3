"""Making a meeting: hold and reservation, then charge and link, or neither.

Each transaction is one locked read and one write. Lock order: account, then host.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.hosts.free import BEST_FIRST, FITS, FREE_SLOT, HOST, OPEN_HOSTS
from meetcore.adapters.postgres.idempotency import CLAIM_KEY, KEY_COLUMNS, KEY_LOST, RELEASE_KEY, key_record
from meetcore.adapters.postgres.ledger.parts import (
    APPEND_ENTRY,
    CLOSE_HOLD,
    FUNDS,
    HOLD,
    LOCK_ACCOUNT,
    OPEN_HOLD,
    TRANSFER,
    USAGE,
    WRITE_FUNDS,
    entry_parameters,
    usage,
)
from meetcore.adapters.postgres.meetings.rows import (
    MEETING,
    MEETING_COLUMNS,
    ending_parameters,
    meeting,
    scheduled_parameters,
)
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.hosts import DayCreations
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.requests.restores import key_made_at
from meetcore.domain.webhooks.events import Event
from meetcore.ports.account_state import AccountState
from meetcore.ports.idempotency import Claim, KeyView
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning

# Everything that the decision on a new meeting needs, under the account's lock: its funds, the
# key's cap and its usage, what the operation charged before, the idempotency key, and the best fitting
# free host (`domain.meetings.hosts.choose_host`), locked until the transaction ends.
# The join on `locked` makes sure that the account is locked before the host. Contended is what is
# free, but for others' locks. A larger host is not taken while the smaller ones are only locked: one may be released,
# and a large meeting would find none. `creations_left` is what the hosts with the seats have left of the day
# (`domain.meetings.hosts.Host.creations_left`), `creations_used` what of it was the account's.
_LOAD = f"""
WITH {LOCK_ACCOUNT}, {OPEN_HOSTS}, free AS MATERIALIZED (
    SELECT best.* FROM locked CROSS JOIN LATERAL (
        SELECT {HOST.select} FROM hosts h
        WHERE %(needs_host)s AND {FITS} AND h.id IN (SELECT id FROM open_hosts
            WHERE capacity = (SELECT min(capacity) FROM open_hosts))
        ORDER BY {BEST_FIRST} LIMIT 1
        FOR NO KEY UPDATE OF h SKIP LOCKED) AS best
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    clock_timestamp() AS now, k.daily_cap, k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held,
    {TRANSFER.select}, {KEY_COLUMNS}, {KEY_LOST} AS is_key_lost, free.*,
    EXISTS (SELECT FROM account_erasures e WHERE e.account_id = locked.account_id) AS is_erased,
    %(needs_host)s AND free.host_id IS NULL AND EXISTS (SELECT FROM open_hosts) AS is_contended,
    (
        SELECT COALESCE(sum(c.creations), 0) FROM account_creations c JOIN hosts h ON h.id = c.host_id
        WHERE %(per_day)s::integer IS NOT NULL AND c.account_id = %(account_id)s AND c.day = %(today)s
            AND h.capacity >= %(seats)s) AS creations_used, (
        SELECT COALESCE(sum(%(per_day)s - CASE WHEN h.creations_on = %(today)s THEN h.creations ELSE 0 END), 0)
        FROM hosts h WHERE %(per_day)s::integer IS NOT NULL AND {FITS}) AS creations_left
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, %(api_key_id)s) AND u.day = %(day)s
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.operation = %(operation)s
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s::text
LEFT JOIN free ON true
"""

# Waits for the best fitting host that another transaction holds, the account locked first.
_WAIT_FOR_HOST = f"""
WITH {LOCK_ACCOUNT}, {OPEN_HOSTS}
SELECT waited.id FROM locked CROSS JOIN LATERAL (
    SELECT h.id FROM hosts h
    WHERE {FITS} AND h.id IN (SELECT id FROM open_hosts
            WHERE capacity = (SELECT min(capacity) FROM open_hosts))
    ORDER BY {BEST_FIRST} LIMIT 1
    FOR NO KEY UPDATE OF h) AS waited
"""

# Writes what `guard` let be reserved: the meeting on the guard's host, its hold, its lease and its key.
_WRITE_RESERVED = f"""meeting AS (
    INSERT INTO meetings ({MEETING.names}, hold_id, idempotency_key, lease_token, lease_until)
    SELECT {MEETING.values.replace("%(meeting_host_id)s", "host_id")}, %(hold_id)s, %(key)s, %(lease_token)s,
        clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM guard
), checked AS (
    INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT account_id, %(meeting_id)s, clock_timestamp() + %(lease_s)s * interval '1 second',
        clock_timestamp() + (%(lease_s)s + %(orphan_window_s)s::float8) * interval '1 second'
    FROM guard WHERE %(orphan_window_s)s::float8 IS NOT NULL
), {OPEN_HOLD}, {CLAIM_KEY}
UPDATE accounts SET held = %(funds_held)s, is_low = %(funds_is_low)s, version = version + 1
WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
RETURNING version, (SELECT host_id FROM guard) AS host_id"""

# Writes a meeting that is about to be made, all or nothing: without the slot of the host that it needs no row
# is written and no row is returned.
_SAVE_PROVISIONING = f"""
WITH reserved AS (
    INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
    SELECT %(account_id)s, %(meeting_id)s, h.id, slot.n, tstzrange(%(start_at)s, %(end_at)s)
    FROM hosts h CROSS JOIN LATERAL ({FREE_SLOT}) AS slot WHERE h.id = %(meeting_host_id)s AND h.is_active
    ON CONFLICT DO NOTHING
    RETURNING host_id
), host AS (
    UPDATE hosts SET uses = uses + 1, creations_on = %(today)s,
        creations = CASE WHEN creations_on = %(today)s THEN creations + 1 ELSE 1 END
    WHERE id = (SELECT host_id FROM reserved)
), counted AS (
    INSERT INTO account_creations AS known (account_id, day, host_id, creations)
    SELECT %(account_id)s, %(today)s, host_id, 1 FROM reserved WHERE %(counts_creation)s
    ON CONFLICT (account_id, day, host_id) DO UPDATE SET creations = known.creations + 1
), guard AS (
    SELECT %(account_id)s::uuid AS account_id, host_id FROM reserved
    UNION ALL SELECT %(account_id)s::uuid, NULL WHERE %(meeting_host_id)s::uuid IS NULL
), {_WRITE_RESERVED}
"""

# What decisions on an account's money need, under its lock: its funds, a key's cap and its usage.
_LOAD_STATE = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    k.daily_cap, k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, %(api_key_id)s) AND u.day = %(day)s
"""

# Writes the same for an account that need not be locked, if it is as it was read, the idempotency key and the charge are
# unknown and no restore lost them, and a fitting host is free at once; the host is chosen and locked as `_LOAD` does. The
# conditions on other tables name no column of the account: they are read once, by their keys.
_SAVE_IF_UNCHANGED = f"""
WITH unchanged AS MATERIALIZED (
    SELECT a.id FROM accounts a
    WHERE a.id = %(account_id)s AND a.version = COALESCE(%(version)s::bigint, a.version)
        AND NOT EXISTS (SELECT FROM idempotency_keys WHERE account_id = %(account_id)s AND key = %(key)s::text)
        AND NOT EXISTS (SELECT FROM ledger_transfers WHERE account_id = %(account_id)s AND operation = %(operation)s)
        AND NOT EXISTS (SELECT FROM account_erasures WHERE account_id = %(account_id)s)
        AND NOT {KEY_LOST}
    FOR NO KEY UPDATE OF a SKIP LOCKED
), {OPEN_HOSTS}, free AS MATERIALIZED (
    SELECT best.* FROM unchanged CROSS JOIN LATERAL (
        SELECT h.id, h.provider_user_id, h.max_concurrent FROM hosts h
        WHERE %(needs_host)s AND {FITS} AND h.id IN (SELECT id FROM open_hosts
            WHERE capacity = (SELECT min(capacity) FROM open_hosts))
        ORDER BY {BEST_FIRST} LIMIT 1
        FOR NO KEY UPDATE OF h SKIP LOCKED) AS best
), reserved AS (
    INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
    SELECT %(account_id)s, %(meeting_id)s, h.id, slot.n, tstzrange(%(start_at)s, %(end_at)s)
    FROM free h CROSS JOIN LATERAL ({FREE_SLOT}) AS slot
    ON CONFLICT DO NOTHING
    RETURNING host_id
), host AS (
    UPDATE hosts SET uses = uses + 1, creations_on = %(today)s,
        creations = CASE WHEN creations_on = %(today)s THEN creations + 1 ELSE 1 END
    WHERE id = (SELECT host_id FROM reserved)
), guard AS (
    SELECT %(account_id)s::uuid AS account_id, host_id FROM reserved
    UNION ALL SELECT id, NULL FROM unchanged WHERE NOT %(needs_host)s
), {_WRITE_RESERVED}, (SELECT provider_user_id FROM free) AS provider_user_id
"""

# The meeting in progress with its money, under the account's lock, for the holder of the lease only.
# The meeting's row is locked too, because an expired lease is taken over without the account's lock.
_LOAD_LEASED = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    {MEETING_COLUMNS}, COALESCE(h.provider_user_id, '') AS provider_user_id, {TRANSFER.select}, {HOLD.select},
    k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held, i.key, i.fingerprint
FROM locked
JOIN meetings m ON m.account_id = locked.account_id AND m.id = %(meeting_id)s AND m.lease_token = %(token)s
LEFT JOIN hosts h ON h.id = m.host_id
LEFT JOIN ledger_holds hold ON hold.account_id = locked.account_id AND hold.id = m.hold_id
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.id = m.charge_id
LEFT JOIN api_keys k ON k.id = COALESCE(hold.api_key_id, t.api_key_id)
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, hold.api_key_id, t.api_key_id)
    AND u.day = COALESCE(hold.cap_day, t.cap_day)
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = m.idempotency_key
FOR NO KEY UPDATE OF m
"""

# The hold becomes the charge, the meeting gets its link, the key its answer, the events go out; all
# of it or nothing, if the account is unchanged since the decision and the lease is still held.
_SAVE_SCHEDULED = f"""
WITH guard AS MATERIALIZED (
    SELECT a.id AS account_id
    FROM accounts a JOIN meetings m ON m.account_id = a.id AND m.id = %(meeting_id)s
    WHERE a.id = %(account_id)s AND a.version = COALESCE(%(version)s::bigint, a.version) AND m.lease_token = %(token)s
    FOR NO KEY UPDATE
), {APPEND_ENTRY}, {WRITE_FUNDS}, {WRITE_EVENTS}, {CLOSE_HOLD}, meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, provider_meeting_id = %(meeting_provider_meeting_id)s,
        join_url = NULL, sealed_join_url = %(meeting_sealed_join_url)s, password = %(meeting_password)s,
        charge_id = %(transfer_id)s, hold_id = NULL, idempotency_key = NULL, lease_token = NULL, lease_until = NULL,
        due_at = end_at
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND EXISTS (SELECT FROM guard)
), done AS (
    UPDATE idempotency_keys SET is_done = true, answer = %(answer)s, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text AND EXISTS (SELECT FROM guard)
)
SELECT (SELECT count(*) FROM delivery WHERE status = 'pending') AS due FROM guard
"""

# Given up: hold, cap and host are given back, and the key may try again. What was not made counts for nothing in
# the day of host and account; the host may be paused, and an orphan check may be opened.
_SAVE_ABANDONED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {WRITE_FUNDS}, {CLOSE_HOLD}, freed AS (
    DELETE FROM host_reservations WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s
    RETURNING host_id
), host AS (
    UPDATE hosts SET unavailable_until = GREATEST(unavailable_until, %(unavailable_until)s::timestamptz),
        creations = GREATEST(creations - CASE WHEN creations_on = %(today)s AND NOT %(was_made)s THEN 1 ELSE 0 END, 0)
    WHERE id = (SELECT host_id FROM freed)
), uncounted AS (
    UPDATE account_creations SET creations = GREATEST(creations - 1, 0)
    WHERE account_id = %(account_id)s AND day = %(today)s AND host_id = (SELECT host_id FROM freed)
        AND NOT %(was_made)s
), {RELEASE_KEY}, checked AS (
    INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT %(account_id)s, %(meeting_id)s, clock_timestamp(),
        clock_timestamp() + %(look_again_s)s::float8 * interval '1 second'
    WHERE %(look_again_s)s::float8 IS NOT NULL
    ON CONFLICT (account_id, meeting_id) DO UPDATE
        SET due_at = EXCLUDED.due_at, failures = 0, lease_token = NULL
), unchecked AS (
    DELETE FROM orphan_checks
    WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND %(look_again_s)s::float8 IS NULL
)
UPDATE meetings SET status = %(meeting_status)s, hold_id = NULL, idempotency_key = NULL, lease_token = NULL,
    lease_until = NULL
WHERE account_id = %(account_id)s AND id = %(meeting_id)s
"""


class MeetingCreation(Repository):
    """From the decision on a new meeting to its link, or to its end without one."""

    async def load_creation(self, query: CreationQuery) -> CreationView:
        parameters: Row = {
            "account_id": query.account_id,
            "api_key_id": query.api_key_id,
            "day": query.cap_day,
            "operation": query.operation,
            "key": query.idempotency_key,
            "key_made_at": key_made_at(query.idempotency_key),
            "seats": query.seats,
            "start_at": query.start_at,
            "end_at": query.end_at,
            "now": query.now,
            "today": query.now.astimezone(UTC).date(),
            "per_day": query.per_day,
            "needs_host": query.needs_host,
        }
        if query.can_wait_for_host:
            await self._connection.execute(_WAIT_FOR_HOST, parameters)
        row = await self._locked(_LOAD, parameters)
        if row is None:
            raise NotFound("No account with this id.")
        host = HOST.find(row)
        return CreationView(
            funds=FUNDS.read(row),
            usage=usage(row, query.api_key_id, query.cap_day),
            daily_cap=row["daily_cap"],
            charged=TRANSFER.find(row),
            idempotency=KeyView(key_record(row, self._cipher), utc(row["now"]), row["is_key_lost"]),
            free_hosts=() if host is None else (host,),
            is_contended=row["is_contended"],
            creations=None
            if query.per_day is None
            else DayCreations(int(row["creations_used"]), int(row["creations_left"])),
            is_erased=row["is_erased"],
        )

    async def save_provisioning(self, provisioning: Provisioning) -> LeaseView | None:
        row = await self._one(_SAVE_PROVISIONING, self._reservation(provisioning))
        return None if row is None else _leased(provisioning, row, provisioning.provider_user_id)

    async def load_state(self, account_id: UUID, api_key_id: UUID, cap_day: date) -> AccountState:
        parameters: Row = {"account_id": account_id, "api_key_id": api_key_id, "day": cap_day}
        row = await self._locked(_LOAD_STATE, parameters)
        if row is None:
            raise NotFound("No account with this id.")
        return AccountState(None, FUNDS.read(row), usage(row, api_key_id, cap_day), row["daily_cap"])

    async def save_if_unchanged(
        self, query: CreationQuery, provisioning: Provisioning, state: AccountState
    ) -> LeaseView | None:
        parameters = self._reservation(provisioning) | {
            "version": state.version,
            "operation": query.operation,
            "key_made_at": key_made_at(query.idempotency_key),
            "seats": query.seats,
            "now": query.now,
            "per_day": query.per_day,
            "needs_host": query.needs_host,
        }
        row = await self._one(_SAVE_IF_UNCHANGED, parameters)
        return None if row is None else _leased(provisioning, row, row["provider_user_id"] or "")

    def _reservation(self, provisioning: Provisioning) -> Row:
        """The parameters of `_WRITE_RESERVED`, and of what leads to it."""
        made, claim, lease = provisioning.meeting, provisioning.claim, provisioning.lease
        return (
            MEETING.parameters(made, self._cipher)
            | HOLD.parameters(provisioning.hold)
            | FUNDS.parameters(provisioning.funds)
            | USAGE.parameters(provisioning.usage)
            | {
                "start_at": made.start_at,
                "end_at": made.end_at,
                "key": None if claim is None else claim.key,
                "fingerprint": None if claim is None else claim.fingerprint,
                "today": made.created_at.astimezone(UTC).date(),
                "counts_creation": provisioning.counts_creation,
                "orphan_window_s": provisioning.orphan_window_s,
                "lease_token": lease.token,
                "lease_s": lease.seconds,
            }
        )

    async def load_leased(self, account_id: UUID, meeting_id: UUID, token: UUID) -> LeaseView | None:
        parameters = {"account_id": account_id, "meeting_id": meeting_id, "token": token}
        row = await self._locked(_LOAD_LEASED, parameters)
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
        return LeaseView(
            token, row["version"], meeting(row, self._cipher), row["provider_user_id"], FUNDS.read(row), used,
            hold, charge, claim,
        )  # fmt: skip

    async def save_scheduled(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, entry: Entry,
        events: Sequence[Event], encoded_outcome: bytes | None,
    ) -> int | None:  # fmt: skip
        parameters = (
            scheduled_parameters(view, meeting, encoded_outcome, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage)
            | entry_parameters(entry)
            | event_parameters(events, self._cipher)
            | {"token": view.token, "version": view.version}
        )
        row = await self._one(_SAVE_SCHEDULED, parameters)
        return None if row is None else int(row["due"])

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None, was_made: bool = False,
    ) -> None:  # fmt: skip
        parameters = (
            ending_parameters(view, meeting, None, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage)
            | {
                "today": meeting.created_at.astimezone(UTC).date(),
                "unavailable_until": host_unavailable_until,
                "look_again_s": look_again_s,
                "was_made": was_made,
            }
        )
        await self._connection.execute(_SAVE_ABANDONED, parameters)


def _leased(provisioning: Provisioning, row: Row, provider_user_id: str) -> LeaseView:
    """What was reserved, as its lease's owner goes on from it."""
    return LeaseView(
        provisioning.lease.token, row["version"], evolve(provisioning.meeting, host_id=row["host_id"]),
        provider_user_id, provisioning.funds, provisioning.usage, provisioning.hold, None, provisioning.claim,
    )  # fmt: skip
