-- lock_counts: Wait for other transactions that mail the same recipients, or for the same accounts: the next
-- statement sees theirs. In one order, so that no two wait for each other crosswise.
SELECT pg_advisory_xact_lock(number) FROM (
    SELECT DISTINCT hashtextextended('mails of ' || name, 0) AS number
    FROM unnest(%(names)s::text[]) AS counted (name) ORDER BY number) AS locks

-- add_mail: Write a mail, due at once, if there is room for one more of its kind within the hour.
INSERT INTO mails ({MAIL.names}, due_at, content)
SELECT {MAIL.values}, clock_timestamp(), %(mail_content)s
WHERE NOT %(is_limited)s OR %(per_recipient)s > (
    SELECT count(*) FROM mails m WHERE lower(m.recipient) = lower(%(mail_recipient)s)
        AND m.kind = %(mail_kind)s AND m.counted_as = %(mail_counted_as)s
        AND m.created_at > statement_timestamp() - %(window_s)s * interval '1 second')
    AND %(per_account)s > (
        SELECT count(*) FROM mails m WHERE m.account_id = %(account_id)s AND m.kind = %(mail_kind)s
            AND m.created_at > statement_timestamp() - %(window_s)s * interval '1 second')

-- find_recipients: Find the members of an account who get mails of a topic: those who chose it, else those of some
-- roles; the oldest first.
SELECT u.email, u.language FROM memberships b JOIN users u ON u.id = b.user_id
WHERE b.account_id = %(account_id)s AND b.role = ANY(%(readers)s)
    AND COALESCE((b.mail_topics ->> %(topic)s)::boolean, b.role = ANY(%(by_default)s))
ORDER BY b.created_at, b.account_id, b.user_id

-- find_settings: An account, and the topics of mails that a member has chosen.
SELECT {ACCOUNT.select}, COALESCE(b.mail_topics, '{}') AS mail_topics
FROM accounts a LEFT JOIN memberships b ON b.account_id = a.id AND b.user_id = %(user_id)s
WHERE a.id = %(account_id)s

-- save_topics: The topics of mails that a member chooses.
UPDATE memberships SET mail_topics = %(topics)s::jsonb WHERE account_id = %(account_id)s AND user_id = %(user_id)s

-- claim_due_mails: Take due rows, the longest due first, and skip those that another worker has locked.
WITH due AS (
    SELECT id, due_at, lease_token IS NOT NULL AS had_lease FROM mails WHERE due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE mails m SET lease_token = %(token)s, due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
FROM due WHERE m.id = due.id
RETURNING {MAIL.select}, m.due_at AS mail_due_at, m.content AS mail_content, due.had_lease, due.due_at AS was_due_at

-- load_mail: A mail, locked, for the holder of its claim only.
SELECT {MAIL.select}, m.due_at AS mail_due_at, m.content AS mail_content, clock_timestamp() AS now FROM mails m
WHERE m.id = %(id)s AND m.lease_token = %(token)s FOR UPDATE

-- save_mail: Write what became of a mail and ends the claim; the content of one that is over is erased.
UPDATE mails SET lease_token = NULL, due_at = %(mail_due_at)s, attempts_made = %(mail_attempts_made)s,
    sent_at = %(mail_sent_at)s, failed_at = %(mail_failed_at)s, last_error = %(mail_last_error)s,
    content = CASE WHEN %(mail_due_at)s::timestamptz IS NULL THEN NULL ELSE content END
WHERE id = %(mail_id)s

-- list_mails: A page of the mails about an account.
SELECT {SUMMARY.select} FROM mails m WHERE m.account_id = %(account_id)s AND m.id < %(before)s
ORDER BY m.id DESC LIMIT %(limit)s
