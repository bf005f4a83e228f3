"""Use cases of money: postings, proposals, prices, statements, verification.

`credit_postings`  top-ups and adjustments
`proposals`        credits that two operators move
`prices`           estimates for callers; the prices in force
`statements`       statements of a month and their mails, spending, the liability of all balances
`turns`            work on one account done together, in turns
`verify_ledger`    every account proven against its entries
"""
