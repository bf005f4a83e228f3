"""Meetings, with their hosts and their money: made, cancelled, moved on by the clock, read."""
