-- Who asked for it is mailed when the statement of a month is there. `statements_mailed` is the first day of the last month
-- whose statement was, and null where nobody asked.
ALTER TABLE accounts ADD COLUMN statements_mailed date;

ALTER TABLE mails DROP CONSTRAINT mails_kind_check;
ALTER TABLE mails ADD CONSTRAINT mails_kind_check
    CHECK (kind IN ('sign_in_link', 'invitation', 'endpoint_disabled', 'low_credits', 'passkey_changed', 'statement_ready'))
    NOT VALID;
