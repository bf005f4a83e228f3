-- Who changed what, when and from where, of an account or of none. The service's role can only add to it.
CREATE TABLE audit_log (
    id               uuid PRIMARY KEY,
    account_id       uuid REFERENCES accounts,
    at               timestamptz NOT NULL,
    actor_kind       text NOT NULL CHECK (actor_kind IN ('member', 'guest', 'operator', 'system')),
    actor_id         uuid,
    actor_name       text NOT NULL,
    action           text NOT NULL,
    target_id        text NOT NULL,
    details          jsonb NOT NULL,
    client_address   text,
    is_impersonated  boolean NOT NULL
);
CREATE INDEX audit_log_of_account ON audit_log (account_id, id);
