-- How far the periodic verification of the ledger is, and what came of the last one: one row.
CREATE TABLE ledger_verification (
    is_only        boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    started_at     timestamptz,
    after_account  uuid,
    accounts       bigint NOT NULL DEFAULT 0 CHECK (accounts >= 0),
    entries        bigint NOT NULL DEFAULT 0 CHECK (entries >= 0),
    findings       text[] NOT NULL DEFAULT '{}',
    due_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token    uuid,
    verified_at    timestamptz,
    is_sound       boolean NOT NULL DEFAULT true,
    CONSTRAINT ledger_verification_progress CHECK (started_at IS NOT NULL OR after_account IS NULL)
);
INSERT INTO ledger_verification DEFAULT VALUES;
