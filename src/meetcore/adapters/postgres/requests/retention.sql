-- purge_idempotency: Forget the oldest keys that are past their time; one whose work still runs is kept.
DELETE FROM idempotency_keys WHERE ctid IN (
    SELECT ctid FROM idempotency_keys
    WHERE created_at < clock_timestamp() - %(older_than_s)s * interval '1 second' AND lease_until IS NULL
    ORDER BY created_at LIMIT %(portion)s)

-- purge_provider_events: Forget the oldest events of providers that are done.
DELETE FROM provider_events WHERE ctid IN (
    SELECT ctid FROM provider_events
    WHERE received_at < clock_timestamp() - %(older_than_s)s * interval '1 second' AND due_at IS NULL
    ORDER BY received_at LIMIT %(portion)s)

-- purge_creations: Forget what accounts used of days that are over.
DELETE FROM account_creations WHERE ctid IN (
    SELECT ctid FROM account_creations WHERE day < %(before)s ORDER BY day LIMIT %(portion)s)

-- purge_mails: Forget mails that are over.
DELETE FROM mails WHERE ctid IN (
    SELECT ctid FROM mails
    WHERE created_at < clock_timestamp() - %(older_than_s)s * interval '1 second' AND due_at IS NULL
    ORDER BY created_at LIMIT %(portion)s)

-- purge_previous_secrets: Forget replaced secrets that do not sign any more.
UPDATE webhook_endpoints SET previous_secret = NULL, previous_secret_until = NULL
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM webhook_endpoints WHERE previous_secret_until < %(before)s
    ORDER BY previous_secret_until LIMIT %(portion)s FOR NO KEY UPDATE SKIP LOCKED))

-- purge_requests: Delete the oldest requests that are past their retention. An id begins with the time of its
-- request.
DELETE FROM api_requests WHERE ctid IN (
    SELECT ctid FROM api_requests WHERE id < %(before)s ORDER BY id LIMIT %(portion)s)

-- present: The time of the store.
SELECT clock_timestamp() AS now

-- take_turn: Take the turn of a kind of records, where a round is due or in progress.
SELECT after_id FROM retention_progress WHERE kind = %(kind)s AND due_at <= clock_timestamp()
FOR NO KEY UPDATE SKIP LOCKED

-- save_turn: Save how far a round is; or that it is over, and when the next one begins.
UPDATE retention_progress SET after_id = %(after)s,
    due_at = CASE WHEN %(is_over)s THEN clock_timestamp() + %(every_s)s::float8 * interval '1 second' ELSE due_at END,
    started_at = CASE WHEN %(is_over)s THEN NULL ELSE COALESCE(started_at, clock_timestamp()) END
WHERE kind = %(kind)s

-- was_removed: Return whether a record was removed.
SELECT FROM removed_records WHERE account_id = %(account_id)s AND id = %(id)s

-- remove_notes: Remove the notes of the next portion, and keep their ids. An id begins with the time of its note. With
-- the last note on a recording its transcript goes. A note stays while the recording of its meeting is looked for: else
-- the meeting would get its notes once more, and pay for them; and one that says that no recording came stays until the
-- recording expires, which would report it once more.
WITH walked AS MATERIALIZED (
    SELECT n.account_id, n.id FROM notes n
    WHERE n.id > %(after)s AND n.id < %(before)s ORDER BY n.id LIMIT %(portion)s
), past AS MATERIALIZED (
    SELECT n.account_id, n.id, n.recording_id
    FROM walked JOIN notes n ON n.account_id = walked.account_id AND n.id = walked.id
    WHERE n.status = ANY(%(removable)s::text[]) AND n.lease_token IS NULL
        AND NOT EXISTS (
            SELECT FROM meetings m WHERE m.account_id = n.account_id AND m.id = n.meeting_id AND m.due_at IS NOT NULL)
        AND (n.recording_id IS NOT NULL OR NOT EXISTS (
            SELECT FROM recordings r
            WHERE r.account_id = n.account_id AND r.meeting_id = n.meeting_id AND r.status <> 'expired'))
    FOR UPDATE OF n SKIP LOCKED
), chunks AS (
    DELETE FROM transcript_chunks t USING past
    WHERE t.account_id = past.account_id AND t.recording_id = past.recording_id AND NOT EXISTS (
        SELECT FROM notes o WHERE o.account_id = past.account_id AND o.recording_id = past.recording_id
            AND o.id NOT IN (SELECT id FROM past))
), gone AS (
    DELETE FROM notes n USING past WHERE n.account_id = past.account_id AND n.id = past.id
    RETURNING n.account_id, n.id
), kept AS (
    INSERT INTO removed_records (account_id, id) SELECT account_id, id FROM gone ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM gone) AS removed, (SELECT count(*) FROM walked) AS walked,
    (SELECT id FROM walked ORDER BY id DESC LIMIT 1) AS last

