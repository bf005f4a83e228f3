"""Money: the ledger, its reads, its audit."""
