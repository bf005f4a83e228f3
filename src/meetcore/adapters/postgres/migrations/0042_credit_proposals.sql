-- Credits that one operator proposes to move and another one approves or rejects.
CREATE TABLE credit_proposals (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES accounts,
    kind         text NOT NULL CHECK (kind IN ('topup', 'adjustment')),
    amount       bigint NOT NULL CHECK (amount <> 0),
    reason       text NOT NULL,
    reference    text NOT NULL,
    proposed_by  uuid NOT NULL REFERENCES operators,
    proposer     text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    is_approved  boolean,
    decided_by   uuid REFERENCES operators,
    decider      text,
    decided_at   timestamptz,
    is_replaced  boolean NOT NULL DEFAULT false,
    CONSTRAINT credit_proposals_decided CHECK (num_nonnulls(is_approved, decided_by, decider, decided_at) IN (0, 4)),
    CONSTRAINT credit_proposals_by_another CHECK (decided_by <> proposed_by),
    CONSTRAINT credit_proposals_replaced CHECK (NOT is_replaced OR is_approved IS NULL)
);
CREATE UNIQUE INDEX credit_proposals_reference ON credit_proposals (account_id, kind, reference)
    WHERE is_approved IS NOT FALSE AND NOT is_replaced;
CREATE INDEX credit_proposals_pending ON credit_proposals (expires_at) WHERE is_approved IS NULL;
