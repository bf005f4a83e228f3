"""Meetings, their hosts, and events of providers. Statements are in the `.sql` file beside their module.

`create`     a meeting made: reserved, then scheduled or abandoned
`lifecycle`  what happens to it then: sessions, cancellation, end, due checks, expired leases
`upkeep`     keys of hosts, checks for orphans, the inbox of the provider's events
`reads`      meetings by id, by time, by words; free hosts
`rows`       columns, and texts that are sealed
"""