-- remove_meetings: Remove the meetings of the next portion of which nothing is unfinished, each with its
-- recording, and keep the ids that customers could see. Their accounts are locked: what is written under an account's
-- lock, as a recording is, finds no meeting once it is removed. An account that another transaction holds, or has
-- changed since the statement began, is passed over.
WITH walked AS MATERIALIZED (
    SELECT m.account_id, m.id FROM meetings m
    WHERE m.id > %(after)s AND m.id < %(before)s AND m.status <> 'provisioning' ORDER BY m.id LIMIT %(portion)s
), past AS MATERIALIZED (
    SELECT m.account_id, m.id FROM walked JOIN meetings m ON m.account_id = walked.account_id AND m.id = walked.id
    JOIN accounts a ON a.id = m.account_id
    WHERE m.status = ANY(%(removable)s::text[]) AND m.end_at < %(ended_before)s
        AND a.version = (SELECT version FROM accounts WHERE id = m.account_id)
        AND m.lease_until IS NULL AND m.due_at IS NULL AND m.hold_id IS NULL
        AND NOT EXISTS (SELECT FROM orphan_checks c WHERE c.account_id = m.account_id AND c.meeting_id = m.id)
        AND NOT EXISTS (SELECT FROM host_reservations h WHERE h.account_id = m.account_id AND h.meeting_id = m.id)
        AND NOT EXISTS (
            SELECT FROM recordings r WHERE r.account_id = m.account_id AND r.meeting_id = m.id
                AND (r.status <> 'expired' OR r.due_at IS NOT NULL OR EXISTS (
                    SELECT FROM notes n WHERE n.account_id = r.account_id AND n.recording_id = r.id)))
    FOR UPDATE OF m SKIP LOCKED FOR NO KEY UPDATE OF a SKIP LOCKED
), accounts_changed AS (
    UPDATE accounts SET version = version + 1 WHERE id IN (SELECT account_id FROM past)
), chunks AS (
    DELETE FROM transcript_chunks t USING past, recordings r
    WHERE r.account_id = past.account_id AND r.meeting_id = past.id
        AND t.account_id = r.account_id AND t.recording_id = r.id
), recorded AS (
    DELETE FROM recordings r USING past WHERE r.account_id = past.account_id AND r.meeting_id = past.id
    RETURNING r.account_id, r.id
), gone AS (
    DELETE FROM meetings m USING past WHERE m.account_id = past.account_id AND m.id = past.id
    RETURNING m.account_id, m.id, m.status
), kept AS (
    INSERT INTO removed_records (account_id, id)
    SELECT account_id, id FROM gone WHERE status = ANY(%(visible)s::text[])
    UNION ALL SELECT account_id, id FROM recorded
    ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM gone) AS removed, (SELECT count(*) FROM walked) AS walked,
    (SELECT id FROM walked ORDER BY id DESC LIMIT 1) AS last

