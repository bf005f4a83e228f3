-- An account that is suspended keeps everything; none of its keys is let in. Accounts are found by their address.
ALTER TABLE accounts ADD COLUMN suspended_at timestamptz;
CREATE INDEX accounts_by_email ON accounts (lower(email));
