"""Credits: the ledger, transfers and prices.

`ledger`       double entry, append-only
`amounts`      credits as people type them
`transfers`    the amounts that one posting moves
`holds`        reservations and the daily cap
`hash_chain`   each entry is bound to the one before, under a key
`pricing`      tiers, the coercion of recording, quotes
`proposals`    credits that two operators move
`rows`         entries as flat rows of a table
`spending_report` what keys and members spent, by month (the daily cap: `holds`)
`statements`   changes of a balance in a month, by day and kind
`views`        records that the store reads and writes
"""
