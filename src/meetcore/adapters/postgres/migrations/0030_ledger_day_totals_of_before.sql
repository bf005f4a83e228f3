-- online
-- Counts the entries that were there before the totals were. Each account is marked with how many it has, unless an entry
-- that was added marked it. Then they are counted, those of up to 200 accounts and some 2 000 entries at a time. What is
-- posted meanwhile waits only for the row of its account or of its day, and only while those of a batch are written.
-- in batches
WITH batch AS (
    SELECT id, entries FROM accounts WHERE %(after)s::uuid IS NULL OR id > %(after)s::uuid
    ORDER BY id LIMIT %(rows)s::bigint
), marked AS (
    INSERT INTO ledger_totals_due SELECT id, entries FROM batch WHERE entries > 0 ON CONFLICT DO NOTHING
)
SELECT max(id::text) FROM batch;

-- in batches
WITH batch AS (
    SELECT account_id, entries FROM (
        SELECT account_id, entries, sum(entries) OVER (ORDER BY account_id) - entries AS before
        FROM (
            SELECT account_id, entries FROM ledger_totals_due
            WHERE %(after)s::uuid IS NULL OR account_id > %(after)s::uuid
            ORDER BY account_id LIMIT %(rows)s::bigint / 10
        ) AS next
    ) AS sized WHERE before < %(rows)s::bigint
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

DROP TRIGGER IF EXISTS ledger_entries_marked ON ledger_entries;
DROP FUNCTION IF EXISTS mark_totals_due();
DROP TABLE IF EXISTS ledger_totals_due;
