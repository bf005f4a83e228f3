"""Money: the ledger, its reads, its verification.

`postings`      top-ups, adjustments and proposals; charges are written with their meeting or note
`reads`         pages of entries, totals by day, statements
`verification`  snapshots of the whole ledger; the progress of its verification
`rows`          columns, and the parameters of statements that move money
"""
