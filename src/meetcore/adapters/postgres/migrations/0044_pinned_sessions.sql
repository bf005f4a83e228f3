-- A session that a portal link begins stays in the account of the link.
ALTER TABLE sign_in_links ADD COLUMN is_pinned boolean NOT NULL DEFAULT false;
ALTER TABLE sessions ADD COLUMN is_pinned boolean NOT NULL DEFAULT false;
