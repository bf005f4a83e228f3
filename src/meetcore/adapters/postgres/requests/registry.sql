-- take_email: Let one transaction at a time open an account of an e-mail address. No unique index: accounts of
-- releases that did not look may share one.
SELECT pg_advisory_xact_lock(hashtextextended('account of ' || lower(%(email)s), 0))

-- account_of_email: The account of an e-mail address.
SELECT id FROM accounts WHERE lower(email) = lower(%(email)s) ORDER BY id LIMIT 1

-- add_account: Open an account with empty funds; the low-credit event of an empty account counts as sent.
INSERT INTO accounts ({NEW_ACCOUNT.names}, is_low)
VALUES ({NEW_ACCOUNT.values}, %(account_low_threshold)s > 0)

-- list_accounts: Ids rise with time, so that the newest account has the greatest.
SELECT {ACCOUNT.select} FROM accounts a ORDER BY a.id DESC LIMIT %(limit)s

-- list_accounts_of_email: The newest accounts of an e-mail address.
SELECT {ACCOUNT.select} FROM accounts a WHERE lower(a.email) = lower(%(email)s) ORDER BY a.id DESC LIMIT %(limit)s

-- find_account: One account.
SELECT {ACCOUNT.select} FROM accounts a WHERE a.id = %(id)s

-- load_account: One account under its lock.
SELECT {ACCOUNT.select} FROM accounts a WHERE a.id = %(id)s FOR NO KEY UPDATE

-- set_statements_mailed: Notes which statement an account was mailed about last.
UPDATE accounts SET statements_mailed = %(month)s, version = version + 1 WHERE id = %(id)s

-- find_statements_due: Accounts that are to be mailed about a statement.
SELECT id FROM accounts WHERE statements_mailed < %(month)s ORDER BY statements_mailed LIMIT %(limit)s

-- suspend: Suspend an account; a second call keeps the first time and reason.
UPDATE accounts a SET suspended_at = COALESCE(a.suspended_at, %(at)s), version = a.version + 1,
    suspension_reason = CASE WHEN a.suspended_at IS NULL THEN %(reason)s ELSE a.suspension_reason END
WHERE a.id = %(id)s RETURNING {ACCOUNT.select}

-- resume: Make an account active.
UPDATE accounts a SET suspended_at = NULL, suspension_reason = NULL, version = a.version + 1 WHERE a.id = %(id)s
RETURNING {ACCOUNT.select}

-- set_low: Change the threshold; the low-credit event of an account below the new one counts as sent, else as not.
UPDATE accounts SET low_threshold = %(low)s, is_low = balance - held < %(low)s, version = version + 1
WHERE id = %(id)s RETURNING id

-- add_key: Add a key by its digest.
INSERT INTO api_keys ({API_KEY.names}, digest) VALUES ({API_KEY.values}, %(digest)s)

-- list_keys: Every key, the newest first.
SELECT {API_KEY.select} FROM api_keys k ORDER BY k.id DESC

-- list_keys_of_account: The keys of one account, the newest first.
SELECT {API_KEY.select} FROM api_keys k WHERE k.account_id = %(account_id)s ORDER BY k.id DESC

-- lock_keys_account: Take the lock of a key's account and raises the version, so that waiting readers read again.
UPDATE accounts a SET version = a.version + 1 FROM api_keys k WHERE k.id = %(id)s AND a.id = k.account_id

-- count_working_keys: How many keys and grants of an account are neither revoked nor expired.
SELECT count(*) AS found FROM api_keys k
WHERE k.account_id = %(account_id)s AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > %(now)s)

-- load_key: One key. Its account is locked by now.
SELECT {API_KEY.select} FROM api_keys k WHERE k.id = %(id)s

-- save_key_end: End a key, never later than before.
UPDATE api_keys SET expires_at = LEAST(expires_at, %(key_expires_at)s),
    revoked_at = LEAST(revoked_at, %(key_revoked_at)s)
WHERE id = %(key_id)s

-- revoke: Revoke a key; a second call keeps the first time.
UPDATE api_keys k SET revoked_at = LEAST(k.revoked_at, %(at)s) WHERE k.id = %(id)s RETURNING {API_KEY.select}

-- set_cap: Change the daily cap of a key and of those that share it. They are locked in one order, as last uses
-- are written.
WITH shared AS MATERIALIZED (
    SELECT k.id FROM api_keys one JOIN api_keys k ON k.account_id = one.account_id
        AND COALESCE(k.first_key_id, k.id) = COALESCE(one.first_key_id, one.id)
    WHERE one.id = %(id)s ORDER BY k.id FOR NO KEY UPDATE OF k
), changed AS (
    UPDATE api_keys k SET daily_cap = %(cap)s FROM shared WHERE k.id = shared.id RETURNING k.*
)
SELECT {API_KEY.select} FROM changed k WHERE k.id = %(id)s

-- add_host: Add a host, unless its user is a host already.
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at)
VALUES (%(id)s, %(user)s, %(capacity)s, %(max_concurrent)s, %(at)s) ON CONFLICT DO NOTHING RETURNING id

-- host_of_user: The host of a provider's user.
SELECT id FROM hosts WHERE provider_user_id = %(user)s

-- list_hosts: Every host, the smallest first.
SELECT {HOST.select} FROM hosts h ORDER BY h.capacity, h.provider_user_id

-- load_host: One host, locked.
SELECT {HOST.select} FROM hosts h WHERE h.id = %(id)s FOR NO KEY UPDATE

-- set_host_active: Give a host meetings, or no new ones.
UPDATE hosts h SET is_active = %(is_active)s WHERE h.id = %(id)s RETURNING {HOST.select}
