"""Traces for an OpenTelemetry collector: which requests are recorded, their spans, and how they are sent.

`sampling` imports nothing of OpenTelemetry. The other modules need the extra `traces`.
"""
