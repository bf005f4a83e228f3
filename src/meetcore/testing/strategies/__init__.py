"""Hypothesis strategies over the domain, one module for each part of it.

::

    moments    days, clock times, instants round midnight in WIB
    money      amounts, transfers, holds, an account between two decisions
    histories  whole histories of an account, folded through the rules
    pricing    tiers, catalogues, recording flags
    meetings   requests, stored meetings, hosts, providers
    requests   bodies, idempotency keys and records, API keys, arrivals
    recordings files, recordings, transcripts, notes
    webhooks   endpoints, deliveries, secrets, URLs
    addresses  public ones, special-purpose ones, IPv4 wrapped in IPv6
"""
