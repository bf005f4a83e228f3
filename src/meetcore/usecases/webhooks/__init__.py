"""Use cases of endpoints and deliveries."""
