"""Credits: the ledger, what it is made of, and what things cost.

`ledger`       double entry, append-only
`transfers`    what one posting moves
`holds`        reservations and the daily cap
`hash_chain`   each entry is bound to the one before
`chain_keys`   the keys of that chain
`pricing`      tiers, the coercion of recording, quotes
`proposals`    credits that two operators move
`statements`   what changed a balance in a month, by day and kind
"""
