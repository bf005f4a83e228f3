"""Accounts and keys, the log of requests, and retention."""
