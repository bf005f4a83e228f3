"""Webhooks: endpoints, deliveries, signatures, and the addresses that may be contacted.

`endpoints`        disabled at twenty failures in a row, their own or of their host
`deliveries`       the life of one delivery
`retry_schedule`   when the next attempt is due; of mails and notes, too
`events`           events and their payload
`signature`        sign and verify
`kept_headers`     the headers of a failed attempt that are kept
`urls`             accepted URLs
`addresses`        addresses that may be contacted
`sender_faults`    faults that count against no endpoint
`views`            records that the store reads and writes
"""
