"""The credit ledger of meetcore inside a Django project, on Django's own tables and transactions."""
