-- count_entries: Count the entries of all customers.
SELECT count(*) AS entries FROM ledger_entries WHERE book = 'customer'

-- list_accounts_of_span: The next accounts by id, each with the sums of its open holds and of its daily totals.
SELECT {FUNDS.select}, COALESCE(h.amount, 0)::bigint AS open_holds, d.credits AS day_credits, d.entries AS day_entries
FROM (SELECT * FROM accounts a WHERE a.id > %(after)s ORDER BY a.id LIMIT %(limit)s) AS a
LEFT JOIN (SELECT account_id, sum(amount) AS amount FROM ledger_holds GROUP BY account_id) AS h ON h.account_id = a.id
CROSS JOIN LATERAL (
    SELECT COALESCE(sum(credits), 0)::bigint AS credits, COALESCE(sum(entries), 0)::bigint AS entries
    FROM ledger_day_totals WHERE account_id = a.id
) AS d
ORDER BY a.id

-- set_sequential: Entries in the order of their index, each with its transfer looked up: whatever else the planner
-- would rather do sorts the whole ledger first. The texts of instants and days are those of the settings, and
-- cheaper than to_char.
SELECT set_config('enable_hashjoin', %(way)s, true), set_config('enable_mergejoin', %(way)s, true),
    set_config('enable_sort', %(way)s, true)

-- compare: Have whole tables compared by hashing: a lookup for each row takes twice as long. Memory is bounded.
SELECT set_config('enable_nestloop', %(loops)s, true), set_config('work_mem', '64MB', true)

