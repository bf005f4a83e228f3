"""The statements of making a meeting: hold and reservation, then charge and link, or neither.

Each transaction is one locked read and one write. Lock order: account, then host.
"""

from datetime import UTC
from typing import Any

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.free_hosts import (
    BEST_FIRST,
    CREATIONS_LEFT,
    CREATIONS_USED,
    FITS,
    FREE_SLOT,
    LEAST_OPEN,
    OPEN_HOSTS,
)
from meetcore.adapters.postgres.idempotency import KEY_COLUMNS
from meetcore.adapters.postgres.ledger import (
    APPEND_ENTRY,
    GUARD_LOCKED,
    LOCK_ACCOUNT,
    TRANSFER_COLUMNS,
    WRITE_FUNDS,
    fetch_locked,
    funds_parameters,
    usage_parameters,
)
from meetcore.adapters.postgres.outbox import WRITE_EVENTS
from meetcore.adapters.postgres.pool import Connection
from meetcore.adapters.postgres.rows import HOST_COLUMNS
from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.hosts import DayCreations
from meetcore.ports.cipher import Cipher
from meetcore.ports.idempotency import KeyView
from meetcore.ports.meetings import CreationQuery, CreationView, LeaseView, Provisioning

__all__ = ["SAVE_ABANDONED", "SAVE_SCHEDULED", "load_creation", "save_provisioning"]

# Everything that the decision on a new meeting needs, under the account's lock: its funds, the
# key's usage and cap, what the operation charged before, the idempotency key, and the best fitting
# free host (`domain.hosts.choose_host`), locked until the transaction ends.
# The join on `locked` makes sure that the account is locked before the host. Contended is what is
# free, but for others' locks.
_LOAD = f"""
WITH {LOCK_ACCOUNT}, {OPEN_HOSTS}, free AS MATERIALIZED (
    SELECT best.* FROM locked CROSS JOIN LATERAL (
        SELECT {HOST_COLUMNS} FROM hosts h
        WHERE %(needs_host)s AND {FITS} AND h.id IN {LEAST_OPEN}
        ORDER BY {BEST_FIRST} LIMIT 1
        FOR NO KEY UPDATE OF h SKIP LOCKED) AS best
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
       clock_timestamp() AS now, k.daily_cap, u.spent AS usage_spent, u.held AS usage_held,
       {TRANSFER_COLUMNS}, {KEY_COLUMNS}, free.*,
       %(needs_host)s AND free.host_id IS NULL AND EXISTS (SELECT FROM open_hosts) AS is_contended,
       {CREATIONS_USED} AS creations_used, {CREATIONS_LEFT} AS creations_left
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id AND u.api_key_id = %(api_key_id)s AND u.day = %(day)s
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.operation = %(operation)s
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s::text
LEFT JOIN free ON true
"""

# Waits for the best fitting host that another transaction holds, the account locked first.
_WAIT_FOR_HOST = f"""
WITH {LOCK_ACCOUNT}, {OPEN_HOSTS}
SELECT waited.id FROM locked CROSS JOIN LATERAL (
    SELECT h.id FROM hosts h
    WHERE {FITS} AND h.id IN {LEAST_OPEN}
    ORDER BY {BEST_FIRST} LIMIT 1
    FOR NO KEY UPDATE OF h) AS waited
"""

