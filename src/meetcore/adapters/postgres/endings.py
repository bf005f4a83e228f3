"""The statements that a meeting ends by: cancelled, ended, or put back because it could not be.

Each is one write under the account's lock. What occupied the host is freed here, and here alone it is
decided that the host's key was exposed and must be replaced.
"""

from meetcore.adapters.postgres.ledger import APPEND_ENTRY, GUARD_LOCKED, WRITE_FUNDS
from meetcore.adapters.postgres.outbox import WRITE_EVENTS

__all__ = [
    "SAVE_CANCELLING",
    "SAVE_CANCEL_FAILED",
    "SAVE_ENDED",
    "SAVE_LIFECYCLE",
    "SAVE_REFUNDED",
]

# Marks a meeting as being cancelled, under a lease, and claims the request's key for it.
SAVE_CANCELLING = """
WITH meeting AS (
    UPDATE meetings SET status = %(status)s, idempotency_key = %(key)s, lease_token = %(lease_token)s,
        lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), claim AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
    SELECT %(account_id)s, %(key)s, %(fingerprint)s, false, %(meeting_id)s,
        clock_timestamp() + %(lease_s)s * interval '1 second', clock_timestamp()
    WHERE %(key)s::text IS NOT NULL
    ON CONFLICT (account_id, key) DO UPDATE
        SET subject_id = EXCLUDED.subject_id, lease_until = EXCLUDED.lease_until
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""

# Frees the host of a meeting that is over. Its key was this meeting's to show, unless an earlier meeting of the
# host is not over: then it is deleted, and a replacement under way has no effect.
_FREE_HOST = """
    freed AS (
        DELETE FROM host_reservations
        WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND %(is_over)s
        RETURNING host_id, lower(during) AS start_at
    ), spoilt AS (
        UPDATE hosts h SET host_key = NULL, key_token = NULL, key_due_at = clock_timestamp()
        FROM freed
        WHERE %(invalidates_host_key)s AND h.id = freed.host_id AND h.max_concurrent = 1 AND NOT EXISTS (
            SELECT FROM host_reservations r
            WHERE r.host_id = freed.host_id AND r.during && tstzrange(NULL, freed.start_at))
    )"""

# What was recorded of a meeting that took place is looked for from its end on; otherwise it needs no further check.
_LOOKED_FOR = """due_at = CASE
            WHEN %(status)s = 'ended' AND with_recording THEN clock_timestamp()
            WHEN %(is_over)s THEN NULL
            ELSE due_at END"""

# The end of a cancellation: the meeting's last state, its host free, its key done, its events out.
_END_MEETING = f"""
    {WRITE_EVENTS}, meeting AS (
        UPDATE meetings SET status = %(status)s, credits_refunded = %(credits_refunded)s, idempotency_key = NULL,
            lease_token = NULL, lease_until = NULL, {_LOOKED_FOR}
        WHERE account_id = %(account_id)s AND id = %(meeting_id)s
    ), {_FREE_HOST}, done AS (
        UPDATE idempotency_keys SET is_done = true, answer = %(answer)s, lease_until = NULL
        WHERE account_id = %(account_id)s AND key = %(key)s::text
    )"""

# The same with the refund of the charge.
SAVE_REFUNDED = f"""
WITH {GUARD_LOCKED}, {APPEND_ENTRY}, {WRITE_FUNDS}, {_END_MEETING}, usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_key_id)s AND day = %(usage_day)s
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# The same without one.
SAVE_ENDED = f"""
WITH {GUARD_LOCKED}, {_END_MEETING}, account AS (
    UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# Puts a meeting back that the provider would not let go of; the request's key may try again.
SAVE_CANCEL_FAILED = """
WITH meeting AS (
    UPDATE meetings SET status = %(status)s, idempotency_key = NULL, lease_token = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), bound AS (
    UPDATE idempotency_keys SET subject_id = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""

# A status that the provider or the clock brought. A meeting that ended frees its host.
SAVE_LIFECYCLE = f"""
WITH {GUARD_LOCKED}, {WRITE_EVENTS}, meeting AS (
    UPDATE meetings SET status = %(status)s, {_LOOKED_FOR}
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), {_FREE_HOST}, account AS (
    UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""
