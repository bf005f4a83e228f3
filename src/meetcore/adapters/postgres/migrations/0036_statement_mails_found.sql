-- online
DROP INDEX CONCURRENTLY IF EXISTS accounts_statements_mailed;
CREATE INDEX CONCURRENTLY accounts_statements_mailed ON accounts (statements_mailed) WHERE statements_mailed IS NOT NULL;
ALTER TABLE mails VALIDATE CONSTRAINT mails_kind_check;
