-- Keys have a name, the end of their text, their maker and the minute of their last use. Those that a key is rolled
-- to share its cap, under the id of the first. A page has room for the last uses, so that no index is written for them.
ALTER TABLE api_keys
    ADD COLUMN name text NOT NULL DEFAULT 'API key',
    ADD COLUMN last_four text,
    ADD COLUMN created_by uuid,
    ADD COLUMN last_used_at timestamptz,
    ADD COLUMN first_key_id uuid REFERENCES api_keys;
ALTER TABLE api_keys SET (fillfactor = 70);
