"""Webhooks: endpoints, deliveries, signatures, and which addresses may be contacted.

`endpoints`        disabled at twenty failures in a row
`deliveries`       the life of one delivery
`retry_schedule`   when the next attempt is due
`events`           what happened, as it is sent
`signature`        sign and verify
`urls`             which URLs are accepted
`addresses`        which addresses may be contacted
`destinations`     limits for each host that is posted to
"""
