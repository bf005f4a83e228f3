-- online
-- The sessions of an account end together, and its invitations lose their addresses, when it is erased.
DROP INDEX CONCURRENTLY IF EXISTS sessions_of_account;
CREATE INDEX CONCURRENTLY sessions_of_account ON sessions (account_id);
DROP INDEX CONCURRENTLY IF EXISTS invitations_of_account;
CREATE INDEX CONCURRENTLY invitations_of_account ON invitations (account_id);
