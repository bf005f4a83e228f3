"""Use cases of money: the ledger, postings, proposals, statements."""
