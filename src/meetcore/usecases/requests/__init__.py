"""Use cases of requests, accounts, keys and their data.

`admit`           a request's key, its quota; its log and the use of its key, collected
`idempotency`     one result for a repeated request
`missing_records` 404 or 410 for a record that is not there
`administration`  accounts, keys and balances, changed by operators
`grants`          OAuth: clients of agents and their grants
`console`         accounts, hosts and the health of the service, for operators
`export`          an account as an archive
`export_records`  the lines of that archive, and its ZIP stream
`erasure`         accounts erased, records removed past their time, secrets resealed
"""
