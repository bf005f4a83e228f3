"""A ledger for meetcore on SQLite: keep credits in a database of your own. Begin with the README."""
