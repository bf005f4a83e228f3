"""Webhook endpoints of an account."""
