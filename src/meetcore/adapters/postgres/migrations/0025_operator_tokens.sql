-- Tokens by which programs of the operator's act in the console. `digest` is of the token; its text is not kept.
CREATE TABLE operator_tokens (
    id          uuid PRIMARY KEY,
    digest      bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    name        text NOT NULL,
    role        text NOT NULL CHECK (role IN ('support', 'finance', 'admin')),
    last_four   text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);
