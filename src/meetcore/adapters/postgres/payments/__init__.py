"""The store of payments."""
