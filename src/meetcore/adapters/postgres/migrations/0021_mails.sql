-- The outbox of mails, and what became of those of 30 days. Some are about no account. The content is sealed: it can hold
-- a one-time link. `due_at` is when anyone may take a mail next; taking one pushes it past the lease. A mail that is
-- sent or given up has no content any more.
CREATE TABLE mails (
    id             uuid PRIMARY KEY,
    account_id     uuid REFERENCES accounts,
    recipient      text NOT NULL,
    kind           text NOT NULL CHECK (kind IN ('sign_in_link', 'invitation', 'endpoint_disabled', 'low_credits')),
    language       text NOT NULL CHECK (language IN ('id', 'en')),
    content        bytea,
    created_at     timestamptz NOT NULL,
    due_at         timestamptz,
    lease_token    uuid,
    attempts_made  integer NOT NULL CHECK (attempts_made >= 0),
    sent_at        timestamptz,
    failed_at      timestamptz,
    last_error     text,
    CONSTRAINT mails_due_sent_or_failed CHECK (num_nonnulls(due_at, sent_at, failed_at) = 1),
    CONSTRAINT mails_erased_when_over CHECK ((content IS NULL) = (due_at IS NULL)),
    CONSTRAINT mails_claimed_are_due CHECK (lease_token IS NULL OR due_at IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX mails_due ON mails (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX mails_over ON mails (created_at) WHERE due_at IS NULL;
CREATE INDEX mails_of_account ON mails (account_id, created_at);
CREATE INDEX mails_to_recipient ON mails (lower(recipient), created_at);
