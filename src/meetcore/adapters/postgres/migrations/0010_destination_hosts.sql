-- Destination hosts of webhooks: posts to one host are bounded over all accounts, and failures are counted for an
-- account over all its endpoints at a host.
CREATE TABLE webhook_hosts (
    host        text PRIMARY KEY,
    claimed_at  timestamptz[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
CREATE TABLE webhook_account_hosts (
    account_id            uuid NOT NULL REFERENCES accounts,
    host                  text NOT NULL REFERENCES webhook_hosts,
    consecutive_failures  integer NOT NULL DEFAULT 0 CHECK (consecutive_failures >= 0),
    PRIMARY KEY (account_id, host)
) WITH (fillfactor = 70);
CREATE INDEX webhook_account_hosts_of_host ON webhook_account_hosts (host);
ALTER TABLE webhook_endpoints ADD COLUMN host text NOT NULL GENERATED ALWAYS AS (split_part(url_key, '/', 3)) STORED;
INSERT INTO webhook_hosts (host) SELECT DISTINCT host FROM webhook_endpoints;
INSERT INTO webhook_account_hosts (account_id, host) SELECT DISTINCT account_id, host FROM webhook_endpoints;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_account_id_host_fkey
    FOREIGN KEY (account_id, host) REFERENCES webhook_account_hosts;
CREATE INDEX webhook_endpoints_at_host ON webhook_endpoints (account_id, host);
ALTER TABLE deliveries ADD COLUMN lease_host text;
CREATE INDEX deliveries_in_flight_at_host ON deliveries (lease_host, account_id) WHERE lease_token IS NOT NULL;
