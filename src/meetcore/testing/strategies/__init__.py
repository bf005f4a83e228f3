"""Hypothesis strategies over the domain, one module for each part of it.

::

    moments            days, clock times, instants around midnight in WIB
    money              tiers, catalogues, amounts, transfers, holds, the state of an account
    account_histories  histories of an account by the rules
    meetings           requests, stored meetings, hosts, providers, recordings, transcripts, notes
    requests           bodies, idempotency keys and records, API keys, arrivals
    webhooks           endpoints, deliveries, secrets, URLs
    addresses          public and special-purpose addresses, IPv4 wrapped in IPv6
"""
