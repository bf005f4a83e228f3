-- online
CREATE INDEX CONCURRENTLY meetings_by_title ON meetings USING gin (title_words(account_id, title)) WITH (gin_pending_list_limit = 256);
