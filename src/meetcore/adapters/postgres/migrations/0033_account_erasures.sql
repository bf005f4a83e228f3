-- Accounts that are erased: what was interrupted is finished by the workers.
CREATE TABLE account_erasures (
    account_id    uuid PRIMARY KEY REFERENCES accounts,
    requested_at  timestamptz NOT NULL,
    finished_at   timestamptz,
    CONSTRAINT account_erasures_in_order CHECK (finished_at >= requested_at)
);
CREATE INDEX account_erasures_pending ON account_erasures (requested_at) WHERE finished_at IS NULL;
