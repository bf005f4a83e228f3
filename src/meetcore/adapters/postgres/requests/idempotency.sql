-- load_key: Take the account's lock and reads the record of a key.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT locked.account_id, locked.version, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    clock_timestamp() AS now, {KEY.select}, i.answer AS key_answer
FROM locked LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s

-- save_key: Bind a key, or marks it done with its answer; its age runs from the first binding.
WITH saved AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, answer, created_at)
    VALUES (%(account_id)s, %(key_key)s, %(key_fingerprint)s, %(key_is_done)s, %(key_subject_id)s, NULL, %(answer)s,
            clock_timestamp())
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, is_done = EXCLUDED.is_done,
        subject_id = EXCLUDED.subject_id, lease_until = NULL, answer = EXCLUDED.answer
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
