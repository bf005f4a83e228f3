"""Payments: what customers pay for credits.

`packages`     the packages of credits on sale, tax, and the seller
`payments`     the state machine of a payment, and how it follows what its gateway says
`refunds`      credits taken back, and the money for them
`receipts`     the numbers and the content of receipts
`bookings`     purchases and refunds of a month, for the books
`views`        records that the store reads
"""
