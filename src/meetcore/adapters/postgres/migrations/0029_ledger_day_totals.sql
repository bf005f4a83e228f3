-- What was moved of an account on each day (WIB) by kind, kept by the database itself as entries are added: a process of
-- the earlier release that still runs counts, too. Entries that are there already are counted by the next step, without
-- this one's lock; until then `ledger_totals_due` has how many an account had when its next one was counted.
CREATE TABLE ledger_day_totals (
    account_id  uuid NOT NULL REFERENCES accounts,
    day         date NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('topup', 'meeting_charge', 'meeting_refund', 'notulen_charge', 'adjustment')),
    credits     bigint NOT NULL,
    entries     bigint NOT NULL CHECK (entries >= 1),
    PRIMARY KEY (account_id, day, kind)
) WITH (fillfactor = 50);
CREATE INDEX ledger_day_totals_by_day ON ledger_day_totals (day);

CREATE FUNCTION count_day_totals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_day_totals AS total (account_id, day, kind, credits, entries)
    SELECT account_id, ((at AT TIME ZONE 'UTC') + interval '7 hours')::date,
        CASE book WHEN 'topups' THEN 'topup' WHEN 'notulen' THEN 'notulen_charge' WHEN 'adjustments' THEN 'adjustment'
            ELSE CASE WHEN amount < 0 THEN 'meeting_refund' ELSE 'meeting_charge' END END,
        -sum(amount)::bigint, count(*)
    FROM added WHERE book <> 'customer' GROUP BY 1, 2, 3
    ON CONFLICT (account_id, day, kind) DO UPDATE
        SET credits = total.credits + EXCLUDED.credits, entries = total.entries + EXCLUDED.entries;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_entries_counted AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_day_totals();

-- Until the next step is done, the first entry that is counted of an account marks it: those before it are to be counted.
CREATE TABLE ledger_totals_due (account_id uuid PRIMARY KEY, entries bigint NOT NULL);
CREATE FUNCTION mark_totals_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_totals_due SELECT account_id, min(number) - 1 FROM added GROUP BY account_id ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_entries_marked AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION mark_totals_due();
