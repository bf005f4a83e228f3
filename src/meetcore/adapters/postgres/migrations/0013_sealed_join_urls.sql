-- Links are sealed from now on. The workers seal those that lie in `join_url` in the clear, portion by portion.
ALTER TABLE meetings ADD COLUMN sealed_join_url bytea;
CREATE INDEX meetings_join_url_in_clear ON meetings (account_id, id) WHERE join_url IS NOT NULL;