-- lock_account: Take the account's lock and raises the version, so that waiting readers read again.
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s RETURNING id

-- load_erasure: Read what an erasure depends on. The account is locked already.
SELECT (SELECT count(*) FROM meetings
    WHERE account_id = %(account_id)s AND status IN ('scheduled', 'cancelling', 'started')) AS open_meetings,
    (SELECT count(*) FROM ledger_holds WHERE account_id = %(account_id)s) AS holds, e.requested_at, e.finished_at
FROM (VALUES (1)) AS always LEFT JOIN account_erasures e ON e.account_id = %(account_id)s

-- find_request: The request to erase an account, which is locked by now.
SELECT requested_at FROM account_erasures WHERE account_id = %(account_id)s

-- start_erasure: Notes an erasure; the account has no name and no address from now on, and its keys are refused.
WITH noted AS (
    INSERT INTO account_erasures (account_id, requested_at) VALUES (%(account_id)s, %(at)s) ON CONFLICT DO NOTHING
), keys AS (
    UPDATE api_keys SET revoked_at = COALESCE(revoked_at, %(at)s), name = %(erased)s WHERE account_id = %(account_id)s
), tokens AS (
    DELETE FROM oauth_refresh_tokens t USING api_keys k WHERE k.id = t.key_id AND k.account_id = %(account_id)s
), authorizations AS (
    DELETE FROM oauth_authorizations o USING api_keys k WHERE k.id = o.key_id AND k.account_id = %(account_id)s
), invitations AS (
    UPDATE invitations SET email = 'erased-' || id || '@erased.invalid', revoked_at = COALESCE(revoked_at, %(at)s)
    WHERE account_id = %(account_id)s
), sessions AS (
    DELETE FROM sessions WHERE account_id = %(account_id)s
), billing AS (
    DELETE FROM billing_details WHERE account_id = %(account_id)s
), payments AS (
    UPDATE payments SET payment_url = NULL WHERE account_id = %(account_id)s AND payment_url IS NOT NULL
)
UPDATE accounts SET email = %(email)s, full_name = %(erased)s, suspended_at = COALESCE(suspended_at, %(at)s),
    suspension_reason = NULL
WHERE id = %(account_id)s

-- lock_users: Lock the users of an account, and those whom it removed: of two erasures at once, the second reads
-- what the first one left. `FOR UPDATE` holds up new memberships, too, whose foreign keys lock their users.
SELECT u.id FROM users u
WHERE u.id IN (SELECT user_id FROM memberships
    WHERE account_id = %(account_id)s UNION SELECT target_id::uuid AS user_id FROM audit_log
    WHERE account_id = %(account_id)s AND action = 'member.removed')
ORDER BY u.id FOR UPDATE

-- end_memberships: End the memberships of an account and returns those of its users, the removed ones included,
-- who belong to no other.
WITH ended AS (
    DELETE FROM memberships WHERE account_id = %(account_id)s RETURNING user_id
), known AS (
    SELECT user_id FROM ended UNION SELECT target_id::uuid AS user_id FROM audit_log
    WHERE account_id = %(account_id)s AND action = 'member.removed'
)
SELECT u.id, u.email FROM known JOIN users u ON u.id = known.user_id
WHERE NOT EXISTS (SELECT FROM memberships o WHERE o.user_id = u.id AND o.account_id <> %(account_id)s)

-- erase_user: A user without name and address.
UPDATE users SET email = %(email)s, full_name = %(erased)s, language = NULL WHERE id = %(id)s

-- delete_passkeys: The passkeys of a user, and who that is at an OpenID provider.
WITH identities AS (
    DELETE FROM identities WHERE user_id = %(id)s
)
DELETE FROM passkeys WHERE user_id = %(id)s

-- delete_mails_to: Delete the mails to an address, whatever they are about.
DELETE FROM mails WHERE lower(recipient) = lower(%(recipient)s)

