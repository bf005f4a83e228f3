-- Requests for an account that wait for their link. `digest` is of the token in the link, `browser_digest` of the cookie
-- of the browser that asked. A link that is used deletes its request.
CREATE TABLE sign_ups (
    id              uuid PRIMARY KEY,
    digest          bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    email           text NOT NULL,
    full_name       text NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    browser_digest  bytea NOT NULL CHECK (length(browser_digest) = 32)
);
CREATE INDEX sign_ups_expiry ON sign_ups (expires_at);