# Writes a meeting that is about to be made, all or nothing: without the slot of the host that it needs no row
# is written and no row is returned.
_SAVE_PROVISIONING = f"""
WITH reserved AS (
    INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
    SELECT %(account_id)s, %(meeting_id)s, h.id, slot.n, tstzrange(%(start_at)s, %(end_at)s)
    FROM hosts h CROSS JOIN LATERAL ({FREE_SLOT}) AS slot WHERE h.id = %(host_id)s AND h.is_active
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
), gate AS (
    SELECT host_id FROM reserved UNION ALL SELECT NULL WHERE %(host_id)s::uuid IS NULL
), meeting AS (
    INSERT INTO meetings (account_id, id, api_key_id, status, title, description, start_at, end_at, duration,
        capacity, pricing_tier_id, credits, with_recording, auto_notulen, must_login, mic_off, email_notification,
        host_id, provider, created_at, password, hold_id, idempotency_key, lease_token, lease_until)
    SELECT %(account_id)s, %(meeting_id)s, %(api_key_id)s, %(status)s, %(title)s, %(description)s, %(start_at)s,
        %(end_at)s, %(duration)s, %(capacity)s, %(pricing_tier_id)s, %(credits)s, %(with_recording)s,
        %(auto_notulen)s, %(must_login)s, %(mic_off)s, %(email_notification)s, host_id, %(provider)s,
        %(created_at)s, %(password)s, %(hold_id)s, %(key)s, %(lease_token)s,
        clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM gate
), checked AS (
    INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT %(account_id)s, %(meeting_id)s, clock_timestamp() + %(lease_s)s * interval '1 second',
        clock_timestamp() + (%(lease_s)s + %(orphan_window_s)s::float8) * interval '1 second'
    FROM gate WHERE %(orphan_window_s)s::float8 IS NOT NULL
), hold AS (
    INSERT INTO ledger_holds (account_id, id, operation, kind, amount, reference_type, reference_id, api_key_id, cap_day)
    SELECT %(account_id)s, %(hold_id)s, %(operation)s, %(kind)s, %(amount)s, %(reference_type)s, %(reference_id)s,
        %(api_key_id)s, %(usage_day)s
    FROM gate
), usage AS (
    INSERT INTO cap_usage (account_id, api_key_id, day, spent, held)
    SELECT %(account_id)s, %(usage_key_id)s, %(usage_day)s, %(usage_spent)s, %(usage_held)s FROM gate
    ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held
), claim AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
    SELECT %(account_id)s, %(key)s, %(fingerprint)s, false, %(meeting_id)s,
        clock_timestamp() + %(lease_s)s * interval '1 second', clock_timestamp()
    FROM gate WHERE %(key)s::text IS NOT NULL
    ON CONFLICT (account_id, key) DO UPDATE
        SET subject_id = EXCLUDED.subject_id, lease_until = EXCLUDED.lease_until
)
UPDATE accounts SET held = %(held)s, is_low = %(is_low)s, version = version + 1
WHERE id = %(account_id)s AND EXISTS (SELECT FROM gate)
RETURNING version
"""

# The hold becomes the charge, the meeting gets its link, the key its answer, the events go out; all
# of it or nothing, if the account is unchanged since the decision and the lease is still held.
SAVE_SCHEDULED = f"""
WITH guard AS MATERIALIZED (
    SELECT a.id AS account_id, m.id AS meeting_id
    FROM accounts a JOIN meetings m ON m.account_id = a.id AND m.id = %(meeting_id)s
    WHERE a.id = %(account_id)s AND a.version = %(version)s AND m.lease_token = %(token)s
    FOR NO KEY UPDATE
), {APPEND_ENTRY}, {WRITE_FUNDS}, {WRITE_EVENTS}, closed AS (
    DELETE FROM ledger_holds USING guard
    WHERE ledger_holds.account_id = guard.account_id AND ledger_holds.id = %(hold_id)s
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s FROM guard
    WHERE cap_usage.account_id = guard.account_id AND api_key_id = %(usage_key_id)s AND day = %(usage_day)s
), meeting AS (
    UPDATE meetings SET status = %(status)s, provider_meeting_id = %(provider_meeting_id)s, join_url = NULL,
        sealed_join_url = %(join_url)s, password = %(password)s, charge_id = %(transfer_id)s, hold_id = NULL, idempotency_key = NULL,
        lease_token = NULL, lease_until = NULL, due_at = end_at
    FROM guard WHERE meetings.account_id = guard.account_id AND meetings.id = guard.meeting_id
), done AS (
    UPDATE idempotency_keys SET is_done = true, answer = %(answer)s, lease_until = NULL FROM guard
    WHERE idempotency_keys.account_id = guard.account_id AND key = %(key)s::text
)
SELECT (SELECT count(*) FROM delivery WHERE status = 'pending') AS due FROM guard
"""

