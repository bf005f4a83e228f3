-- The entry of a transfer is found without reading the account's history, and there is one.
CREATE UNIQUE INDEX ledger_entries_by_transfer ON ledger_entries (account_id, transfer_id) WHERE book = 'customer';
