"""The statements that find due work: expired leases, and meetings whose time has come.

Each row is taken by one caller only, by its lock. These statements take a meeting's row without its
account's lock, so they lock nothing of the account after it but the key that waits for the meeting.

What is searched for is bounded by the statement's time: a volatile one could not bound the scan of an index, and
all meetings that are still to come would be read each time.
"""

__all__ = ["CLAIM_EXPIRED", "CLAIM_ONE_EXPIRED", "SCHEDULE_NEXT_CHECK", "claim_due"]

# An expired row gets a new lease, and so does the idempotency key that waits for it: a repeat of the
# request meanwhile finds it running. The meeting's row is locked before the key's, as everywhere.
_TAKE_OVER = """taken AS (
    UPDATE meetings m
    SET lease_token = %(token)s, lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM lapsed WHERE m.account_id = lapsed.account_id AND m.id = lapsed.id
    RETURNING m.account_id, m.id, m.lease_token, m.lease_until, m.idempotency_key
), prolonged AS (
    UPDATE idempotency_keys i SET lease_until = taken.lease_until
    FROM taken
    WHERE i.account_id = taken.account_id AND i.key = taken.idempotency_key AND i.lease_until IS NOT NULL
)
SELECT account_id, id, lease_token FROM taken"""

# Takes over work with an expired lease, the longest expired first.
CLAIM_EXPIRED = f"""
WITH lapsed AS (
    SELECT account_id, id FROM meetings WHERE lease_until <= statement_timestamp()
    ORDER BY lease_until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), {_TAKE_OVER}
"""

# Takes over one meeting, if its lease ran out.
CLAIM_ONE_EXPIRED = f"""
WITH lapsed AS (
    SELECT account_id, id FROM meetings
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND lease_until <= clock_timestamp()
    FOR UPDATE
), {_TAKE_OVER}
"""


def claim_due(meeting_columns: str) -> str:
    """Takes the meetings whose time has come, the longest due first; each comes again unless seen to."""
    return f"""
WITH due AS (
    SELECT account_id, id FROM meetings WHERE due_at <= statement_timestamp()
    ORDER BY due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE meetings m SET due_at = clock_timestamp() + %(again_s)s * interval '1 second',
        recording_checks = recording_checks + CASE m.status WHEN 'ended' THEN 1 ELSE 0 END
    FROM due WHERE m.account_id = due.account_id AND m.id = due.id
    RETURNING m.*
)
SELECT m.account_id, {meeting_columns}, COALESCE(h.provider_user_id, '') AS provider_user_id, m.recording_checks
FROM taken m LEFT JOIN hosts h ON h.id = m.host_id
"""


# The clock sees to a meeting again in so many seconds, or never.
SCHEDULE_NEXT_CHECK = """
UPDATE meetings SET due_at = clock_timestamp() + %(again_s)s::float8 * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(meeting_id)s
"""
