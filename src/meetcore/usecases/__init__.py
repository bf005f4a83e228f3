"""One room for each thing that a caller can ask for: open a transaction, ask the domain, save."""
