-- Pages of an account's ledger by kind: the house's leg of an entry is in the book that tells it, and a refund goes out of
-- the book that a charge came into.
CREATE INDEX ledger_entries_by_kind ON ledger_entries (account_id, book, (book = 'meetings' AND amount < 0), number)
    WHERE book <> 'customer';
