-- What an account uses of a day's creations, and what is looked for at the provider after each creation.

-- How many meetings were made for an account on a day (UTC) on a host, where the provider limits them.
CREATE TABLE account_creations (
    account_id  uuid NOT NULL REFERENCES accounts,
    day         date NOT NULL,
    host_id     uuid NOT NULL REFERENCES hosts,
    creations   integer NOT NULL CHECK (creations >= 0),
    PRIMARY KEY (account_id, day, host_id)
) WITH (fillfactor = 50);
CREATE INDEX account_creations_days ON account_creations (day);
