"""Every store port on PostgreSQL: the truth."""
