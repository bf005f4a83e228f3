-- online
-- What the console finds accounts by: the beginning of an e-mail address or a name, the end of a key, a meeting.
CREATE INDEX CONCURRENTLY accounts_email_begins ON accounts (lower(email) text_pattern_ops);
CREATE INDEX CONCURRENTLY accounts_name_begins ON accounts (lower(full_name) text_pattern_ops);
CREATE INDEX CONCURRENTLY api_keys_by_last_four ON api_keys (last_four);
CREATE INDEX CONCURRENTLY meetings_by_id ON meetings (id);
