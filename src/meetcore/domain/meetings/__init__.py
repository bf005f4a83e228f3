"""Meetings: the life of one, the host that carries it, and what its provider reports.

`meetings`          the life of a meeting, the plan of a new one
`cancellation`      whether one can be cancelled, and its refund
`passwords`         passwords of meetings, keys of hosts
`hosts`             best fit among the free
`schedule`          WIB in, UTC inside
`provider_events`   a provider's reports
`orphans`           meetings that only the provider knows
`memos`             what a provider keeps with a meeting for a restore
`title_search`      what a word of a title is
"""
