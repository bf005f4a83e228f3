"""Recordings and notes."""
