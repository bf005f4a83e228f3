"""Use cases of requests, accounts, keys and their data."""
