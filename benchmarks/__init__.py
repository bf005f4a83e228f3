"""The benchmarks: the costs of the service, each compared with a floor measured in the same run.

Machines differ and are busy; a ratio within one run is what can be compared. Both sides take turns, and the
medians of their turns are compared. `api`, `webhooks`, `ledger` and `rules` are the run of `make bench`;
`growth`, `pages` and `peers` its longer forms. `servers` starts what they need, `load` and `floor` are the
two sides of a request, `rows` a long past, `report` the table.
"""
