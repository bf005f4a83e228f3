"""The use cases, one for each operation: open a transaction, decide in the domain, save."""
