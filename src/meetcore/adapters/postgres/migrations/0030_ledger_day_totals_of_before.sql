-- online
-- Counts the entries that were there before the totals were, twenty accounts at a time. What is posted meanwhile waits
-- only for the rows of its day, and only while those of its account are written.
-- in batches
WITH batch AS (
    SELECT account_id, entries FROM ledger_totals_due
    WHERE %(after)s::uuid IS NULL OR account_id > %(after)s::uuid
    ORDER BY account_id LIMIT %(rows)s::bigint / 100
), counted AS (
    INSERT INTO ledger_day_totals AS total (account_id, day, kind, credits, entries)
    SELECT e.account_id, ((e.at AT TIME ZONE 'UTC') + interval '7 hours')::date,
        CASE e.book WHEN 'topups' THEN 'topup' WHEN 'notulen' THEN 'notulen_charge' WHEN 'adjustments' THEN 'adjustment'
            ELSE CASE WHEN e.amount < 0 THEN 'meeting_refund' ELSE 'meeting_charge' END END,
        -sum(e.amount)::bigint, count(*)
    FROM batch b JOIN ledger_entries e ON e.account_id = b.account_id AND e.number <= b.entries
    WHERE e.book <> 'customer' GROUP BY 1, 2, 3
    ON CONFLICT (account_id, day, kind) DO UPDATE
        SET credits = total.credits + EXCLUDED.credits, entries = total.entries + EXCLUDED.entries
)
SELECT max(account_id::text) FROM batch;

DROP TABLE IF EXISTS ledger_totals_due;
