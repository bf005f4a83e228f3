-- list_days: An account's totals of a range of days.
SELECT day, kind, credits, entries FROM ledger_day_totals
WHERE account_id = %(account_id)s AND day BETWEEN %(first_day)s AND %(last_day)s ORDER BY day, kind

-- find_first_entry: Read when the account's first entry was made.
SELECT at FROM ledger_entries WHERE account_id = %(account_id)s AND number = 1 AND book = 'customer'

-- find_entry_range: The numbers of the entries of a stretch of time, and the balances before the first and after
-- the last of them.
WITH RECURSIVE first_at_made_from (low, high) AS (
    SELECT 1::bigint, a.entries + 1 FROM accounts a WHERE a.id = %(account_id)s
    UNION ALL
    SELECT CASE WHEN e.at < %(made_from)s THEN e.number + 1 ELSE s.low END,
        CASE WHEN e.at < %(made_from)s THEN s.high ELSE e.number END
    FROM first_at_made_from s CROSS JOIN LATERAL (
        SELECT number, at FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = (s.low + s.high) / 2 AND book = 'customer'
    ) e
    WHERE s.low < s.high
), first_at_made_before (low, high) AS (
    SELECT 1::bigint, a.entries + 1 FROM accounts a WHERE a.id = %(account_id)s
    UNION ALL
    SELECT CASE WHEN e.at < %(made_before)s THEN e.number + 1 ELSE s.low END,
        CASE WHEN e.at < %(made_before)s THEN s.high ELSE e.number END
    FROM first_at_made_before s CROSS JOIN LATERAL (
        SELECT number, at FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = (s.low + s.high) / 2 AND book = 'customer'
    ) e
    WHERE s.low < s.high
)
SELECT f.low AS first, b.low - 1 AS last, COALESCE(o.balance_after, 0) AS opening,
    COALESCE(c.balance_after, 0) AS closing
FROM first_at_made_from f CROSS JOIN first_at_made_before b
LEFT JOIN ledger_entries o ON o.account_id = %(account_id)s AND o.number = f.low - 1 AND o.book = 'customer'
LEFT JOIN ledger_entries c ON c.account_id = %(account_id)s AND c.number = b.low - 1 AND c.book = 'customer'
WHERE f.low = f.high AND b.low = b.high
