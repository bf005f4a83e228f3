"""Recordings: measured, shown, expired."""