-- claim_due_erasures: Take the erasures that are due, the longest due first, and put each off by a quarter of its age,
-- from 5 minutes to 2 hours.
WITH next AS (
    SELECT account_id FROM account_erasures
    WHERE finished_at IS NULL AND COALESCE(due_at, requested_at) <= %(at)s
    ORDER BY COALESCE(due_at, requested_at) LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE account_erasures e
SET due_at = %(at)s + LEAST(GREATEST((%(at)s - e.requested_at) / 4, interval '5 minutes'), interval '2 hours')
FROM next WHERE e.account_id = next.account_id RETURNING e.account_id

-- find_recorded: Meetings of an account whose recordings are not expired.
SELECT meeting_id FROM recordings WHERE account_id = %(account_id)s AND status <> 'expired'
ORDER BY id LIMIT %(limit)s

-- erase_meetings: The next meetings of an account, without what people wrote; those that hold nothing any more are
-- not written.
WITH next AS (
    SELECT id FROM meetings WHERE account_id = %(account_id)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
), erased AS (
    UPDATE meetings m SET title = %(erased)s, description = NULL, password = NULL, join_url = NULL,
        idempotency_key = NULL
    FROM next WHERE m.account_id = %(account_id)s AND m.id = next.id
        AND (m.title <> %(erased)s OR num_nonnulls(m.description, m.password, m.join_url, m.idempotency_key) > 0)
)
SELECT id FROM next ORDER BY id DESC LIMIT 1

-- erase_notes: The next notes of an account that are not in progress, without their content.
WITH next AS (
    SELECT id, status FROM notes WHERE account_id = %(account_id)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
), erased AS (
    UPDATE notes n SET status = 'erased', content = NULL, written_by = NULL, edited_at = NULL,
        error = NULL
    FROM next WHERE n.account_id = %(account_id)s AND n.id = next.id AND next.status IN ('completed', 'failed')
)
SELECT id FROM next ORDER BY id DESC LIMIT 1

-- delete_deliveries: Delete some deliveries of an account with their attempts.
WITH gone AS (
    DELETE FROM deliveries WHERE account_id = %(account_id)s AND (endpoint_id, id) IN (
        SELECT endpoint_id, id FROM deliveries WHERE account_id = %(account_id)s ORDER BY endpoint_id, id LIMIT %(limit)s)
    RETURNING id
), attempts AS (
    DELETE FROM delivery_attempts a USING gone WHERE a.account_id = %(account_id)s AND a.delivery_id = gone.id
)
SELECT count(*) AS gone FROM gone

-- delete_events: Delete some events of an account.
DELETE FROM events WHERE account_id = %(account_id)s AND id IN (
    SELECT id FROM events WHERE account_id = %(account_id)s ORDER BY id LIMIT %(limit)s)

-- delete_mails: Delete some mails about an account.
DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE account_id = %(account_id)s LIMIT %(limit)s)

-- delete_answers: Delete some stored answers of an account.
DELETE FROM idempotency_keys WHERE account_id = %(account_id)s AND key IN (
    SELECT key FROM idempotency_keys WHERE account_id = %(account_id)s ORDER BY key LIMIT %(limit)s)

-- delete_requests: Delete some logged requests of an account.
DELETE FROM api_requests WHERE account_id = %(account_id)s AND id IN (
    SELECT id FROM api_requests WHERE account_id = %(account_id)s ORDER BY id LIMIT %(limit)s)

-- finish_erasure: Finish an erasure when no meeting waits for its recording, and no recording for the removal of
-- its files.
UPDATE account_erasures SET finished_at = %(at)s
WHERE account_id = %(account_id)s AND finished_at IS NULL
    AND NOT EXISTS (SELECT FROM meetings WHERE account_id = %(account_id)s AND due_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM recordings WHERE account_id = %(account_id)s AND due_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM ledger_holds WHERE account_id = %(account_id)s)
