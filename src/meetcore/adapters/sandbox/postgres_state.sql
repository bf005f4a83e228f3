-- get: the state of a meeting.
SELECT state FROM sandbox_meetings WHERE provider_meeting_id = %(id)s;

-- put: takes a step of `STEPS`, and begins or ends a session with it. Returns a row if taken.
WITH step AS (
    INSERT INTO sandbox_meetings AS known (provider_meeting_id, state, changed_at)
    SELECT %(id)s, %(state)s, COALESCE(%(at)s, clock_timestamp()) WHERE %(is_first)s OR EXISTS (
        SELECT FROM sandbox_meetings WHERE provider_meeting_id = %(id)s)
    ON CONFLICT (provider_meeting_id) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at
    WHERE known.state = ANY(%(origins)s::text[])
    RETURNING state, changed_at
), ended AS (
    UPDATE sandbox_sessions s SET ended_at = step.changed_at FROM step
    WHERE step.state <> 'started' AND s.provider_meeting_id = %(id)s AND s.ended_at IS NULL
), begun AS (
    INSERT INTO sandbox_sessions (provider_meeting_id, number, started_at, ended_at)
    SELECT %(id)s, known.sessions + 1, step.changed_at,
        CASE step.state WHEN 'ended' THEN step.changed_at END
    FROM step, (SELECT count(*) AS sessions FROM sandbox_sessions WHERE provider_meeting_id = %(id)s) AS known
    WHERE step.state = 'started' OR step.state = 'ended' AND known.sessions = 0
)
SELECT state FROM step;

-- host_key: the current key of a host.
SELECT host_key FROM sandbox_host_keys WHERE provider_user_id = %(user)s;

-- put_host_key: replaces the key of a host; the last writer wins.
INSERT INTO sandbox_host_keys (provider_user_id, host_key) VALUES (%(user)s, %(host_key)s)
ON CONFLICT (provider_user_id) DO UPDATE SET host_key = excluded.host_key, changed_at = clock_timestamp();

-- sessions: the sessions of a meeting, each with the removed files of the meeting's recordings.
SELECT number, started_at, ended_at, ARRAY(
    SELECT provider_file_id FROM sandbox_removed_files WHERE provider_meeting_id = %(id)s
) AS removed
FROM sandbox_sessions WHERE provider_meeting_id = %(id)s ORDER BY number;

-- remove_file: records a removed file.
INSERT INTO sandbox_removed_files (provider_meeting_id, provider_file_id) VALUES (%(id)s, %(file)s)
ON CONFLICT DO NOTHING;

-- add
INSERT INTO sandbox_payments (payment_id, amount, currency, description, return_url, expires_at)
VALUES (%(payment_id)s, %(amount)s, %(currency)s, %(description)s, %(return_url)s, %(expires_at)s)
ON CONFLICT (payment_id) DO NOTHING;

-- get_payment
SELECT payment_id, amount, currency, description, return_url, expires_at, status, paid_amount, paid_currency,
    refunded
FROM sandbox_payments WHERE payment_id = %(payment_id)s;

-- pay
UPDATE sandbox_payments SET status = 'paid', paid_amount = %(amount)s, paid_currency = %(currency)s
WHERE payment_id = %(payment_id)s AND status IN ('pending', 'failed', 'expired');

-- end
UPDATE sandbox_payments SET status = %(status)s WHERE payment_id = %(payment_id)s AND status = 'pending';

-- refund: sends money back once: a repeated call finds it done.
UPDATE sandbox_payments SET status = 'reversed', refunded = %(amount)s
WHERE payment_id = %(payment_id)s AND (status = 'paid' OR status = 'reversed' AND refunded = %(amount)s);