-- entries: The customer entries of a range of accounts with their transfers, column by column an CanonicalEntry.
SELECT encode(uuid_send(e.account_id), 'hex'), e.number, e.amount, e.balance_after,
    CASE WHEN length(e.at::text) IN (22, 29) THEN replace(e.at::text, ' ', 'T') || ':00'
    ELSE to_char(e.at, 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00' END, e.hash,
    encode(uuid_send(t.id), 'hex'), t.operation, t.kind, t.amount, t.source, t.destination,
    t.reference_type, t.reference_id, COALESCE(encode(uuid_send(t.reverses), 'hex'), ''),
    COALESCE(encode(uuid_send(t.api_key_id), 'hex'), ''), COALESCE(t.cap_day::text, ''), COALESCE(e.chain_key, '')
FROM ledger_entries e JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
WHERE e.account_id BETWEEN %(first)s AND %(last)s AND e.book = 'customer' ORDER BY e.account_id, e.number

-- claim_verification: Take the run that is due, or begins one.
UPDATE ledger_verification SET lease_token = %(token)s, started_at = COALESCE(started_at, %(at)s),
    due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
WHERE due_at <= clock_timestamp() RETURNING started_at, after_account, accounts, entries, findings

-- save_progress: Keep how far a run is, for the holder of its claim only.
UPDATE ledger_verification SET lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second',
    after_account = %(after_account)s, accounts = %(accounts)s, entries = %(entries)s,
    findings = %(findings)s, is_sound = is_sound AND %(is_sound)s
WHERE lease_token = %(token)s

-- renew_verification: Keep a claim, for its holder only.
UPDATE ledger_verification SET due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE lease_token = %(token)s

-- end_unsound: End the run that has findings, and has the next one begin.
UPDATE ledger_verification SET lease_token = NULL, due_at = clock_timestamp(),
    started_at = NULL, after_account = NULL, accounts = 0, entries = 0, findings = '{}',
    verified_at = GREATEST(verified_at, %(at)s), is_sound = false
WHERE findings <> '{}'

-- keep_result: Keep the result of a verification beside the runs; a sound one unless there are findings or a
-- result of a later instant.
UPDATE ledger_verification SET verified_at = GREATEST(verified_at, %(at)s), is_sound = %(is_sound)s
WHERE NOT %(is_sound)s OR (findings = '{}' AND COALESCE(verified_at <= %(at)s, true))

-- finish_verification: Keep the result of a run and forgets its progress, for the holder of its claim only; a
-- sound result unless there is one of an instant after its beginning.
UPDATE ledger_verification SET lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second',
    started_at = NULL, after_account = NULL, accounts = 0, entries = 0, findings = '{}',
    verified_at = CASE WHEN %(is_sound)s AND verified_at > started_at THEN verified_at ELSE %(at)s END,
    is_sound = CASE WHEN %(is_sound)s AND verified_at > started_at THEN is_sound ELSE %(is_sound)s END
WHERE lease_token = %(token)s

-- is_balanced: Return whether every leg and every transfer belongs to a customer's and a system's leg that sum to
-- zero, in the books that the transfer names. `{of_e}` is the condition that `e` is of the accounts that are compared.
SELECT (SELECT count(*) FROM ledger_entries e WHERE {of_e}) = 2 * count(*)
    AND (SELECT count(*) FROM ledger_transfers t WHERE {of_t}) = count(*) AS is_balanced
FROM ledger_entries c
JOIN ledger_entries h ON h.account_id = c.account_id AND h.number = c.number AND h.transfer_id = c.transfer_id
    AND h.amount = -c.amount
JOIN ledger_transfers t ON t.account_id = c.account_id AND t.id = c.transfer_id
    AND h.book = CASE WHEN t.source = 'customer' THEN t.destination ELSE t.source END
WHERE c.book = 'customer' AND h.book <> 'customer' AND {of_c} AND {of_h} AND {of_t}

-- unbalanced: Find transfers that lack one of the two legs of their books, and legs without a transfer.
SELECT COALESCE(t.account_id, e.account_id) AS account_id, COALESCE(t.id, e.transfer_id) AS transfer_id, e.number
FROM (SELECT * FROM ledger_transfers t WHERE {of_t}) AS t FULL JOIN (
    SELECT account_id, transfer_id, min(number) AS number, sum(amount) AS total, min(book) AS one, max(book) AS other
    FROM ledger_entries e WHERE {of_e} GROUP BY account_id, transfer_id HAVING count(*) = 2
    UNION ALL
    SELECT account_id, transfer_id, min(number), NULL, NULL, NULL
    FROM ledger_entries e WHERE {of_e} GROUP BY account_id, transfer_id HAVING count(*) <> 2
) e ON e.account_id = t.account_id AND e.transfer_id = t.id
WHERE (e.total = 0 AND e.one = least(t.source, t.destination) AND e.other = greatest(t.source, t.destination))
    IS NOT TRUE
LIMIT %(limit)s

-- refunds: Find refunds with what they give back, where that is no meeting's charge, or less, or given back by
-- another, too.
WITH bad AS MATERIALIZED (
    SELECT r.account_id, r.id, CASE WHEN c.kind IS DISTINCT FROM 'meeting_charge' THEN 'NO_CHARGE'
        WHEN r.amount > c.amount THEN 'TOO_MUCH' ELSE 'RETURNED_BEFORE' END AS kind
    FROM (
        SELECT t.account_id, t.id, t.amount, t.reverses, count(*) OVER (PARTITION BY account_id, reverses) AS doubles
        FROM ledger_transfers t WHERE t.reverses IS NOT NULL AND {of_t}
        UNION ALL
        SELECT t.account_id, t.id, t.amount, NULL, 1 FROM ledger_transfers t
        WHERE t.reverses IS NULL AND t.kind = 'meeting_refund' AND {of_t}
    ) r LEFT JOIN ledger_transfers c ON c.account_id = r.account_id AND c.id = r.reverses
    WHERE c.kind IS DISTINCT FROM 'meeting_charge' OR r.amount > c.amount OR r.doubles > 1
    LIMIT %(limit)s
)
SELECT bad.account_id, bad.id AS transfer_id, bad.kind, e.number
FROM bad LEFT JOIN ledger_entries e
    ON e.account_id = bad.account_id AND e.transfer_id = bad.id AND e.book = 'customer'

-- usage: Find caps whose spent and held credits of a day differ from the stored usage. Keys that were rolled from one
-- share its cap: they are summed once more, and only where a key alone leaves a difference.
SELECT remaining.account_id, COALESCE(k.first_key_id, api_key_id) AS api_key_id, day FROM (
    SELECT account_id, api_key_id, day, sum(spent) AS spent, sum(held) AS held FROM (
        SELECT account_id, api_key_id, cap_day AS day,
            CASE WHEN source = 'customer' THEN amount ELSE -amount END AS spent, 0::bigint AS held
        FROM ledger_transfers t WHERE api_key_id IS NOT NULL AND {of_t}
        UNION ALL SELECT account_id, api_key_id, cap_day, 0, amount FROM ledger_holds h WHERE {of_h}
        UNION ALL SELECT account_id, api_key_id, day, -spent, -held FROM cap_usage u WHERE {of_u}
    ) AS recorded
    GROUP BY account_id, api_key_id, day HAVING sum(spent) <> 0 OR sum(held) <> 0
) AS remaining LEFT JOIN api_keys k ON k.id = api_key_id
GROUP BY 1, 2, 3 HAVING sum(spent) <> 0 OR sum(held) <> 0 LIMIT %(limit)s
