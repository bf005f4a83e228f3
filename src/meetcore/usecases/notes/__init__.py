"""Use cases of recordings and notes."""
