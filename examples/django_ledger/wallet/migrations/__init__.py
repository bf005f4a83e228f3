"""The steps to the tables."""
