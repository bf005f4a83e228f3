-- What became of the requests of seven days, for "what happened to my call". Nothing refers to a row of it.
CREATE TABLE api_requests (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL,
    api_key_id   uuid NOT NULL,
    at           timestamptz NOT NULL,
    method       text NOT NULL,
    path         text NOT NULL,
    status       smallint NOT NULL CHECK (status BETWEEN 100 AND 599),
    duration_ms  integer NOT NULL CHECK (duration_ms >= 0),
    code         text,
    subject_id   uuid
);
CREATE INDEX api_requests_of_account ON api_requests (account_id, id);
CREATE INDEX api_requests_of_key ON api_requests (account_id, api_key_id, id);
CREATE INDEX api_requests_by_class ON api_requests (account_id, (status / 100), id);
