"""The rules of meetcore in a shop of one's own, on tables of SQLAlchemy: credits, webhooks, limits."""
