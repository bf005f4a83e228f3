"""Meetings, their hosts, and events of providers."""
