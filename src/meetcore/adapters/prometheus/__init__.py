"""Figures for Prometheus: the families, the counters of a process, and what `/metrics` shows.

`families` imports nothing but attrs. The other modules need the extra `metrics`.
"""
