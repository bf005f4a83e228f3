"""Endpoints, events and deliveries."""
