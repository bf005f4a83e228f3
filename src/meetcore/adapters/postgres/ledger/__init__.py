"""Money: funds under the account's lock, the double-entry ledger, holds."""
