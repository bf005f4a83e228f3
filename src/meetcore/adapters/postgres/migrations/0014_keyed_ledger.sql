-- Entries from now on may be chained under a key that the database does not hold: `chain_key` names it. Entries
-- without one are of version 1 and stay as they are. A seal fixes, under a key again, how far an account's
-- history may have such entries.
ALTER TABLE ledger_entries ADD COLUMN chain_key bytea
    CONSTRAINT ledger_entries_chain_key CHECK (chain_key IS NULL OR length(chain_key) = 4 AND book = 'customer');
CREATE TABLE ledger_seals (
    account_id  uuid PRIMARY KEY REFERENCES accounts,
    entries     bigint NOT NULL CHECK (entries >= 1),
    last_hash   bytea NOT NULL CHECK (length(last_hash) = 32),
    key_id      bytea NOT NULL CHECK (length(key_id) = 4),
    mac         bytea NOT NULL CHECK (length(mac) = 32),
    sealed_at   timestamptz NOT NULL
);
CREATE TRIGGER ledger_seals_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
