"""Meetings: their life, their hosts, and the events of their provider.

`meetings`          the life of a meeting, the plan of a new one
`cancellation`      whether one can be cancelled, and its refund
`sessions`          what was held at the provider under a meeting's number
`hosts`             best fit among the free; passwords and host keys
`schedule`          WIB in, UTC inside; the day of a cap, instants as texts
`provider_events`   a provider's events, and meetings that only the provider knows
`views`             records that the store reads and writes
"""
