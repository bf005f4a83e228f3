-- The whole schema. It is run at every opening, and changes nothing where its tables are there.
-- Ids are text, instants are ISO 8601 in UTC with microseconds, flags are 0 and 1.
BEGIN IMMEDIATE;

CREATE TABLE IF NOT EXISTS accounts (
    id             TEXT PRIMARY KEY,
    user_id        TEXT NOT NULL,
    email          TEXT NOT NULL UNIQUE,
    full_name      TEXT NOT NULL,
    created_at     TEXT NOT NULL,
    balance        INTEGER NOT NULL,
    held           INTEGER NOT NULL CHECK (held >= 0),
    low_threshold  INTEGER NOT NULL CHECK (low_threshold >= 0),
    is_low         INTEGER NOT NULL CHECK (is_low IN (0, 1)),
    entries        INTEGER NOT NULL CHECK (entries >= 0),
    last_hash      BLOB NOT NULL CHECK (length(last_hash) = 32),
    last_at        TEXT
) STRICT;

-- Double entry. One row is one transfer with both its legs: `amount` leaves the book `source` and
-- arrives in the book `destination`, so that there are no two figures which could fail to sum to zero.
-- The unique keys have the last word: one number, one transfer, one operation, one reversal of each charge.
CREATE TABLE IF NOT EXISTS entries (
    account_id      TEXT NOT NULL REFERENCES accounts,
    number          INTEGER NOT NULL CHECK (number >= 1),
    transfer_id     TEXT NOT NULL,
    operation       TEXT NOT NULL,
    kind            TEXT NOT NULL,
    amount          INTEGER NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000000),
    source          TEXT NOT NULL,
    destination     TEXT NOT NULL CHECK (source <> destination AND 'customer' IN (source, destination)),
    reference_type  TEXT NOT NULL,
    reference_id    TEXT NOT NULL,
    reverses        TEXT,
    api_key_id      TEXT,
    cap_day         TEXT,
    balance_after   INTEGER NOT NULL,
    at              TEXT NOT NULL,
    hash            BLOB NOT NULL CHECK (length(hash) = 32),
    key_id          BLOB NOT NULL CHECK (length(key_id) IN (0, 4)),
    PRIMARY KEY (account_id, number),
    UNIQUE (account_id, transfer_id),
    UNIQUE (account_id, operation),
    UNIQUE (account_id, reverses)
) STRICT;

CREATE TRIGGER IF NOT EXISTS entries_never_change BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS entries_never_go BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

COMMIT;