# Given up: hold, cap and host are given back, and the key may try again. What was not made counts for nothing in
# the day of host and account; the host may be paused, and an orphan check may be opened.
SAVE_ABANDONED = f"""
WITH {GUARD_LOCKED}, {WRITE_FUNDS}, closed AS (
    DELETE FROM ledger_holds WHERE account_id = %(account_id)s AND id = %(hold_id)s
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_key_id)s AND day = %(usage_day)s
), freed AS (
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
), bound AS (
    UPDATE idempotency_keys SET subject_id = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text
), checked AS (
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
UPDATE meetings SET status = %(status)s, hold_id = NULL, idempotency_key = NULL, lease_token = NULL,
    lease_until = NULL
WHERE account_id = %(account_id)s AND id = %(meeting_id)s
"""


async def load_creation(connection: Connection, cipher: Cipher, query: CreationQuery) -> CreationView:
    """Everything that the decision on a new meeting needs, in one locked read.

    Raises:
        NotFound: no such account.
    """
    parameters: dict[str, Any] = {
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
        await connection.execute(_WAIT_FOR_HOST, parameters)
    row = await fetch_locked(connection, _LOAD, parameters)
    if row is None:
        raise NotFound("No account with this id.")
    return CreationView(
        funds=rows.funds(row),
        usage=rows.usage(row, query.api_key_id, query.cap_day),
        daily_cap=row["daily_cap"],
        charged=rows.transfer(row),
        idempotency=KeyView(rows.idempotency(row, cipher), row["now"]),
        free_hosts=() if row["host_id"] is None else (rows.host(row),),
        is_contended=row["is_contended"],
        creations=None
        if query.per_day is None
        else DayCreations(int(row["creations_used"]), int(row["creations_left"])),
    )


async def save_provisioning(connection: Connection, cipher: Cipher, order: Provisioning) -> LeaseView | None:
    """Write a meeting that is about to be made; `None` when its host was taken meanwhile."""
    meeting, hold, claim = order.meeting, order.hold, order.claim
    context = rows.password_context(meeting.account_id, meeting.id)
    parameters = (
        {
            "meeting_id": meeting.id,
            "api_key_id": meeting.api_key_id,
            "status": meeting.status.value,
            "title": meeting.title,
            "description": meeting.description,
            "start_at": meeting.start_at,
            "end_at": meeting.end_at,
            "duration": meeting.duration,
            "capacity": meeting.capacity,
            "pricing_tier_id": meeting.pricing_tier_id,
            "credits": meeting.credits,
            "with_recording": meeting.with_recording,
            "auto_notulen": meeting.auto_notulen,
            "must_login": meeting.must_login,
            "mic_off": meeting.mic_off,
            "email_notification": meeting.email_notification,
            "host_id": meeting.host_id,
            "provider": meeting.provider,
            "created_at": meeting.created_at,
            "password": rows.seal_text(cipher, meeting.password, context),
            "hold_id": hold.id,
            "operation": hold.operation,
            "kind": hold.kind.value,
            "amount": hold.amount,
            "reference_type": hold.reference.type,
            "reference_id": hold.reference.id,
            "key": None if claim is None else claim.key,
            "fingerprint": None if claim is None else claim.fingerprint,
            "today": meeting.created_at.astimezone(UTC).date(),
            "counts_creation": order.counts_creation,
            "orphan_window_s": order.orphan_window_s,
            "lease_token": order.lease.token,
            "lease_s": order.lease.seconds,
        }
        | funds_parameters(order.funds)
        | usage_parameters(order.usage)
    )
    cursor = await connection.execute(_SAVE_PROVISIONING, parameters)
    row = await cursor.fetchone()
    if row is None:
        return None
    return LeaseView(
        order.lease.token, row["version"], meeting, order.provider_user_id, order.funds, order.usage,
        hold, None, claim,
    )  # fmt: skip
